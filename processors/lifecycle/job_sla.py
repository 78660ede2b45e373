"""A job gets an SLA, another one, or none."""

import numpy as np

from events.codes import TaskState
from events.columns import I64
from events.records.lifecycle import JobSlaChanged
from events.records.parts import Cause
from processors.lifecycle.causes import Goal
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.rows import JobRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.tasks import Tasks
from processors.state.table import Table


def sla_change(
    job_id: str, row: JobRow, tasks: Tasks, max_unavailable: int | None, cause: Cause
) -> JobSlaChanged | None:
    """The decision by which `max_unavailable` becomes the SLA of a job; None where the job has that."""
    if max_unavailable == row.max_unavailable:
        return None
    if max_unavailable is None or row.max_unavailable is not None:
        return JobSlaChanged.pack(job_id=job_id, max_unavailable=max_unavailable, cause=cause)
    stretch = slice(row.base, row.base + row.instances)
    state, run, goal = (tasks.arena[column][stretch] for column in ("state", "run", "goal"))
    there = np.flatnonzero(state != TaskState.NONE)
    available = np.where(state == TaskState.RUNNING, run, 0)[there]
    to_run = (goal == Goal.RUN)[there].astype(np.int64)
    first, count = stretches(there, available, to_run)
    return JobSlaChanged.pack(
        job_id=job_id,
        max_unavailable=max_unavailable,
        instances=row.instances,
        first=there[first],
        count=count,
        run=available[first],
        wanted=to_run[first],
        cause=cause,
    )


def sla_changed(jobs: Table[str, JobRow], tasks: Tasks, event: JobSlaChanged) -> I64:
    """From now on sla is asked before its tasks are disrupted, or nobody is; returns those that may wait for sla no
    longer.
    """
    row = jobs.change(event.job_id)
    row.max_unavailable = event.max_unavailable
    slots = np.arange(row.base, row.base + row.instances)
    traits = tasks.arena["traits"][slots] & ~int(Trait.SLA)
    tasks.note("traits", slots, traits if event.max_unavailable is None else traits | int(Trait.SLA))
    return slots if event.max_unavailable is None else slots[:0]
