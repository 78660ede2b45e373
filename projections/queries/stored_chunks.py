"""Overrides that were uploaded in chunks, as the views hold them."""

from sqlalchemy import Connection, select

from events.override_chunks import Chunks, read
from events.records.jobs import JobSubmitted
from projections.views import tables


def stored_chunks(connection: Connection) -> Chunks:
    """Reads overrides that were uploaded for jobs."""
    found: dict[bytes, JobSubmitted] = {}

    def chunk(name: bytes) -> JobSubmitted:
        if name not in found:
            held = tables.override_chunks.c
            content = connection.execute(select(held.content).where(held.name == name.hex())).scalar_one()
            overrides = read(content)
            assert overrides is not None, "lifecycle has accepted the job, so it has read them"
            found[name] = overrides
        return found[name]

    return chunk
