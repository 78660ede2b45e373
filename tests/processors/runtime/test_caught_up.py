"""When a driver takes itself for caught up, which alone lets deadlines expire: all that the log holds is applied."""

import pytest

from events.codec import encode
from events.log.memory import MemoryLog, MemoryReader
from events.log.port import LogUnavailable, NewRecord
from events.records.base import Event
from events.records.jobs import JobStopRequested
from events.records.rounds import RoundCommitted
from processors.runtime.deciding import Limits
from processors.runtime.driver import ENDS_AGE_MS, Driver
from processors.runtime.store import MemoryStore
from tests.helpers.toys import Left
from tests.processors.runtime.world import WorldClock


class Cell:
    """A driver that applies so many records in a turn, and its rounds."""

    def __init__(self, records: int) -> None:
        self.clock = WorldClock()
        self.log = MemoryLog(self.clock.monotonic_ms)
        self.rounds: list[RoundCommitted] = []
        limits = Limits(records=records)
        self.driver = Driver(Left(), self.log, MemoryStore(), self.clock, "one", limits, observer=self)
        for _ in self.driver.recover():
            pass

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        self.rounds.append(record)

    def ignored(self, topic: str, cause: str) -> None:
        raise AssertionError(cause)

    def facts(self, count: int) -> None:
        for _ in range(count):
            fact = JobStopRequested(job_id="toy", command_id=f"ball-{self.log.bounds('paceline.jobs')[1]}")
            self.log.append([NewRecord(fact.topic, b"", encode(fact))])

    def turn(self) -> bool:
        """Whether the round of one turn says that its writer was caught up."""
        assert self.driver.run()
        return self.rounds[-1].caught_up


def test_who_has_not_read_all_is_not_caught_up() -> None:
    cell = Cell(records=1)
    cell.facts(3)
    assert [cell.turn() for _ in range(3)] == [False, False, True]


def test_what_was_read_and_waits_to_be_applied_counts_as_not_caught_up() -> None:
    cell = Cell(records=2)
    cell.facts(1)
    cell.driver.wait(0)
    cell.facts(2)
    assert not cell.turn(), "all three are read, two are applied"
    assert cell.driver.positions()["paceline.jobs"] == 2
    assert cell.turn()


def test_the_ends_of_topics_are_asked_for_again_once_they_are_old() -> None:
    cell = Cell(records=1)
    cell.facts(1)
    assert cell.turn()
    cell.clock.ms += ENDS_AGE_MS
    cell.facts(2)
    assert [cell.turn() for _ in range(2)] == [False, True]


def test_nobody_is_caught_up_while_the_log_does_not_say_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: MemoryReader) -> dict[str, int]:
        raise LogUnavailable("away")

    cell = Cell(records=5)
    cell.facts(1)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryReader, "ends", away)
        assert not cell.turn()
    cell.facts(1)
    assert cell.turn()
