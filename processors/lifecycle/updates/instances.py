"""The records of instances that are added to a job or leave it."""

import numpy as np

from events.columns import I64, pack_ints
from events.records.lifecycle import GangsQueued, InstancesChanged
from events.records.parts import Cause
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.rows import JobRow
from processors.lifecycle.stateful import STATEFUL
from processors.lifecycle.updates.rows import VersionRow
from processors.lifecycle.updates.versions import asks_of, task_shape


def addition(job_id: str, row: JobRow, version: VersionRow, added: I64, cause: Cause) -> InstancesChanged:
    """A job gets instances of its newest version."""
    shape = asks_of(version, version.instances)[added]
    first, count = stretches(added, shape)
    return InstancesChanged(
        job_id=job_id,
        first=pack_ints(added[first]),
        count=pack_ints(count),
        wanted=pack_ints(np.ones(len(first), dtype=np.int64)),
        shape=pack_ints(shape[first]),
        shapes=tuple(map(task_shape, version.asks)),
        instances=max(row.instances, int(added[-1]) + 1),
        first_run=row.run_floor + 1,
        waits=row.gated or row.kind == STATEFUL,
        cause=cause,
    )


def first_queued(job_id: str, row: JobRow, added: I64) -> GangsQueued:
    """The first runs of instances that are added."""
    first, count = stretches(added)
    zeros = np.zeros(len(first), dtype=np.int64)
    return GangsQueued(
        job_ids=(job_id,),
        job=pack_ints(zeros),
        first=pack_ints(added[first]),
        count=pack_ints(count),
        run=pack_ints(zeros + row.run_floor + 1),
        gang=pack_ints(zeros),
        admitted=pack_ints(zeros),
        timed=row.kind != "batch",
    )


def removal(job_id: str, gone: I64, left: int, cause: Cause | None) -> InstancesChanged:
    """Instances leave a job, which has those below `left` then."""
    first, count = stretches(gone)
    zeros = pack_ints(np.zeros(len(first), dtype=np.int64))
    return InstancesChanged(
        job_id=job_id,
        first=pack_ints(gone[first]),
        count=pack_ints(count),
        wanted=zeros,
        shape=zeros,
        instances=left,
        cause=cause,
    )
