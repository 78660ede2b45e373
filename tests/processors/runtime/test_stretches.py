"""A processor recovers in stretches: its host gets to its other work, and a cell lost meanwhile is not taken."""

from dataclasses import dataclass

import pytest

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.jobs import JobStopRequested
from events.topics import rounds_of
from processors.runtime.in_process import Processor
from processors.runtime.store import MemoryStore
from tests.helpers.toys import Left
from tests.processors.runtime.world import WorldClock

ROUNDS = 5


@dataclass
class Assigned:
    """What the group says."""

    here: bool = True

    def is_owner(self) -> bool:
        return self.here


def test_a_cell_that_is_lost_in_the_middle_of_a_fold_is_left_to_its_new_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("processors.runtime.driver.STRETCH_MS", 0)
    monkeypatch.setattr("processors.runtime.in_process.RETRY_MS", 0)
    log, group, said = MemoryLog(WorldClock().monotonic_ms), Assigned(), list[str]()

    def processor(claimant: str) -> Processor:
        return Processor(Left, log, MemoryStore, claimant, group, said.append)

    first = processor("first")
    while first.step() or not first.decides:
        pass
    for number in range(ROUNDS):
        fact = JobStopRequested(job_id="a", command_id=str(number))
        log.append([NewRecord(fact.topic, b"", encode(fact))])
        while first.step():
            pass
    assert first.driver is not None
    assert first.driver.fold.own.round >= ROUNDS
    history, hashed = log.ends([rounds_of("left")]), first.driver.fold.state.hash

    second = processor("second")
    assert [second.step() for _ in range(ROUNDS)] == [True] * ROUNDS, "so many stretches, and not at the end of the log"
    assert second.driver is not None
    assert 0 < second.driver.fold.own.round < first.driver.fold.own.round
    assert not second.decides
    group.here = False
    assert not second.step()
    assert said == ["left could not be taken: the cell was given to another process"]
    assert not second.step(), "and it stays so"
    assert log.ends([rounds_of("left")]) == history, "nothing was claimed"
    group.here = True
    while not second.decides:
        assert second.step()
    assert (second.driver.epoch, second.driver.fold.state.hash) == (2, hashed)
