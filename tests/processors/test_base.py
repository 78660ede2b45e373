"""What all machines do alike: each record is heard by those that the table names, in its order, and by nobody else."""

from collections.abc import Sequence
from typing import Any

import pytest

from events.records.base import Event
from events.records.jobs import JobStopRequested
from events.records.lifecycle import JobChanged
from events.records.rounds import TimerPassed
from processors.base import MachineBase
from processors.machine import Decided, Fact, PeerRound
from processors.state.causes import CauseRow, CurrentInput
from processors.state.deadlines import Deadline
from processors.state.handlers import handler_table
from processors.state.steps import Pass
from processors.state.table import Table

CHANGED = JobChanged(job_id="a", state="RUNNING", succeeded=0, failed=0, killed=0)
STOP = JobStopRequested(job_id="a", command_id="c")


class Listener(MachineBase):
    """Notes what it hears, and says one thing for each."""

    name, facts, peers, logic, state, conversions = "listener", ("paceline.jobs",), ("other",), 1, 1, {}

    def __init__(self) -> None:
        super().__init__(CurrentInput())
        self.heard: list[tuple[Any, ...]] = []
        self.looks = 0
        self.due_ms: int | None = None
        self.unsaid = 0
        self._deadlines = (Deadline("none", lambda: None), Deadline("due", lambda: self.due_ms))
        self._set_handlers(
            (JobChanged, self._note("first"), self._note("second")),
            (JobStopRequested, self._note("stop")),
            (TimerPassed, self._note("timer")),
        )

    def _note(self, who: str) -> Any:
        return lambda event, now: self.heard.append((who, event, now, self._input.cause, self._input.value))

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        return ()

    def _restored(self) -> None:
        pass

    def _decide(self, this: Pass) -> list[Event]:
        self.looks += 1
        if not self.unsaid or not this.budget.holds(1):
            return []
        self.unsaid -= 1
        return [CHANGED]


def test_who_hears_a_record_stands_in_one_row() -> None:
    with pytest.raises(ValueError, match="JobChanged has two rows"):
        handler_table((JobChanged, print), (JobStopRequested, print), (JobChanged, print))


def test_a_record_is_heard_in_the_order_of_its_row_with_its_time_and_position() -> None:
    machine = Listener()
    machine.apply(PeerRound("other", 7, 1000, (TimerPassed(machine="other", due_ms=1), CHANGED)))
    machine.apply(Fact("paceline.jobs", 5, 2000, STOP, b"stop"))
    machine.apply(Decided(3000, TimerPassed(machine="listener", due_ms=1), 9, 2))
    assert machine.heard == [
        ("first", CHANGED, 1000, CauseRow("other", 7, 1), b""),
        ("second", CHANGED, 1000, CauseRow("other", 7, 1), b""),
        ("stop", STOP, 2000, CauseRow("paceline.jobs", 5), b"stop"),
        ("timer", TimerPassed(machine="listener", due_ms=1), 3000, CauseRow("listener", 9, 2), b"stop"),
    ]


def test_a_machine_rests_until_something_is_heard_or_a_time_comes() -> None:
    machine = Listener()
    machine.due_ms = 500
    assert [machine.decide(now, True, 9) for now in (1, 2, 499)] == [[], [], []]
    assert machine.looks == 1
    machine.decide(500, True, 9)
    assert machine.looks == 2
    machine.apply(PeerRound("other", 1, 0, (TimerPassed(machine="other", due_ms=1),)))  # nobody hears it
    machine.due_ms = None
    machine.decide(501, True, 9)
    assert machine.looks == 2
    machine.unsaid = 1
    machine.apply(PeerRound("other", 1, 0, (CHANGED,)))
    assert [machine.decide(503, True, 9), machine.decide(504, True, 9)] == [[CHANGED], []]


def test_a_decision_that_was_cut_is_asked_for_again() -> None:
    machine = Listener()
    machine.unsaid = 1
    assert machine.decide(1, True, 0) == []
    assert machine.decide(1, True, 1) == [CHANGED]
