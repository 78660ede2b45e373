"""Jobs that wait and hold: their counts, the order in which each pool serves them, and who waits for a time."""

import heapq
from collections import Counter

import numpy as np
from sortedcontainers import SortedList

from events.columns import I32, I64, counted
from events.instance_changes import instance_change
from events.records.lifecycle import InstancesChanged, JobAccepted
from processors.entitlement.rows import NOTHING, Amount4, JobRow, four, plus
from processors.state.arena import Arena, change_instances
from processors.state.sequence import Numbers
from processors.state.table import Table, struct_table

Place = tuple[int, int, str]
"""Where a job stands in its pool: priority descending, then order of acceptance."""
NO_SLOTS = np.zeros(0, dtype=np.int64)


class Queues:
    """The table of jobs, the columns of their tasks, and what is derived from both.

    Columns: `queued` the run that waits for admission, `held` the run that holds, `ended` the highest run that is over,
    `leaving` the run that was asked to leave, `since` the number of the admission; 0 where there is none.
    """

    def __init__(self) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.arena = Arena("tasks", ("queued", "held", "ended", "leaving", "since"))
        self.at: dict[int, str] = {}
        self.order: dict[str, SortedList[Place]] = {}
        """Per pool the jobs in line that are preemptible."""
        self.firm_order: dict[str, SortedList[Place]] = {}
        """Per pool the jobs in line that are not."""
        self.waiting: dict[str, Amount4] = {}
        """What the jobs in `order` ask together."""
        self.firm_waiting: dict[str, Amount4] = {}
        self.allocation: dict[str, Amount4] = {}
        self.firm: dict[str, Amount4] = {}
        """The part of the allocation that isn't preemptible."""
        self.open_jobs: Counter[str] = Counter()
        self.changes = 0
        """Grows with each change of demand or allocation."""
        self.untold: dict[str, None] = {}
        """The jobs aside that were not told so."""
        self._later: list[tuple[int, int, str]] = []
        self._for_change: dict[str, None] = {}
        self._numbers = Numbers(lambda: (row.number for row in self.jobs.values()))

    def restored(self) -> None:
        """Finds again what is derived."""
        self.arena.restored()
        self.at = {row.base: job_id for job_id, row in self.jobs.items()}
        lines = (self.order, self.firm_order, self.waiting, self.firm_waiting)
        for derived in (*lines, self.allocation, self.firm, self.open_jobs, self.untold, self._for_change):
            derived.clear()
        self._later = []
        self._numbers.restored()
        for job_id in sorted(self.jobs, key=lambda each: self.jobs[each].number):
            row = self.jobs[job_id]
            self.open_jobs[row.pool] += 1
            self._account(row, row.held)
            if row.aside:
                self._stand_aside(job_id, row)
            elif row.queued:
                self._stand(job_id, row)
        self.changes += 1

    def in_line(self) -> list[str]:
        """The pools with work that waits for its turn."""
        return sorted({pool: None for line in (self.order, self.firm_order) for pool, jobs in line.items() if jobs})

    def stretch(self, job_id: str) -> tuple[int, int] | None:
        """Base and size of a job in the arena."""
        row = self.jobs.get(job_id)
        return (row.base, row.instances) if row else None

    def add(self, event: JobAccepted) -> None:
        """A job was accepted."""
        row = JobRow(
            self._numbers.take(),
            self.arena.take(event.instances),
            event.instances,
            event.pool,
            four(event.need),
            event.priority,
            event.preemptible,
            event.gang_min if event.gang_min > 1 else 0,
        )
        self.jobs.put(event.job_id, row)
        self.arena.fill("ended", row.base, row.instances, event.first_run - 1)
        self.at[row.base] = event.job_id
        self.open_jobs[event.pool] += 1

    def change_instances(self, event: InstancesChanged) -> None:
        """Instances of a job were added or removed; those that are removed neither wait nor hold any more."""
        if event.job_id not in self.jobs:
            return
        row, arena = self.jobs.change(event.job_id), self.arena
        removed = row.base + instance_change(event).removed
        self.count_slots(removed[arena["queued"][removed] > 0], -1, 0)
        self.count_slots(removed[arena["held"][removed] > 0], 0, -1)
        for column in ("queued", "held", "leaving", "since"):
            arena.set(column, removed, 0)
        del self.at[row.base]
        row.base, row.instances = change_instances(arena, row.base, row.instances, event), event.instances
        self.at[row.base] = event.job_id

    def drop(self, job_id: str) -> None:
        """A job has ended and leaves the state; what others still say of it is void."""
        row = self.jobs.get(job_id)
        if row is None:
            return
        self.count(job_id, -row.queued, -row.held)
        self.open_jobs[row.pool] -= 1
        self.arena.give_back(row.base, row.instances)
        self.jobs.remove(job_id)
        self._numbers.give_back(row.number)
        del self.at[row.base]

    def count(self, job_id: str, queued: int, held: int) -> None:
        """Tasks of a job began or ceased to wait, or to hold."""
        if not queued and not held:
            return
        row = self.jobs.change(job_id)
        if held:
            row.held += held
            self._account(row, held)
        if queued:
            had, row.queued = row.queued, row.queued + queued
            if row.aside:
                if not row.queued:
                    self._forget_aside(job_id, row)
            elif not had:
                self._stand(job_id, row)
            else:
                self._wait(row, queued)
                if not row.queued:
                    self._leave(job_id, row)
        self.changes += 1

    def count_slots(self, slots: I64, queued: int, held: int) -> None:
        """The same for tasks of many jobs."""
        bases, times = counted(self.arena["owner"][slots] - 1)
        for base, number in zip(bases.tolist(), times.tolist(), strict=True):
            self.count(self.at[base], queued * number, held * number)

    def put_aside(self, job_id: str, code: str, not_before_ms: int) -> None:
        """A job with work that waits stands aside until a time, or, with 0, until hosts or pools change."""
        row = self.jobs.change(job_id)
        if row.aside:
            self._forget_aside(job_id, row)
        else:
            self._wait(row, -row.queued)
            self._leave(job_id, row)
        row.not_before_ms, row.for_change, row.returned = not_before_ms, not not_before_ms, code
        self._stand_aside(job_id, row)
        self.changes += 1

    def release_due(self, now: int) -> None:
        """Jobs whose time has come stand in line again."""
        while self._later and self._later[0][0] <= now:
            due, _, job_id = heapq.heappop(self._later)
            if self._is_later(due, job_id):
                self._release(job_id)

    def release_for_change(self) -> None:
        """Hosts or pools have changed: jobs that waited for that stand in line again."""
        for job_id in list(self._for_change):
            self._release(job_id)

    def next_due_ms(self) -> int | None:
        """When the first time comes."""
        while self._later and not self._is_later(self._later[0][0], self._later[0][2]):
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def next_untold(self, most: int) -> list[str]:
        """The jobs aside that were not told so, at most `most`, in the order of acceptance."""
        return heapq.nsmallest(most, self.untold, key=lambda job_id: self.jobs[job_id].number)

    def queued_slots(self, row: JobRow) -> I64:
        """The tasks of a job that wait."""
        if row.instances == 1:
            return np.array((row.base,)) if row.queued else NO_SLOTS
        return np.flatnonzero(self.arena["queued"][row.base : row.base + row.instances]) + row.base

    def units(self, row: JobRow) -> tuple[I64, I64]:
        """The gang of a job, where all of it waits, and its other tasks that wait. Members of a gang whose others are
        still ending are left out.
        """
        slots = self.queued_slots(row)
        if not row.gang_min:
            return NO_SLOTS, slots
        end = row.base + row.gang_min
        members = int(np.searchsorted(slots, end))
        gang, alone = slots[:members], slots[members:]
        runs = self.arena["queued"][row.base : end]
        whole = members == row.gang_min and bool((runs == runs[0]).all())
        return (gang if whole else NO_SLOTS), alone

    def _is_later(self, due: int, job_id: str) -> bool:
        row = self.jobs.get(job_id)
        return row is not None and row.not_before_ms == due

    def _account(self, row: JobRow, held: int) -> None:
        self.allocation[row.pool] = plus(self.allocation.get(row.pool, NOTHING), row.need, held)
        if not row.preemptible:
            self.firm[row.pool] = plus(self.firm.get(row.pool, NOTHING), row.need, held)

    def _wait(self, row: JobRow, tasks: int) -> None:
        waiting = self.waiting if row.preemptible else self.firm_waiting
        waiting[row.pool] = plus(waiting.get(row.pool, NOTHING), row.need, tasks)

    def _stand(self, job_id: str, row: JobRow) -> None:
        order = self.order if row.preemptible else self.firm_order
        if row.pool not in order:
            order[row.pool] = SortedList()
        order[row.pool].add(place(job_id, row))
        self._wait(row, row.queued)

    def _leave(self, job_id: str, row: JobRow) -> None:
        (self.order if row.preemptible else self.firm_order)[row.pool].remove(place(job_id, row))
        row.said = ""

    def _stand_aside(self, job_id: str, row: JobRow) -> None:
        if row.not_before_ms:
            heapq.heappush(self._later, (row.not_before_ms, row.number, job_id))
        else:
            self._for_change[job_id] = None
        if row.said != row.returned:
            self.untold[job_id] = None

    def _forget_aside(self, job_id: str, row: JobRow) -> None:
        self._for_change.pop(job_id, None)
        self.untold.pop(job_id, None)
        row.not_before_ms, row.for_change, row.returned, row.said = 0, False, "", ""

    def _release(self, job_id: str) -> None:
        row = self.jobs.change(job_id)
        self._forget_aside(job_id, row)
        self._stand(job_id, row)
        self.changes += 1


def place(job_id: str, row: JobRow) -> Place:
    """Where a job stands in its pool."""
    return (-row.priority, row.number, job_id)


def stretches(slots: I64, run: I32, part: I64) -> tuple[I64, I64]:
    """Where neighbouring slots of equal run within a part begin, and how many they are."""
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(part) != 0)
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(slots)))
