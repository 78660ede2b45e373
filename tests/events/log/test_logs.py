"""The log contract on every adapter, and the round protocol's toys on those that a cell runs on."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from events.codec import encode
from events.log.embedded import EmbeddedLog
from events.log.kafka.kafka_log import KafkaLog
from events.log.memory import MemoryLog
from events.log.port import Log, LogUnavailable, NewRecord
from events.records.jobs import JobStopRequested
from events.topics import SETTINGS, rounds_of
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from processors.runtime.store import RocksStore
from tests.events.log.contract import PATIENCE, A, B, LogContract, Subject
from tests.helpers.broker import Broker
from tests.helpers.toys import TOYS, Left

JOBS = "paceline.jobs"
FACTS = 50


@pytest.fixture(scope="session")
def cells(one_broker: Broker) -> Iterator[int]:
    """Numbers of partitions of the contract's topics that nobody has written to, one for each test of both classes."""
    tests = 2 * sum(name.startswith("test_") for name in dir(LogContract))
    one_broker.make_topics([A, B], tests, SETTINGS)
    return iter(range(tests))


@pytest.fixture
def toy_topics(broker: Broker) -> None:
    """What the toys read and write."""
    broker.make_topics([JOBS, *map(rounds_of, TOYS)], 1, SETTINGS)


class TestMemory(LogContract):
    @pytest.fixture
    def subject(self) -> Subject:
        clock = count(1)
        log = MemoryLog(lambda: next(clock))
        return Subject(log, log.truncate, lambda topic: log.leave_hole(topic, 2))


class TestEmbedded(LogContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Iterator[Subject]:
        log = EmbeddedLog(tmp_path / "log")
        yield Subject(log, log.truncate)
        log.close()


class TestEmbeddedClosedBetween(LogContract):
    """Every record comes from the disk: nothing is kept in memory."""

    @pytest.fixture
    def subject(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
        monkeypatch.setattr("events.log.tail_cache.KEPT_BYTES", 1)
        log = EmbeddedLog(tmp_path / "log")
        yield Subject(log, log.truncate)
        log.close()


class TestKafka(LogContract):
    shared = False

    @pytest.fixture
    def subject(self, broker: Broker, cells: Iterator[int]) -> Iterator[Subject]:
        cell = next(cells)
        log = KafkaLog(broker.address, cell, shared=self.shared)

        def leave_hole(topic: str) -> None:
            producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"hole-{cell}"})
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce(topic, b"never committed", partition=cell)
            producer.flush()
            producer.abort_transaction()

        yield Subject(log, log.truncate, leave_hole)
        log.close()


class TestKafkaOfManyReaders(TestKafka):
    shared = True


class Clock:
    """Time that passes by ten milliseconds whenever it is looked at."""

    def __init__(self) -> None:
        self.ms = 0

    def monotonic_ms(self) -> int:
        self.ms += 10
        return self.ms


@pytest.fixture(params=["embedded", "kafka"])
def any_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    if request.param == "embedded":
        log: Log = EmbeddedLog(tmp_path / "log")
    else:
        request.getfixturevalue("toy_topics")
        log = KafkaLog(request.getfixturevalue("broker").address)
    yield log
    log.close()


def start(log: Log, machine: str, folder: Path, claimant: str) -> Driver:
    driver = Driver(TOYS[machine](), log, RocksStore(folder / machine), Clock(), claimant)
    try:
        for _ in driver.recover():
            pass
    except LogUnavailable:  # who tries again needs the store
        driver.close()
        raise
    return driver


def closed(left: Driver) -> int:
    machine = left.machine
    assert isinstance(machine, Left)
    return sum(ball.stage == 4 for ball in machine.balls.values())


def run_until(drivers: list[Driver], balls: int) -> None:
    """Turns the drivers until every ball is closed and nobody has anything left to do."""
    turns, quiet = 0, 0
    while quiet < 3 or closed(drivers[0]) < balls:
        moved = [driver.run() for driver in drivers]
        quiet = 0 if any(moved) or any(lag for driver in drivers for lag in driver.lag().values()) else quiet + 1
        turns += 1
        assert turns < PATIENCE * 10_000, "the drivers did not come to rest"


def submit(log: Log, first: int, end: int) -> None:
    facts = (JobStopRequested(job_id="toy", command_id=f"ball-{number}") for number in range(first, end))
    log.append([NewRecord(JOBS, b"toy", encode(fact)) for fact in facts])


def test_a_cell_runs_restarts_and_replays_on_this_log(any_log: Log, tmp_path: Path) -> None:
    drivers = [start(any_log, name, tmp_path, "first") for name in TOYS]
    submit(any_log, 0, FACTS)
    run_until(drivers, FACTS)
    hashes = [driver.fold.state.hash for driver in drivers]
    for driver in drivers:
        driver.close()
    again = [start(any_log, name, tmp_path, "second") for name in TOYS]
    assert [driver.fold.state.hash for driver in again] == hashes
    assert [driver.epoch for driver in again] == [2, 2]
    submit(any_log, FACTS, 2 * FACTS)
    run_until(again, 2 * FACTS)
    for driver in again:
        found = replay(TOYS[driver.machine.name](), any_log)
        assert found.difference is None
        assert found.hash == driver.fold.state.hash
        assert found.epochs == 2
        driver.close()
