"""The number of instances that an update would add, change and remove, for its dry run. Lifecycle counts again when it
starts the update.
"""

import msgspec
import numpy as np
from sqlalchemy import Connection

from events.codes import TaskState, UpdateStep
from events.columns import I32, I64, indexed
from events.override_chunks import Chunks
from events.records.jobs import JobSubmitted
from events.task_overrides import JOB_FIELDS, instance_of, override_keys
from projections.queries import versions
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.views.rows import JobRow

_CONTENT = [field.name for field in msgspec.structs.fields(JobSubmitted) if field.name not in JOB_FIELDS]


def instance_counts(connection: Connection, job: JobRow, submission: JobSubmitted, chunk: Chunks) -> dict[str, int]:
    """Instances by what becomes of them if a job gets a specification; `chunk` reads the overrides of both."""
    columns = columns_of(connection, job, np.arange(job.instances))
    there = columns[0] != TaskState.NONE
    instances = np.flatnonzero(there)
    if job.kind != "daemon":
        instances = instances[instances < submission.instances]
    offsets = {row.version: row.offset for row in versions.versions(connection, job)}
    of = _versions(job, columns)[instances]
    updated = 0
    for number in np.unique(of).tolist():
        before = versions.submission(connection, offsets.get(number, job.offset))
        updated += _different(before, submission, instances[of == number], chunk)
    return {
        "added": 0 if job.kind == "daemon" else submission.instances - len(instances),
        "updated": updated,
        "removed": int(np.count_nonzero(there)) - len(instances),
        "unchanged": len(instances) - updated,
    }


def _versions(job: JobRow, columns: I32) -> I64:
    """The version that each instance has, or is on its way to."""
    version, update, step = (columns[TASK_PLACES[name]] for name in ("version", "update", "step"))
    in_update = (update == job.update) & (step > UpdateStep.PENDING)
    return np.where((version == 0) | (in_update & (job.update > 0)), job.version, version)


def _different(before: JobSubmitted, after: JobSubmitted, instances: I64, chunk: Chunks) -> int:
    """The number of these instances whose task would change."""
    had, of = indexed(override_keys(before, instances, chunk))
    gets, to = indexed(override_keys(after, instances, chunk))
    pairs, count = np.unique(of * len(gets) + to, return_counts=True)
    differs = [
        _content(before, int(had[pair // len(gets)]), chunk) != _content(after, int(gets[pair % len(gets)]), chunk)
        for pair in pairs.tolist()
    ]
    return int(count[np.array(differs, dtype=np.bool_)].sum())


def _content(job: JobSubmitted, key: int, chunk: Chunks) -> list[object]:
    own = instance_of(job, key, chunk)
    return [getattr(own, name) for name in _CONTENT]
