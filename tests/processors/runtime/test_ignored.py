"""What a driver finds in its own topic and doesn't follow is told by its cause."""

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.base import Event
from events.records.jobs import JobStopRequested
from events.records.rounds import RoundCommitted
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore
from tests.helpers.toys import Left
from tests.processors.runtime.world import WorldClock


class Told:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.ignored_: list[tuple[str, str]] = []

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        pass

    def ignored(self, topic: str, cause: str) -> None:
        self.ignored_.append((topic, cause))


def owner(log: MemoryLog, name: str, told: Told) -> Driver:
    driver = Driver(Left(), log, MemoryStore(), WorldClock(), name, observer=told)
    for _ in driver.recover():
        pass
    return driver


def test_rounds_of_an_owner_of_before_and_what_is_no_round_are_ignored_by_cause() -> None:
    log, told = MemoryLog(WorldClock().monotonic_ms), Told()
    first = owner(log, "first", Told())
    submitted = JobStopRequested(job_id="a", command_id="1")
    log.append([NewRecord("paceline.jobs", b"a", encode(submitted))])
    first.run()
    rounds = [(record.key, record.value) for record in log.scan("paceline.left", 1)]
    second = owner(log, "second", told)
    log.append([NewRecord("paceline.left", *each) for each in ((b"left", b"no record"), *rounds)])
    second.run()
    assert told.ignored_ == [("paceline.left", "NO_KEY"), *[("paceline.left", "OLD_EPOCH")] * len(rounds)]
    assert rounds, "the first owner has decided"
