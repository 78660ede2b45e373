"""Where waiting tasks stand: what entitlement last said of each, in a column, and how many tasks of each job say the
same, in rows that lists of jobs and pools read.

Entitlement says it of runs that wait, lifecycle ends that; either may come first. So entitlement's word counts only for
a task that still waits at the run it names, and is gone when the task is over, or is at its next run.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from events.codes import TaskState
from events.columns import I32, I64, counted, distinct
from events.ranks import are_entitled, ranks_of
from events.reasons import stands_aside
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, GangsHeld
from projections.views.cache import Cache
from projections.views.job_history import concerns
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import JobRow, MetaRow, to_json
from projections.views.sharing_rows import WaitingRow, WaitReasonRow

HOLDS_MAX = (1 << 31) - 2
"""Numbers of holds begin at 1 again after so many."""
SPAN = 1 << 32
"""More than there are standings."""
NEXT_HOLD = "next_hold"
NUMBERS = ("asked", "allocated", "entitlement", "limit", "largest", "not_before_ms")


class Standing(IntEnum):
    """The column `standing` of tasks that no hold is about; above 0 it is the number of a hold."""

    UNKNOWN = 0
    """Entitlement has said nothing of this run."""
    ENTITLED = -1
    """Admitted: a claim, or a run within the entitlement of its pool."""
    BORROWED = -2
    """Admitted beyond the entitlement."""


class Waiting:
    """Counts tasks that wait, by job and standing. Of jobs that are over nothing is counted."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def count(self, jobs: Sequence[JobRow], job: I64, standing: I32, sign: int) -> None:
        """Tasks of `jobs`, each with the index of its job, begin (1) or cease (-1) to wait with a standing."""
        keys, counts = counted(job * SPAN + standing - Standing.BORROWED)
        pairs = [(jobs[key // SPAN], key % SPAN + Standing.BORROWED) for key in keys.tolist()]
        self._cache.waiting.load([(each.job_id, value) for each, value in pairs])
        tasks = (sign * counts).tolist()
        self.count_each([(each, value, more) for (each, value), more in zip(pairs, tasks, strict=True)])

    def count_each(self, waits: Iterable[tuple[JobRow, int, int]]) -> None:
        """Counts waits: a job, a standing and how many tasks more wait with it."""
        rows = self._cache.waiting
        for job, standing, tasks in waits:
            if job.ended_ms:
                continue
            place = job.job_id, standing
            row = rows.change(place) or rows.put(WaitingRow(job.job_id, standing))
            row.tasks += tasks
            if not row.tasks:
                rows.remove(place)
            if standing > 0:
                self._count_hold(standing, tasks)

    def leave(self, job: JobRow) -> None:
        """A job is over: nothing of it waits any more."""
        if not job.queued:
            return
        tasks = self._cache.tasks
        places = tasks.place(job.base + np.arange(job.instances))
        places = places[tasks["state"][places] == TaskState.QUEUED]
        self.count([job], np.zeros(len(places), dtype=np.int64), tasks["standing"][places], -1)
        tasks["standing"][places] = Standing.UNKNOWN
        tasks.touch(places)

    def _count_hold(self, number: int, tasks: int) -> None:
        row = self._cache.holds.change(number)
        if row is None:
            return
        row.tasks += tasks
        if not row.tasks:
            self._cache.holds.remove(number)


class WaitingFold:
    """Folds what entitlement says of waiting tasks."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._waiting = Waiting(cache)
        self.folds: Folds = {GangsHeld: self._held, GangsAdmitted: self._admitted, AdmissionsRanked: self._admitted}

    def _held(self, moment: RecordContext, event: GangsHeld) -> None:
        number = self._hold(moment, event)
        self._set(moment, event, np.full(len(event.job_array), number))
        hold = self._cache.holds.get(number)
        if hold is not None and not hold.tasks:
            self._cache.holds.remove(number)

    def _admitted(self, moment: RecordContext, event: GangsAdmitted | AdmissionsRanked) -> None:
        standing = np.where(are_entitled(ranks_of(event)), Standing.ENTITLED, Standing.BORROWED)
        self._set(moment, event, standing, isinstance(event, AdmissionsRanked))

    def _hold(self, moment: RecordContext, event: GangsHeld) -> int:
        """The number of a new hold."""
        meta = self._cache.meta
        row = meta.get(NEXT_HOLD)
        number = int(row.value) if row else 1
        meta.put(MetaRow(NEXT_HOLD, str(number % HOLDS_MAX + 1)))
        numbers = to_json({name: getattr(event, name) for name in NUMBERS})
        aside = stands_aside(event.code, event.at, event.asked, event.limit)
        of = (event.pool, event.at, event.code, event.firm, event.controllers)
        self._cache.holds.put(WaitReasonRow(number, moment.round, *of, aside, numbers))
        return number

    def _set(
        self,
        moment: RecordContext,
        event: GangsHeld | GangsAdmitted | AdmissionsRanked,
        standing: I64,
        ranked: bool = False,
    ) -> None:
        """Tasks stand so from now on; `ranked`: only those that are admitted, running ones too."""
        jobs = self._cache.jobs
        jobs.load(event.job_ids)
        job_rows = [jobs.get(job_id) for job_id in event.job_ids]
        rows = [row for row in job_rows if row is not None and not row.ended_ms and concerns(row, moment)]
        if not rows:
            return
        at = {row.job_id: index for index, row in enumerate(rows)}
        index = np.array([at.get(job_id, -1) for job_id in event.job_ids], dtype=np.int64)
        job_index, instance, run = event.items()
        job = index[job_index]
        columns = np.stack([job, instance, run, np.repeat(standing, event.count_array)]).astype(np.int64, copy=False)
        columns = columns[:, job >= 0]
        sizes = np.array([row.instances for row in rows], dtype=np.int64)
        columns = columns[:, columns[1] < sizes[columns[0]]]
        self._write(moment, rows, columns, ranked)

    def _write(self, moment: RecordContext, rows: list[JobRow], columns: I64, ranked: bool) -> None:
        tasks = self._cache.tasks
        bases = np.array([row.base for row in rows], dtype=np.int64)
        places = tasks.place(bases[columns[0]] + columns[1])
        queued = tasks["state"][places] == TaskState.QUEUED
        before = tasks["standing"][places]
        meant = before < 0 if ranked else queued & (tasks["run"][places] == columns[2])
        job, places, standing = columns[0, meant], places[meant], columns[3, meant]
        queued, before = queued[meant], before[meant]
        tasks["standing"][places] = standing
        news = queued & ~self._same(before, standing)
        tasks["since_s"][places[news]] = moment.now // 1000
        tasks.touch(places)
        self._waiting.count(rows, job[queued], before[queued], -1)
        self._waiting.count(rows, job[queued], standing[queued].astype(np.int32), 1)

    def _same(self, before: I32, standing: I64) -> NDArray[np.bool_]:
        """Whether it was said before: the same admission, or a hold of the same code by the same pool."""
        same: NDArray[np.bool_] = before == standing
        holds = self._cache.holds
        for number in distinct(standing[standing > 0]).tolist():
            new = holds.get(number)
            for other in distinct(before[(standing == number) & (before > 0)]).tolist():
                old = holds.get(other)
                if old is not None and new is not None and (old.code, old.at) == (new.code, new.at):
                    same |= (before == other) & (standing == number)
        return same
