"""The series of waiting tasks by reason: those that entitlement holds back, and those that placement finds no place
for, each as its machine knows them (`unread.py`).
"""

from collections.abc import Iterable
from itertools import pairwise

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.columns import I32, I64, spread
from events.records.entitlement import GangsAdmitted, GangsHeld
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from projections.views import tables
from projections.views.cache import Cache
from projections.views.reasons import per_job
from projections.views.record_context import Folds, RecordContext
from projections.views.series_columns import Columns
from projections.views.series_rows import HeldTasksRow, UnplacedTasksRow

HELD = "held/"
UNPLACED = "unplaced/"
"""Before the codes in the names of levels."""
Ranges = list[tuple[str, int, int]]
"""Code, first instance and count of tasks that wait."""
_ranges = msgspec.msgpack.Decoder(Ranges)


class HeldTasks:
    """Tasks that entitlement holds back."""

    def __init__(self, cache: Cache, columns: Columns) -> None:
        self._rows = cache.held_tasks
        self._columns = columns
        self._jobs: dict[str, Ranges] = {}
        self.folds: Folds = {GangsHeld: self._said, GangsAdmitted: self._admitted}

    def restore(self, connection: Connection) -> None:
        """Finds them again."""
        for job_id, ranges in connection.execute(select(tables.held_tasks)):
            self._jobs[job_id] = _ranges.decode(ranges)

    def _said(self, moment: RecordContext, event: GangsHeld) -> None:
        for job_id, instances in _instances(event):
            self._put(job_id, instances, event.code)

    def _admitted(self, moment: RecordContext, event: GangsAdmitted) -> None:
        for job_id, instances in _instances(event) if self._jobs else ():
            self.left(job_id, instances)

    def left(self, job_id: str, instances: I32 | I64) -> None:
        """Tasks of a job are no longer in the queue."""
        if job_id in self._jobs:
            self._put(job_id, instances, "")

    def _put(self, job_id: str, instances: I32 | I64, code: str) -> None:
        """Tasks of a job wait for a code, or, without one, no longer."""
        before = self._jobs.get(job_id, [])
        codes = [*dict.fromkeys([*(each for each, _, _ in before), *([code] if code else [])])]
        size = max([int(instances.max(initial=-1)) + 1, *(first + count for _, first, count in before)])
        standings = np.zeros(size, dtype=np.int64)
        for each, first, count in before:
            standings[first : first + count] = codes.index(each) + 1
        after = standings.copy()
        after[instances] = codes.index(code) + 1 if code else 0
        more = np.bincount(after, minlength=len(codes) + 1) - np.bincount(standings, minlength=len(codes) + 1)
        for each, change in zip(codes, more[1:].tolist(), strict=True):
            if change:
                self._columns.set(HELD + each, self._columns.level(HELD + each) + change)
        self._keep(job_id, codes, after)

    def _keep(self, job_id: str, codes: list[str], standings: I64) -> None:
        edges = [0, *(np.flatnonzero(np.diff(standings)) + 1).tolist(), len(standings)]
        parts = [(first, end) for first, end in pairwise(edges) if end > first and standings[first]]
        ranges = [(codes[standings[first] - 1], first, end - first) for first, end in parts]
        if ranges:
            self._jobs[job_id] = ranges
            self._rows.put(HeldTasksRow(job_id, msgspec.msgpack.encode(ranges)))
        elif self._jobs.pop(job_id, None) is not None:
            self._rows.remove(job_id)


class UnplacedTasks:
    """Tasks that placement finds no place for. It says a reason again only where it is another one, so tasks that come
    to wait later for the same one aren't counted.
    """

    def __init__(self, cache: Cache, columns: Columns) -> None:
        self._rows = cache.unplaced_tasks
        self._columns = columns
        self._jobs: dict[tuple[str, int], tuple[str, int]] = {}
        self.folds: Folds = {
            GangsUnplaced: self._unplaced,
            GangsReturned: self._returned,
            TasksPlaced: self._placed,
        }

    def restore(self, connection: Connection) -> None:
        """Finds them again."""
        for job_id, gang, code, tasks in connection.execute(select(tables.unplaced_tasks)):
            self._jobs[job_id, gang] = (code, tasks)

    def _unplaced(self, moment: RecordContext, event: GangsUnplaced) -> None:
        self._put(event.job_id, int(event.size > 1), event.code, event.tasks)

    def _returned(self, moment: RecordContext, event: GangsReturned) -> None:
        gangs = event.gang_array
        for gang in (0, 1):
            for job_id, tasks in per_job(event, np.where(gangs == gang, event.count_array, 0)):
                self._lower(job_id, (gang,), tasks)

    def _placed(self, moment: RecordContext, event: TasksPlaced) -> None:
        for job_id, tasks in per_job(event) if self._jobs else ():
            self._lower(job_id, (0, 1), tasks)

    def left(self, job_id: str, tasks: int) -> None:
        """So many tasks of a job are no longer in the queue."""
        self._lower(job_id, (0, 1), tasks)

    def _lower(self, job_id: str, gangs: Iterable[int], tasks: int) -> None:
        for gang in gangs:
            code, before = self._jobs.get((job_id, gang), ("", 0))
            if before:
                self._put(job_id, gang, code, max(0, before - tasks))

    def _put(self, job_id: str, gang: int, code: str, tasks: int) -> None:
        for each, change in ((self._jobs.get((job_id, gang), ("", 0)), -1), ((code, tasks), 1)):
            if each[1]:
                name = UNPLACED + each[0]
                self._columns.set(name, self._columns.level(name) + change * each[1])
        if tasks:
            self._jobs[job_id, gang] = (code, tasks)
            self._rows.put(UnplacedTasksRow(job_id, gang, code, tasks))
        elif self._jobs.pop((job_id, gang), None) is not None:
            self._rows.remove((job_id, gang))


def _instances(event: GangsHeld | GangsAdmitted) -> Iterable[tuple[str, I64]]:
    """The jobs that a record names, each with its instances."""
    job, first, count = event.job_array, event.first_array, event.count_array
    order = np.argsort(job, kind="stable")
    ends = np.searchsorted(job[order], np.arange(len(event.job_ids)), side="right").tolist()
    for job_id, start, end in zip(event.job_ids, [0, *ends], ends, strict=False):
        mine = order[start:end]
        yield job_id, spread(first[mine], count[mine])
