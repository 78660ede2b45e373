"""A processor that has nothing to do takes no turn, and what it notes is told and written together."""

import threading
import time
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from events.codec import encode
from events.log.embedded import EmbeddedLog
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.jobs import JobStopRequested
from processors.runtime import in_process
from processors.runtime.driver import Driver
from processors.runtime.in_process import Host, Processor
from processors.runtime.store import MemoryStore, Progress, StoreFault
from processors.runtime.store_writer import StoreWriter
from processors.state.table import RowChange
from tests.helpers.toys import CLOSE_AFTER_MS, TOYS, Left
from tests.processors.runtime.world import WorldClock


class Busy(Processor):
    """Counts its turns, on a clock of the test's."""

    def __init__(self, log: MemoryLog, clock: WorldClock, machine: str = "left") -> None:
        self.store = MemoryStore()
        super().__init__(TOYS[machine], log, lambda: self.store, machine)
        self._clock = clock  # type: ignore[assignment]
        self.turns = 0

    def _turn(self, driver: Driver) -> bool:
        self.turns += 1
        return super()._turn(driver)

    def rest(self) -> int:
        """Steps until nothing more happens; how many turns that took."""
        before = self.turns
        for _ in range(100):
            self.step()
        return self.turns - before


@pytest.fixture
def clock() -> WorldClock:
    return WorldClock()


@pytest.fixture
def log(clock: WorldClock) -> MemoryLog:
    return MemoryLog(clock.monotonic_ms)


def ask(log: MemoryLog, *balls: str) -> None:
    facts = [JobStopRequested(job_id="a", command_id=ball) for ball in balls]
    log.append([NewRecord(fact.topic, b"", encode(fact)) for fact in facts])


def test_turns_are_taken_when_a_record_has_come_or_a_deadline_is_due(log: MemoryLog, clock: WorldClock) -> None:
    left, right = Busy(log, clock), Busy(log, clock, "right")
    for each in (left, right):
        each.rest()
        assert each.rest() == 0
    ask(log, "one")
    assert 1 <= left.rest() <= 2
    assert 1 <= right.rest() <= 2, "it reads what left has decided"
    assert 1 <= left.rest() <= 2
    assert left.rest() == right.rest() == 0
    clock.ms += CLOSE_AFTER_MS
    assert left.rest() >= 1, "the ball is closed by a timer"
    assert 1 <= right.rest() <= 2
    assert left.rest() == 0
    log.append([NewRecord("paceline.pools", b"", b"x")])
    assert left.rest() == right.rest() == 0, "nobody reads that"


def test_rounds_that_wait_for_the_store_are_written_in_time_and_at_the_end(
    log: MemoryLog, clock: WorldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "TELL_S", 1000.0)
    left = Busy(log, clock)
    left.rest()
    for number in range(in_process.UNSTORED - 1):
        ask(log, str(number))
        left.rest()
    assert left.driver is not None
    assert left.driver.fold.own.round == in_process.UNSTORED - 1
    assert left.store.progress() is None
    ask(log, "one more")
    left.rest()
    assert left.store.progress() == left.driver.fold.progress()
    ask(log, "and one")
    left.rest()
    behind, standing = left.store.copy(), left.driver.fold.progress()
    assert behind.progress() != standing
    left.close()
    assert left.store.progress() == standing

    again = Busy(log, clock)
    again.store = behind
    again.rest()
    assert again.driver is not None
    assert again.driver.fold.state.hash == standing.hash, "what was not written is folded again"


def test_once_a_second_a_processor_tells_what_it_noted(
    log: MemoryLog, clock: WorldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Busy(log, clock)

    def rounds() -> float:
        return REGISTRY.get_sample_value("paceline_rounds_total", {"cell": "0", "machine": "left"}) or 0.0

    left.rest()
    before = rounds()
    monkeypatch.setattr(in_process, "TELL_S", 1000.0)
    ask(log, "one")
    left.rest()
    assert rounds() == before
    monkeypatch.setattr(in_process, "TELL_S", 0.0)
    left.step()
    assert rounds() == before + 1
    assert left.driver is not None
    assert left.store.progress() == left.driver.fold.progress(), "and then writes its store"


class Full(MemoryStore):
    def commit(self, changes: object, progress: Progress) -> None:
        raise StoreFault("no room")


def test_what_a_store_did_not_take_is_held_for_the_next_try() -> None:
    progress = Driver(Left(), MemoryLog(WorldClock().monotonic_ms), MemoryStore(), WorldClock(), "x").fold.progress()
    writer, store = StoreWriter(Full(), 2), MemoryStore()
    writer.add([RowChange("balls", b"a", b"1"), RowChange("balls", b"b", b"1")], progress)
    with pytest.raises(StoreFault):
        writer.add([RowChange("balls", b"a", b"2"), RowChange("balls", b"b", None)], progress)
    writer._store = store
    writer.flush()
    assert list(store.rows()) == [RowChange("balls", b"a", b"2")]


class Counted:
    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> bool:
        self.steps += 1
        return False

    def wait_ms(self) -> int | None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def embedded(tmp_path: object) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "log")  # type: ignore[operator]
    yield log
    log.close()


def test_a_host_sleeps_until_it_is_woken_or_a_record_comes(embedded: EmbeddedLog) -> None:
    part, stop = Counted(), threading.Event()
    thread = threading.Thread(target=Host(embedded, [part], Counted(), 60_000).run, args=(stop,))
    thread.start()

    def steps(more: int) -> None:
        deadline = time.monotonic() + 30
        while part.steps < more:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    steps(1)
    for act in (embedded.wake, lambda: embedded.append([NewRecord("t", b"", b"v")])):
        before = part.steps
        act()
        steps(before + 1)
    stop.set()
    embedded.wake()
    thread.join(30)
    assert not thread.is_alive()
    assert part.steps < 20, "nothing is looked for in vain"
