"""Jobs that wait and hold: their counts, the order in which each pool serves them, and who waits for a time."""

import heapq
from bisect import bisect_left, insort
from collections import Counter

import numpy as np

from events.columns import I32, I64
from events.records.lifecycle import JobAccepted
from processors.arena import Arena
from processors.entitlement.rows import NOTHING, Amount4, JobRow, four, plus
from processors.table import Table, struct_table

Place = tuple[int, int, str]
"""Where a job stands in its pool: priority descending, then order of acceptance."""


class Queues:
    """The table of jobs, the columns of their tasks, and what is derived from both.

    Columns: `queued` the run that waits for admission, `held` the run that holds, `ended` the highest run that is over,
    `leaving` the run that was asked to leave; 0 where there is none.
    """

    def __init__(self) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.arena = Arena("tasks", ("queued", "held", "ended", "leaving"))
        self.at: dict[int, str] = {}
        self.order: dict[str, list[Place]] = {}
        """Per pool the jobs that may be admitted."""
        self.holders: dict[str, list[Place]] = {}
        """Per pool the jobs that hold something."""
        self.allocation: dict[str, Amount4] = {}
        self.firm: dict[str, Amount4] = {}
        """The part of the allocation that isn't preemptible."""
        self.waiting: dict[str, Amount4] = {}
        """What the jobs in `order` ask together."""
        self.open_jobs: Counter[str] = Counter()
        self.changes = 0
        """Grows with each change of demand or allocation."""
        self._later: list[tuple[int, int, str]] = []
        self._for_hosts: dict[str, None] = {}
        self._next_number = 1

    def restored(self) -> None:
        """Finds again what is derived."""
        self.arena.restored()
        self.at = {row.base: job_id for job_id, row in self.jobs.items()}
        for derived in (self.order, self.holders, self.allocation, self.firm, self.waiting, self.open_jobs):
            derived.clear()
        self._later, self._for_hosts = [], {}
        self._next_number = max((row.number for row in self.jobs.values()), default=0) + 1
        for job_id in sorted(self.jobs, key=lambda each: self.jobs[each].number):
            row = self.jobs[job_id]
            self.open_jobs[row.pool] += not row.ended
            self._account(row, row.held)
            if row.held:
                insort(self.holders.setdefault(row.pool, []), place(job_id, row))
            if row.queued:
                self._stand(job_id, row)
        self.changes += 1

    def stretch(self, job_id: str) -> tuple[int, int] | None:
        """Base and size of a job in the arena."""
        row = self.jobs.get(job_id)
        return (row.base, row.instances) if row else None

    def add(self, event: JobAccepted) -> None:
        """A job was accepted."""
        base = self.arena.take(event.instances)
        row = JobRow(
            self._next_number,
            base,
            event.instances,
            event.pool,
            four(event.need),
            event.priority,
            event.preemptible,
            event.gang_min,
        )
        self._next_number += 1
        self.jobs.put(event.job_id, row)
        self.at[base] = event.job_id
        self.open_jobs[event.pool] += 1

    def forget(self, job_ids: tuple[str, ...]) -> None:
        """Ended jobs leave the state."""
        for job_id in job_ids:
            row = self.jobs.get(job_id)
            if row is None:
                continue
            self.count(job_id, -row.queued, -row.held)
            self.open_jobs[row.pool] -= not row.ended
            self.arena.give_back(row.base, row.instances)
            self.jobs.remove(job_id)
            del self.at[row.base]

    def end(self, job_id: str) -> None:
        """A job is over."""
        if job_id in self.jobs and not self.jobs[job_id].ended:
            row = self.jobs.change(job_id)
            row.ended = True
            self.open_jobs[row.pool] -= 1

    def count(self, job_id: str, queued: int, held: int) -> None:
        """Tasks of a job began or ceased to wait, or to hold."""
        if not queued and not held:
            return
        row = self.jobs.change(job_id)
        had_queue, had_held = row.queued, row.held
        if had_queue:
            self._leave(job_id, row)
        row.queued += queued
        row.held += held
        self._account(row, held)
        if row.queued:
            self._stand(job_id, row)
        else:
            row.not_before_ms = row.wait_version = 0
            row.said = row.returned = ""
        if bool(had_held) != bool(row.held):
            _toggle(self.holders.setdefault(row.pool, []), place(job_id, row), bool(row.held))
        self.changes += 1

    def count_slots(self, slots: I64, queued: int, held: int) -> None:
        """The same for tasks of many jobs."""
        bases, times = np.unique(self.arena["owner"][slots] - 1, return_counts=True)
        for base, number in zip(bases.tolist(), times.tolist(), strict=True):
            self.count(self.at[base], queued * number, held * number)

    def put_off(self, job_id: str, code: str, not_before_ms: int, version: int) -> None:
        """A job waits for a time, or, with 0, for other hosts than those of `version`."""
        row = self.jobs.change(job_id)
        if row.queued:
            self._leave(job_id, row)
        row.not_before_ms, row.returned = not_before_ms, code
        row.wait_version = 0 if not_before_ms else version + 1
        if row.queued:
            self._stand(job_id, row)
        self.changes += 1

    def release_due(self, now: int) -> None:
        """Jobs whose time has come may be admitted again."""
        while self._later and self._later[0][0] <= now:
            due, _, job_id = heapq.heappop(self._later)
            if self._is_later(due, job_id):
                self.put_off_nothing(job_id)

    def release_for_hosts(self) -> None:
        """The hosts have changed: jobs that waited for that may be admitted again."""
        for job_id in list(self._for_hosts):
            self.put_off_nothing(job_id)

    def put_off_nothing(self, job_id: str) -> None:
        """A job waits for nothing but its turn."""
        row = self.jobs.change(job_id)
        self._leave(job_id, row)
        row.not_before_ms = row.wait_version = 0
        row.said = row.returned = ""
        self._stand(job_id, row)
        self.changes += 1

    def next_due_ms(self) -> int | None:
        """When the first time comes."""
        while self._later and not self._is_later(self._later[0][0], self._later[0][2]):
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def put_off_jobs(self) -> list[str]:
        """The jobs that wait for a time or for hosts, but for those that were told so."""
        found = [job_id for _, _, job_id in self._later] + list(self._for_hosts)
        return [
            job_id for job_id in found if job_id in self.jobs and self.jobs[job_id].said != self.jobs[job_id].returned
        ]

    def queued_slots(self, row: JobRow) -> I64:
        """The tasks of a job that wait."""
        return np.flatnonzero(self.arena["queued"][row.base : row.base + row.instances]) + row.base

    def _is_later(self, due: int, job_id: str) -> bool:
        row = self.jobs.get(job_id)
        return row is not None and row.queued > 0 and row.not_before_ms == due

    def _account(self, row: JobRow, held: int) -> None:
        self.allocation[row.pool] = plus(self.allocation.get(row.pool, NOTHING), row.need, held)
        if not row.preemptible:
            self.firm[row.pool] = plus(self.firm.get(row.pool, NOTHING), row.need, held)

    def _stand(self, job_id: str, row: JobRow) -> None:
        if row.not_before_ms:
            heapq.heappush(self._later, (row.not_before_ms, row.number, job_id))
        elif row.wait_version:
            self._for_hosts[job_id] = None
        else:
            insort(self.order.setdefault(row.pool, []), place(job_id, row))
            self.waiting[row.pool] = plus(self.waiting.get(row.pool, NOTHING), row.need, row.queued)

    def _leave(self, job_id: str, row: JobRow) -> None:
        if row.wait_version:
            self._for_hosts.pop(job_id, None)
        elif not row.not_before_ms:
            _toggle(self.order[row.pool], place(job_id, row), False)
            self.waiting[row.pool] = plus(self.waiting[row.pool], row.need, -row.queued)


def place(job_id: str, row: JobRow) -> Place:
    """Where a job stands in its pool."""
    return (-row.priority, row.number, job_id)


def _toggle(places: list[Place], one: Place, there: bool) -> None:
    if there:
        insort(places, one)
        return
    at = bisect_left(places, one)
    if at < len(places) and places[at] == one:
        del places[at]


def stretches(slots: I64, run: I32) -> tuple[I64, I64]:
    """Where neighbouring slots of equal run begin, and how many they are."""
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0)
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(slots)))
