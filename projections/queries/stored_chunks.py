"""Overrides that were uploaded in chunks, as the views hold them."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from events.override_chunks import Chunks, name_of, read, reader
from events.records.jobs import JobSubmitted, OverridesUploaded
from projections.views import tables


def stored_chunks(connection: Connection) -> Chunks:
    """Reads overrides that were uploaded for jobs."""
    by_name: dict[bytes, JobSubmitted] = {}

    def chunk(name: bytes) -> JobSubmitted:
        if name not in by_name:
            chunks = tables.override_chunks.c
            content = connection.execute(select(chunks.content).where(chunks.name == name.hex())).scalar_one()
            overrides = read(content)
            assert overrides is not None, "lifecycle has accepted the job, so it has read them"
            by_name[name] = overrides
        return by_name[name]

    return chunk


def with_uploads(connection: Connection, uploads: Sequence[OverridesUploaded]) -> Chunks:
    """Reads overrides that come with a specification, or were uploaded before."""
    contents, stored = {name_of(each): each.content for each in uploads}, stored_chunks(connection)
    uploaded = reader(contents)
    return lambda name: uploaded(name) if name in contents else stored(name)
