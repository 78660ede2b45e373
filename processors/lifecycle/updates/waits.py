"""What updates wait for: that a time passes, that instances are up for long enough, or that sla lets them go."""

import numpy as np

from events.codes import TaskState
from events.columns import I64
from processors.lifecycle.causes import EndCause, SlaVerdict
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.creation import CREATE
from processors.lifecycle.updates.rows import UpdateRow
from processors.lifecycle.updates.steps import INHERITED, STEP, Step, has_come
from processors.lifecycle.updates.updates import Updates
from processors.state.seconds import milliseconds

NOBODY: I64 = np.zeros(0, dtype=np.int64)


class Waits:
    """Looks at the updates; when one goes on by time alone is found once, when nothing else is to be decided of it."""

    def __init__(self, updates: Updates, tasks: Tasks, jobs: Jobs) -> None:
        self._updates = updates
        self._tasks = tasks
        self._jobs = jobs

    def due(self, now: int) -> list[str]:
        """The jobs whose updates go on by time now."""
        return [job_id for job_id, due_ms in self._updates.due_ms.items() if due_ms <= now]

    def next_due_ms(self) -> int | None:
        """When the next update goes on by time alone."""
        times = self._updates.due_ms | {job_id: self._due_ms(job_id) for job_id in self._updates.touched}
        return min((time for time in times.values() if time is not None), default=None)

    def rest(self, job_id: str) -> None:
        """Nothing is to be decided of an update until something happens to it, or its time comes."""
        self._updates.touched.pop(job_id, None)
        due_ms = self._due_ms(job_id)
        if due_ms is None:
            self._updates.due_ms.pop(job_id, None)
        else:
            self._updates.due_ms[job_id] = due_ms

    def _due_ms(self, job_id: str) -> int | None:
        update = self._updates.table[job_id]
        policy, times = update.policy, []
        if policy.healthy_ms:
            up = self.coming_up(job_id)
            if len(up):
                since = int(self._updates.column(job_id, "ready")[up].min())
                times.append(milliseconds(since) + policy.healthy_ms)
        if self.rests(job_id, update):
            return min(times, default=None)
        if update.waits_ms and policy.promote_after_ms:
            times.append(update.waits_ms + policy.promote_after_ms)
        if policy.blocked_after_ms and len(self.deferred(job_id)):
            times.append(update.progressed_ms + policy.blocked_after_ms)
        return min(times, default=None)

    def rests(self, job_id: str, update: UpdateRow) -> bool:
        """Whether nothing is taken or concluded: it is paused, or all ends: an update ends with a job that is over
        then, and what isn't created yet waits until the job is started.
        """
        row = self._jobs.table[job_id]
        waits = row.deleting or row.kind == "batch" or update.kind == CREATE
        return update.paused or row.controller_over or (row.stopping and waits)

    def coming_up(self, job_id: str) -> I64:
        """Instances that run the new version and haven't done so for long enough yet; and those that an earlier update
        brought down, which are up for as long.
        """
        step = self._updates.column(job_id, "step")
        row = self._jobs.table[job_id]
        taken = among(step & STEP, (Step.FLIGHT, Step.BAD))
        taken &= has_come(self._tasks.arena, np.arange(row.base, row.base + row.instances))
        running = self._updates.column(job_id, "state") == TaskState.RUNNING
        return np.flatnonzero((taken | (step & INHERITED > 0)) & running)

    def deferred(self, job_id: str) -> I64:
        """Instances that are taken and that sla doesn't let go."""
        if self._jobs.table[job_id].max_unavailable is None:
            return NOBODY
        step, verdict = self._updates.column(job_id, "step") & STEP, self._updates.column(job_id, "verdict")
        causes = self._updates.column(job_id, "causes") & EndCause.UPDATE
        return np.flatnonzero((step == Step.FLIGHT) & (verdict == SlaVerdict.DEFERRED) & (causes > 0))
