"""Tasks that wait for a place, in the order in which they are served: entitled before borrowed, of either jobs that are
bound to hosts before others, then by the number of the admission.

Tasks admitted together, a range of one job, have one number. So waiting tasks are kept as ranges, each with how many of
its tasks wait at which rank; which these are, the columns say.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from events.columns import I64, distinct
from events.ranks import SERVED, Rank
from processors.placement.packing import Mask
from processors.placement.rows import JobRow
from processors.state.arena import Arena
from processors.state.calendar import Calendar
from processors.state.table import Table


class Range:
    """Tasks of a job with one number, from instance `first` up to `end`; `counts`: how many wait, by rank.

    Invariants: no count is below 0; only ranks in `SERVED` have one; their sum over the ranges of a job is
    `Waits.tasks` of it, and that at PARKING over all ranges is `Waits.parking`.
    """

    __slots__ = ("counts", "end", "first", "job_id", "number")

    def __init__(self, number: int, job_id: str, first: int, end: int) -> None:
        self.number = number
        self.job_id = job_id
        self.first = first
        self.end = end
        self.counts = [0] * len(Rank)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and (self.number, self.job_id, self.counts) == (
            other.number,
            other.job_id,
            other.counts,
        )


class Waits:
    """The waiting tasks. Derived from the columns of the arena, and kept up with them."""

    def __init__(self, jobs: Table[str, JobRow], arena: Arena, at: dict[int, str]) -> None:
        self.ranges: dict[int, Range] = {}
        """By the number of the admission."""
        self.tasks: dict[str, int] = {}
        """The number of tasks that wait, by job."""
        self.parking = 0
        """The number of tasks that are to be parked."""
        self.bound: dict[str, None] = {}
        """The jobs with tasks that are bound to hosts, of a rank served first: they have nowhere else to go."""
        self._jobs = jobs
        self._arena = arena
        self._at = at
        self.calendars = {rank: self._calendar(rank) for rank in SERVED}

    def _calendar(self, rank: int) -> Calendar:
        """Since when tasks wait at a rank."""
        arena = self._arena

        def still(slots: I64) -> Mask:
            waits: Mask = (arena["waiting"][slots] > 0) & (arena["rank"][slots] == rank)
            return waits

        return Calendar(arena, "since", still)

    def restored(self) -> None:
        """Finds everything again."""
        self.ranges.clear()
        self.tasks.clear()
        self.parking = 0
        for calendar in self.calendars.values():
            calendar.clear()
        self.bound = {job_id: None for job_id, row in self._jobs.items() if row.bound}
        self.add(np.flatnonzero(self._arena["waiting"]))

    def by_job(self, slots: I64) -> Iterator[tuple[str, I64]]:
        """Ascending slots, job by job."""
        if len(slots):
            owner = self._arena["owner"][slots]
            starts = np.flatnonzero(np.diff(owner, prepend=-1))
            for part in np.split(slots, starts[1:]):
                yield self._at[int(self._arena["owner"][part[0]]) - 1], part

    def job_of(self, slot: int) -> str:
        """The job of a task."""
        return self._at[int(self._arena["owner"][slot]) - 1]

    def jobs_of(self, slots: I64) -> list[str]:
        """The jobs of tasks, each once."""
        return [self._at[owner - 1] for owner in distinct(self._arena["owner"][slots]).tolist()]

    def add(self, slots: I64) -> None:
        """Tasks wait from now on; their columns are set."""
        for number, rank, base, first, last, count in self._groups(slots):
            assert rank in SERVED, f"a task waits at rank {rank}"
            tasks = self.ranges.get(number)
            if tasks is None:
                tasks = self.ranges[number] = Range(number, self._at[base], first - base, last + 1 - base)
            else:
                tasks.first, tasks.end = min(tasks.first, first - base), max(tasks.end, last + 1 - base)
            tasks.counts[rank] += count
            self.parking += count * (rank == Rank.PARKING)
            self.tasks[tasks.job_id] = self.tasks.get(tasks.job_id, 0) + count
        self.moved(slots)

    def remove(self, slots: I64) -> list[str]:
        """Tasks wait no longer; their columns aren't cleared yet. Returns the jobs of which nothing waits now."""
        over: list[str] = []
        for number, rank, _, _, _, count in self._groups(slots):
            tasks = self.ranges[number]
            tasks.counts[rank] -= count
            self.parking -= count * (rank == Rank.PARKING)
            assert tasks.counts[rank] >= 0 <= self.parking, tasks.job_id
            if not any(tasks.counts):
                del self.ranges[number]
            self.tasks[tasks.job_id] -= count
            assert self.tasks[tasks.job_id] >= 0, tasks.job_id
            if not self.tasks[tasks.job_id]:
                del self.tasks[tasks.job_id]
                over.append(tasks.job_id)
        return over

    def moved(self, slots: I64) -> None:
        """Tasks that wait have these slots now."""
        ranks = self._arena["rank"][slots]
        for rank, calendar in self.calendars.items():
            mine = slots[ranks == rank]
            if len(mine):
                calendar.note(mine)

    def in_order(self) -> Iterator[tuple[int, Range]]:
        """Ranges in the order in which they are served, each with the rank that is served now."""
        numbers = sorted(self.ranges)
        if self.bound:
            numbers.sort(key=lambda number: self.ranges[number].job_id not in self.bound)
        for rank in SERVED:
            for number in numbers:
                if self.ranges[number].counts[rank]:
                    yield rank, self.ranges[number]

    def slots(self, rank: int, tasks: Range) -> I64:
        """Those of a range that wait at a rank, ascending."""
        base = self._jobs[tasks.job_id].base
        start, end = base + tasks.first, base + tasks.end
        if end - start == 1:
            return np.array([start])
        arena = self._arena
        waiting = (arena["waiting"][start:end] > 0) & (arena["rank"][start:end] == rank)
        waiting &= arena["admission"][start:end] == tasks.number
        return np.flatnonzero(waiting) + start

    def _groups(self, slots: I64) -> Iterable[tuple[int, int, int, int, int, int]]:
        """Groups slots by number and rank: these, the base of their job, the first slot, the last, and how many."""
        numbers, ranks = self._arena["admission"][slots], self._arena["rank"][slots]
        if len(slots) == 1:
            slot = int(slots[0])
            return ((int(numbers[0]), int(ranks[0]), int(self._arena["owner"][slot]) - 1, slot, slot, 1),)
        order = np.lexsort((slots, ranks, numbers))
        slots, numbers, ranks = slots[order], numbers[order], ranks[order]
        news = np.ones(len(slots), dtype=np.bool_)
        news[1:] = (np.diff(numbers) != 0) | (np.diff(ranks) != 0)
        starts = np.flatnonzero(news)
        ends = np.append(starts[1:], len(slots))[: len(starts)]
        first = slots[starts]
        bases = self._arena["owner"][first] - 1
        columns = (numbers[starts], ranks[starts], bases, first, slots[ends - 1], ends - starts)
        return zip(*(column.tolist() for column in columns), strict=True)
