"""Trials one after another, by seed: what was met, and the smallest scenario of one that fails."""

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from paceline.output import note
from paceline.simulate.faults.injection import KINDS, VIEWS, Faults, InjectedFault
from paceline.simulate.faults.shrink import Shrink, as_yaml
from paceline.simulate.faults.trial import Trial, TrialResult
from paceline.simulate.scenario.random_devices import draw_devices
from paceline.simulate.scenario.random_maintenance import draw_maintenance
from paceline.simulate.scenario.random_scenario import draw_scenario
from paceline.simulate.scenario.random_topology import draw_topology
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import with_end
from paceline.worker_processes import Say, Workers

ACTIONS = 200
"""The number of users' actions in one drawn scenario."""
MAINTAINED_EACH, MAINTAINED = 4, 12
"""Every so many seeds a cell is drawn that is maintained, which lasts as long as for so many things that users do."""
WITH_DEVICES_EACH, WITH_DEVICES = 8, 20
"""The same for cells whose hosts have devices and cores."""
NEAR_EACH, NEAR = 8, 20
"""The same for cells whose gangs are to be near each other."""
REPORT_SECONDS = 60.0
VIEWS_EACH = 32
"""Every so many seeds of trials under all kinds views are made too, which takes longer than the rest of the trial."""


class Failure(NamedTuple):
    """A trial that failed: its seed, why, and the faults that had happened."""

    seed: int
    why: str
    hits: list[InjectedFault]


@dataclass
class SoakSummary:
    """The totals of all trials."""

    seeds: int = 0
    events: int = 0
    rounds: int = 0
    ignored: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    unmet: set[InjectedFault] | None = None
    """Faults that a scenario names and that no trial has met."""

    def add(self, result: TrialResult) -> None:
        """One more trial."""
        self.seeds += 1
        self.events += result.events
        self.rounds += result.rounds
        self.ignored += result.ignored
        self.faults.update(result.faults)
        self.unmet = result.unmet if self.unmet is None else self.unmet & result.unmet

    def missing(self, kinds: Collection[str]) -> list[str]:
        """The kinds that never happened, and the faults that were named and never did."""
        unmet = [f"{hit.kind} {hit.number}" for hit in sorted(self.unmet or ())]
        return [kind for kind in kinds if not self.faults[kind]] + unmet


def attempt(scenario: Scenario, kinds: Collection[str] = KINDS, views: bool = False) -> TrialResult | Failure:
    """One trial: under the faults that the scenario names, or under drawn ones of some kinds. `views`: with projections
    that are compared with rebuilt ones.
    """
    only = None if scenario.faults is None else [InjectedFault(each.kind, each.number) for each in scenario.faults]
    faults = Faults(scenario.seed, (*kinds, VIEWS) if views else kinds, only)
    try:
        with TemporaryDirectory(prefix="paceline-") as folder:
            return Trial(scenario, faults, views=Path(folder) if views else None).run()
    except Exception as error:  # whatever it is: a machine that raises is a bug like one that decides wrong
        return Failure(scenario.seed, f"{type(error).__name__}: {error}", faults.hits)


def shrunk(scenario: Scenario, failure: Failure, views: bool = False) -> Scenario:
    """The smallest scenario that fails in the same way."""

    def fails(smaller: Scenario) -> bool:
        result = attempt(smaller, views=views)
        return isinstance(result, Failure) and _kind(result.why) == _kind(failure.why)

    return Shrink(fails).smallest(scenario, failure.hits)


def _kind(why: str) -> list[str]:
    """The first words of a failure, without names and numbers."""
    return re.sub(r"\(.*?\)|\S*\d\S*", "", why).split()[:6]


def _attempt(say: Say, scenario: Scenario | None, kinds: Collection[str], seed: int) -> TrialResult | Failure:
    return attempt(_scenario(scenario, seed), kinds, _with_views(scenario, kinds, seed))


def _with_views(scenario: Scenario | None, kinds: Collection[str], seed: int) -> bool:
    """Whether views are made too: where their fault is asked for by its name, and under all kinds now and then."""
    has_views_fault = scenario is not None and any(each.kind == VIEWS for each in scenario.faults or ())
    return has_views_fault or VIEWS in kinds or (seed % VIEWS_EACH == 0 and {*KINDS} <= {*kinds})


def _scenario(scenario: Scenario | None, seed: int) -> Scenario:
    if scenario is not None:
        return scenario.model_copy(update={"seed": seed})
    if seed % NEAR_EACH == 7:
        return draw_topology(seed, NEAR)
    if seed % WITH_DEVICES_EACH == 3:
        return draw_devices(seed, WITH_DEVICES)
    return draw_maintenance(seed, MAINTAINED) if seed % MAINTAINED_EACH == 1 else draw_scenario(seed, ACTIONS)


def soak(scenario: Scenario | None, kinds: Collection[str], seeds: Iterable[int], seconds: float, again: Path) -> int:
    """Runs a scenario, or drawn ones, under faults by seed, on all cores, until the time is over or one fails. In a
    scenario without an end things go wrong until it would come to rest without them.

    Tells what was met. Returns 1 where a trial failed, and writes the smallest scenario that fails again to the file;
    1 too where a kind that was asked for never happened, or a fault that the scenario names: it asks for no others.
    """
    scenario = None if scenario is None else with_end(scenario)
    summary, started = SoakSummary(), time.monotonic()
    try:
        failure = _trials(scenario, kinds, iter(seeds), seconds, summary)
    finally:
        _print_summary(summary, time.monotonic() - started)
    if failure is not None:
        click.echo(f"seed {failure.seed} failed: {failure.why}")
        views = _with_views(scenario, kinds, failure.seed)
        again.write_text(as_yaml(shrunk(_scenario(scenario, failure.seed), failure, views)))
        kinds_text = f"'all, {VIEWS}'" if views else "all"
        click.echo(
            f"the smallest scenario that fails again: paceline simulate {shlex.quote(str(again))} --faults {kinds_text}"
        )
        return 1
    drawn = scenario is None or scenario.faults is None
    missing = summary.missing(kinds if drawn else ())
    if missing:
        click.echo(f"never happened: {', '.join(missing)}" + ("; ask for more seeds" if drawn else ""))
    return int(bool(missing))


def _trials(
    scenario: Scenario | None, kinds: Collection[str], seeds: Iterator[int], seconds: float, summary: SoakSummary
) -> Failure | None:
    """Adds trials to what was met, on all cores, until one fails; of those that fail then it is the first seed's."""
    failure, last_report_s = None, time.monotonic()
    ends = last_report_s + seconds
    cores = os.cpu_count() or 1
    with Workers[TrialResult | Failure](get_context("fork")) as workers:
        while True:
            if failure is None and (time.monotonic() < ends or not summary.seeds):
                for seed in islice(seeds, cores - len(workers)):
                    workers.start(f"seed {seed}", _attempt, scenario, kinds, seed)
            if not len(workers):
                break
            for _, result in workers.results():
                if isinstance(result, Failure):
                    failure = min(failure or result, result)
                else:
                    summary.add(result)
            if time.monotonic() - last_report_s > REPORT_SECONDS:
                last_report_s = time.monotonic()
                note(f"{summary.events:,} events in {summary.seeds:,} seeds so far")
    return failure


def _print_summary(summary: SoakSummary, wall_s: float) -> None:
    click.echo(
        f"{summary.events:,} events, {summary.rounds:,} rounds, {summary.ignored:,} records ignored "
        f"in {summary.seeds:,} seeds"
    )
    click.echo(f"{summary.seeds / wall_s:.2f} seeds/s, {summary.events / wall_s:,.0f} events/s, {wall_s:,.1f} s")
    for kind, times in sorted(summary.faults.items()):
        click.echo(f"{times:>10,} {kind}")
