"""Gangs: a member that ends before its time ends the runs of its whole gang, which is queued again as one."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from events.bounds import RUN_MAX
from events.codes import IN_USE_TASKS, Counts, Outcome, TaskState
from events.columns import I32, I64, distinct
from events.records.base import Event
from events.records.lifecycle import GangsQueued
from processors.lifecycle.causes import FINAL, Goal
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import JobRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import GANG_WAIT, PLACED, TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.state.steps import Pass
from processors.state.table import Table

IN_USE = (*IN_USE_TASKS, PLACED, GANG_WAIT)
"""The states of tasks that count against `max_running`, with those that only lifecycle knows."""


class GangEnd(NamedTuple):
    """The end of a run of a gang by ends of members: whose failure it is, if one's, and whether it is the last."""

    job_id: str
    failed: bool
    host_failed: bool
    last: bool


class Gangs:
    """The gangs of all jobs. `table`: the jobs; `at`: the job at a base."""

    def __init__(self, tasks: Tasks, table: Table[str, JobRow], at: Mapping[int, str]) -> None:
        self._tasks = tasks
        self._table = table
        self._at = at
        self._restarting: dict[str, None] = {}

    def restored(self) -> None:
        """Finds again what is derived."""
        self._restarting = {job_id: None for job_id in sorted(self._table) if self._table[job_id].gang_restarts}

    def ended(self, job_id: str) -> None:
        """A job has ended."""
        self._restarting.pop(job_id, None)

    def starts(self, job_id: str) -> None:
        """A gang that was over starts again, with all its retries."""
        row, members, arena = self._table.change(job_id), self._members(job_id), self._tasks.arena
        row.gang_restarts, row.gang_final = True, False
        row.gang_failures = row.gang_host_failures = row.gang_due_ms = 0
        arena.set("traits", members, arena["traits"][members] & ~int(Trait.GANG_FINAL))
        self._restarting[job_id] = None

    def _ends(self, slots: I64, outcome: I64 | I32, counts_as: I64 | I32, hopeless: Mask) -> Iterator[GangEnd]:
        """The gangs that these ends break."""
        arena = self._tasks.arena
        member = (arena["traits"][slots] & Trait.GANG != 0) & (arena["goal"][slots] == Goal.RUN)
        member &= (outcome != Outcome.SUCCEEDED) & (arena["causes"][slots] & FINAL == 0)
        for base in distinct(arena["owner"][slots[member]] - 1).tolist():
            row = self._table[self._at[base]]
            if row.gang_restarts or row.gang_final:
                continue
            mine = member & (arena["owner"][slots] == base + 1)
            failures = mine & (outcome == Outcome.FAILED)
            failed = bool((failures & (counts_as == Counts.TASK)).any())
            host_failed = bool((failures & (counts_as == Counts.HOST)).any())
            last = row.gang_failures + failed > row.retries_max
            last |= row.gang_host_failures + host_failed > row.retries_system
            last |= int(arena["run"][base : base + row.gang_min].max()) >= RUN_MAX
            last |= bool((mine & hopeless).any())
            last |= row.preempt_fails and bool(among(outcome[mine], (Outcome.PREEMPTED, Outcome.RELOCATED)).any())
            yield GangEnd(self._at[base], failed, host_failed, last)

    def failing(self, slots: I64, outcome: I64, counts_as: I64, hopeless: Mask) -> I64:
        """The members of gangs that fail for good by these ends; `hopeless`: of which runs trying again can't help."""
        failing = [self._members(end.job_id) for end in self._ends(slots, outcome, counts_as, hopeless) if end.last]
        return np.concatenate(failing) if failing else slots[:0]

    def count_failures(self, slots: I64, outcome: I32, counts_as: I32, wait_ms: I32, hopeless: Mask, now: int) -> None:
        """The end of a member before its time ends the runs of its whole gang; a failure counts once for all."""
        arena = self._tasks.arena
        for end in [*self._ends(slots, outcome, counts_as, hopeless)]:
            job_id, row, members = end.job_id, self._table.change(end.job_id), self._members(end.job_id)
            row.gang_failures += end.failed
            row.gang_host_failures += end.host_failed
            if end.host_failed:
                row.gang_due_ms = now + int(wait_ms[np.isin(slots, members)].max())
            if end.last:
                row.gang_final = True
                arena.set("traits", members, arena["traits"][members] | int(Trait.GANG_FINAL))
            else:
                row.gang_restarts = True
                self._restarting[job_id] = None
            self._tasks.record_event(TaskEvent.GANG_FAILED, members)

    def _members(self, job_id: str) -> I64:
        row = self._table[job_id]
        return np.arange(row.base, row.base + row.gang_min)

    def with_members(self, slots: I64) -> I64:
        """These tasks, and all members of the gangs that they are of."""
        arena = self._tasks.arena
        bases = distinct(arena["owner"][slots[arena["traits"][slots] & Trait.GANG != 0]] - 1).tolist()
        return distinct(np.concatenate([slots, *(self._members(self._at[base]) for base in bases)]))

    def decide(self, this: Pass) -> list[Event]:
        """Queues gangs again all of whose members are over, and whose wait is; a unit is a gang."""
        if not self._restarting:
            return []
        over = [job_id for job_id, due in sorted(self._due()) if due <= this.until_ms][: this.budget.left]
        this.budget.spend(len(over))
        return [self._queue(job_id) for job_id in over]

    def next_due_ms(self) -> int | None:
        """When the next gang all of whose members are over may be queued again."""
        return min((due for _, due in self._due()), default=None)

    def _due(self) -> Iterator[tuple[str, int]]:
        over = (job_id for job_id in self._restarting if self._may_go(self._table[job_id]) and self._is_over(job_id))
        return ((job_id, self._table[job_id].gang_due_ms) for job_id in over)

    def _may_go(self, row: JobRow) -> bool:
        return not row.on_hold and (not row.max_running or self.in_use(row) <= row.max_running)

    def in_use(self, row: JobRow) -> int:
        """Counts the tasks of a job that count against `max_running`: of a gang that waits also those that have
        succeeded.
        """
        in_use = sum(row.counts[state] for state in IN_USE)
        if row.counts[GANG_WAIT]:
            members = self._tasks.arena["state"][row.base : row.base + row.gang_min]
            in_use += int(np.count_nonzero(members == TaskState.SUCCEEDED))
        return in_use

    def queued(self, job_id: str) -> None:
        """A gang is queued again, as one."""
        if self._table[job_id].gang_restarts:
            self._table.change(job_id).gang_restarts = False
            self._restarting.pop(job_id, None)

    def _is_over(self, job_id: str) -> bool:
        row = self._table[job_id]
        state = self._tasks.arena["state"][row.base : row.base + row.gang_min]
        return not row.stopping and bool(among(state, (GANG_WAIT, TaskState.SUCCEEDED)).all())

    def _next_run(self, row: JobRow) -> int:
        """The run of a gang that starts again: members that wait for it have its number already."""
        arena, members = self._tasks.arena, slice(row.base, row.base + row.gang_min)
        return int((arena["run"][members] + (arena["state"][members] != GANG_WAIT)).max())

    def _queue(self, job_id: str) -> GangsQueued:
        row = self._table[job_id]
        run = self._next_run(row)
        return GangsQueued.pack(
            job_ids=(job_id,), job=[0], first=[0], count=[row.gang_min], run=[run], gang=[1], admitted=[0]
        )
