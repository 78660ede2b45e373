"""Runs by host and job, and the services that leave so many hosts already that no more is emptied of theirs for now.

Kept up by difference with each run that takes or gives back its place, while there is a campaign. Of each job with an
SLA it counts the instances on hosts that drain, and on hosts still to be emptied; a job is *closed* while two of its
budgets' worth are on hosts that drain, and a host while one of its jobs is. So no budget idles, and hosts drain for a
short time.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from events.columns import I64
from processors.placement.hosts import Hosts
from processors.placement.rows import JobRow
from processors.placement.runs import Runs

BUDGETS = 2
"""A job is closed while so many budgets' worth of its instances are on hosts that drain."""
PARTS = 1_000_000
"""Budgets' worth are compared in such parts."""


class Pace:
    """Counts over all hosts; hosts are named by their numbers."""

    def __init__(self, runs: Runs, hosts: Hosts) -> None:
        self._runs = runs
        self._hosts = hosts
        self._is_on = False
        self._clear()

    def _clear(self) -> None:
        self._on: dict[int, dict[str, int]] = {}
        """The runs of each host by job."""
        self._where: dict[str, dict[int, int]] = {}
        """The runs of each job with an SLA by host."""
        self._drains: dict[int, None] = {}
        self._waits: dict[int, None] = {}
        """The hosts still to be emptied."""
        self._draining: dict[str, int] = {}
        self._left: dict[str, int] = {}
        """The instances of each job on hosts still to be emptied."""
        self._closed: dict[str, None] = {}
        self._shut: dict[int, int] = {}
        """So many jobs of a host that is still to be emptied are closed."""
        self._batch: dict[int, tuple[int, int]] = {}
        """By host, its preemptible batch tasks that are available, and the sum of the seconds since when."""
        self._members: dict[int, int] = {}
        """Members of gangs by host."""

    def begin(self) -> None:
        """There is a campaign: from now on runs are counted."""
        if self._is_on:
            return
        self._clear()
        self._is_on = True
        placed = np.flatnonzero(self._runs.arena["placed"])
        self.held(placed, self._runs.arena["host"][placed].astype(np.int64) - 1, 1)
        self._runs.watch = self

    def end(self) -> None:
        """There is none any more."""
        if self._is_on:
            self._clear()
            self._is_on, self._runs.watch = False, None

    def held(self, slots: I64, numbers: I64, sign: int) -> None:
        """Runs take places on hosts, or give them back."""
        if not len(slots):
            return
        order = np.argsort(slots, kind="stable")
        slots, numbers = slots[order], numbers[order]
        at = 0
        for job_id, part in self._runs.waits.by_job(slots):
            row, its = self._runs.jobs[job_id], numbers[at : at + len(part)].tolist()
            for number in its:
                self._count(number, job_id, row, sign)
            if row.gang:
                for number, slot in zip(its, part.tolist(), strict=True):
                    self._members[number] = self._members.get(number, 0) + sign * row.in_gang(slot - row.base)
            at += len(part)
        self.timed(slots, sign)

    def timed(self, slots: I64, sign: int) -> None:
        """Batch tasks are available since then, or (-1) that isn't so any more."""
        arena = self._runs.arena
        slots = np.sort(slots[arena["available_s"][slots] > 0])
        for job_id, part in self._runs.waits.by_job(slots):
            if self._runs.jobs[job_id].service or not self._runs.jobs[job_id].preemptible:
                continue
            numbers, since_s = arena["host"][part].tolist(), arena["available_s"][part].tolist()
            for number, second in zip(numbers, since_s, strict=True):
                runs, seconds = self._batch.get(number - 1, (0, 0))
                self._batch[number - 1] = runs + sign, seconds + sign * second

    def changed(self, job_id: str) -> None:
        """A job has another budget, or one for the first time."""
        if not self._is_on:
            return
        if job_id in self._where:
            self._judge(job_id)
        elif self._runs.jobs[job_id].sla and (where := {n: on[job_id] for n, on in self._on.items() if job_id in on}):
            self._where[job_id] = where
            self._left[job_id] = sum(count for number, count in where.items() if number in self._waits)
            self._draining[job_id] = sum(count for number, count in where.items() if number in self._drains)
            self._judge(job_id)

    def cost(self, number: int, now_s: int) -> tuple[int, ...]:
        """The same as `drain_costs` has it: each part of it is kept up here, for one host at a time."""
        firm = bound = services = 0
        for job_id, count in self._on.get(number, {}).items():
            row = self._runs.jobs[job_id]
            if not row.service:
                firm += 0 if row.preemptible else count
            elif row.stays or row.bound:
                bound += count
            else:
                services += count
        runs, seconds = self._batch.get(number, (0, 0))
        return firm, bound, self._members.get(number, 0), services, max(0, runs * now_s - seconds)

    def jobs(self, number: int) -> Mapping[str, int]:
        """The runs of a host by job."""
        return self._on.get(number, {})

    def wait(self, number: int, waits: bool) -> None:
        """A host is still to be emptied, or not any more."""
        if waits is (number in self._waits):
            return
        if waits:
            self._waits[number] = None
            self._shut[number] = 0
        else:
            del self._waits[number], self._shut[number]
        for job_id, count in self._on.get(number, {}).items():
            if job_id in self._where:
                self._left[job_id] = self._left.get(job_id, 0) + (count if waits else -count)
                if waits and job_id in self._closed:
                    self._shut[number] += 1

    def drain(self, number: int, drains: bool) -> None:
        """A host begins to drain, or doesn't any more."""
        if drains is (number in self._drains):
            return
        if drains:
            self._drains[number] = None
        else:
            del self._drains[number]
        for job_id, count in self._on.get(number, {}).items():
            if job_id in self._where:
                self._draining[job_id] = self._draining.get(job_id, 0) + (count if drains else -count)
                self._judge(job_id)

    def gone(self, number: int) -> None:
        """A host is forgotten, which has no runs."""
        self.wait(number, False)
        self.drain(number, False)

    def is_open(self, number: int) -> bool:
        """Whether each job of a host that is still to be emptied may have more instances on hosts that drain."""
        return not self._shut.get(number)

    def in_order(self) -> Iterator[tuple[str, list[int]]]:
        """The jobs with an SLA that have instances on hosts still to be emptied, that with most budgets' worth of them
        first, each with those of these hosts that are open.
        """
        ordered = sorted(
            (job_id for job_id, count in self._left.items() if count and job_id not in self._closed),
            key=lambda job_id: (-self._left[job_id] * PARTS // self.budget(job_id), job_id),
        )
        for job_id in ordered:
            yield job_id, [n for n in self._where[job_id] if n in self._waits and not self._shut[n]]

    def open(self) -> Iterable[int]:
        """All hosts still to be emptied that are open."""
        return (number for number in self._waits if not self._shut[number])

    def budget(self, job_id: str) -> int:
        """The number of instances of a job that may leave at a time."""
        return budget_of(self._runs.jobs[job_id])

    def _count(self, number: int, job_id: str, row: JobRow, sign: int) -> None:
        on = self._on.setdefault(number, {})
        count = on[job_id] = on.get(job_id, 0) + sign
        if not count:
            del on[job_id]
            if not on:
                del self._on[number]
        if not row.sla and job_id not in self._where:
            return
        where = self._where.setdefault(job_id, {})
        if count:
            where[number] = count
        else:
            del where[number]
        if number in self._waits:
            self._left[job_id] = self._left.get(job_id, 0) + sign
            if job_id in self._closed and (count == 0 or (count == 1 and sign > 0)):
                self._shut[number] += 1 if sign > 0 else -1
        if number in self._drains:
            self._draining[job_id] = self._draining.get(job_id, 0) + sign
            self._judge(job_id)
        if not where:
            self._forget(job_id)

    def _forget(self, job_id: str) -> None:
        del self._where[job_id]
        self._left.pop(job_id, None)
        self._draining.pop(job_id, None)
        self._closed.pop(job_id, None)

    def _judge(self, job_id: str) -> None:
        """Closes or opens a job."""
        closed = self._draining.get(job_id, 0) >= BUDGETS * self.budget(job_id)
        if closed is (job_id in self._closed):
            return
        if closed:
            self._closed[job_id] = None
        else:
            del self._closed[job_id]
        for number in self._where[job_id]:
            if number in self._waits:
                self._shut[number] += 1 if closed else -1


def budget_of(row: JobRow) -> int:
    """The number of instances of a job that may leave at a time, at least one: those that its SLA never lets go are
    waited for in their drain.
    """
    if row.surge or not row.sla:
        return row.surge or max(1, row.instances)
    return max(1, row.bounds.limit(row.instances)) if row.bounds is not None else 1
