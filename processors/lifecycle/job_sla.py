"""A job gets an SLA, another one, or none."""

import numpy as np

from events.codes import TaskState
from events.columns import I64
from events.records.lifecycle import JobSlaChanged
from events.records.parts import Cause
from events.sla import has_sla
from processors.lifecycle.causes import Goal
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.rows import JobRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.tasks import Tasks
from processors.state.record_rows import SlaRow, row_of, sla_part
from processors.state.table import Table


def sla_change(
    job_id: str, row: JobRow, tasks: Tasks, max_unavailable: int | None, sla: SlaRow | None, cause: Cause
) -> JobSlaChanged | None:
    """The decision by which a job gets this SLA; None where it has that."""
    if (max_unavailable, sla) == (row.max_unavailable, row.sla):
        return None
    part = None if sla is None else sla_part(sla)
    if not has_sla(max_unavailable, sla) or has_sla(row.max_unavailable, row.sla):
        return JobSlaChanged.pack(job_id=job_id, max_unavailable=max_unavailable, cause=cause, sla=part)
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
        sla=part,
    )


def sla_changed(jobs: Table[str, JobRow], tasks: Tasks, event: JobSlaChanged) -> I64:
    """From now on sla is asked before its tasks are disrupted, or nobody is; returns those that may wait for sla no
    longer.
    """
    row = jobs.change(event.job_id)
    row.max_unavailable, row.sla = event.max_unavailable, None if event.sla is None else row_of(SlaRow, event.sla)
    protected = has_sla(row.max_unavailable, row.sla)
    slots = np.arange(row.base, row.base + row.instances)
    traits = tasks.arena["traits"][slots] & ~int(Trait.SLA)
    tasks.note("traits", slots, traits | int(Trait.SLA) if protected else traits)
    return slots[:0] if protected else slots
