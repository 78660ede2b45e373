"""A job gets an SLA, another one, or none."""

from collections.abc import Callable
from typing import Any

import numpy as np

from events.codes import Stage, TaskState
from events.columns import I64, indexed
from events.records.lifecycle import JobSlaChanged
from events.records.parts import Cause
from events.sla import has_sla
from processors.lifecycle.causes import Goal
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.lookups import among
from processors.lifecycle.rows import JobRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.tasks import Tasks
from processors.state.record_rows import SlaRow, row_of, sla_part
from processors.state.seconds import EPOCH_S
from processors.state.table import Table

_TAKEN = (Stage.DRAINING, Stage.DRAINING_BATCH, Stage.FORCING, Stage.DRAINED, Stage.CHECKING)
"""Stages of hosts that daemons leave, or have left."""
_AWAY = 2
"""In the column `wanted`: it comes back with its host."""


def sla_change(
    job_id: str,
    row: JobRow,
    tasks: Tasks,
    host: Callable[[int], tuple[str, int]],
    priority: int,
    max_unavailable: int | None,
    sla: SlaRow | None,
    cause: Cause,
) -> JobSlaChanged | None:
    """The decision by which a job of this priority gets this SLA; None where it has that. `host` says id and session
    of the number of a host.
    """
    if (max_unavailable, sla) == (row.max_unavailable, row.sla):
        return None
    part = None if sla is None else sla_part(sla)
    if not has_sla(max_unavailable, sla) or has_sla(row.max_unavailable, row.sla):
        return JobSlaChanged.pack(job_id=job_id, max_unavailable=max_unavailable, cause=cause, sla=part)
    columns = _instances(row, tasks, sla)
    there = columns.pop("there")
    first, count = stretches(there, *columns.values())
    numbers, on = indexed(columns["host"][first])
    hosts = [host(number) for number in numbers.tolist() if number]
    columns |= {name: column[first] for name, column in columns.items()}
    return JobSlaChanged.pack(
        job_id=job_id,
        max_unavailable=max_unavailable,
        instances=row.instances,
        first=there[first],
        count=count,
        run=columns["run"],
        wanted=columns["wanted"],
        cause=cause,
        sla=part,
        kind=row.kind,
        priority=priority,
        host_ids=tuple(host_id for host_id, _ in hosts),
        host_session=[session for _, session in hosts],
        host=on - (len(numbers) - len(hosts)),
        since=columns.get("since"),
    )


def _instances(row: JobRow, tasks: Tasks, sla: SlaRow | None) -> dict[str, I64]:
    """The instances that a job has, and columns of them as the record has them, but `host` by number."""
    slots = row.base + np.flatnonzero(tasks.arena["state"][row.base : row.base + row.instances] != TaskState.NONE)
    names = ("state", "run", "goal", "host", "ready", "pin")
    state, run, goal, host, ready, pin = (tasks.arena[name][slots].astype(np.int64) for name in names)
    up = state == TaskState.RUNNING
    away: Any = (host == 0) & among(tasks.stages(np.maximum(pin, 0)), _TAKEN) if row.kind == "daemon" else False
    want = np.where(goal == Goal.RUN, np.where(away, _AWAY, 1), 0)
    columns = {"there": slots - row.base, "run": np.where(up, run, 0), "wanted": want, "host": host}
    if sla is not None and sla.min_healthy_ms:
        columns["since"] = np.where(up, ready + EPOCH_S, 0)
    return columns


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
