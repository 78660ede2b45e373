"""Updates: their rows, the steps of instances, and what decisions about them do."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from events.codes import TaskState, UpdateState
from events.columns import I64, distinct
from events.records.lifecycle import (
    InstancesReturned,
    InstancesTaken,
    UpdateEnded,
    UpdateImagePulled,
    UpdatePaused,
    UpdateProgressed,
    UpdatePromoted,
    UpdateStarted,
)
from events.records.parts import TaskShape
from processors.lifecycle.causes import Goal
from processors.lifecycle.instance_ranges import named
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.rows import AskRow, SubmittedRow, UpdateAskRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import PLACED, TaskEvent
from processors.lifecycle.tasks import HELD, Tasks
from processors.lifecycle.updates.creation import CREATE
from processors.lifecycle.updates.differences import Differences
from processors.lifecycle.updates.image_waits import ImageWaits
from processors.lifecycle.updates.place_waits import PlaceWaits
from processors.lifecycle.updates.rows import AskedRow, PolicyRow, UpdateRow, VersionRow
from processors.lifecycle.updates.steps import INHERITED, MORE, OPEN, RESHAPED, STEP, Step
from processors.lifecycle.updates.versions import asks_more, asks_of, task_shape, version_row
from processors.lifecycle.updates.window import UP
from processors.state.deadlines import Deadlines
from processors.state.handlers import Row
from processors.state.record_rows import row_of
from processors.state.table import Table, struct_table

QUEUED = (TaskState.QUEUED, PLACED)
RESTART = "restart"


class Updates:
    """The versions of all jobs and the updates in progress. `touched` are jobs of which something changed that the next
    step of their update may depend on.
    """

    def __init__(
        self,
        tasks: Tasks,
        jobs: Jobs,
        asks: Table[int, AskRow],
        whole: Callable[[SubmittedRow], SubmittedRow],
        host_id: Callable[[int], str],
    ) -> None:
        self.versions: Table[str, dict[int, VersionRow]] = struct_table("versions", dict[int, VersionRow])
        self.table: Table[str, UpdateRow] = struct_table("updates", UpdateRow)
        self.differences = Differences(jobs.table, self.versions, self.column)
        self.touched: dict[str, None] = {}
        self.moved: dict[str, list[I64]] = {}
        """The instances of each job that its update concerns and whose state has changed."""
        self.deadlines: Deadlines[str] = Deadlines()
        """When updates go on by time alone, of those that aren't touched and that time matters to."""
        self.leaving: dict[str, None] = {}
        """Jobs with instances that are being removed."""
        self._tasks = tasks
        self._jobs = jobs
        self._asks = asks
        self._whole = whole
        self.place_waits = PlaceWaits(tasks, jobs, self._wait_otherwise)
        self.image_waits = ImageWaits(tasks, jobs, self.table, self.differences, host_id, self.touch)
        jobs.on_move = self._moved
        self.rows: tuple[Row, ...] = (
            (UpdateStarted, self._started),
            (InstancesTaken, self._taken),
            (InstancesReturned, self._returned),
            (UpdateProgressed, self._progressed),
            (UpdateImagePulled, self._pulled),
            (UpdatePaused, self._paused),
            (UpdatePromoted, self._promoted),
            (UpdateEnded, self._ended),
            *self.image_waits.rows,
        )

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All of it."""
        return (self.versions, self.table, self.image_waits.table)

    def restored(self) -> None:
        """Looks at all updates, and at all instances of theirs."""
        self.touched = dict.fromkeys(self.table)
        self.moved = {}
        self.deadlines.restore(())
        removed = np.flatnonzero(self._tasks.arena["goal"] == Goal.REMOVE)
        self.leaving = {self._jobs.at[base]: None for base in distinct(self._owners(removed)).tolist()}
        for job_id in self.table:
            self.moved[job_id] = [np.flatnonzero(self.column(job_id, "step") & STEP)]

    def _owners(self, slots: I64) -> I64:
        """The bases of the jobs of slots."""
        owners: I64 = self._tasks.arena["owner"][slots].astype(np.int64) - 1
        return owners

    def column(self, job_id: str, name: str) -> Any:
        """A column of a job, by instance."""
        row = self._jobs.table[job_id]
        return self._tasks.arena[name][row.base : row.base + row.instances]

    def version(self, job_id: str) -> VersionRow:
        """The newest version of a job."""
        return self.versions[job_id][self._jobs.table[job_id].version]

    def preemptible(self, job_id: str) -> bool:
        """Whether tasks of a job may be preempted; no update changes that."""
        return "preemptible" in self.version(job_id).fields

    def made(self, job: SubmittedRow, spec_hash: bytes) -> VersionRow:
        """The version that a specification makes of a job that is there, with all its overrides."""
        return version_row(self._whole(job), spec_hash)

    def accepted(self, job_id: str, job: SubmittedRow, spec_hash: bytes) -> None:
        """A job is there: its specification is its first version."""
        self.versions.put(job_id, {1: version_row(self._whole(job), spec_hash, completed=True)})

    def dropped(self, job_id: str) -> None:
        """A job has ended, and its update before it."""
        self.versions.remove(job_id)
        self.leaving.pop(job_id, None)

    # What happens to instances.

    def _moved(self, slots: I64) -> None:
        """Tasks went to another state."""
        if not len(self.table):
            return
        arena = self._tasks.arena
        stepped = slots[arena["step"][slots] > 0]
        for base in distinct(arena["owner"][stepped] - 1).tolist():
            job_id = self._jobs.at[base]
            if job_id in self.table:
                mine = stepped[arena["owner"][stepped] == base + 1]
                self.touch(job_id)
                self.moved.setdefault(job_id, []).append(mine - base)

    def _wait_otherwise(self, slots: I64) -> None:
        """Tasks wait for nothing but a place from now on, or no longer: by when they must have one is a deadline."""
        if len(self.table):
            jobs = (self._jobs.at[base] for base in distinct(self._owners(slots)).tolist())
            self.touched |= {job_id: None for job_id in jobs if job_id in self.table}

    def touch(self, job_id: str) -> None:
        """Something changed that the update of a job may depend on, if it has one."""
        if job_id in self.table:
            self.table.change(job_id).changed_by = self._tasks.input.cause
            self.touched[job_id] = None

    def deferred(self, slots: I64) -> None:
        """Sla defers the disruption of these runs."""
        self._moved(slots)

    def host_changed(self, host: int, slots: I64, now: int) -> None:
        """A host is heard again, silent, lost, or in another stage of maintenance: `slots` have runs there, others may
        be bound to it.
        """
        self._moved(slots)
        for job_id in self.table:
            if self._jobs.table[job_id].kind == "stateless":
                continue  # nobody is bound to a host
            bound = np.flatnonzero(self.column(job_id, "pin") == host)
            if not len(bound):
                continue
            self.place_waits.begin_anew(bound + self._jobs.table[job_id].base, now)
            self._moved(bound + self._jobs.table[job_id].base)

    def queued(self, slots: I64) -> None:
        """These runs are queued: they are of the version that was meant to be next."""
        arena = self._tasks.arena
        self._become(slots[arena["version"][slots] != arena["target"][slots]])
        step = arena["step"][slots]
        if step.any():
            arena.set("step", slots, step & ~(RESHAPED | MORE))

    def _become(self, slots: I64) -> None:
        """The present runs of these tasks, which haven't been ordered, are of the version that is their target."""
        arena = self._tasks.arena
        target, base = arena["target"][slots], self._owners(slots)
        for owner, number in sorted({*zip(base.tolist(), target.tolist(), strict=True)}):
            mine = slots[(base == owner) & (target == number)]
            health = Trait.HEALTH if self.versions[self._jobs.at[owner]][number].rules["health"] else 0
            arena.put(mine, version=number, traits=arena["traits"][mine] & ~int(Trait.HEALTH) | health)

    # What decisions do.

    def _started(self, event: UpdateStarted, now: int) -> None:
        job_id, row = event.job_id, self._jobs.table.change(event.job_id)
        versions = self.versions.change(job_id)
        version = self._new_version(event, versions)
        changed = differs = self.differences.changed(job_id, version)
        lacking = self.differences.lacking(job_id, version.instances)
        if event.kind == RESTART:
            changed, lacking = self.differences.changed(job_id, version, named(event, row.instances)), 0
        for number in event.forgotten_array.tolist():
            del versions[number]
        versions[event.version] = version
        row.version, row.updates = event.version, event.number
        row.ports = max(row.ports, *(each.ports for each in version.asks))
        run_limit = row.max_runtime_ms
        for name, value in version.rules.items():
            setattr(row, name, value)
        self._jobs.gate_changed(job_id)
        if row.max_runtime_ms != run_limit:
            self._jobs.run_limit_changed(job_id)
        arena, slots = self._tasks.arena, np.arange(row.base, row.base + row.instances)
        arena.set("target", slots[~changed & ~differs], event.version)
        self._ask_anew(job_id, slots[~changed & ~differs & self.differences.there(job_id)], event.version)
        arena.set("step", slots[changed], (arena["step"][slots[changed]] & ~STEP) | Step.PENDING)
        self.table.put(
            job_id,
            UpdateRow(
                number=event.number,
                kind=event.kind,
                from_version=event.from_version,
                version=event.version,
                policy=version.policy,
                changed_by=self._tasks.input.cause,
                progressed_ms=now,
                pending=int(np.count_nonzero(changed)) + lacking,
                paused=event.paused,
            ),
        )
        self.moved[job_id] = [np.flatnonzero(changed)]
        self.touched[job_id] = None

    def _ask_anew(self, job_id: str, slots: I64, number: int) -> None:
        """Runs that go on as they are may ask something else next time: another way to choose the host."""
        step = self._tasks.arena["step"][slots] & ~(RESHAPED | MORE)
        self._tasks.arena.set("step", slots, step | self._reshaped(job_id, slots, number))

    def _new_version(self, event: UpdateStarted, versions: dict[int, VersionRow]) -> VersionRow:
        policy = row_of(PolicyRow, event.policy)
        if event.kind == CREATE:
            return versions[event.version]
        if event.like:
            return msgspec.structs.replace(versions[event.like], policy=policy, completed=False)
        ask = self._asks[event.jobs_offset]
        assert isinstance(ask.fact, UpdateAskRow)
        assert ask.fact.spec is not None
        return self.made(ask.fact.spec, ask.spec_hash)

    def _taken(self, event: InstancesTaken, now: int) -> None:
        row, update = self._jobs.table[event.job_id], self._change(event, now)
        instances = named(event, row.instances)
        slots, arena = row.base + instances, self._tasks.arena
        leave = instances >= self.bound(event.job_id)
        self._aim(event.job_id, slots[~leave])
        if leave.any():
            self.leave(event.job_id)
            self._tasks.record_event(TaskEvent.REMOVE, slots[leave])
            arena.set("goal", slots[leave], Goal.REMOVE)
        arena.set("step", slots, (arena["step"][slots] & ~(STEP | INHERITED)) | Step.FLIGHT)
        self.place_waits.begin_anew(slots, now)
        update.pending -= len(slots)
        update.flight += len(slots)
        assert update.pending >= 0, event.job_id
        self.moved.setdefault(event.job_id, []).append(instances)

    def leave(self, job_id: str) -> None:
        """Instances are to leave a job as soon as their runs are over."""
        self._jobs.table.change(job_id).leaving_by = self._tasks.input.cause
        self.leaving[job_id] = None

    def bound(self, job_id: str) -> int:
        """The number of instances that an update is to leave a job with: a restart removes none."""
        is_restart = self.table[job_id].kind == RESTART
        return self._jobs.table[job_id].instances if is_restart else self.version(job_id).instances

    def missing(self, job_id: str) -> I64:
        """The instances that an update is still to add: a restart adds none."""
        if self.table[job_id].kind == RESTART:
            return np.zeros(0, dtype=np.int64)
        return self.differences.missing(job_id, self.version(job_id).instances)

    def _aim(self, job_id: str, slots: I64) -> None:
        """Gives instances the version of their next run: that of the update, or, where they run something else and are
        only to be restarted, the one that they have.
        """
        update = self.table[job_id]
        target = np.full(len(slots), update.version)
        if update.kind == RESTART:
            other = self.differences.changed(job_id, self.version(job_id))[slots - self._jobs.table[job_id].base]
            target[other] = self._tasks.arena["target"][slots[other]]
        for number in distinct(target).tolist():
            self._aim_at(job_id, slots[target == number], number)

    def _aim_at(self, job_id: str, slots: I64, number: int) -> None:
        """The next runs of instances are of a version. A run that waits may be of it at once, if that asks the same of
        pool and host; one that was ordered, or is to ask something else, ends for it.
        """
        arena = self._tasks.arena
        slots = slots[arena["traits"][slots] & Trait.BEGUN == 0]  # some may have begun since they were to be changed
        state, backoff = arena["state"][slots], arena["state"][slots] == TaskState.BACKOFF
        reshaped = self._reshaped(job_id, slots, number)
        arena.put(slots, target=number, failures=0, step=(arena["step"][slots] & ~(RESHAPED | MORE)) | reshaped)
        self._become(slots[among(state, QUEUED) & (reshaped == 0)])
        self._tasks.note("due", slots[backoff & (arena["due"][slots] != HELD)], 0)
        again = (among(state, QUEUED) & (reshaped > 0)) | (
            backoff & (arena["admitted"][slots] > 0) & (reshaped & MORE > 0)
        )
        ends = among(state, UP) | again
        self._tasks.record_event(TaskEvent.UPDATE, slots[ends])

    def _reshaped(self, job_id: str, slots: I64, number: int) -> I64:
        """For each task whether it asks something else in another version than in that of its present run, as flags."""
        row, versions = self._jobs.table[job_id], self.versions[job_id]
        at, before = slots - row.base, self._tasks.arena["version"][slots]
        after = asks_of(versions[number], row.instances)[at]
        flags = np.zeros(len(slots), dtype=np.int64)
        for each in distinct(before).tolist():
            if each == number or each not in versions:
                continue
            pairs = [[_difference(a, b) for b in versions[number].asks] for a in versions[each].asks]
            mine = before == each
            flags[mine] = np.array(pairs)[asks_of(versions[each], row.instances)[at[mine]], after[mine]]
        return flags

    def new_shapes(self, slots: I64) -> tuple[tuple[TaskShape, ...], I64]:
        """The shapes that tasks which are queued now have from this run on, and for each the index of its own; -1: it
        keeps that of before.
        """
        arena = self._tasks.arena
        shapes: list[TaskShape] = []
        index = np.full(len(slots), -1, dtype=np.int64)
        reshaped = arena["step"][slots] & RESHAPED > 0
        for base in distinct(self._owners(slots[reshaped])).tolist():
            job_id, mine = self._jobs.at[base], reshaped & (arena["owner"][slots] == base + 1)
            target = arena["target"][slots]
            for number in distinct(target[mine]).tolist():
                version, these = self.versions[job_id][number], mine & (target == number)
                shape_index = asks_of(version, self._jobs.table[job_id].instances)[slots[these] - base]
                index[these] = shape_index + len(shapes)
                shapes += map(task_shape, version.asks)
        return tuple(shapes), index

    def _returned(self, event: InstancesReturned, now: int) -> None:
        row, update = self._jobs.table[event.job_id], self._change(event, now)
        slots = row.base + named(event, row.instances)
        self._stay(slots)
        step = self._tasks.arena["step"][slots]
        self._tasks.arena.set("step", slots, (step & ~STEP) | Step.PENDING)
        update.pending += len(slots)
        update.flight -= len(slots)
        assert update.flight >= 0, event.job_id

    def _stay(self, slots: I64) -> None:
        """These runs go on: their update lets go of them before they were told to stop."""
        arena = self._tasks.arena
        self._tasks.record_event(TaskEvent.UPDATE_WITHDRAWN, slots)
        arena.set("target", slots, arena["version"][slots])
        arena.set("step", slots, arena["step"][slots] & ~(RESHAPED | MORE))

    def _progressed(self, event: UpdateProgressed, now: int) -> None:
        row, update = self._jobs.table[event.job_id], self._change(event, now)
        instances = event.named_instances()
        slots, arena = row.base + instances, self._tasks.arena
        step = np.repeat(event.step_array, event.count_array)
        untaken = (arena["step"][slots] & STEP == Step.PENDING) & among(step, (Step.DONE, Step.LEFT))
        self._aim(event.job_id, slots[untaken])
        arena.set("step", slots, (arena["step"][slots] & ~(STEP | INHERITED)) | step)
        self.moved.setdefault(event.job_id, []).append(instances[step == Step.PENDING])
        if not event.failures_kept:
            arena.set("failures", slots[step == Step.DONE], 0)
        update.pending, update.flight, update.done, update.bad = event.pending, event.flight, event.done, event.bad
        assert min(event.pending, event.flight, event.done, event.bad) >= 0, event.job_id
        if event.waits != (update.waits_ms > 0):
            update.waits_ms = now if event.waits else 0

    def _pulled(self, event: UpdateImagePulled, now: int) -> None:
        self.image_waits.told(self._change(event, now), event)

    def _paused(self, event: UpdatePaused, now: int) -> None:
        self._change(event, now).paused = event.paused
        if not event.paused:
            row = self._jobs.table[event.job_id]
            self.place_waits.begin_anew(np.arange(row.base, row.base + row.instances), now)

    def _promoted(self, event: UpdatePromoted, now: int) -> None:
        update = self._change(event, now)
        update.promoted, update.waits_ms = True, 0

    def _change(self, event: Any, now: int) -> UpdateRow:
        """The row that a decision changes, which is a step forward."""
        self.touched[event.job_id] = None
        update = self.table.change(event.job_id)
        update.progressed_ms, update.changed_by = now, self._tasks.input.cause
        return update

    def _ended(self, event: UpdateEnded, now: int) -> None:
        """Ends an update. Instances that were taken and not told to stop stay as they are; the rest goes on to its
        target, and counts as down by an update until it has been up for as long as the next one asks: what fails again
        and again is up now and then.
        """
        row, arena = self._jobs.table[event.job_id], self._tasks.arena
        update, slots = self.table[event.job_id], np.arange(row.base, row.base + row.instances)
        versions = self.versions.change(event.job_id)
        if event.state == UpdateState.SUCCEEDED and (update.kind != RESTART or versions[update.from_version].completed):
            versions[update.version] = msgspec.structs.replace(versions[update.version], completed=True)
        open_slots = slots[among(arena["step"][slots] & STEP, OPEN)]
        staying = row.base + self.differences.staying(event.job_id)
        down = np.setdiff1d(open_slots[arena["goal"][open_slots] == Goal.RUN], staying)
        self._stay(staying)
        arena.set("step", down, arena["step"][down] | INHERITED)
        stepped = slots[arena["step"][slots] & STEP > 0]
        arena.set("step", stepped, arena["step"][stepped] & ~STEP)
        self._close(event.job_id)

    def _close(self, job_id: str) -> None:
        self.image_waits.over(job_id, self.table[job_id])
        self.table.remove(job_id)
        self.touched.pop(job_id, None)
        self.moved.pop(job_id, None)
        self.deadlines.clear(job_id)


def _difference(before: AskedRow, after: AskedRow) -> int:
    if before == after:
        return 0
    return RESHAPED | MORE if asks_more(before, after) else RESHAPED
