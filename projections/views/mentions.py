"""The runs that a record names: those that a decision is about, and those by which what led to it is found
(`cause_ties.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.bounds import INT_MAX
from events.columns import I32, I64
from events.records.base import Event, ItemsEvent, RangesEvent
from events.records.entitlement import PreemptionRefused, TurnSet
from events.records.lifecycle import (
    InstancesChanged,
    InstancesTaken,
    InstancesWanted,
    JobAccepted,
    JobHeld,
    UpdateProgressed,
)
from events.records.placement import GangsUnplaced, HostsReserved, MatchingHostsChanged, PreemptionAsked

Run = tuple[str, int, int]
"""Job, instance, run."""
Column = I32 | I64 | tuple[int, ...]


class Window(NamedTuple):
    """Instances of a job, from `first` to `last`, and runs of each."""

    first: int = 0
    last: int = INT_MAX
    first_run: int = 0
    last_run: int = INT_MAX


@dataclass(frozen=True, slots=True)
class NamedRuns:
    """Runs by ranges of instances, in the order of the record. A row of no job names none."""

    job_ids: tuple[str, ...]
    job: Column
    first: Column
    last: Column
    first_run: Column
    last_run: Column

    def __iter__(self) -> Iterator[Run]:
        """The runs, one by one. Only of records that name exact ones."""
        return (run for run, _ in self.each())

    def each(self) -> Iterator[tuple[Run, int]]:
        """The same, each with its row."""
        rows = zip(*map(_listed, (self.job, self.first, self.last, self.first_run)), strict=True)
        for at, (job, first, last, run) in enumerate(rows):
            if 0 <= job < len(self.job_ids):
                yield from (((self.job_ids[job], instance, run), at) for instance in range(first, last + 1))

    def row(self, run: Run) -> int | None:
        """The first row that names a run."""
        rows = self.rows(run[0], Window(run[1], run[1], run[2], run[2]))
        return int(rows[0]) if len(rows) else None

    def rows(self, job_id: str, window: Window) -> NDArray[np.intp]:
        """The rows that name one of some runs of a job."""
        first, last, first_run, last_run = map(np.asarray, (self.first, self.last, self.first_run, self.last_run))
        there = (first <= last) & (first <= window.last) & (last >= window.first)
        there &= (first_run <= window.last_run) & (last_run >= window.first_run)
        there &= np.isin(self.job, [at for at, name in enumerate(self.job_ids) if name == job_id])
        return np.flatnonzero(there)

    def windows(self) -> dict[str, Window]:
        """The least and the greatest instance and run, by job."""
        job_ids, job, columns = self.job_ids, self.job, (self.first, self.last, self.first_run, self.last_run)
        if len(job) == 1:  # most often, and then without numpy's costs
            least, greatest, least_run, greatest_run = columns
            window = Window(int(least[0]), int(greatest[0]), int(least_run[0]), int(greatest_run[0]))
            return {job_ids[int(job[0])]: window} if 0 <= job[0] < len(job_ids) else {}
        order = np.argsort(job, kind="stable")
        ordered = np.asarray(job)[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        if not len(starts):
            return {}
        ends = (np.minimum, np.maximum, np.minimum, np.maximum)
        extremes = [of.reduceat(np.asarray(column)[order], starts) for of, column in zip(ends, columns, strict=True)]
        rows = zip(*(each.tolist() for each in (ordered[starts], *extremes)), strict=True)
        return {job_ids[at]: Window(*window) for at, *window in rows if 0 <= at < len(job_ids)}


def runs_of(event: Event) -> NamedRuns:
    """The runs that a record names one by one."""
    match event:
        case ItemsEvent():
            job, instance, run = event.items()
            return NamedRuns(event.job_ids, job, instance, instance, run, run)
        case RangesEvent():
            first, run = event.first_array, event.run_array
            return NamedRuns(event.job_ids, event.job_array, first, first + event.count_array - 1, run, run)
        case GangsUnplaced():
            return _of_one_job(event.job_id, event.instance, event.instance, event.run, event.run)
        case HostsReserved() | PreemptionAsked() | PreemptionRefused() | TurnSet():
            return _of_one_job(event.job_id, event.first, event.first + event.count - 1, event.run, event.run)
        case _:
            return NamedRuns((), (), (), (), (), ())


def mentioned(event: Event) -> NamedRuns:
    """The runs that a record names, one by one or with all others of an instance or of a job."""
    match event:
        case JobAccepted():
            return _of_one_job(event.job_id, 0, INT_MAX, event.first_run, event.first_run)
        case InstancesTaken() | UpdateProgressed() | InstancesWanted(wanted=False) if event.first:
            return _of_instances(event.job_id, event.first_array, event.count_array, 0, INT_MAX)
        case InstancesWanted(wanted=False) | JobHeld(held=True):
            return _of_one_job(event.job_id, 0, INT_MAX, 0, INT_MAX)
        case MatchingHostsChanged():
            job = event.job_array[event.matches_array == 0]
            return NamedRuns(event.job_ids, job, *((end,) * len(job) for end in (0, INT_MAX, 0, INT_MAX)))
        case InstancesChanged():
            added = event.wanted_array == 1
            first, count = event.first_array[added], event.count_array[added]
            return _of_instances(event.job_id, first, count, event.first_run, event.first_run)
        case _:
            return runs_of(event)


def _of_one_job(job_id: str, first: int, last: int, first_run: int, last_run: int) -> NamedRuns:
    return NamedRuns((job_id,), (0,), (first,), (last,), (first_run,), (last_run,))


def _of_instances(job_id: str, first: I32, count: I32, first_run: int, last_run: int) -> NamedRuns:
    rows = len(first)
    return NamedRuns((job_id,), (0,) * rows, first, first + count - 1, (first_run,) * rows, (last_run,) * rows)


def _listed(column: Column) -> list[int]:
    return column.tolist() if isinstance(column, np.ndarray) else [*column]
