"""A simulation from its command to its exit code: the cell is made, run with a bar of virtual time, and told of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from events.log.memory import MemoryLog
from events.topics import ALL, MACHINES
from paceline.client.errors import PacelineError
from paceline.simulate.report.results import Jobs
from paceline.simulate.report.series import Series, Totals
from paceline.simulate.scenario.assertions import CellState
from paceline.simulate.scenario.scenario import DAY_MS, Scenario
from paceline.simulate.world.cell import Cell, SimLog, VirtualClock
from paceline.simulate.world.expectation_watch import ExpectationResult, Watch
from paceline.simulate.world.log_summary import LogSummaryComponent
from paceline.simulate.world.run import Run
from paceline.simulate.world.scripted_actions import actions


@dataclass(frozen=True)
class RunOptions:
    """Options of a run: folders for log and results, and when to stop."""

    data: Path | None = None
    out: Path | None = None
    until_ms: int | None = None


@dataclass
class Session:
    """A cell that is ready to run, and what looks at it. `again`: the command that runs it again."""

    name: str
    rerun_command: str
    seed: int
    run: Run
    log_summary: LogSummaryComponent
    jobs: Jobs
    series: Series
    options: RunOptions
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Jobs of a trace that were passed over, by what is with them."""
    unchecked: int = 0
    """Expectations for a time after the moment at which it stops."""

    def finish(self) -> None:
        """After the run: jobs that are still open count too, and the last moment is a sample."""
        self.series.finish(self.run.now_ms)
        for job in self.log_summary.open.values():
            self.jobs.ended(job)
        self.jobs.close()

    def body(self) -> dict[str, Any]:
        """All that `--json` prints."""
        run, summary = self.run, self.log_summary
        verdicts = run.watch.verdicts()
        return {
            "name": self.name,
            "seed": self.seed,
            "virtual_s": run.now_ms / 1000,
            "wall_s": round(run.wall_s, 3),
            "records": run.cell.log.appended,
            "rounds": summary.rounds,
            "events": summary.facts + summary.decisions,
            "hash": run.cell.log.hash(),
            "jobs": dict(sorted(self.jobs.states.items())),
            "rejected": summary.rejected,
            "left_out": dict(self.left_out),
            "refused": summary.refusals,
            "tasks": self.jobs.tasks,
            "preempted": self.jobs.preempted,
            "lost": self.jobs.lost,
            "figures": {**self.jobs.figures(), **self.series.mean_use()},
            "pools": self.jobs.by_pool(),
            "expectations": [{**each._asdict(), "at_s": each.at_ms / 1000} for each in verdicts],
            "expectations_not_looked_at": self.unchecked,
        }

    def failed(self) -> list[ExpectationResult]:
        """The expectations that don't hold."""
        return [each for each in self.run.watch.verdicts() if not each.holds]


def of_scenario(scenario: Scenario, rerun_command: str, options: RunOptions, name: str = "scenario") -> Session:
    """A session of a scenario; `again` is the command that runs it."""
    end_ms = scenario.end or scenario.last_ms() + DAY_MS
    if options.until_ms is not None:
        end_ms = min(end_ms, options.until_ms)
    cell = open_cell(options.data)
    due = [each for each in scenario.expect if each.time_ms() <= end_ms]
    observers = Observers(cell, options, for_expectations=True)
    is_at_rest = observers.log_summary.at_rest if scenario.end is None and options.until_ms is None else None
    run = Run(cell, observers.log_summary, actions(scenario, cell), Watch(due), end_ms, is_at_rest, (observers.series,))
    unchecked = len(scenario.expect) - len(due)
    return Session(
        scenario.name or name,
        rerun_command,
        scenario.seed,
        run,
        observers.log_summary,
        observers.jobs,
        observers.series,
        options,
        unchecked=unchecked,
    )


def with_end(scenario: Scenario) -> Scenario:
    """A scenario that says when it ends: where it doesn't, as soon as it comes to rest when nothing goes wrong."""
    if scenario.end is not None:
        return scenario
    calm = of_scenario(scenario.model_copy(update={"expect": []}), "", RunOptions())
    calm.run.run_to_end()
    calm.run.cell.close()
    return scenario.model_copy(update={"end": max(1, calm.run.now_ms)})


class Observers:
    """Observers of a cell: its history, its jobs, its series. `keeps`: also what only expectations need."""

    def __init__(self, cell: Cell, options: RunOptions, for_expectations: bool) -> None:
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
        self.jobs = Jobs(options.out)
        self.log_summary = LogSummaryComponent(cell.log, for_expectations, self.jobs.ended)
        cell.add("story", self.log_summary, [topic.name for topic in ALL])
        self.series = Series(CellState(cell.machines, self.log_summary.observed), self._totals)

    def _totals(self) -> Totals:
        return Totals(len(self.jobs.wait_s), self.log_summary.preempted)


def open_cell(data: Path | None, watches: bool = True) -> Cell:
    """A cell on a log in memory, or on one that is kept in an empty data folder."""
    clock = VirtualClock()
    if data is None:
        return Cell(SimLog(MemoryLog(clock.monotonic_ms), clock), clock, watches=watches)
    from events.log.embedded import EmbeddedLog
    from paceline.services.data_folder import prepare
    from processors.runtime.store import RocksStore

    if data.exists() and any(data.iterdir()):
        raise PacelineError(f"{data} isn't empty: a simulation begins a log of its own; name another folder")
    prepare(data)
    stores = {name: partial(RocksStore, data / "store" / name) for name in MACHINES}
    return Cell(SimLog(EmbeddedLog(data / "log", 0, clock.monotonic_ms), clock), clock, stores=stores, watches=watches)
