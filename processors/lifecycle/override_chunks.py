"""Overrides that were uploaded: kept for a while, and put into the jobs that name them."""

import msgspec
import numpy as np

from events.columns import I32, ints, pack_ints
from events.override_chunks import name_of, read
from events.records.base import Event
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.lifecycle import OverridesDropped
from events.records.parts import Cause
from processors.lifecycle.rows import OverrideChunkRow, OverrideRow, SubmittedRow
from processors.state.deadlines import Deadlines
from processors.state.record_rows import row_of
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

KEPT_MS = 3_600_000
"""So long in the time of the log a job may name what was uploaded."""


def _end_ms(row: OverrideChunkRow) -> int:
    """When a chunk is dropped."""
    return row.at_ms + KEPT_MS


class OverrideChunks:
    """The chunks by name, with the time of the log when they were uploaded last."""

    def __init__(self) -> None:
        self.table: Table[str, OverrideChunkRow] = struct_table("override_chunks", OverrideChunkRow)
        """By the names in hexadecimal."""
        self._ends: Deadlines[str] = Deadlines()
        self._whole: tuple[SubmittedRow, SubmittedRow | str] | None = None
        """The job that was made whole last, before and after: it is asked for when it is answered and when the answer
        is applied.
        """

    def restored(self) -> None:
        """Finds the order of the names again."""
        self._ends.restore((name, _end_ms(row)) for name, row in self.table.items())
        self._whole = None

    def uploaded(self, event: OverridesUploaded, now: int) -> None:
        """A chunk is there, perhaps again."""
        name = name_of(event).hex()
        self._leave(name)
        row = self.table.put(name, OverrideChunkRow(now, event.content))
        self._ends.set(name, _end_ms(row))

    def _leave(self, name: str) -> None:
        if name in self.table:
            self._ends.clear(name)
            self.table.remove(name)

    def whole(self, job: SubmittedRow) -> SubmittedRow | str:
        """The job with all its overrides, or a sentence that says why it can't have them."""
        if not job.chunks:
            return job
        if self._whole is None or self._whole[0] is not job:
            chunks = self._contents(job)
            self._whole = job, chunks if isinstance(chunks, str) else _joined(job, chunks)
        return self._whole[1]

    def whole_of(self, job: SubmittedRow) -> SubmittedRow:
        """The same of a job that can have them, as was looked before it was accepted."""
        if not job.chunks:
            return job
        whole = self.whole(job)
        assert isinstance(whole, SubmittedRow)
        return whole

    def _contents(self, job: SubmittedRow) -> list[JobSubmitted] | str:
        missing = [chunk.digest.hex() for chunk in job.chunks if chunk.digest.hex() not in self.table]
        if missing:
            return (
                f"{len(missing)} of the {len(job.chunks)} chunks of overrides that the job names aren't there, the "
                f"first is {missing[0]}; upload them at most {KEPT_MS // 60_000} minutes before the job"
            )
        chunks = []
        for number, chunk in enumerate(job.chunks):
            content = read(self.table[chunk.digest.hex()].content)
            if content is None:
                return f"chunk {number} of the overrides, {chunk.digest.hex()}, can't be read"
            first, count = content.override_first_array, content.override_count_array
            if len(first) and (first.min() < chunk.first or (first + count).max() > chunk.first + chunk.count):
                span = f"{chunk.first}-{chunk.first + chunk.count - 1}"
                return f"chunk {number} has overrides of other instances than {span}"
            chunks.append(content)
        return chunks

    def dropped(self, event: OverridesDropped, now: int) -> None:
        """Chunks leave."""
        for name in map(bytes.hex, event.digests):
            self._leave(name)

    def decide(self, this: Pass) -> list[Event]:
        """Drops chunks that are kept no longer, at most as many as the budget has units."""
        names = self._ends.due(this.until_ms)[: this.budget.left]
        if not names:
            return []
        digests = tuple(map(bytes.fromhex, names))
        return [OverridesDropped(digests=digests, cause=Cause(due_ms=_end_ms(self.table[names[-1]])))]

    def next_due_ms(self) -> int | None:
        """When the first chunk leaves."""
        return self._ends.first()


def _joined(job: SubmittedRow, chunks: list[JobSubmitted]) -> SubmittedRow:
    overrides = list(job.overrides)
    columns: list[tuple[I32, ...]] = [(ints(job.override_first), ints(job.override_count), ints(job.override))]
    for chunk in chunks:
        columns.append((chunk.override_first_array, chunk.override_count_array, chunk.override_array + len(overrides)))
        overrides += [row_of(OverrideRow, each) for each in chunk.overrides]
    first, count, override = (pack_ints(np.concatenate(column)) for column in zip(*columns, strict=True))
    return msgspec.structs.replace(
        job, chunks=(), overrides=tuple(overrides), override_first=first, override_count=count, override=override
    )
