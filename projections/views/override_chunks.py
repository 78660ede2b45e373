"""Uploaded overrides, kept as they came for as long as a job may name them or has them."""

from events.override_chunks import name_of
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.lifecycle import OverridesDropped
from projections.views.cache import Cache
from projections.views.rows import OverrideChunkRow

_UNUSED = """nameable = ? AND NOT EXISTS
    (SELECT 1 FROM submissions WHERE chunks <> '' AND instr(submissions.chunks, override_chunks.name))"""


def names(job: JobSubmitted) -> str:
    """The chunks that a job has, for its `SubmissionRow`."""
    return " ".join(chunk.digest.hex() for chunk in job.chunks)


def uploaded(cache: Cache, event: OverridesUploaded) -> None:
    """A chunk is there."""
    cache.override_chunks.put(OverrideChunkRow(name_of(event).hex(), 1, event.content))


def dropped(cache: Cache, event: OverridesDropped) -> None:
    """No job to come can name these any more."""
    for digest in event.digests:
        row = cache.override_chunks.change(digest.hex())
        if row is not None:
            row.nameable = 0
    remove_unused(cache)


def remove_unused(cache: Cache) -> None:
    """Removes what no job has, nor can name; submissions may have left."""
    cache.submissions.flush()
    cache.override_chunks.delete(_UNUSED, [(0,)])
