"""Toy machines with stores on disk, a log that counts what is read from it, and a whole cell on any log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from events.codec import encode
from events.log.port import Log, LogRecord, NewRecord, Reader
from events.records.jobs import JobStopRequested
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from processors.cell_machines import machines
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.store import RocksStore
from tests.helpers.toys import TOYS, Left
from tests.helpers.whole_cell import HOST, Cell, VirtualClock

JOBS = "paceline.jobs"
TURNS_MAX = 20_000


class Ticking:
    """Time that passes by ten milliseconds whenever it is looked at."""

    def __init__(self) -> None:
        self._ticks = count(0, 10)

    def monotonic_ms(self) -> int:
        return next(self._ticks)


class Toys:
    """Both toys on a log, each with its store in a folder of its own."""

    def __init__(self, log: Log, folder: Path, records: int = 7) -> None:
        self.log = log
        self.stores = {name: RocksStore(folder / name) for name in TOYS}
        self.drivers: dict[str, Driver] = {}
        for name, make in TOYS.items():
            limits = Limits(records=records)  # a few at a time, so that there are many rounds
            self.drivers[name] = Driver(make(), log, self.stores[name], Ticking(), f"{name}-{folder.name}", limits)
            for _ in self.drivers[name].recover():
                pass

    @property
    def closed(self) -> int:
        left = self.drivers["left"].machine
        assert isinstance(left, Left)
        return sum(ball.stage == 4 for ball in left.balls.values())

    def turns(self, number: int) -> None:
        for _ in range(number):
            for driver in self.drivers.values():
                driver.run()

    def rest(self) -> None:
        """Turns until all balls that were thrown are closed and nobody has anything to do."""
        thrown = self.log.bounds(JOBS)[1]
        quiet = 0
        for _ in range(TURNS_MAX):
            moved = [driver.run() for driver in self.drivers.values()]
            if any(moved):
                quiet = 0
            elif self.closed < thrown:
                self.log.wait(0.01)  # a log may hand over a record a while after it has it
            else:
                quiet += 1
            if quiet == 3:
                return
        raise AssertionError("the toys never come to rest")

    def hashes(self) -> dict[str, bytes]:
        return {name: driver.fold.state.hash for name, driver in self.drivers.items()}

    def close(self) -> None:
        for driver in self.drivers.values():
            driver.close()


def throw(log: Log, first: int, end: int) -> None:
    """Facts for the toys: a ball each."""
    facts = (JobStopRequested(job_id="toy", command_id=f"ball-{number}") for number in range(first, end))
    log.append([NewRecord(JOBS, b"toy", encode(fact)) for fact in facts])


class Counting:
    """A log that counts the records that are read from it, by topic."""

    def __init__(self, log: Log) -> None:
        self.cell = log.cell
        self._log = log
        self.read: dict[str, int] = {}

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        return self._log.append(records)

    def reader(self, positions: Mapping[str, int]) -> Reader:
        return CountingReader(self, self._log.reader(positions))

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        for record in self._log.scan(topic, start):
            self.note([record])
            yield record

    def bounds(self, topic: str) -> tuple[int, int]:
        return self._log.bounds(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        return self._log.ends(topics)

    def wait(self, timeout: float) -> None:
        self._log.wait(timeout)

    def close(self) -> None:
        self._log.close()

    def note(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            self.read[record.topic] = self.read.get(record.topic, 0) + 1


class CountingReader:
    def __init__(self, log: Counting, reader: Reader) -> None:
        self._log = log
        self._reader = reader

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        records = self._reader.poll(limit, timeout)
        self._log.note(records)
        return records

    def news(self) -> bool:
        return self._reader.news()

    def ends(self) -> dict[str, int]:
        return self._reader.ends()

    def position(self, topic: str) -> int:
        return self._reader.position(topic)

    def close(self) -> None:
        self._reader.close()


class StoredCell(Cell):
    """A whole cell with two simulated hosts on any log, with stores on disk."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.clock = VirtualClock()
        self.log = log  # type: ignore[assignment]
        self.limits = None
        self.folder = folder
        self.drivers = {}
        self.stores = {}
        for name in machines():
            self.recover(name)
        self.gateway = Gateway(log, folder / "gateway.msgpack", self.clock, "g")
        self.fleet = Fleet(self.gateway, [SimHost(2, HOST)], self.clock, session=1)

    def recover(self, name: str) -> None:
        self.stores[name] = RocksStore(self.folder / "store" / name)  # type: ignore[assignment]
        super().recover(name)

    def run_jobs(self, *jobs: str) -> None:
        """Submits jobs and lets time pass until all have ended."""
        for job in jobs:
            self.submit(job, instances=3, duration_ms=300)
        for _ in range(1000):
            if all(self.state(job) == "SUCCEEDED" for job in jobs):
                return
            self.run(100)
        raise AssertionError("the jobs never ended")

    def close(self) -> None:
        self.gateway.close()
        for driver in self.drivers.values():
            driver.close()
