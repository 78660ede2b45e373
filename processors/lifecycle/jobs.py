"""Jobs: their rows, the counts of their tasks and the states that follow, gangs that restart, and what is
kept of jobs that have ended.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from events.acceptance import digest
from events.cell_settings import Settings
from events.codes import ENDED_JOBS, ENDED_TASKS, JobState, TaskState
from events.columns import I64, counted, indexed
from events.id_digests import job_digest
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.base import Event
from events.records.lifecycle import (
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    JobReopened,
    JobsForgotten,
)
from events.records.parts import Cause
from events.sla import limit, replaces_first
from processors.lifecycle.causes import EndCause, Goal
from processors.lifecycle.ended_jobs import EndedJob, EndedJobs, spec_digest
from processors.lifecycle.gangs import Gangs
from processors.lifecycle.job_rules import job_state, run_rules, traits
from processors.lifecycle.lookups import among
from processors.lifecycle.rows import JobRow, PoolRow, SubmittedRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import STATES, TaskEvent
from processors.lifecycle.tasks import COLUMNS, RARE, Tasks
from processors.state.causes import recorded
from processors.state.seconds import milliseconds, seconds
from processors.state.sequence import SequenceNumbers
from processors.state.table import Table, struct_table

FORGET_MAX = 1000
"""Jobs forgotten in one round."""
COMMANDS_KEPT = 8
"""So many commands of a job are known when they come again."""


TELLING = [state in (TaskState.RUNNING, *ENDED_TASKS) for state in range(STATES)]
"""By states of tasks, whether the state of their job depends on how many there are."""


class Jobs:
    """The table of jobs and what is derived from it. `touched` are jobs whose state may have changed."""

    def __init__(self, tasks: Tasks, pools: Table[str, PoolRow]) -> None:
        self.table: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.ended = EndedJobs()
        self.at: dict[int, str] = {}
        """The job at a base."""
        self.of_pool: dict[str, dict[str, None]] = {}
        """The open jobs of each pool that has some."""
        self.on_move: Callable[[I64], None] = lambda slots: None
        """Called with the slots of tasks that went to another state."""
        self.open_tasks = 0
        self._tasks = tasks
        self._pools = pools
        self.removed_pools: dict[str, PoolRow] = {}
        """Pools that are gone and have open jobs, by path."""
        self._touched: dict[str, None] = {}
        self.gangs = Gangs(tasks, self.table, self.at)
        self.gates: dict[str, None] = {}
        """Gated jobs that have changed."""
        self._numbers = SequenceNumbers(lambda: (row.number for row in self.table.values()))

    def restored(self) -> None:
        """Finds again what is derived."""
        self.at.clear()
        self.at.update({row.base: job_id for job_id, row in self.table.items()})
        self._touched = dict.fromkeys(sorted(self.table))
        self.gangs.restored()
        self.gates = {job_id: None for job_id in self.table if self.table[job_id].gated}
        self._numbers.restored()
        self.open_tasks = sum(row.tasks for row in self.table.values())
        self.removed_pools.clear()
        self.of_pool.clear()
        for job_id, row in self.table.items():
            self.of_pool.setdefault(row.pool, {})[job_id] = None
            if row.pool not in self._pools:
                pool = self.removed_pools.setdefault(row.pool, PoolRow(0, 0))
                pool.open_jobs, pool.open_tasks = pool.open_jobs + 1, pool.open_tasks + row.tasks
        self.ended.restored()

    def stretch(self, job_id: str) -> tuple[int, int] | None:
        """Base and size of a job in the arena."""
        row = self.table.get(job_id)
        return (row.base, row.instances) if row else None

    def task_at(self, slot: int) -> tuple[str, int]:
        """The job and the instance at a slot."""
        base = int(self._tasks.arena["owner"][slot]) - 1
        return self.at[base], slot - base

    def add(self, event: JobAccepted, job: SubmittedRow, spec_hash: bytes) -> None:
        """A job is accepted."""
        arena = self._tasks.arena
        row = JobRow(
            number=self._numbers.take(),
            base=0,
            pool=event.pool,
            kind=event.kind,
            instances=event.instances,
            ports=max([shape.ports for shape in event.shapes]),
            gang_min=event.gang_min,
            retries_max=job.retries_max,
            max_unavailable=event.max_unavailable,
            spec_hash=spec_hash,
            counts=[0] * STATES,
            run_floor=event.first_run - 1,
            priority=event.priority,
            preempt_fails=job.on_preempt == "fail",
            controller=job.on_controller_end if job.controller else "",
            sla=job.sla,
            **run_rules(job),
        )
        row.counts[TaskState.NONE] = event.instances
        columns = {"version": row.version, "target": row.version, "traits": traits(row, gang=False)}
        base = row.base = arena.take(event.instances, **columns) if event.instances else arena.take(1)
        self.table.put(event.job_id, row)
        self.open_tasks += event.instances
        self.at[base] = event.job_id
        self.of_pool.setdefault(event.pool, {})[event.job_id] = None
        if event.gang_min:
            arena.fill("traits", base, event.gang_min, traits(row, gang=True))
        if event.controller:
            arena.fill("traits", base, 1, traits(row, gang=False) | int(Trait.CONTROLLER))
        if row.gated:
            self._wait_at_gate(event.job_id, np.arange(base + event.gang_min, base + event.instances), event.first_run)
        pool = self._pools.change(event.pool)
        pool.open_jobs += 1
        pool.open_tasks += event.instances

    def reopened(self, event: JobReopened, now: int) -> None:
        """Notes the tasks of a reopened job that have ended before; their next runs would be above all that were."""
        row, arena = self.table.change(event.job_id), self._tasks.arena
        instances, state = event.named_instances(), np.repeat(event.state_array, event.count_array)
        slots, before = row.base + instances, arena["state"][row.base + instances].copy()
        arena.put(slots, run=row.run_floor, traits=arena["traits"][slots] | int(Trait.BEGUN))
        self._tasks.note("state", slots, state)
        self.count(slots, before, state)
        if row.controller and len(instances) and instances[0] == 0:
            row.controller_state = int(state[0])

    def _wait_at_gate(self, job_id: str, slots: I64, run: int) -> None:
        """Tasks that are new wait for their first run."""
        if len(slots):
            self._tasks.arena.set("run", slots, run)
            self.move(slots, TaskState.BACKOFF)
        self.gates[job_id] = None

    def gate_changed(self, job_id: str) -> None:
        """A job may have another gate now, or none."""
        row, arena = self.table[job_id], self._tasks.arena
        slots = np.arange(row.base, row.base + row.instances)
        gated = int(Trait.GATED) if row.gated else 0
        slots = slots[arena["traits"][slots] & Trait.GATED != gated]
        arena.set("traits", slots, arena["traits"][slots] & ~int(Trait.GATED) | gated)
        self._tasks.wait(slots, arena["due"][slots])
        self._tasks.touch(slots)
        self.gates[job_id] = None

    def run_limit_changed(self, job_id: str) -> None:
        """Runs may take another time from when they were available, those that go on too."""
        row, arena = self.table[job_id], self._tasks.arena
        slots = row.base + np.flatnonzero(arena["state"][row.base : row.base + row.instances] == TaskState.RUNNING)
        until = seconds(milliseconds(arena["ready"][slots].astype(np.int64)) + row.max_runtime_ms)
        self._tasks.wait(slots, until if row.max_runtime_ms else np.zeros_like(slots))

    def changed_gates(self) -> list[str]:
        """The gated jobs that have changed since this was asked last."""
        changed, self.gates = [*self.gates], {}
        return changed

    def command_done(self, job_id: str, command_id: str, deletes: bool) -> None:
        """A command is carried out: its repeat is known from now on. `deletes`: the job is to be forgotten."""
        row = self.table.change(job_id)
        row.deleting |= deletes
        self.touch(job_id)
        row.commands = [*row.commands, command_digest(command_id)][-COMMANDS_KEPT:]

    def priority_changed(self, event: JobPriorityChanged, now: int) -> None:
        """A job has another priority."""
        self.table.change(event.job_id).priority = event.priority

    def change_instances(self, event: InstancesChanged) -> None:
        """Instances of a job are added or removed; the runs of those that are removed are over."""
        row, arena = self.table.change(event.job_id), self._tasks.arena
        state, (added, removed, _) = job_state(row), instance_change(event)
        removed_slots = row.base + removed
        row.run_floor = max(row.run_floor, int(arena["run"][removed_slots].max(initial=0)))
        self.move(removed_slots, TaskState.NONE)
        for column in (*COLUMNS, *RARE):
            arena.set(column, removed_slots, 0)
        before, start = row.tasks, self._tasks.resize(row.base, row.instances, event.instances)
        del self.at[row.base]
        self.at[start] = event.job_id
        row.base, row.instances = start, event.instances
        row.removed = event.instances - (before + len(added) - len(removed))
        row.counts[TaskState.NONE] += event.instances - sum(row.counts)
        assert 0 <= row.removed <= row.counts[TaskState.NONE], event.job_id
        row.ports = max(row.ports, *(shape.ports for shape in event.shapes), 0)
        arena.put(start + added, traits=traits(row, gang=False), version=row.version, target=row.version)
        if row.stopping:
            arena.put(start + added, causes=int(EndCause.STOP), goal=Goal.STOP)
        if event.waits:
            self._wait_at_gate(event.job_id, start + added, event.first_run)
        self._count_open(row, row.tasks - before)
        if job_state(row) != state:
            row.changed_by = self._tasks.input.cause
        self._touched[event.job_id] = None

    def _count_open(self, row: JobRow, tasks: int) -> None:
        self.open_tasks += tasks
        pool = self._pool_of(row)
        pool.open_tasks += tasks
        assert pool.open_tasks >= 0, row.pool

    def _pool_of(self, row: JobRow) -> PoolRow:
        """The row of a job's pool, or of one that was removed while the job was accepted into it."""
        return self._pools.change(row.pool) if row.pool in self._pools else self.removed_pools[row.pool]

    def pool_removed(self, path: str) -> None:
        """A pool leaves the table. Where jobs are still open in it, its counts are kept: it may be defined again."""
        if self._pools[path].open_jobs:
            self.removed_pools[path] = self._pools[path]
        self._pools.remove(path)

    def pool_defined(self, path: str, open_jobs_max: int, open_tasks_max: int) -> None:
        """A pool comes into the table."""
        before = self.removed_pools.pop(path, None)
        jobs, tasks = (before.open_jobs, before.open_tasks) if before else (0, 0)
        self._pools.put(path, PoolRow(open_jobs_max, open_tasks_max, jobs, tasks))

    def touch(self, job_id: str) -> None:
        """Something about a job changed: look at its state when deciding."""
        self._touched[job_id] = None

    def controllers_over(self, slots: I64, state: I64) -> None:
        """Tasks have ended, or wait for another run, among them perhaps controllers: with one its job ends."""
        arena = self._tasks.arena
        over = (arena["traits"][slots] & Trait.CONTROLLER != 0) & among(state, ENDED_TASKS)
        for slot in slots[over].tolist():
            row = self.table.change(self.at[slot])
            row.controller_state = int(arena["state"][slot])
            if row.controller == "end":
                self._tasks.record_event(TaskEvent.JOB_END, np.arange(row.base + 1, row.base + row.instances))

    def most_leaving(self, base: int) -> int:
        """The number of runs of the job at a base that its SLA ever lets go at once."""
        row, arena = self.table[self.at[base]], self._tasks.arena
        stretch = slice(row.base, row.base + row.instances)
        to_run = (arena["goal"][stretch] == Goal.RUN) & (arena["state"][stretch] != TaskState.NONE)
        most = limit(row.max_unavailable, row.sla, int(np.count_nonzero(to_run & (arena["surplus"][stretch] == 0))))
        return most + (row.sla.surge if row.sla is not None and replaces_first(row.sla) else 0)

    def leaving_by(self, base: int) -> Cause | None:
        """The last thing that instances leave the job of a base for; None: they don't."""
        return recorded(self.table[self.at[base]].leaving_by)

    def of_others(self, slots: I64, job_ids: Iterable[str]) -> I64:
        """The slots of other jobs than these."""
        mine = [self.table[job_id].base + 1 for job_id in job_ids if job_id in self.table]
        others: I64 = slots[~np.isin(self._tasks.arena["owner"][slots], mine)]
        return others

    def of_slots(self, slots: I64, of: Callable[[JobRow], int]) -> I64:
        """A number of the job of each task."""
        bases, index = indexed(self._tasks.arena["owner"][slots] - 1)
        numbers: I64 = np.array([of(self.table[self.at[base]]) for base in bases.tolist()], dtype=np.int64)[index]
        return numbers

    def deadlines(self, slots: I64, now: int, of: Callable[[JobRow], int]) -> I64:
        """By what second each of these tasks must have got further, from now on; 0: there is no hurry."""
        times = self.of_slots(slots, of)
        if not times.any():
            return times
        return np.where(times > 0, seconds(now + times), 0)

    def move(self, slots: I64, state: int) -> None:
        """Tasks go to another state."""
        before = self._tasks.arena["state"][slots].copy()
        self._tasks.note("state", slots, state)
        self.count(slots, before, np.full(len(slots), state))

    def count(self, slots: I64, before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> None:
        """Counts tasks that went from one state to another."""
        owners = self._tasks.arena["owner"][slots].astype(np.int64) - 1
        moves, tasks = counted((owners * STATES + before) * STATES + after)
        of_jobs: dict[int, list[tuple[int, int, int]]] = {}
        bases, states = moves // (STATES * STATES), moves % (STATES * STATES)
        columns = (bases, states // STATES, states % STATES, tasks)
        for base, was, is_, many in zip(*(column.tolist() for column in columns), strict=True):
            of_jobs.setdefault(base, []).append((was, is_, many))
        for base, moved in of_jobs.items():
            self._count_job(self.at[base], moved)
        self.on_move(slots)

    def _count_job(self, job_id: str, moves: list[tuple[int, int, int]]) -> None:
        """So many tasks of a job went from a state to another."""
        row = self.table.change(job_id)
        counts, telling = row.counts, False
        for before, after, _ in moves:
            telling = telling or TELLING[before] or TELLING[after]
        state = job_state(row) if telling else None
        for before, after, tasks in moves:
            counts[before] -= tasks
            counts[after] += tasks
        for before, _, _ in moves:
            assert counts[before] >= 0, job_id
        if telling and job_state(row) != state:
            row.changed_by = self._tasks.input.cause
        if row.gated:
            self.gates[job_id] = None
        self._touched[job_id] = None

    def changes(self, limit: int) -> list[JobChanged]:
        """At most `limit` jobs whose state differs from the last decided one."""
        out: list[JobChanged] = []
        changed: list[tuple[int, str, JobRow, JobState]] = []
        for job_id in self._touched:
            row = self.table[job_id]
            state = job_state(row)
            if row.state != state or (row.deleting and state in ENDED_JOBS):
                changed.append((row.number, job_id, row, state))
        changed.sort()  # a process that was restored has touched all
        self._touched = {job_id: None for _, job_id, _, _ in changed}
        for _, job_id, row, state in changed[:limit]:
            counts = row.counts
            out.append(
                JobChanged(
                    job_id=job_id,
                    state=state.value,
                    succeeded=counts[TaskState.SUCCEEDED],
                    failed=counts[TaskState.FAILED],
                    killed=counts[TaskState.KILLED],
                    kept=state in ENDED_JOBS and row.kind != "batch" and not row.deleting,
                    cause=recorded(row.changed_by),
                )
            )
        return out

    def deleted(self, changes: list[JobChanged]) -> list[Event]:
        """Jobs that are over by these changes and are to be forgotten at once."""
        over = [each for each in changes if self.table[each.job_id].deleting and is_over(each)]
        return [JobsForgotten(digests=job_digest(each.job_id), cause=each.cause) for each in over]

    def changed(self, event: JobChanged, now: int) -> None:
        """The state of a job was said. One that has ended leaves the columns: all its runs are over, and what a host
        says of them later is as of runs that nobody wants.
        """
        row = self.table.change(event.job_id)
        row.state = event.state
        if not is_over(event):
            return
        counts, tasks = row.counts, row.tasks
        in_end_states = counts[TaskState.SUCCEEDED] + counts[TaskState.FAILED] + counts[TaskState.KILLED]
        assert in_end_states == tasks, f"{event.job_id} is over with {tasks - in_end_states} tasks that aren't"
        arena = self._tasks.arena
        highest = int(arena["run"][row.base : row.base + row.instances].max(initial=row.run_floor))
        ended = EndedJob(spec_digest(row.spec_hash), now, highest, JobState(event.state))
        self.ended.add(event.job_id, ended, self._tasks.input.cause)
        arena.give_back(row.base, row.instances)
        self.table.remove(event.job_id)
        self._count_open(row, -tasks)
        self._numbers.give_back(row.number)
        del self.at[row.base]
        self._touched.pop(event.job_id, None)
        self.gangs.ended(event.job_id)
        if row.gated:
            self.gates[event.job_id] = None
        pool = self._pool_of(row)
        pool.open_jobs -= 1
        assert pool.open_jobs >= 0, row.pool
        del self.of_pool[row.pool][event.job_id]
        if not pool.open_jobs:
            del self.of_pool[row.pool]
            self.removed_pools.pop(row.pool, None)

    def forgettable(self, now: int, settings: Settings, limit: int) -> list[Event]:
        """At most `limit` ended jobs that are kept no longer."""
        after_ms, ended_max = settings.forget_after_ms, settings.ended_jobs_max
        due = self.ended.due(now, after_ms, ended_max, min(FORGET_MAX, limit))
        return [JobsForgotten(digests=due, cause=self.ended.cause(after_ms, ended_max))] if due else []

    def forgotten(self, event: JobsForgotten, now: int) -> None:
        """Ended jobs leave the state. Records of the first releases name them."""
        self.ended.forget(event.digests + b"".join(map(job_digest, event.job_ids)))


def command_digest(command_id: str) -> bytes:
    """Stands for the id of a command, of whatever length that is."""
    return digest(command_id.encode())[:8]
