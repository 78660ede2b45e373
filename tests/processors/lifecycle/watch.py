"""What must hold of the decisions about one job, whatever its state says."""

from collections.abc import Callable, Sequence
from typing import Any

from events.codes import Outcome
from events.columns import ints, spread
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    InstancesChanged,
    InstancesReturned,
    InstancesTaken,
    InstancesWanted,
    JobAccepted,
    JobSlaChanged,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    UpdateEnded,
    UpdateStarted,
)
from tests.helpers.machines import ranges_of, runs_of

Run = tuple[int, int]
"""An instance and the number of its run."""


class Watch:
    """Reads the decisions in their order."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        """The highest run of each instance."""
        self.present: dict[int, int] = {}
        """The run of each instance that isn't over."""
        self.ordered: set[Run] = set()
        self.told: set[Run] = set()
        """Runs that were told to stop."""
        self.over: set[Run] = set()
        """Runs that hosts have said to be over, and those that were on a host when it was lost."""
        self.ended: set[Run] = set()
        self.asked: set[Run] = set()
        self.allowed: set[Run] = set()
        """Runs that sla has allowed to be disrupted."""
        self.stopped: set[int] = set()
        """Instances that shall not run."""
        self.taken_down: set[int] = set()
        """Instances that updates have taken while they were up, until they are up again; not such as shall end."""
        self.batch = 0
        """How many the update in progress takes at a time."""
        self.max_unavailable: int | None = None

    def hear(self, said: Sequence[Event]) -> None:
        """Decisions, in their order."""
        for event in said:
            match event:
                case GangsQueued():
                    for _, first, count, run, _ in ranges_of(event):
                        for at in range(first, first + count):
                            self._queued(at, run)
                case RunsStopping():
                    for (_, at, run), outcome in zip(runs_of(event), ints(event.cause).tolist(), strict=True):
                        self._stopping(at, run, outcome)
                case InstancesWanted():
                    self._wanted(event)
                case InstancesTaken():
                    self._taken(named(event))
                case InstancesReturned():
                    self.taken_down -= {*named(event)}
                case JobAccepted() | JobSlaChanged():
                    self.max_unavailable = event.max_unavailable
                case UpdateStarted():
                    self.batch = event.policy.batch or event.added + event.updated + event.removed
                case UpdateEnded():
                    self.taken_down -= {at for at in self.taken_down if (at, self.present.get(at, 0)) not in self.told}
                case InstancesChanged():
                    change = instance_change(event)
                    self.taken_down -= {*change.removed.tolist()}
                    self.stopped -= {*change.added.tolist(), *change.removed.tolist()}
                case _ if type(event) in OF_RUNS:
                    for _, at, run in runs_of(event):
                        OF_RUNS[type(event)](self, at, run)

    def _queued(self, at: int, run: int) -> None:
        assert run > self.last.get(at, 0), "a run has one number"
        assert at not in self.present, "the run before it is over"
        assert at not in self.stopped, "what was stopped stays stopped"
        self.present[at] = self.last[at] = run

    def _ordered(self, at: int, run: int) -> None:
        assert self.present.get(at) == run, "only what waits is ordered"
        assert (at, run) not in self.ordered, "a run is ordered once"
        assert at not in self.stopped, "what was stopped stays stopped"
        self.ordered.add((at, run))

    def _available(self, at: int, run: int) -> None:
        assert self.present.get(at) == run
        self.taken_down.discard(at)

    def _stopping(self, at: int, run: int, outcome: int) -> None:
        if self.present.get(at) != run or (at, run) not in self.ordered or (at, run) in self.told:
            return  # nobody wants it, or it is told once more
        self.told.add((at, run))
        if outcome != Outcome.REPLACED:
            self.taken_down.discard(at)
        if outcome in (Outcome.PREEMPTED, Outcome.REPLACED) and self.max_unavailable is not None:
            assert (at, run) in self.allowed, "sla has allowed it"

    def _ended(self, at: int, run: int) -> None:
        known = self.present.pop(at, None)
        assert known in (run, None), "the present run ends"
        assert (at, run) not in self.ended, "a run ends once"
        assert (at, run) not in self.ordered or (at, run) in self.over, "its host has said so, or is lost"
        self.ended.add((at, run))
        self.last[at] = max(run, self.last.get(at, 0))
        self.asked.discard((at, run))

    def _ask(self, at: int, run: int) -> None:
        assert (at, run) not in self.asked, "sla is asked once"
        self.asked.add((at, run))

    def _withdraw(self, at: int, run: int) -> None:
        self.asked.discard((at, run))
        self.allowed.discard((at, run))

    def _wanted(self, event: InstancesWanted) -> None:
        instances = {*named(event)} if event.first else {*self.last}
        self.stopped = self.stopped - instances if event.wanted else self.stopped | instances
        self.taken_down -= self.stopped

    def _taken(self, instances: list[int]) -> None:
        """An update takes instances, of those that are up no more than may be down."""
        up = {at for at in instances if (at, self.present.get(at, 0)) in self.ordered - self.told}
        width = min(self.batch, self.max_unavailable or self.batch)
        if up:
            assert len(self.taken_down | up) <= width, "availability stays within the batch"
        self.taken_down |= up


def named(event: Any) -> list[int]:
    """The instances in the ranges of a record."""
    found: list[int] = spread(ints(event.first), ints(event.count)).tolist()
    return found


OF_RUNS: dict[type[Event], Callable[[Watch, int, int], None]] = {
    RunsOrdered: Watch._ordered,
    RunsAvailable: Watch._available,
    RunsEnded: Watch._ended,
    DisruptionAsked: Watch._ask,
    DisruptionWithdrawn: Watch._withdraw,
}
