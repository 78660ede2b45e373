"""Ended jobs: a few bytes each, enough to answer a repeat of the submission and a late command.

An entry leaves when it is forgotten; then its id may be submitted again. Of all forgotten ids the highest run is kept
by buckets of their digests, so the runs of a returning id count from above every run that it ever had: neither a late
report nor a folder on a host can be taken for the new job's.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.acceptance import digest
from events.codes import ENDED_JOBS, JobState
from events.columns import I32
from events.id_digests import DIGEST_BYTES, job_digest, split
from events.records.parts import Cause
from processors.state.causes import CauseRow
from processors.state.table import Table, struct_table

BLOCK = 128
"""Entries in a row: a row is hashed and stored whole, so larger ones cost more per change, smaller ones more memory."""
BUCKETS, FLOOR_ROW = 16_384, 256
"""Buckets of highest runs, and how many of them make a row."""
_ENTRY = Struct("<16s8sqIB")
_COLUMNS = np.dtype([("key", "<u8"), ("rest", "V8"), ("spec", "V8"), ("ended", "<i8"), ("run", "<u4"), ("state", "u1")])
_DROPPED = bytes(_ENTRY.size)
_SLOTS_MIN = 1024


class EndedJob(NamedTuple):
    """The record of an ended job. `run` is the highest run of its tasks."""

    spec: bytes
    ended_ms: int
    run: int
    state: JobState


def spec_digest(spec_hash: bytes) -> bytes:
    """Stands for a spec hash, of whatever length that is."""
    return digest(spec_hash)[:8]


class EndedJobs:
    """The entries in the order in which the jobs ended, each with a number; block N has BLOCK * N and those after."""

    def __init__(self) -> None:
        self.table: Table[int, bytearray] = Table("ended", bytes, bytearray, int)
        self.floors: Table[int, I32] = Table("run_floors", np.ndarray.tobytes, _unpack_floors, int)
        self._latest: Table[str, CauseRow] = struct_table("latest_end", CauseRow)
        self._first = self._next = self._size = 0
        self._index = _Index(self._keys)

    def restored(self) -> None:
        """Finds again what is derived."""
        self._size = sum(int(np.count_nonzero(_columns(row)["state"])) for row in self.table.values())
        self._first = min(self.table, default=0) * BLOCK
        last = max(self.table, default=0)
        self._next = last * BLOCK + (len(self.table[last]) // _ENTRY.size if self.table else 0)
        self._skip_dropped()
        self._index.build()

    def __len__(self) -> int:
        return self._size

    def get(self, job_id: str) -> EndedJob | None:
        """The record of an ended job; None where it hasn't ended or is forgotten."""
        number = self._find(job_digest(job_id))
        return None if number is None else self._entry(number)

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All of it."""
        return (self.table, self.floors, self._latest)

    def add(self, job_id: str, job: EndedJob, cause: CauseRow) -> None:
        """A job has ended by a decision, the latest of all."""
        self._latest.put("end", cause)
        block, key = self._next // BLOCK, job_digest(job_id)
        if block not in self.table:
            self.table.put(block, bytearray())
        row = self.table.change(block)
        row += _ENTRY.pack(key, job.spec, job.ended_ms, job.run, ENDED_JOBS.index(job.state) + 1)
        self._next += 1
        self._size += 1
        self._index.add(key, self._next - 1)

    def next_due_ms(self, after_ms: int, ended_max: int) -> int | None:
        """When the oldest is forgotten: so long after its end, or at once where there are more than `ended_max`."""
        if not self._size:
            return None
        row, place = self.table[self._first // BLOCK], self._first % BLOCK * _ENTRY.size
        ended_ms: int = _ENTRY.unpack_from(row, place)[2]
        return ended_ms + (after_ms if self._size <= ended_max else 0)

    def cause(self, after_ms: int, ended_max: int) -> Cause:
        """Why the oldest are forgotten: the latest end if there are more than `ended_max`, else their time."""
        if self._size > ended_max:
            return self._latest["end"].record
        return Cause(due_ms=self.next_due_ms(after_ms, ended_max) or 0)

    def due(self, now: int, after_ms: int, ended_max: int, budget: int) -> bytes:
        """The digests of those to be forgotten, the oldest first. Each round takes along what would be due within a
        hundredth of the time or the number, so that it isn't done one by one.
        """
        due = self.next_due_ms(after_ms, ended_max)
        if due is None or due > now:
            return b""
        excess, until = self._size - ended_max, now - after_ms + after_ms // 100
        excess += ended_max // 100 if excess > 0 else 0
        out = bytearray()
        for number in self._numbers():
            if len(out) >= budget * DIGEST_BYTES or (excess <= 0 and self._entry(number).ended_ms > until):
                break
            out += self._bytes(number)[:DIGEST_BYTES]
            excess -= 1
        return bytes(out)

    def forget(self, digests: bytes) -> None:
        """These leave the state; what is unknown among them did so before."""
        for key in split(digests):
            number = self._find(key)
            if number is not None:
                self._raise_floor(key, self._entry(number).run)
                self._drop(number)
        self._skip_dropped()

    def reopen(self, job_id: str) -> None:
        """A job is there again, if it had ended: it leaves, as one that is forgotten but for its runs."""
        number = self._find(job_digest(job_id)) if self._size else None
        if number is not None:
            self._drop(number)
            self._skip_dropped()

    def _drop(self, number: int) -> None:
        place = number % BLOCK * _ENTRY.size
        self.table.change(number // BLOCK)[place : place + _ENTRY.size] = _DROPPED
        self._size -= 1

    def first_run(self, job_id: str) -> int:
        """With which run a new job of this id begins."""
        row, place = bucket_of(job_digest(job_id))
        floors = self.floors.get(row)
        return 1 if floors is None else int(floors[place]) + 1

    def _raise_floor(self, key: bytes, run: int) -> None:
        row, place = bucket_of(key)
        if row not in self.floors:
            self.floors.put(row, np.zeros(FLOOR_ROW, dtype=np.int32))
        if run > self.floors[row][place]:
            self.floors.change(row)[place] = run

    def _skip_dropped(self) -> None:
        """Advances to the oldest job, and drops the blocks before it. Numbers restart when no job is left."""
        if not self._size:
            for block in list(self.table):
                self.table.remove(block)
            self._first = self._next = 0
            self._index.build()
        while self._first < self._next and self._bytes(self._first) == _DROPPED:
            self._first += 1
            if self._first % BLOCK == 0:
                self.table.remove(self._first // BLOCK - 1)

    def _numbers(self) -> Iterator[int]:
        return (number for number in range(self._first, self._next) if self._bytes(number) != _DROPPED)

    def _bytes(self, number: int) -> bytes:
        row = self.table.get(number // BLOCK) or b""
        place = number % BLOCK * _ENTRY.size
        return bytes(row[place : place + _ENTRY.size]) or _DROPPED

    def _entry(self, number: int) -> EndedJob:
        _, spec, ended_ms, run, state = _ENTRY.unpack(self._bytes(number))
        return EndedJob(spec, ended_ms, run, ENDED_JOBS[state - 1])

    def _find(self, key: bytes) -> int | None:
        return next((number for number in self._index.find(key) if self._bytes(number)[:DIGEST_BYTES] == key), None)

    def _keys(self) -> tuple[int, NDArray[np.uint64]]:
        """The number of the first key, and the keys from there on: 0 where there is none."""
        first = self._first // BLOCK
        out = np.zeros(self._next - first * BLOCK, dtype=np.uint64)
        for block in self.table:
            keys = _columns(self.table[block])["key"]
            out[(block - first) * BLOCK :][: len(keys)] = keys
        return first * BLOCK, out


class _Index:
    """From the first 8 bytes of a key to the numbers it may have: open addressing, rebuilt when it is 3/4 full."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys
        self.build()

    def build(self) -> None:
        """Puts in all that is there, and drops the rest."""
        self._base, keys = self._keys()
        size = _SLOTS_MIN
        while size < 2 * len(keys):
            size *= 2
        self._slots = np.zeros(size, dtype=np.uint32)
        self._used = len(keys)
        which = np.arange(1, len(keys) + 1, dtype=np.uint32)
        at = (keys & np.uint64(size - 1)).astype(np.int64)
        while len(which):  # of those that meet at a free slot one gets it, the others go on to the next slot
            free = self._slots[at] == 0
            self._slots[at[free]] = which[free]
            unplaced = self._slots[at] != which
            which, at = which[unplaced], (at[unplaced] + 1) % size

    def add(self, key: bytes, number: int) -> None:
        """A key was added, the last of all."""
        if 4 * self._used >= 3 * len(self._slots):
            self.build()
            return
        *_, at = self._probe(key)
        self._slots[at] = number - self._base + 1
        self._used += 1

    def find(self, key: bytes) -> Iterator[int]:
        """The numbers that the key may have."""
        return (self._base + number - 1 for at in self._probe(key) if (number := int(self._slots[at])))

    def _probe(self, key: bytes) -> Iterator[int]:
        """The slots from that of the key on, up to a free one."""
        mask = len(self._slots) - 1
        at = int.from_bytes(key[:8], "little") & mask
        while self._slots[at]:
            yield at
            at = (at + 1) & mask
        yield at


def _columns(row: bytearray) -> NDArray[Any]:
    return np.frombuffer(bytes(row), dtype=_COLUMNS)


def bucket_of(key: bytes) -> tuple[int, int]:
    """The row of a digest among the floors, and the place in it."""
    return divmod(int.from_bytes(key[-2:], "little") % BUCKETS, FLOOR_ROW)


def _unpack_floors(row: bytes) -> I32:
    return np.frombuffer(row, dtype="<i4").copy()
