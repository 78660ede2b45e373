"""The decisions that accept a job: its acceptance, for the other machines, and its first runs."""

from collections.abc import Sequence

from events.records.lifecycle import GangsQueued, JobAccepted
from processors.lifecycle.rows import SubmittedRow
from processors.lifecycle.shapes import task_shapes
from processors.lifecycle.stateful import STATEFUL
from processors.state.record_rows import sla_part


def accepted(offset: int, job: SubmittedRow, first_run: int) -> JobAccepted:
    """The acceptance of a job, with all that the other machines need of it."""
    shapes = task_shapes(job)
    is_firm = job.kind == "batch" and (not job.preemptible or job.on_preempt == "fail")
    return JobAccepted(
        job_id=job.job_id,
        jobs_offset=offset,
        pool=job.pool,
        kind=job.kind,
        instances=job.instances,
        shapes=shapes.shapes,
        priority=job.priority,
        preemptible=job.preemptible,
        controller=job.controller,
        gang_min=job.gang_min if job.gang_min > 1 else 0,
        max_running=job.max_running,
        max_unavailable=job.max_unavailable,
        first_run=first_run,
        first=shapes.first,
        count=shapes.count,
        shape=shapes.shape,
        labels=job.labels,
        sla=None if job.sla is None else sla_part(job.sla),
        longest_ms=_longest_ms(job) if is_firm else 0,
    )


def _longest_ms(job: SubmittedRow) -> int:
    """The most time that a run takes which is not to be disturbed; -1: it is not known."""
    if not job.max_runtime_ms:
        return -1
    return job.start_deadline_ms + job.max_runtime_ms + job.stop_grace_ms


def first_queued(jobs: Sequence[tuple[SubmittedRow, int]]) -> GangsQueued:
    """All gangs of jobs at their first run: of each job its gang or its controller as one, the others as a range; of a
    stateful job its first instance. Those of a job with `max_running` go by its gate, its gang aside.
    """
    parts: list[tuple[int, int, int, int, int]] = []
    for number, (job, first_run) in enumerate(jobs):
        members = job.gang_min if job.gang_min > 1 else 0
        if members:
            parts.append((number, 0, members, first_run, 1))
        if job.max_running:
            continue
        if job.controller or job.kind == STATEFUL:
            parts.append((number, 0, 1, first_run, 0))
        alone = job.instances if job.kind == STATEFUL else members or int(job.controller)
        if alone < job.instances:
            parts.append((number, alone, job.instances - alone, first_run, 0))
    number_, first, count, run, gang = zip(*parts, strict=True)
    zeros, job_ids = [0] * len(parts), tuple(job.job_id for job, _ in jobs)
    return GangsQueued.pack(
        job_ids=job_ids,
        job=number_,
        first=first,
        count=count,
        run=run,
        gang=gang,
        admitted=zeros,
        timed=any(job.kind != "batch" for job, _ in jobs),
    )
