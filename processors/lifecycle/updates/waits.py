"""The waits of updates: until a time passes, until instances are up for long enough, or until sla lets them go."""

import numpy as np

from events.codes import Stage, TaskState
from events.columns import I64
from events.sla import has_sla
from processors.lifecycle.causes import EndCause, Goal, SlaVerdict
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.tasks import HELD, Tasks
from processors.lifecycle.updates.creation import CREATE
from processors.lifecycle.updates.rows import UpdateRow, VersionRow
from processors.lifecycle.updates.steps import INHERITED, OPEN, STEP, Step, has_come
from processors.lifecycle.updates.updates import Updates
from processors.lifecycle.updates.window import most_down, width

NOBODY: I64 = np.zeros(0, dtype=np.int64)


class Waits:
    """Looks at the updates; when one goes on by time alone is found once, when nothing else is to be decided of it."""

    def __init__(self, updates: Updates, tasks: Tasks, jobs: Jobs) -> None:
        self._updates = updates
        self._tasks = tasks
        self._jobs = jobs

    def due(self, now: int) -> list[str]:
        """The jobs whose updates go on by time now."""
        return self._updates.deadlines.due(now)

    def next_due_ms(self) -> int | None:
        """When the next update goes on by time alone."""
        updates = self._updates
        for job_id in updates.touched:
            updates.deadlines.set(job_id, self._due_ms(job_id, 0))
        return updates.deadlines.first()

    def rest(self, job_id: str, now: int) -> None:
        """Nothing is to be decided of an update until something happens to it, or its time comes."""
        self._updates.touched.pop(job_id, None)
        self._updates.deadlines.set(job_id, self._due_ms(job_id, now))

    def _due_ms(self, job_id: str, now: int) -> int | None:
        update = self._updates.table[job_id]
        policy, times = update.policy, []
        if policy.healthy_ms:
            since = self.up_since(job_id, self.coming_up(job_id))
            if len(since := since[since < HELD]):
                times.append(update.healthy_ms(int(since.min())))
        if update.image is not None:
            times.append(update.image.due_ms)
        if self.rests(job_id, update):
            return min(times, default=None)
        since = self._updates.column(job_id, "ready")[self.for_places(job_id, update)].astype(np.int64)
        late = update.late_ms(since)
        times += [int(late.min())] if len(late := late[late > now]) else []  # those left down may be late already
        if update.waits_ms and policy.promote_after_ms:
            times.append(update.promoted_ms)
        if policy.blocked_after_ms and (
            len(self.deferred(job_id)) or self.take_all(job_id, update, self._updates.version(job_id))
        ):
            times.append(update.blocked_ms)
        return min(times, default=None)

    def rests(self, job_id: str, update: UpdateRow) -> bool:
        """Whether nothing is taken or concluded: it is paused, or all ends: an update ends with a job that is over
        then, and what isn't created yet waits until the job is started.
        """
        row = self._jobs.table[job_id]
        waits = row.deleting or row.kind == "batch" or update.kind == CREATE
        return update.paused or row.controller_over or (row.stopping and waits)

    def up_since(self, job_id: str, instances: I64) -> I64:
        """For each of some instances that run since when it is known to; HELD: its host is silent."""
        heard_since = self._tasks.heard_since(self._updates.column(job_id, "host")[instances])
        since: I64 = np.maximum(self._updates.column(job_id, "ready")[instances], heard_since)
        return since

    def coming_up(self, job_id: str) -> I64:
        """Instances that run the new version and haven't done so for long enough yet; and those that an earlier update
        brought down, which are up for as long.
        """
        step = self._updates.column(job_id, "step")
        row = self._jobs.table[job_id]
        in_update = among(step & STEP, OPEN)
        in_update &= has_come(self._tasks.arena, np.arange(row.base, row.base + row.instances))
        in_update &= self._updates.column(job_id, "goal") == Goal.RUN
        running = self._updates.column(job_id, "state") == TaskState.RUNNING
        return np.flatnonzero((in_update | (step & INHERITED > 0)) & running)

    def for_places(self, job_id: str, update: UpdateRow) -> I64:
        """Instances that are taken, or were left down by an earlier update, and that wait for a place alone, where that
        may last only so long.
        """
        if not update.policy.progress_deadline_ms or self.rests(job_id, update):
            return NOBODY
        queued = np.flatnonzero(self._updates.column(job_id, "state") == TaskState.QUEUED)  # few of all, as a rule
        step = self._updates.column(job_id, "step")[queued]
        queued = queued[(step & STEP == Step.FLIGHT) | (step & INHERITED > 0)]
        waiting: I64 = queued[self._lack_a_place(job_id, queued)]
        return waiting

    def _lack_a_place(self, job_id: str, instances: I64) -> Mask:
        """True for instances that wait for a place alone, and not for a host, silent or in maintenance, that they are
        bound to.
        """
        waits: Mask = self._updates.column(job_id, "state")[instances] == TaskState.QUEUED
        waits &= self._updates.column(job_id, "ready")[instances] > 0
        pin = self._updates.column(job_id, "pin")[instances]
        waits &= (self._tasks.heard_since(pin) < HELD) & (self._tasks.stages(pin) <= Stage.CORDONED)
        return waits

    def take_all(self, job_id: str, update: UpdateRow, version: VersionRow) -> int:
        """Counts instances without a place, if they take all that the SLA leaves the update; 0: it leaves it more."""
        most = most_down(version, update.instances)
        if not most or not update.pending or width(update, version) < most or update.flight + update.bad < most:
            return 0
        flight = np.flatnonzero(self._updates.column(job_id, "step") & STEP == Step.FLIGHT)
        lacking = int(np.count_nonzero(self._lack_a_place(job_id, flight)))
        return lacking if lacking == update.flight else 0

    def too_long(self, job_id: str, update: UpdateRow, now: int) -> Mask:
        """True for instances that have waited for a place for as long as they may."""
        late = np.zeros(self._jobs.table[job_id].instances, dtype=np.bool_)
        waiting = self.for_places(job_id, update)
        since = self._updates.column(job_id, "ready")[waiting].astype(np.int64)
        late[waiting] = update.late_ms(since) <= now
        return late

    def deferred(self, job_id: str) -> I64:
        """Instances that are taken and that sla doesn't let go."""
        row = self._jobs.table[job_id]
        if not has_sla(row.max_unavailable, row.sla):
            return NOBODY
        step, verdict = self._updates.column(job_id, "step") & STEP, self._updates.column(job_id, "verdict")
        causes = self._updates.column(job_id, "causes") & EndCause.UPDATE
        return np.flatnonzero((step == Step.FLIGHT) & (verdict == SlaVerdict.DEFERRED) & (causes > 0))
