"""The specs of tasks with an override: the spec of their job with the override merged into it."""

from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection

from events.spec.job import from_event
from events.spec.overrides import Override
from events.task_overrides import instance_of, override_keys
from paceline.client.json_type import Json
from projections.queries import versions
from projections.queries.resources import kinds_of
from projections.queries.stored_chunks import stored_chunks
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
    chunk, units = stored_chunks(connection), kinds_of(connection).units
    for version in {*instances.values()}:
        mine = np.array([instance for instance, of in instances.items() if of == version])
        submission = versions.submission(connection, offsets.get(version, job.offset))
        keys = override_keys(submission, mine, chunk)
        for key in {*keys.tolist()} - {0}:
            spec = from_event(instance_of(submission, key, chunk), units)
            own = {name: value for name, value in spec.items() if name in _FIELDS}
            specs |= dict.fromkeys(mine[keys == key].tolist(), own)
    return specs
