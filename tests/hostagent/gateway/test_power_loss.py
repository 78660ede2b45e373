"""The power of a cell's machine goes at any moment: nothing that anybody has heard of is lost."""

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rocksdict import Rdict

from events.codec import decode
from events.log.ahead import AheadLog
from events.log.embedded import EmbeddedLog
from events.records.hosts import HostSilent
from events.records.tasks import RunsReported
from events.topics import HOSTS, TASKS, rounds_of
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from hostagent.gateway.connections import Post, Report
from hostagent.messages import Orders
from processors.cell_machines import machines
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.store import RocksStore
from tests.helpers.whole_cell import HOST, Cell, VirtualClock

LIFECYCLE = rounds_of("lifecycle")


class Disk:
    """A database that remembers how long its journals were when they were synced."""

    def __init__(self, folder: Path, db: Rdict) -> None:
        self._folder, self._db = folder, db
        self.lengths: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def flush_wal(self, sync: bool) -> None:
        self._db.flush_wal(sync)
        self.lengths = {path.name: path.stat().st_size for path in self._folder.glob("*.log")}


class Heard(Fleet):
    """Simulated hosts that remember what they were told."""

    position = 0
    """Up to where they were given orders."""
    acknowledged = 0
    """Of so many ends and starts they heard that these are in the log."""

    def deliver(self, orders: Orders) -> None:
        self.position = max(self.position, orders.position)
        super().deliver(orders)


class AheadCell(Cell):
    """A cell whose machines and facts go on before the disk has what they wrote, each with a store on that disk."""

    def __init__(self, folder: Path, session: int) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.embedded = EmbeddedLog(folder / "log", now_ms=self.clock.monotonic_ms)
        self.embedded._db = self.disk = Disk(folder / "log", self.embedded._db)  # type: ignore[assignment]
        self.ahead = AheadLog(self.embedded)
        self.log = self.embedded  # type: ignore[assignment]
        self.limits = Limits(unstored=2)
        self.drivers = {}
        for name, make in machines(0).items():
            store = RocksStore(folder / name, self.ahead.sync)
            self.drivers[name] = Driver(make(), self.ahead, store, self.clock, name, self.limits)
            for _ in self.drivers[name].recover():
                pass
        self.gateway = Gateway(self.embedded, folder / "gateway", self.clock, "g", ahead=self.ahead)
        self.fleet = self.heard = Heard(self.gateway, [SimHost(3, HOST)], self.clock, session=session)
        take = self.gateway.post

        def counted(post: Post) -> None:
            if isinstance(post, Report):
                done, rows = post.done, len(post.reports.job)

                def accept(current: bool) -> None:
                    self.heard.acknowledged += rows * current
                    done(current)

                post = post._replace(done=accept)
            take(post)

        self.gateway.post = counted  # type: ignore[method-assign]

    def steps(self) -> Iterator[bool]:
        """Steps everything in turn without end, as a process does; after all of it whether that was anything."""
        while True:
            self.clock.ms += 1
            busy = False
            for step in (*(driver.run for driver in self.drivers.values()), self.gateway.step, self.fleet.step):
                busy = step() or busy
                yield True
            yield busy or self.ahead.settle(True)

    def rest(self) -> None:
        """Steps until nothing is to be done now."""
        while all(islice(self.steps(), len(self.drivers) + 3)):
            pass

    def lose_power(self, copy: Path) -> None:
        """What the disk has: of stores and of what gateways keep all that was written, of the log what was synced."""
        shutil.copytree(self.folder, copy)
        for path in (copy / "log").glob("*.log"):
            with path.open("r+b") as file:
                file.truncate(self.disk.lengths.get(path.name, 0))

    def close(self) -> None:
        for driver in self.drivers.values():
            driver.close()
        self.embedded.close()


def reported(log: EmbeddedLog) -> int:
    """The rows of all reports of hosts."""
    facts = (decode(record.value) for record in log.scan(TASKS.name, 0))
    return sum(len(fact.job) for fact in facts if isinstance(fact, RunsReported))


@pytest.mark.parametrize("seed", range(3))
def test_what_anybody_has_heard_of_survives(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)
    cell = AheadCell(tmp_path / "0", 1)
    cell.pool("/p")
    lost, moments, steps = 0, 12, cell.steps()
    for moment in range(moments):
        cell.submit(f"j{moment}", instances=draw.choice([1, 5, 30]), duration_ms=20)
        for _ in range(draw.randrange(10, 200)):
            next(steps)
        if draw.random() < 0.5:
            cell.gateway.checkpoint()
        copy = tmp_path / f"lost-{moment}"
        cell.lose_power(copy)
        lost += cell.ahead.mark() - cell.embedded.synced
        position, acknowledged = cell.heard.position, cell.heard.acknowledged
        after = AheadCell(copy, 2 + moment)
        assert after.embedded.bounds(LIFECYCLE)[1] >= position, "no host was told what isn't so"
        assert reported(after.embedded) >= acknowledged, "no host forgets what nobody else knows"
        after.rest()
        after.verify()
        after.close()
    assert lost, "something was not on the disk at some of these moments"
    cell.close()


def test_a_cell_goes_on_after_the_power_was_lost(tmp_path: Path) -> None:
    cell = AheadCell(tmp_path / "0", 1)
    cell.pool("/p")
    cell.submit("j", instances=40, duration_ms=50)
    steps = cell.steps()
    while not cell.heard.started:
        next(steps)
    cell.lose_power(tmp_path / "1")
    cell.close()
    again = AheadCell(tmp_path / "1", 2)
    for _ in islice(again.steps(), 100_000):
        if again.state("j") == "SUCCEEDED":
            break
    assert again.state("j") == "SUCCEEDED"
    again.rest()
    again.verify()
    again.close()


def test_a_host_that_fell_silent_before_the_power_was_lost_is_called_silent(tmp_path: Path) -> None:
    cell = AheadCell(tmp_path / "0", 1)
    cell.rest()
    while not silent_facts(cell.embedded, ahead=True):
        cell.ahead.sync()
        cell.clock.ms += 1000
        cell.gateway.step()  # nobody says anything
    cell.gateway.checkpoint()
    cell.lose_power(tmp_path / "1")
    cell.close()
    again = AheadCell(tmp_path / "1", 2)
    for _ in range(20):
        again.clock.ms += 1000
        again.gateway.step()
        again.ahead.sync()
    assert silent_facts(again.embedded)
    again.close()


def silent_facts(log: EmbeddedLog, ahead: bool = False) -> int:
    """The number of facts that call a host silent; `ahead`: with those that aren't durable."""
    records = log.reader({HOSTS.name: 0}, ahead).poll(10_000, 0)
    return sum(isinstance(decode(record.value), HostSilent) for record in records)
