"""The series of tasks by state, of the cell and of pools; lifecycle's. Tasks of jobs that are over count no more."""

from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy import Connection, select

from events.codes import ENDED_TASKS, LIVE_TASKS, TaskState
from events.columns import I32, I64, counted, distinct
from projections.views import tables
from projections.views.blocks import BLOCK, Blocks, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.named_tasks import COUNTS, STATES, NamedTasks
from projections.views.pool_series import PoolTaskSeries
from projections.views.record_context import RecordContext
from projections.views.rows import JobRow
from projections.views.series_columns import Columns

OPEN = (TaskState.QUEUED, TaskState.ORDERED, TaskState.RUNNING, TaskState.STOPPING, TaskState.BACKOFF)
NAMES: dict[int, str] = {state: state.name.lower() for state in TaskState}
"""The names of levels and counts."""
HELD = "held"
"""The level of tasks in BACKOFF that wait because their job is held."""
OLDEST = "oldest_s"
"""The level that is the second since which the task waits that waits longest; 0: none does."""


class TaskSeries:
    """The series of the tasks of a cell by state."""

    def __init__(
        self, columns: Columns, pools: PoolTaskSeries, on_leaving: Callable[[RecordContext, str, I64], None]
    ) -> None:
        self._columns = columns
        self._pools = pools
        self._left = on_leaving
        """Told of the instances of a job that have left the queue for no host."""
        self._queued: dict[int, int] = {}
        """The number of queued tasks, by the second since which they are."""

    def restore(self, connection: Connection) -> None:
        """Counts the tasks that are queued."""
        blocks, jobs = tables.task_blocks.c, tables.jobs.c
        state, since = TASK_COLUMNS.index("state"), TASK_COLUMNS.index("state_s")
        over = select(jobs.base, jobs.slots).where(jobs.queued > 0, jobs.ended_ms > 0)
        stretches = [(base, base + slots) for base, slots in connection.execute(over)]
        for block, data in connection.execute(select(blocks.block, blocks.data).where(blocks.waiting > 0)):
            columns = unpack(data, len(TASK_COLUMNS))
            queued = columns[state] == TaskState.QUEUED
            for start, end in stretches:
                queued[max(0, start - block * BLOCK) : max(0, end - block * BLOCK)] = False
            self._note(columns[since][queued], 1)

    def moved(
        self, moment: RecordContext, selection: NamedTasks, counts: I64, before: I32, after: I32, since: I32
    ) -> None:
        """Tasks have other states; `counts`: how many more there are by job and state, `since`: when they got the
        state that they had before.
        """
        jobs = selection.jobs
        if any(job.ended_ms for job in jobs):
            open_ = np.array([not job.ended_ms for job in jobs])
            mine = open_[selection.job]
            selection, before, after, since = selection.some(mine), before[mine], after[mine], since[mine]
            counts, jobs = counts[open_], [job for job in jobs if not job.ended_ms]
        if not jobs:
            return
        self._add(jobs, counts)
        leaving, came = before == TaskState.QUEUED, after == TaskState.QUEUED
        if leaving.any():
            without_host = leaving & (after != TaskState.ORDERED)
            for job in distinct(selection.job[without_host]).tolist():
                self._left(
                    moment, selection.jobs[job].job_id, selection.instance[without_host & (selection.job == job)]
                )
            self._note(since[leaving & ~came], -1)
        if came.any():
            news = int((came & ~leaving).sum())
            self._note(np.full(news, moment.now // 1000, dtype=np.int32), 1)
        self._set_oldest()

    def moved_one(self, moment: RecordContext, job: JobRow, instance: int, before: int, after: int, since: int) -> None:
        """The same of one task."""
        if job.ended_ms:
            return
        if before != after:
            self._add_one(job, before, -1)
            self._add_one(job, after, 1)
            waits = (after == TaskState.QUEUED) - (before == TaskState.QUEUED)
            lives = (after in LIVE_TASKS) - (before in LIVE_TASKS)
            if waits or lives:
                self._pools.add(job.pool, waits, lives)
            if waits:
                self._note_some(since if waits < 0 else moment.now // 1000, waits)
        if before == TaskState.QUEUED and after != TaskState.ORDERED:
            self._left(moment, job.job_id, np.array([instance]))
        self._set_oldest()

    def job_over(self, moment: RecordContext, job: JobRow, tasks: Blocks) -> None:
        """A job is over: whatever the states of its tasks, they count no more."""
        if not any(getattr(job, COUNTS[state]) for state in OPEN):
            return
        counts = np.zeros((1, STATES), dtype=np.int64)
        for state in OPEN:
            counts[0, state] = -getattr(job, COUNTS[state])
        self._add([job], counts)
        if job.queued:
            places = tasks.place(job.base + np.arange(job.instances))
            queued = np.flatnonzero(tasks["state"][places] == TaskState.QUEUED)
            self._note(tasks["state_s"][places[queued]], -1)
            self._set_oldest()
            self._left(moment, job.job_id, queued)

    def job_held(self, job: JobRow) -> None:
        """A job is held, or released."""
        if not job.ended_ms:
            self._add_held(job.backoff if job.held_ms else -job.backoff)

    def _add_held(self, more: int) -> None:
        if more:
            self._columns.set(HELD, self._columns.level(HELD) + more)

    def _add(self, jobs: Sequence[JobRow], counts: I64) -> None:
        on_hold = [number for number, job in enumerate(jobs) if job.held_ms]
        self._add_held(int(counts[on_hold, TaskState.BACKOFF].sum()) if on_hold else 0)
        sums = counts.sum(axis=0).tolist()
        for state in OPEN:
            if sums[state]:
                name = NAMES[state]
                self._columns.set(name, self._columns.level(name) + sums[state])
        for state in ENDED_TASKS:
            if sums[state] > 0:
                self._columns.count(NAMES[state], sums[state])
        pools: dict[str, tuple[int, int]] = {}
        more_live = counts[:, list(LIVE_TASKS)].sum(axis=1).tolist()
        for job, more, lives in zip(jobs, counts[:, TaskState.QUEUED].tolist(), more_live, strict=True):
            queued, live = pools.get(job.pool, (0, 0))
            pools[job.pool] = queued + more, live + lives
        for path, (queued, live) in pools.items():
            if queued or live:
                self._pools.add(path, queued, live)

    def _add_one(self, job: JobRow, state: int, more: int) -> None:
        """A job has a task of a state, or has it no longer."""
        if state == TaskState.BACKOFF and job.held_ms:
            self._add_held(more)
        if state in OPEN:
            self._columns.set(NAMES[state], self._columns.level(NAMES[state]) + more)
        elif state in ENDED_TASKS and more > 0:
            self._columns.count(NAMES[state], more)

    def _note(self, since: I32, sign: int) -> None:
        seconds, tasks = counted(since)
        for second, number in zip(seconds.tolist(), tasks.tolist(), strict=True):
            self._note_some(second, sign * number)

    def _note_some(self, second: int, more: int) -> None:
        rest = self._queued.get(second, 0) + more
        if rest:
            self._queued[second] = rest
        else:
            self._queued.pop(second, None)

    def _set_oldest(self) -> None:
        if self._columns.level(OLDEST) not in self._queued:
            self._columns.set(OLDEST, min(self._queued, default=0))
