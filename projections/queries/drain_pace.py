"""The budget of one job that bounds how fast hosts are emptied, in words."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from events.quantities import write_ms
from projections.queries.host_maintenance import BOUND_KINDS, HostTask


def slowest(tasks: Sequence[HostTask], allowed_by_job: Mapping[str, int | None]) -> tuple[str, int]:
    """The budget that takes longest alone to let tasks leave their hosts, in words, and its seconds; empty: none bounds
    it. `allowed_by_job`: so many instances may be unavailable on purpose, None: the job has no SLA.
    """
    moves: defaultdict[str, int] = defaultdict(int)
    starts: defaultdict[str, list[int]] = defaultdict(list)
    jobs = {task.job.job_id: task.job for task in tasks}
    for task in tasks:
        moves[task.job.job_id] += 1
        if task.started_s >= task.ordered_s > 0:
            starts[task.job.job_id].append(task.started_s - task.ordered_s)
    worst, text = 0, ""
    for job_id, job in jobs.items():
        allowed = allowed_by_job.get(job_id)
        if not allowed or job.kind == "batch" or job.kind in BOUND_KINDS:
            continue
        each_s = max(1, -(-sum(starts[job_id]) // max(1, len(starts[job_id]))))
        total_s = -(-moves[job_id] // allowed) * each_s
        if total_s > worst:
            worst = total_s
            alone = f"{each_s} s each: {_rounded(total_s)} for it alone"
            text = f"{job_id} may lose {allowed} of {job.tasks} at a time, {alone}"
    return text, worst


def _rounded(seconds: int) -> str:
    """A time in words, in whole minutes where it is longer than some."""
    return write_ms(seconds * 1000) if seconds < 180 else f"{-(-seconds // 60)} minutes"
