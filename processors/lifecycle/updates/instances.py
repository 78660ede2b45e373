"""The records of instances that are added to a job or leave it."""

import numpy as np

from events.columns import I64
from events.records.lifecycle import GangsQueued, InstancesChanged
from events.records.parts import Cause
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.rows import JobRow
from processors.lifecycle.stateful import STATEFUL
from processors.lifecycle.updates.rows import VersionRow
from processors.lifecycle.updates.versions import asks_of, task_shape


def addition(
    job_id: str, row: JobRow, version: VersionRow, added: I64, cause: Cause, surplus: int = 0
) -> InstancesChanged:
    """A job gets instances of its newest version; `surplus`: the serial of those that are more than it wants."""
    shape = asks_of(version, max(version.instances, int(added[-1]) + 1))[added]
    first, count = stretches(added, shape)
    return InstancesChanged.pack(
        job_id=job_id,
        first=added[first],
        count=count,
        wanted=np.ones(len(first), dtype=np.int64),
        shape=shape[first],
        shapes=tuple(map(task_shape, version.asks)),
        instances=max(row.instances, int(added[-1]) + 1),
        first_run=row.run_floor + 1,
        waits=row.gated or row.kind == STATEFUL,
        cause=cause,
        surplus=surplus,
    )


def adoption(job_id: str, row: JobRow, adopted: int, cause: Cause) -> InstancesChanged:
    """So many surplus instances of a job are wanted from now on."""
    none: list[int] = []
    return InstancesChanged.pack(
        job_id=job_id,
        first=none,
        count=none,
        wanted=none,
        shape=none,
        instances=row.instances,
        adopted=adopted,
        cause=cause,
    )


def first_queued(job_id: str, row: JobRow, added: I64) -> GangsQueued:
    """The first runs of instances that are added."""
    first, count = stretches(added)
    zeros = np.zeros(len(first), dtype=np.int64)
    return GangsQueued.pack(
        job_ids=(job_id,),
        job=zeros,
        first=added[first],
        count=count,
        run=zeros + row.run_floor + 1,
        gang=zeros,
        admitted=zeros,
        timed=row.kind != "batch",
    )


def removal(job_id: str, removed: I64, bound: int, cause: Cause | None) -> InstancesChanged:
    """Instances leave a job, which has those below `bound` then."""
    first, count = stretches(removed)
    zeros = np.zeros(len(first), dtype=np.int64)
    return InstancesChanged.pack(
        job_id=job_id,
        first=removed[first],
        count=count,
        wanted=zeros,
        shape=zeros,
        instances=bound,
        cause=cause,
    )
