"""The runs that a record names: as columns, since a decision may name 100,000 of them and one is asked for."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from events.records.base import Event, ItemsEvent, RangesEvent
from events.records.entitlement import PreemptionRefused, TurnSet
from events.records.placement import GangsUnplaced, HostsReserved, PreemptionAsked

Run = tuple[str, int, int]
"""Job, instance, run."""
OF_A_GANG = (HostsReserved, PreemptionAsked, PreemptionRefused, TurnSet)
"""Decisions that name the runs of one gang, or one run."""


class NamedRuns:
    """Runs in the order of the record."""

    def __init__(self, job_ids: tuple[str, ...], job: NDArray[Any], instance: NDArray[Any], run: NDArray[Any]) -> None:
        known = (job >= 0) & (job < len(job_ids))
        self._job_ids = job_ids
        self._job, self._instance, self._run = job[known], instance[known], run[known]

    def __len__(self) -> int:
        return len(self._run)

    def __iter__(self) -> Iterator[Run]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> Run:
        return self._job_ids[self._job[at]], int(self._instance[at]), int(self._run[at])

    def __contains__(self, run: Run) -> bool:
        return bool(self.where(run))

    def where(self, run: Run) -> list[int]:
        """At which places a run stands."""
        job_id, instance, number = run
        rows = (self._instance == instance) & (self._run == number)
        return [at for at in np.flatnonzero(rows).tolist() if self._job_ids[self._job[at]] == job_id]

    def names_one_of(self, job_id: str, below: int, number: int | None = None) -> bool:
        """Whether it names a run of one of a job's first instances; with a number, of that run alone."""
        rows = self._instance < below
        if number is not None:
            rows &= self._run == number
        return job_id in {self._job_ids[at] for at in set(self._job[rows].tolist())}


def runs_of(event: Event) -> NamedRuns:
    """The runs that a record names."""
    each: Any = event
    if isinstance(event, GangsUnplaced):
        return _of_one_gang(each.job_id, each.instance, 1, each.run)
    if isinstance(event, OF_A_GANG):
        return _of_one_gang(each.job_id, each.first, each.count, each.run)
    if isinstance(event, ItemsEvent | RangesEvent):
        return NamedRuns(event.job_ids, *event.items())
    return _of_one_gang("", 0, 0, 0)


def _of_one_gang(job_id: str, first: int, count: int, run: int) -> NamedRuns:
    return NamedRuns((job_id,), np.zeros(count, np.int32), np.arange(first, first + count), np.full(count, run))
