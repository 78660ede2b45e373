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
from paceline.simulate.report.series import Past, Series
from paceline.simulate.scenario.expectations import Sight
from paceline.simulate.scenario.scenario import DAY_MS, Scenario
from paceline.simulate.world.cell import Cell, SimLog, VirtualClock
from paceline.simulate.world.expectation_watch import Verdict, Watch
from paceline.simulate.world.log_summary import StoryPart
from paceline.simulate.world.run import Run
from paceline.simulate.world.scripted_actions import acts


@dataclass(frozen=True)
class Wanted:
    """What the command was asked for: folders to keep log and results in, and when to stop."""

    data: Path | None = None
    out: Path | None = None
    until_ms: int | None = None


@dataclass
class Session:
    """A cell that is ready to run, and what looks at it. `again`: the command that runs it again."""

    name: str
    again: str
    seed: int
    run: Run
    story: StoryPart
    jobs: Jobs
    series: Series
    wanted: Wanted
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Jobs of a trace that were passed over, by what is with them."""
    unlooked: int = 0
    """Expectations for a time after the moment at which it stops."""

    def finish(self) -> None:
        """After the run: jobs that are still open count too, and the last moment is a sample."""
        self.series.finish(self.run.now_ms)
        for job in self.story.open.values():
            self.jobs.ended(job)
        self.jobs.close()

    def body(self) -> dict[str, Any]:
        """All that `--json` prints."""
        run, story = self.run, self.story
        verdicts = run.watch.verdicts()
        return {
            "name": self.name,
            "seed": self.seed,
            "virtual_s": run.now_ms / 1000,
            "wall_s": round(run.wall_s, 3),
            "records": run.cell.log.appended,
            "rounds": story.rounds,
            "events": story.facts + story.decisions,
            "hash": run.cell.log.hash(),
            "jobs": dict(sorted(self.jobs.states.items())),
            "rejected": story.rejected,
            "left_out": dict(self.left_out),
            "refused": story.noes,
            "tasks": self.jobs.tasks,
            "preempted": self.jobs.preempted,
            "lost": self.jobs.lost,
            "figures": {**self.jobs.figures(), **self.series.mean_use()},
            "pools": self.jobs.by_pool(),
            "expectations": [{**each._asdict(), "at_s": each.at_ms / 1000} for each in verdicts],
            "expectations_not_looked_at": self.unlooked,
        }

    def failed(self) -> list[Verdict]:
        """The expectations that don't hold."""
        return [each for each in self.run.watch.verdicts() if not each.holds]


def of_scenario(scenario: Scenario, again: str, wanted: Wanted, name: str = "scenario") -> Session:
    """A session of a scenario; `again` is the command that runs it."""
    end_ms = scenario.end or scenario.last_ms() + DAY_MS
    if wanted.until_ms is not None:
        end_ms = min(end_ms, wanted.until_ms)
    cell = open_cell(wanted.data)
    due = [each for each in scenario.expect if each.time_ms() <= end_ms]
    made = Ready(cell, wanted, keeps=True)
    rests = made.story.at_rest if scenario.end is None and wanted.until_ms is None else None
    run = Run(cell, made.story, acts(scenario, cell), Watch(due), end_ms, rests, (made.series,))
    unlooked = len(scenario.expect) - len(due)
    return Session(
        scenario.name or name,
        again,
        scenario.seed,
        run,
        made.story,
        made.jobs,
        made.series,
        wanted,
        unlooked=unlooked,
    )


def with_end(scenario: Scenario) -> Scenario:
    """A scenario that says when it ends: where it doesn't, as soon as it comes to rest when nothing goes wrong."""
    if scenario.end is not None:
        return scenario
    calm = of_scenario(scenario.model_copy(update={"expect": []}), "", Wanted())
    calm.run.go()
    calm.run.cell.close()
    return scenario.model_copy(update={"end": max(1, calm.run.now_ms)})


class Ready:
    """What looks at a cell: its story, its jobs, its series. `keeps`: what only expectations ask for, too."""

    def __init__(self, cell: Cell, wanted: Wanted, keeps: bool) -> None:
        if wanted.out is not None:
            wanted.out.mkdir(parents=True, exist_ok=True)
        self.jobs = Jobs(wanted.out)
        self.story = StoryPart(cell.log, keeps, self.jobs.ended)
        cell.add("story", self.story, [topic.name for topic in ALL])
        self.series = Series(Sight(cell.machines, self.story.told), self._past)

    def _past(self) -> Past:
        return Past(len(self.jobs.wait_s), self.story.preempted)


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
