"""Nothing that was applied stays unrecorded for long: a round is small, and a restart reads little again."""

from collections import deque

import pytest

from events.codec import encode
from events.log.memory import MemoryLog, MemoryReader
from events.log.port import AppendUnknown, LogRecord, NewRecord
from events.records.jobs import JobStopRequested
from processors.runtime.driver import READ_BACK_POLLS, Driver
from processors.runtime.fold import DECISION_DUE_MS, FACT_DUE_MS, INPUTS_MAX, PARTS_MAX
from processors.runtime.replay import replay
from processors.runtime.store import MemoryStore
from tests.processors.runtime.duo import Duo
from tests.processors.runtime.test_bounds import Silent
from tests.processors.runtime.world import WorldClock

JOBS = "paceline.jobs"
BEATS, BEAT_MS = 40, 10_000
UNREADABLE = 40_000
FACT = encode(JobStopRequested(job_id="a", command_id="1"))


class Owner:
    """A machine that never decides, with its log, clock and disk."""

    def __init__(self) -> None:
        self.clock = WorldClock()
        self.log = MemoryLog(self.clock.monotonic_ms)
        self.disk = MemoryStore()
        self.start()

    def start(self) -> None:
        self.driver = Driver(Silent(), self.log, self.disk, self.clock, "owner")
        for _ in self.driver.recover():
            pass

    def put(self, value: bytes, count: int = 1) -> None:
        self.log.append([NewRecord(JOBS, b"", value)] * count)
        while self.driver.run():
            pass

    def unrecorded(self) -> int:
        progress = self.disk.progress()
        return self.log.bounds(JOBS)[1] - (progress.own.inputs.get(JOBS, 0) if progress else 0)

    def rounds(self) -> int:
        return self.driver.fold.own.round


def test_forty_thousand_facts_that_nobody_can_read_stop_no_machine() -> None:
    owner = Owner()
    owner.put(b"no record", UNREADABLE)
    assert owner.rounds() == UNREADABLE // (PARTS_MAX - 1), "a round has a segment and so many skipped inputs"
    assert owner.unrecorded() < PARTS_MAX
    owner.start()
    owner.put(b"no record")
    assert owner.unrecorded() < PARTS_MAX
    assert replay(Silent(), owner.log).difference is None


def test_facts_without_a_decision_are_recorded_after_so_many() -> None:
    owner = Owner()
    owner.put(FACT, 3 * INPUTS_MAX + 5)
    assert owner.rounds() == 3
    assert owner.unrecorded() == 5
    owner.start()
    owner.put(FACT, INPUTS_MAX)
    assert owner.unrecorded() == 5
    found = replay(Silent(), owner.log)
    assert (found.difference, found.events) == (None, 4 * INPUTS_MAX)


def test_a_fact_without_a_decision_is_recorded_within_a_minute_of_logical_time() -> None:
    owner = Owner()
    for _ in range(BEATS):
        owner.put(FACT)
        assert owner.unrecorded() * BEAT_MS <= FACT_DUE_MS
        owner.clock.ms += BEAT_MS
    assert owner.rounds() <= BEATS * BEAT_MS // FACT_DUE_MS, "at most one a minute"
    owner.put(FACT)
    wait = owner.driver.wait_ms()
    assert wait is not None, "whoever hosts it knows when the next is due"
    owner.clock.ms += wait
    assert owner.driver.run()
    assert owner.unrecorded() == 0
    assert owner.driver.wait_ms() is None, "nothing is to be recorded"
    owner.clock.ms += 10 * FACT_DUE_MS
    assert not owner.driver.run()
    assert replay(Silent(), owner.log).difference is None


def test_a_fact_that_nobody_can_read_is_recorded_within_a_minute_of_logical_time() -> None:
    owner = Owner()
    owner.put(b"no record")
    assert (owner.unrecorded(), owner.driver.wait_ms()) == (1, FACT_DUE_MS)
    owner.clock.ms += FACT_DUE_MS
    assert owner.driver.run()
    assert owner.unrecorded() == 0
    assert replay(Silent(), owner.log).difference is None


def test_machines_do_not_answer_one_anothers_empty_rounds_for_ever() -> None:
    duo = Duo()
    duo.start("left", "right")
    duo.ask("one")
    duo.rest()
    before = duo.log.ends(["paceline.left", "paceline.right"])
    for _ in range(BEATS):
        duo.clock.ms += DECISION_DUE_MS
        duo.rest()
    after = duo.log.ends(before)
    assert sum(after.values()) - sum(before.values()) <= 2, "each records once what it had heard"


class Lost(MemoryLog):
    """Acknowledges rounds that nobody will ever read."""

    lost = False

    def append(self, records: list[NewRecord]) -> list[int]:  # type: ignore[override]
        if self.lost:
            return [self.bounds(records[0].topic)[1]]
        return super().append(records)


def test_a_round_that_never_comes_back_is_given_up_with_a_sentence() -> None:
    clock = WorldClock()
    log = Lost(clock.monotonic_ms)
    driver = Driver(Silent(), log, MemoryStore(), clock, "owner")
    for _ in driver.recover():
        pass
    log.append([NewRecord(JOBS, b"", FACT)] * INPUTS_MAX)
    log.lost = True
    says = f"paceline.left:1 doesn't come back from the log in {READ_BACK_POLLS} s"
    with pytest.raises(AppendUnknown, match=says):
        deque(iter(driver.run, False), maxlen=0)
    log.lost = False
    log.leave_hole("paceline.left", 3)
    again = Driver(Silent(), log, MemoryStore(), clock, "owner")
    for _ in again.recover():
        pass
    assert again.epoch == 2


class BadReader(MemoryReader):
    def close(self) -> None:
        raise OSError("no")


class BadLog(MemoryLog):
    def reader(self, positions: dict[str, int]) -> MemoryReader:  # type: ignore[override]
        return BadReader(self, positions)


class Locked(MemoryStore):
    closed = False

    def close(self) -> None:
        self.closed = True


def test_a_reader_that_cannot_be_closed_leaves_no_store_locked() -> None:
    clock, store = WorldClock(), Locked()
    driver = Driver(Silent(), BadLog(clock.monotonic_ms), store, clock, "owner")
    for _ in driver.recover():
        pass
    with pytest.raises(OSError, match="no"):
        driver.close()
    assert store.closed


def test_what_comes_with_the_round_that_is_read_back_changes_nothing() -> None:
    """Strangers write beside an owner while it waits for its round."""

    class Noisy(MemoryLog):
        def append(self, records: list[NewRecord]) -> list[int]:  # type: ignore[override]
            noise = [NewRecord("paceline.left", b"", b"noise")] * 100
            own = records[0].topic == "paceline.left"
            super().append(noise if own else [])
            offsets = super().append(records)
            super().append(noise if own else [])
            return offsets

    clock = WorldClock()
    log = Noisy(clock.monotonic_ms)
    driver = Driver(Silent(), log, MemoryStore(), clock, "owner")
    for _ in driver.recover():
        pass
    log.append([NewRecord(JOBS, b"", FACT)] * INPUTS_MAX)
    while driver.run():
        pass
    assert driver.fold.own.round == 1
    last: LogRecord = log.topic("paceline.left").records[-1]
    assert last.value == b"noise"
