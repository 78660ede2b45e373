"""The records that are about a job, several in a row of the views: what is told of each, and which runs it names.

Entries of a job are written in pieces, as they come: a row holds what one transaction adds, and at most `ENTRIES_MAX`.
How entries fall into rows depends on the transactions; which entries there are, and what they say, doesn't.

Decision 052.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

import msgspec

from events.bounds import INT_MAX
from paceline.client.json_type import Json
from projections.views.cause_ties import BITS
from projections.views.rows import HistoryRow

ENTRIES_MAX = 64
"""Entries in a row: a job of many records is searched by what stands beside them."""
UNWRITTEN_MAX = 32_768
"""Entries take several times the memory that their bytes take: no more of them wait for the end of a transaction."""
KEYS_MAX = 512
"""Jobs asked for in one statement."""

Said = bytes | Json | None
"""The content of an entry: the encoded record itself where that is short, else its details; None: nothing."""


class JobEntry(NamedTuple):
    """A record that is about a job. The order of a history is that of the first five."""

    at_ms: int
    depth: int
    topic: int
    offset: int
    place: int
    round: int
    event: str
    said: Said
    first: int = INT_MAX
    """The first and the last instance, the first and the last run that it names of the job, of a record that the index
    of causes has; else none.
    """
    last: int = -1
    first_run: int = INT_MAX
    last_run: int = -1


_PIECES = 20
"""Bits of `number` that count the rows written at one position of the views."""
_INSERT = f"INSERT OR REPLACE INTO history VALUES ({', '.join('?' * len(HistoryRow.__struct_fields__))})"
_encode = msgspec.msgpack.Encoder().encode
entries_in = msgspec.msgpack.Decoder(list[JobEntry]).decode
"""The entries of a row."""
_RUNS = JobEntry._fields.index("first")


class JobRecords:
    """Entries of the histories of jobs that aren't written yet. `position` is to be set: it gives a number that grows
    with each record that is folded.
    """

    def __init__(self) -> None:
        self._new: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._unwritten = 0
        self._stamp = (0, 0)
        self.position: Callable[[], int] = lambda: 0
        self.connection: Connection | None = None

    def add(
        self,
        place: tuple[Any, ...],
        job_ids: Sequence[str],
        contents: Mapping[str, Said],
        runs: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Adds a `JobEntry` to the history of each job: `place` are its fields up to the event."""
        new = self._new
        self._unwritten += len(job_ids)
        if runs:
            for job_id in job_ids:
                new[job_id].append((*place, contents.get(job_id), *runs.get(job_id, ())))
        else:
            for job_id in job_ids:
                new[job_id].append((*place, contents.get(job_id)))

    def add_one(self, job_id: str, entry: tuple[Any, ...]) -> None:
        """Adds a `JobEntry` to the history of one job."""
        self._unwritten += 1
        self._new[job_id].append(entry)

    def flush_many(self) -> None:
        """Writes what was added if it is much."""
        if self._unwritten >= UNWRITTEN_MAX:
            self.flush()

    def flush(self) -> None:
        """Writes what was added."""
        if not self._new:
            return
        assert self.connection is not None
        position, piece = self.position(), 0
        if position == self._stamp[0]:
            piece = self._stamp[1]
        rows = []
        for job_id, entries in self._new.items():
            for start in range(0, len(entries), ENTRIES_MAX):
                rows.append(self._row(job_id, position << _PIECES | piece, entries[start : start + ENTRIES_MAX]))
                piece += 1
        self._stamp = position, piece
        self.connection.executemany(_INSERT, rows)
        self._new, self._unwritten = defaultdict(list), 0

    def keep(self, job_ids: Iterable[str], keeps: Callable[[str, JobEntry], bool]) -> int:
        """Removes the entries of these jobs that are not to be kept; returns how many rows that took."""
        self.flush()
        assert self.connection is not None
        ids, changed, removed = list(dict.fromkeys(job_ids)), [], []
        for start in range(0, len(ids), KEYS_MAX):
            part = ids[start : start + KEYS_MAX]
            marks = ", ".join("?" * len(part))
            text = f"SELECT job_id, number, entries FROM history WHERE job_id IN ({marks})"
            for job_id, number, data in self.connection.execute(text, part):
                before = entries_in(data)
                after = [_short(entry) for entry in before if keeps(job_id, entry)]
                if not after:
                    removed.append((job_id, number))
                elif len(after) < len(before):
                    changed.append(self._row(job_id, number, after))
        self.connection.executemany("DELETE FROM history WHERE job_id = ? AND number = ?", removed)
        self.connection.executemany(_INSERT, changed)
        return len(removed) + len(changed)

    def _row(self, job_id: str, number: int, entries: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        kinds, runs = 0, (INT_MAX, -1, INT_MAX, -1)
        if len(entries) == 1 and len(entries[0]) <= _RUNS:
            return job_id, number, entries[0][0], entries[0][0], kinds, *runs, _encode(entries)
        times = [entry[0] for entry in entries]
        if with_runs := [entry for entry in entries if len(entry) > _RUNS]:
            *_, events, _, first, last, first_run, last_run = zip(*with_runs, strict=True)
            runs = min(first), max(last), min(first_run), max(last_run)
            for event in events:
                kinds |= BITS[event]
        return job_id, number, min(times), max(times), kinds, *runs, _encode(entries)


def _short(entry: JobEntry) -> tuple[Any, ...]:
    """As it was added: without runs where it has none."""
    return tuple(entry) if entry.event in BITS and entry.last >= 0 else entry[:_RUNS]
