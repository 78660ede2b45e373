"""Decisions about updates for which something changed, one thing a pass: the steps of instances first, then whether the
update is over, then which instances it takes next.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from events.codes import ENDED_TASKS, Code, Stage, TaskState, UpdateState
from events.columns import I32, I64, distinct
from events.job_ends import is_over
from events.quantities import write_ms
from events.records.base import Event
from events.records.lifecycle import (
    InstancesReturned,
    InstancesTaken,
    InstancesWanted,
    JobChanged,
    JobPriorityChanged,
    UpdateEnded,
    UpdateProgressed,
    UpdatePromoted,
    UpdateStarted,
)
from events.records.parts import Cause, UpdatePolicy
from events.sla import has_sla
from events.words import plural
from processors.lifecycle.causes import Goal
from processors.lifecycle.instance_ranges import ranges, stretches
from processors.lifecycle.job_sla import sla_change
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.task_table import WAITING
from processors.lifecycle.tasks import HELD, Tasks
from processors.lifecycle.updates.canary import Canaries, is_open
from processors.lifecycle.updates.creation import CREATE
from processors.lifecycle.updates.instances import addition, adoption, first_queued, removal
from processors.lifecycle.updates.rows import PolicyRow, UpdateRow, VersionRow
from processors.lifecycle.updates.steps import FAILED, INHERITED, STEP, TAKEN, Step, has_come
from processors.lifecycle.updates.updates import RESTART, Updates
from processors.lifecycle.updates.waits import Waits
from processors.lifecycle.updates.window import UP, Pending, most_down, next_instances, pending, room, width
from processors.state.causes import recorded

ROLL_BACK = "roll_back"
AWAY = (Stage.DRAINED, Stage.CHECKING)
"""Stages of hosts on which nothing is started."""


class Failure(NamedTuple):
    """Why an update fails, and the deadline that led to it, 0 where there is none."""

    code: Code
    message: str
    due_ms: int = 0


class UpdateDecisions:
    """Looks at the updates and says what is next; changes nothing."""

    def __init__(self, updates: Updates, tasks: Tasks, jobs: Jobs, host: Callable[[int], tuple[str, int]]) -> None:
        self._updates = updates
        self._tasks = tasks
        self._jobs = jobs
        self._host = host
        self._waits = Waits(updates, tasks, jobs)
        self._canaries = Canaries(updates, tasks, jobs)

    def all(self, now: int, caught_up: bool, limit: int) -> list[Event]:
        """The decisions about at most `limit` updates."""
        out: list[Event] = []
        numbers = self._jobs.table
        due = self._waits.due(now) if caught_up else []
        for job_id in sorted({*self._updates.touched, *due}, key=lambda job_id: numbers[job_id].number):
            if limit <= 0:
                break
            events = list(self._of(job_id, now, caught_up))
            if not events:
                self._waits.rest(job_id, now if caught_up else 0)
            out += events
            limit -= bool(events)
        return out or self._removals(limit)

    def next_due_ms(self) -> int | None:
        """When the next update goes on by time alone."""
        return self._waits.next_due_ms()

    def with_jobs(self, changes: list[JobChanged]) -> list[Event]:
        """The changes of jobs, each after the end of its update where the job has ended."""
        out: list[Event] = []
        for each in changes:
            update = self._updates.table.get(each.job_id)
            if update is not None and is_over(each):
                message = f"the job is {each.state} before the update was over"
                out.append(self._end(each.job_id, update, UpdateState.ABORTED, Code.ALREADY_ENDED, message))
            out.append(each)
        return out

    def _of(self, job_id: str, now: int, caught_up: bool) -> Iterator[Event]:
        update, version = self._updates.table[job_id], self._updates.version(job_id)
        stepped = self._stepped(job_id, update, now, caught_up)
        waits = self._canaries.is_done(job_id, update)
        if len(stepped[0]) or waits != (update.waits_ms > 0):
            yield self._progress(job_id, update, *stepped)
            return
        pulled = self._updates.image_waits.decided(job_id, update, now if caught_up else 0)
        if pulled is not None:
            yield pulled
            return
        if self._waits.rests(job_id, update):
            return
        over = self._over(job_id, update, version, now, caught_up)
        if over is not None:
            yield from over
        elif waits:
            yield from self._promotion(job_id, update, now, caught_up)
        elif update.image is None:
            yield from self._next(job_id, update, version)

    def _stepped(self, job_id: str, update: UpdateRow, now: int, caught_up: bool) -> tuple[I64, I64]:
        """The instances whose step is another one now, or that an earlier update brought down and that are up again,
        ascending, and that step. One that is stopped is done without being taken, and what leaves with its host leaves
        the update.
        """
        waits = self._waits
        looked = [*self._updates.moved.get(job_id, []), waits.coming_up(job_id), waits.for_places(job_id, update)]
        at = distinct(np.concatenate(looked))
        row = self._jobs.table[job_id]
        at = at[at < row.instances]  # some may have been removed since
        columns = ("step", "state", "goal", "failures", "pin")
        step, state, goal, failures, pin = (self._column(job_id, each)[at] for each in columns)
        again, step = step & INHERITED > 0, step & STEP
        since = waits.up_since(job_id, at)
        up = (state == TaskState.RUNNING) & (since < HELD)
        if update.policy.healthy_ms:
            up &= (update.healthy_ms(since) <= now) & caught_up
        again &= up
        up &= has_come(self._tasks.arena, row.base + at) & (goal == Goal.RUN)
        over = among(state, (*ENDED_TASKS, TaskState.NONE))
        still = (goal != Goal.RUN) & over
        if row.kind == "batch":  # what is added to a batch job is done once it is queued
            still |= state != TaskState.NONE
        bad = (failures >= update.policy.max_attempts) | (state == TaskState.FAILED)
        stuck = (step == Step.FLIGHT) & waits.too_long(job_id, update, now if caught_up else 0)[at]
        failed = np.where(bad, Step.BAD, np.where(stuck, Step.STUCK, step))
        after = np.where(up | still, Step.DONE, np.where(goal == Goal.RUN, failed, step))
        if is_open(update):  # it is to be healthy without a break
            after = np.where((after == Step.DONE) & ~(up | still), Step.FLIGHT, after)
        after = np.where(among(step, TAKEN), after, step)
        to_run = among(step, (Step.PENDING, Step.FLIGHT)) & (goal == Goal.RUN) & (at < self._updates.bound(job_id))
        after = np.where(to_run & among(state, WAITING) & self._are_away(pin), Step.LEFT, after)
        stays = over & (at < self._updates.bound(job_id))
        after = np.where(stays & (goal == Goal.STOP) & (step == Step.PENDING), Step.DONE, after)
        after = np.where(stays & (goal == Goal.REMOVE) & (step != Step.DONE), Step.NONE, after)
        differs = again | (after != step)
        self._updates.moved[job_id] = [at[differs]] if differs.any() else []
        return at[differs], after[differs]

    def _are_away(self, hosts: I32) -> Mask:
        """True for hosts that are lost, or that maintenance has taken: what is bound to one gives its place back."""
        return self._tasks.is_lost(hosts) | among(self._tasks.stages(hosts), AWAY)

    def again(self, job_id: str, update: UpdateRow, instances: I64, cause: Cause) -> tuple[Event, ...]:
        """That an update is to take instances once more: such of these as are to run and aren't being started."""
        step, goal = self._column(job_id, "step")[instances] & STEP, self._column(job_id, "goal")[instances]
        there = self._updates.differences.there(job_id)[instances] & (goal == Goal.RUN)
        idle = instances[there & among(step, (Step.NONE, Step.DONE, *FAILED))]
        if not len(idle):
            return ()
        progress = self._progress(job_id, update, idle, np.full(len(idle), Step.PENDING))
        return (msgspec.structs.replace(progress, cause=cause),)

    def _progress(self, job_id: str, update: UpdateRow, instances: I64, step: I64) -> UpdateProgressed:
        before = self._column(job_id, "step")[instances] & STEP
        counts = {each: int(np.count_nonzero(step == each)) - int(np.count_nonzero(before == each)) for each in Step}
        first, count = stretches(instances, step)
        return UpdateProgressed.pack(
            job_id=job_id,
            number=update.number,
            first=instances[first],
            count=count,
            step=step[first],
            pending=update.pending + counts[Step.PENDING],
            flight=update.flight + counts[Step.FLIGHT],
            done=update.done + counts[Step.DONE],
            bad=update.bad + sum(counts[each] for each in FAILED),
            waits=self._canaries.is_done(job_id, update) and not len(instances),
            failures_kept=is_open(update),
            cause=self._progress_cause(job_id, update, instances, step),
        )

    def _progress_cause(self, job_id: str, update: UpdateRow, instances: I64, step: I64) -> Cause:
        """The cause of other steps: the time for which instances have been available, if nothing else."""
        up = self._column(job_id, "state")[instances] == TaskState.RUNNING
        if len(instances) and (step == Step.STUCK).all():
            return Cause(due_ms=update.late_ms(int(self._column(job_id, "ready")[instances].max())))
        if not (len(instances) and update.policy.healthy_ms and (up & (step == Step.DONE)).all()):
            return update.changed_by.record
        return Cause(due_ms=update.healthy_ms(int(self._waits.up_since(job_id, instances).max())))

    def _over(
        self, job_id: str, update: UpdateRow, version: VersionRow, now: int, caught_up: bool
    ) -> Iterator[Event] | None:
        """The end of an update that has nothing left to do, or fails, and the roll-back that follows."""
        failure = self._failure(job_id, update, version, now, caught_up)
        if failure is not None:
            return self._failed(job_id, update, failure)
        if update.pending or update.flight:
            return None
        failed = f"; {update.bad} of them failed, fewer than max_failures" if update.bad else ""
        message = f"version {update.version} has reached its instances{failed}"
        return iter([self._end(job_id, update, UpdateState.SUCCEEDED, "", message)])

    def _failure(
        self, job_id: str, update: UpdateRow, version: VersionRow, now: int, caught_up: bool
    ) -> Failure | None:
        policy, canary = update.policy, is_open(update)
        most = 1 if canary else policy.max_failures
        if most and update.bad >= most:
            of, bound = (" of the canary", "none may") if canary else ("", f"max_failures is {most}")
            return Failure(Code.MAX_FAILURES, f"{self._failed_ones(job_id, update, of)}; {bound}")
        if update.flight:
            due = policy.blocked_after_ms and caught_up and now >= update.blocked_ms
            if due and (why := self._blocked(job_id, update, version)):
                return Failure(Code.BLOCKED, why, update.blocked_ms)
            return None
        if update.bad and not update.pending and not policy.max_failures:
            return Failure(Code.STALLED, f"{self._failed_ones(job_id, update)}, and no other is left")
        failing, most = self._failing(job_id, update, now if caught_up else 0), width(update, version)
        stuck = update.bad + failing
        free = self._down(job_id) or len(self._updates.missing(job_id))
        if update.pending and stuck >= most and (update.bad >= most or not free):
            before = f"{plural(failing, 'instance')} of an earlier update failed" if failing else ""
            failed = "; ".join(filter(None, (self._failed_ones(job_id, update) if update.bad else "", before)))
            return Failure(Code.STALLED, f"{failed}; {most} may be updated at a time")
        return None

    def _blocked(self, job_id: str, update: UpdateRow, version: VersionRow) -> str:
        """Why the SLA lets the update not go on; empty: it does."""
        within = f"for {write_ms(update.policy.blocked_after_ms)}"
        if deferred := len(self._waits.deferred(job_id)):
            return f"sla has let none of {plural(deferred, 'instance')} go {within}: too many others are unavailable"
        if waiting := self._waits.take_all(job_id, update, version):
            allowed = most_down(version, update.instances)
            most = f"all {allowed} that may be unavailable" if waiting > 1 else "the one that may be"
            return f"{plural(waiting, 'instance')} found no place {within}, {most}"
        return ""

    def _failed_ones(self, job_id: str, update: UpdateRow, of: str = "") -> str:
        """The instances that have failed, counted by how, as text."""
        stuck = int(np.count_nonzero(self._column(job_id, "step") & STEP == Step.STUCK))
        attempts = f"after {plural(update.policy.max_attempts, 'run')} of version {update.version}"
        parts = [f"{plural(bad, 'instance')}{of} failed {attempts}"] if (bad := update.bad - stuck) else []
        if stuck:
            deadline = f"{write_ms(update.policy.progress_deadline_ms)} ({Code.NO_PROGRESS})"
            parts.append(f"{plural(stuck, 'instance')}{of} found no place within {deadline}")
        return "; ".join(parts)

    def _failing(self, job_id: str, update: UpdateRow, now: int) -> int:
        """Counts the instances that an earlier update brought down, that this one needn't take, and that keep failing
        or find no place.
        """
        inherited = self._inherited(job_id) & (self._column(job_id, "step") & STEP == Step.NONE)
        failing = self._column(job_id, "failures") >= update.policy.max_attempts
        return int(np.count_nonzero(inherited & (failing | self._waits.too_long(job_id, update, now))))

    def _inherited(self, job_id: str) -> Mask:
        """True for instances that an earlier update brought down, are to run and aren't up again."""
        inherited: Mask = (self._column(job_id, "step") & INHERITED > 0) & (self._column(job_id, "goal") == Goal.RUN)
        return inherited

    def _pending(self, job_id: str) -> Pending:
        return pending(partial(self._column, job_id), self._updates.bound(job_id))

    def _down(self, job_id: str) -> bool:
        """Whether an instance is still to be taken that it costs nothing to take."""
        to_take = self._pending(job_id)
        return len(to_take.down) > 0 or not among(self._column(job_id, "state")[to_take.goes], UP).all()

    def _failed(self, job_id: str, update: UpdateRow, failure: Failure) -> Iterator[Event]:
        number = self._updates.differences.completed(job_id)[-1]
        cause = Cause(due_ms=failure.due_ms) if failure.due_ms else update.changed_by.record
        if not update.policy.roll_back or update.kind in (CREATE, ROLL_BACK):
            yield self.end(job_id, update, UpdateState.FAILED, failure.code, failure.message, cause)
            return
        message = f"{failure.message}; update {update.number + 1} goes back to version {number}"
        yield self.end(job_id, update, UpdateState.ROLLED_BACK, failure.code, message, cause)
        back = msgspec.structs.replace(self._updates.versions[job_id][number], policy=back_policy(update.policy))
        yield from self.start(job_id, ROLL_BACK, back, cause, like=number)

    def _end(self, job_id: str, update: UpdateRow, state: UpdateState, code: str, message: str) -> UpdateEnded:
        return self.end(job_id, update, state, code, message, update.changed_by.record)

    @staticmethod
    def end(job_id: str, update: UpdateRow, state: UpdateState, code: str, message: str, cause: Cause) -> UpdateEnded:
        """The end of an update."""
        return UpdateEnded(job_id=job_id, number=update.number, state=state, code=code, message=message, cause=cause)

    def _promotion(self, job_id: str, update: UpdateRow, now: int, caught_up: bool) -> Iterator[Event]:
        if update.policy.promote_after_ms and caught_up and now >= update.promoted_ms:
            yield UpdatePromoted(job_id=job_id, number=update.number, cause=Cause(due_ms=update.promoted_ms))

    def _next(self, job_id: str, update: UpdateRow, version: VersionRow) -> Iterator[Event]:
        """Instances that are taken now; or that are given back, where sla lets none of them go and others are down."""
        if not update.pending:
            return
        cause = update.changed_by.record
        free = room(update, version, int(np.count_nonzero(self._inherited(job_id))), self._canaries.stopped(job_id))
        if self._jobs.table[job_id].on_hold:  # what is brought down would stay down
            free = free._replace(up=0)
        if not free.all:
            waiting = self._waits.deferred(job_id)
            if len(waiting) == update.flight and self._down(job_id):
                yield InstancesReturned.pack(job_id=job_id, number=update.number, **ranges(waiting), cause=cause)
            return
        missing, state = self._updates.missing(job_id), self._column(job_id, "state")
        following = next_instances(self._pending(job_id), state, missing, free)
        row = self._jobs.table[job_id]
        if len(following.added):
            added = addition(job_id, row, version, following.added, cause)
            yield added
        taken_now = np.sort(np.concatenate(following))
        if len(taken_now):
            yield InstancesTaken.pack(job_id=job_id, number=update.number, **ranges(taken_now), cause=cause)
        if len(following.removed) and has_sla(version.max_unavailable, version.sla):
            yield InstancesWanted.pack(job_id=job_id, wanted=False, **ranges(following.removed), cause=cause)
        if len(following.added) and not added.waits:
            yield first_queued(job_id, row, following.added)

    def _removals(self, limit: int) -> list[Event]:
        """Instances that are removed and whose runs are over leave at most `limit` jobs."""
        out: list[Event] = []
        for job_id in sorted(self._updates.leaving, key=lambda job_id: self._jobs.table[job_id].number)[:limit]:
            goes, state = self._column(job_id, "goal") == Goal.REMOVE, self._column(job_id, "state")
            departed = goes & among(state, (TaskState.NONE, *ENDED_TASKS))
            departed &= among(self._column(job_id, "step") & STEP, (Step.NONE, Step.DONE))
            if not goes.any():
                del self._updates.leaving[job_id]
            if departed.any():
                remaining = np.flatnonzero(~departed & (state != TaskState.NONE))
                instances = int(remaining[-1]) + 1 if len(remaining) else 0
                leaving_by = recorded(self._jobs.table[job_id].leaving_by)
                out.append(removal(job_id, np.flatnonzero(departed), instances, leaving_by))
        return out

    def start(
        self,
        job_id: str,
        kind: str,
        version: VersionRow,
        cause: Cause,
        like: int = 0,
        jobs_offset: int = -1,
        restarted: I64 | None = None,
    ) -> Iterator[Event]:
        """A new version and the update to it. The version before may be in the middle of its own, which ends first."""
        row = self._jobs.table[job_id]
        adopted = self._updates.differences.adopted(job_id, version.instances) if restarted is None else 0
        if adopted:
            yield adoption(job_id, row, adopted, cause)
        policy = version.policy
        changed = self._updates.differences.changed(job_id, version, restarted)
        there = self._updates.differences.there(job_id)
        removed = int(np.count_nonzero(changed[version.instances :])) if restarted is None else 0
        added = self._updates.differences.lacking(job_id, version.instances) - adopted if restarted is None else 0
        yield UpdateStarted.pack(
            job_id=job_id,
            number=row.updates + 1,
            kind=kind,
            from_version=row.version,
            version=row.version + 1,
            like=like,
            jobs_offset=jobs_offset,
            spec_hash=version.spec_hash,
            policy=UpdatePolicy(**msgspec.structs.asdict(policy)),
            **(ranges(restarted) if restarted is not None else {}),
            forgotten=self._updates.differences.forgettable(job_id),
            paused=policy.start_paused,
            added=added,
            updated=int(np.count_nonzero(changed)) - removed,
            removed=removed,
            unchanged=int(np.count_nonzero(there & ~changed)),
            cause=cause,
        )
        priority = row.priority if kind == RESTART else version.priority  # `job priority` makes no version
        if priority != row.priority:
            yield JobPriorityChanged(job_id=job_id, priority=priority, cause=cause)
        sla = version.max_unavailable, version.sla
        if (changed_sla := sla_change(job_id, row, self._tasks, self._host, priority, *sla, cause)) is not None:
            yield changed_sla

    def _column(self, job_id: str, name: str) -> Any:
        return self._updates.column(job_id, name)


def back_policy(policy: PolicyRow) -> PolicyRow:
    """The policy of a roll-back or a restart: as that of updates, but at once, whole and never rolled back; it waits
    for no image, which was on hosts before.
    """
    return msgspec.structs.replace(policy, roll_back=False, canary=0, start_paused=False, prefetch=False)
