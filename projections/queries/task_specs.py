"""What tasks with an override are run from: the spec of their job with the override merged into it."""

from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection, select

from events.override_chunks import Chunks, read
from events.records.jobs import JobSubmitted
from events.spec import from_event
from events.spec_overrides import Override
from events.task_overrides import instance_of, override_keys
from projections.queries import versions
from projections.queries.pages import Json
from projections.queries.resources import kinds_of
from projections.views import tables
from projections.views.rows import JobRow

_FIELDS = Override.model_fields.keys() - {"instances"}


def own_specs(connection: Connection, job: JobRow, instances: Mapping[int, int]) -> dict[int, Json]:
    """By instance what it has, of those that don't have all as the job says in their version; 0: in its newest."""
    offsets = {0: job.offset}
    if job.version > 1:
        offsets |= {row.version: row.offset for row in versions.versions(connection, job)}
    elif not job.overridden:
        return {}
    specs: dict[int, Json] = {}
    chunk, units = _chunks(connection), kinds_of(connection).units
    for version in {*instances.values()}:
        mine = np.array([instance for instance, of in instances.items() if of == version])
        said = versions.submission(connection, offsets.get(version, job.offset))
        keys = override_keys(said, mine, chunk)
        for key in {*keys.tolist()} - {0}:
            shown = from_event(instance_of(said, key, chunk), units)
            own = {name: value for name, value in shown.items() if name in _FIELDS}
            specs |= dict.fromkeys(mine[keys == key].tolist(), own)
    return specs


def _chunks(connection: Connection) -> Chunks:
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
