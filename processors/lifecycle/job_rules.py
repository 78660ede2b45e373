"""Rules of a job: from its specification for its runs, and from its row for its state and its tasks."""

from collections.abc import Mapping
from itertools import compress
from typing import Any

from events.codes import ENDED_TASKS, JobState, TaskState
from events.sla import has_sla
from processors.lifecycle.alike import RULES, once
from processors.lifecycle.rows import JobRow, SubmittedRow
from processors.lifecycle.task_rules import RETRIES_SHIFT, Trait

STOP_LATE_MS = 60_000
"""A run that isn't over so long after the grace of its stop hasn't obeyed."""


@once(RULES)
def run_rules(job: SubmittedRow) -> dict[str, Any]:
    """The fields of its row that its runs go by; an update may change them."""
    graces = (job.stop_grace_ms, *(each.stop_grace_ms or 0 for each in job.overrides))
    return {
        "max_runtime_ms": job.max_runtime_ms,
        "health": job.health is not None,
        "start_deadline_ms": job.start_deadline_ms,
        "stop_deadline_ms": max(graces) + STOP_LATE_MS,
        "retries_system": job.retries_system,
        "max_running": job.max_running,
    }


_SUCCEEDED, _FAILED, _KILLED = map(int, ENDED_TASKS)
_RUNNING = int(TaskState.RUNNING)
_OF_CONTROLLER: Mapping[int, JobState] = {TaskState.SUCCEEDED: JobState.SUCCEEDED, TaskState.FAILED: JobState.FAILED}


def job_state(row: JobRow) -> JobState:
    """The state of a job from the counts of its tasks; the first rule that holds (Peloton B.1)."""
    counts, total = row.counts, row.instances - row.removed
    if not total:
        return JobState.KILLED if row.stopping else JobState.PENDING
    succeeded, failed, killed = counts[_SUCCEEDED], counts[_FAILED], counts[_KILLED]
    if row.controller and succeeded + failed + killed >= total:
        return _OF_CONTROLLER.get(row.controller_state, JobState.KILLED)
    if succeeded >= total:
        return JobState.SUCCEEDED
    if succeeded + failed >= total:
        return JobState.FAILED
    if succeeded + failed + killed >= total:
        return JobState.KILLED
    if row.stopping:
        return JobState.KILLING
    begun = counts[_RUNNING] or (row.kind == "batch" and succeeded + failed)  # an array isn't PENDING between its tasks
    return JobState.RUNNING if begun else JobState.PENDING


_TRAITS = tuple(map(int, (Trait.STATELESS, Trait.SLA, Trait.GANG, Trait.PREEMPT_FAILS, Trait.GATED, Trait.HEALTH)))
"""Those that follow from its job."""


def traits(row: JobRow, gang: bool) -> int:
    """The column `traits` of a task, as far as it follows from its job."""
    has = (row.kind != "batch", has_sla(row.max_unavailable, row.sla), gang, row.preempt_fails, row.gated, row.health)
    return sum(compress(_TRAITS, has)) | min(row.retries_max, 1 << 21) << RETRIES_SHIFT
