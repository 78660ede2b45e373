"""What may happen to a cell in one process and to its files, and is undone by whoever looks after it.

Each way returns the moment from which on the cell can be brought back to service: when it was killed, or, where it must
not go on before somebody has helped, when that was done.
"""

import random
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import Options, Rdict

from events.log.embedded import EmbeddedLog
from events.topics import MACHINES, rounds_of
from processors.runtime.store import _FORMAT
from tests.helpers.real_cell import CellProcess
from tests.helpers.small_disk import SmallDisk

EMBEDDED_ONLY = ("torn tail", "truncated log")
"""Kafka looks after its own files, and what was deleted there doesn't come back."""
FOREIGN = ("is of another log", "records are missing")
"""What is said of the store of another cell: its last round is not where it says, or would come after the log's end."""
FULL = "full disk"
WAYS = ("torn tail", "truncated log", "foreign store", "newer store", FULL)
"""All but `kill -9`, with which each begins but the last."""
LEFT_MIB = 32
"""A disk that has less than 64 MiB is full for the log; none at all, and not even the cell's store is written."""
HAVE_ROUNDS = tuple(machine for machine in MACHINES if machine != "sla")
"""The machines that have decided something where a batch job has run: a store without rounds is of any cell."""
TORN = struct.Struct("<IHB")
"""Head of a record in a journal of RocksDB: checksum, length, kind."""
TORN_BYTES, DEFAULT_SHAPE, BLOCK = 1000, 1, 32 * 1024


@contextmanager
def put_aside(folder: Path, aside: Path) -> Iterator[None]:
    """Something else stands in place of a folder, until that is put back."""
    folder.rename(aside)
    yield
    shutil.rmtree(folder)
    aside.rename(folder)


class Damage:
    """Ways to harm a cell. `disk`: the small one that its folder is on."""

    def __init__(self, cell: CellProcess, draw: random.Random, disk: SmallDisk | None) -> None:
        self._cell = cell
        self._draw = draw
        self._disk = disk
        self._aside = cell.data.with_name("aside")
        self._foreign: Path | None = None
        self._ways: dict[str, Callable[[], float]] = {
            "kill -9": self._killed,
            "torn tail": self._torn,
            "truncated log": self._truncated,
            "foreign store": self._of_another,
            "newer store": self._newer,
            FULL: self._full,
        }

    def do(self, way: str) -> float:
        """Harms the cell, and undoes what it can't go on with; it runs then, or can be started."""
        return self._ways[way]()

    def _killed(self) -> float:
        begin = time.monotonic()
        self._cell.kill()
        return begin

    def _torn(self) -> float:
        """It dies as the log, or the store of a machine, writes: a part of a record ends the journal."""
        begin = self._killed()
        folder = self._draw.choice(
            [self._cell.data / "log", *(self._cell.data / "store" / machine for machine in MACHINES)]
        )
        journal = max(folder.glob("*.log"), key=lambda path: int(path.stem))
        record = TORN.pack(self._draw.getrandbits(32), TORN_BYTES, DEFAULT_SHAPE) + self._draw.randbytes(TORN_BYTES)
        left = BLOCK - journal.stat().st_size % BLOCK
        start = bytes(left) if left < TORN.size else b""
        with journal.open("ab") as file:
            file.write(start + record[: self._draw.randrange(1, len(record) if start else min(left, len(record)))])
        return begin

    def _truncated(self) -> float:
        """A machine without a store finds that the beginning of its log is gone; a copy of all files is put back."""
        self._cell.kill()
        machine = self._draw.choice(MACHINES)
        with put_aside(self._cell.data, self._aside):
            shutil.copytree(self._aside, self._cell.data)
            shutil.rmtree(self._cell.data / "store" / machine)
            log = EmbeddedLog(self._cell.data / "log")
            log.truncate(rounds_of(machine), log.bounds(rounds_of(machine))[1])
            log.close()
            self._ends_with(f"{rounds_of(machine)} starts at")
        return time.monotonic()

    def _of_another(self) -> float:
        """A machine's store is that of another cell; its own is put back."""
        foreign = self._stores_of_another()
        self._cell.kill()
        machine = self._draw.choice(HAVE_ROUNDS)
        own = self._cell.data / "store" / machine
        with put_aside(own, self._aside):
            shutil.copytree(foreign / machine, own)
            self._ends_with(*FOREIGN)
        return time.monotonic()

    def _newer(self) -> float:
        """A machine's store is of a newer version, which this one can't read; its own is put back."""
        self._cell.kill()
        own = self._cell.data / "store" / self._draw.choice(MACHINES)
        with put_aside(own, self._aside):
            shutil.copytree(self._aside, own)
            store = Rdict(str(own), Options(raw_mode=True))
            store[_FORMAT] = b"99"
            store.close()
            self._ends_with("is of a newer version of Paceline (format 99)")
        return time.monotonic()

    def _stores_of_another(self) -> Path:
        if self._foreign is None:
            other = CellProcess(self._cell.data.with_name("another"))
            other.start()
            other.pool("/p")
            other.submit("theirs", 1)
            other.until(lambda: other.state("theirs") == "SUCCEEDED")
            other.stop()
            self._foreign = other.data / "store"
        return self._foreign

    def _ends_with(self, *sentences: str) -> None:
        """The cell doesn't go on, and says why, in one of these ways."""
        cell = self._cell
        said = len(cell.output.read_text())
        cell.launch()
        assert cell.until_ended() == 1
        last = cell.output.read_text()[said:].splitlines()[-1]
        assert any(sentence in last for sentence in sentences), last

    def _full(self) -> float:
        """The disk is full for a while. The cell waits for room; on Kafka, where only stores and views are written, it
        ends when one can't be.
        """
        cell, disk = self._cell, self._disk
        assert disk is not None
        said = len(cell.output.read_text())
        disk.fill(0 if cell.kafka else LEFT_MIB)
        if cell.kafka:
            assert cell.until_ended() == 1
        cell.until(lambda: "ake room" in cell.output.read_text()[said:])
        disk.make_room()
        return time.monotonic()
