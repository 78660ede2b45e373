"""Jobs that have ended and are to run some of their tasks again: what a request needs to be for that (decision 062).

Of an ended job lifecycle keeps a digest of the specification, the state and the highest run (decision 020). All else
comes with the request, as the views have it; the digest tells that it is the job that ended.
"""

from typing import Protocol

import numpy as np

from events.bounds import RUN_MAX
from events.codes import ENDED_TASKS, Code
from events.columns import I64, ints, spread
from events.records.lifecycle import GangsQueued
from processors.lifecycle.ended_jobs import EndedJob, spec_digest
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.rows import ReopenRow, SubmittedRow


class Ranges(Protocol):
    """Ranges of instances, as columns."""

    @property
    def first(self) -> bytes:
        """The first instance of each."""
        ...

    @property
    def count(self) -> bytes:
        """The number of instances of each."""
        ...


def instances_in(ranges: Ranges) -> I64:
    """The instances of ranges of a decision or a request."""
    return spread(ints(ranges.first), ints(ranges.count))


def reopening_fault(ask: ReopenRow, ended: EndedJob, spec_hash: bytes) -> tuple[Code, str] | None:
    """Why an ended job isn't there again by a request; None: it may be, for all that the request says."""
    job = ask.spec
    if job is None or job.job_id != ask.job_id or spec_digest(spec_hash) != ended.spec:
        return Code.VERSION_CONFLICT, f"the request doesn't hold the specification that job {ask.job_id} ended with"
    if not _is_whole(ask, job):
        return Code.INVALID_SPEC, f"the request must name each of the {job.instances} instances once, and one to run"
    again = instances_in(ask)
    members = job.gang_min if job.gang_min > 1 else 0
    if 0 < np.count_nonzero(again < members) < members:
        return Code.INVALID_SPEC, f"tasks 0 to {members - 1} are a gang: they run again together"
    if job.controller and job.on_controller_end == "end" and 0 not in again:
        return Code.ALREADY_ENDED, "the controller of the job is over, and the job ends with it; start task 0 too"
    if ended.run >= RUN_MAX:
        return Code.ALREADY_ENDED, f"tasks of job {ask.job_id} have had all runs up to {ended.run}; submit another job"
    return None


def _is_whole(ask: ReopenRow, job: SubmittedRow) -> bool:
    """Whether the ranges of a request name each instance of the job once, one of them to run again."""
    columns = [ints(each).astype(np.int64) for each in (ask.first, ask.count, ask.over_first, ask.over_count)]
    first, count, over_first, over_count = columns
    states = ints(ask.over_state)
    if not len(first) or len(first) != len(count) or not len(over_first) == len(over_count) == len(states):
        return False
    starts, counts = np.concatenate([first, over_first]), np.concatenate([count, over_count])
    if not np.isin(states, ENDED_TASKS).all() or starts.min() < 0 or counts.min() < 1:
        return False
    order = np.argsort(starts, kind="stable")
    ends = (starts + counts)[order]
    return bool((ends[:-1] == starts[order][1:]).all()) and starts.min() == 0 and int(ends[-1]) == job.instances


def queued_again(jobs: list[tuple[SubmittedRow, I64, int]]) -> GangsQueued | None:
    """Tasks of jobs that are there again, with their next run: a gang or a controller as one, the others as ranges. Of
    a job with `max_running` only its gang, the others go by its gate. None: there are none.
    """
    parts: list[tuple[int, int, int, int, int]] = []
    for number, (job, again, run) in enumerate(jobs):
        members = job.gang_min if job.gang_min > 1 else 0
        if members and again[0] == 0:
            parts.append((number, 0, members, run, 1))
        if job.max_running:
            continue
        if job.controller and again[0] == 0:
            parts.append((number, 0, 1, run, 0))
        rest = again[again >= max(members, int(job.controller))]
        first, count = stretches(rest)
        parts += [(number, at, size, run, 0) for at, size in zip(rest[first].tolist(), count.tolist(), strict=True)]
    if not parts:
        return None
    job_, first_, count_, run_, gang = zip(*parts, strict=True)
    zeros, job_ids = [0] * len(parts), tuple(job.job_id for job, _, _ in jobs)
    return GangsQueued.pack(job_ids=job_ids, job=job_, first=first_, count=count_, run=run_, gang=gang, admitted=zeros)
