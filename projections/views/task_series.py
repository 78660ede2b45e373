"""The series of tasks by state, of the cell and of pools; lifecycle's. Tasks of jobs that are over count no more."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import numpy as np
from sqlalchemy import Connection, select

from events.codes import ENDED_TASKS, LIVE_TASKS, TaskState
from events.columns import I32, I64, counted, distinct
from projections.views import tables
from projections.views.blocks import BLOCK, Blocks, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.named_tasks import COUNTS, STATES, NamedTasks
from projections.views.pool_series import PoolTasks
from projections.views.record_context import RecordContext
from projections.views.rows import JobRow
from projections.views.series_steps import TopicSteps

OPEN = (TaskState.QUEUED, TaskState.ORDERED, TaskState.RUNNING, TaskState.STOPPING, TaskState.BACKOFF)
NAMES: dict[int, str] = {
    state: f"{'tasks' if state in OPEN else 'ended'}/{state.name.lower()}" for state in (*OPEN, *ENDED_TASKS)
}
"""The name of the value that counts tasks of a state, or those that came to their end in it."""
ON_HOLD, OLDEST = "on_hold", "oldest_s"
_open_tasks: Callable[[JobRow], tuple[int, ...]] = attrgetter(*(COUNTS[state] for state in OPEN))
_GROUPS = ([TaskState.QUEUED], list(LIVE_TASKS), [TaskState.BACKOFF])


class TaskSeries:
    """The series of the tasks of a cell by state."""

    def __init__(
        self, steps: TopicSteps, pools: PoolTasks, on_leaving: Callable[[RecordContext, str, I64], None]
    ) -> None:
        self._steps = steps
        self._pools = pools
        self._on_leaving = on_leaving
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
            is_open = np.array([not job.ended_ms for job in jobs])
            mine = is_open[selection.job]
            selection, before, after, since = selection.some(mine), before[mine], after[mine], since[mine]
            counts, jobs = counts[is_open], [job for job in jobs if not job.ended_ms]
        self._count(jobs, counts)
        leaving, came = before == TaskState.QUEUED, after == TaskState.QUEUED
        without_host = leaving & (after != TaskState.ORDERED)
        for job in distinct(selection.job[without_host]).tolist():
            mine = without_host & (selection.job == job)
            self._on_leaving(moment, selection.jobs[job].job_id, selection.instance[mine])
        self._note(since[leaving & ~came], -1)
        self._note_some(moment.now // 1000, int((came & ~leaving).sum()))
        self._set_oldest()

    def moved_one(self, moment: RecordContext, job: JobRow, instance: int, before: int, after: int, since: int) -> None:
        """The same of one task."""
        if job.ended_ms:
            return
        if before != after:
            self._add([(before, -1), (after, 1)])
            if job.held_ms:
                self._add_on_hold((after == TaskState.BACKOFF) - (before == TaskState.BACKOFF))
            waits = (after == TaskState.QUEUED) - (before == TaskState.QUEUED)
            lives = (after in LIVE_TASKS) - (before in LIVE_TASKS)
            if waits or lives:
                self._pools.add(job.pool, waits, lives)
            if waits:
                self._note_some(since if waits < 0 else moment.now // 1000, waits)
                self._set_oldest()
        if before == TaskState.QUEUED and after != TaskState.ORDERED:
            self._on_leaving(moment, job.job_id, np.array([instance]))

    def job_over(self, moment: RecordContext, job: JobRow, tasks: Blocks) -> None:
        """A job is over: whatever the states of its tasks, they count no more."""
        still_open = _open_tasks(job)
        if not any(still_open):
            return
        counts = np.zeros((1, STATES), dtype=np.int64)
        counts[0, list(OPEN)] = -np.array(still_open)
        self._count([job], counts)
        if job.queued:
            places = tasks.place(job.base + np.arange(job.instances))
            queued = np.flatnonzero(tasks["state"][places] == TaskState.QUEUED)
            self._note(tasks["state_s"][places[queued]], -1)
            self._set_oldest()
            self._on_leaving(moment, job.job_id, queued)

    def job_held(self, job: JobRow) -> None:
        """A job is held, or released."""
        if not job.ended_ms:
            self._add_on_hold(job.backoff if job.held_ms else -job.backoff)

    def _count(self, jobs: Sequence[JobRow], counts: I64) -> None:
        """Counts the tasks of jobs, so many more by job and state."""
        self._add(enumerate(counts.sum(axis=0).tolist()))
        rows = zip(jobs, *(counts[:, states].sum(axis=1).tolist() for states in _GROUPS), strict=True)
        pools: dict[str, tuple[int, int]] = {}
        for job, waits, lives, in_backoff in rows:
            queued, live = pools.get(job.pool, (0, 0))
            pools[job.pool] = queued + waits, live + lives
            if job.held_ms:
                self._add_on_hold(in_backoff)
        for path, (queued, live) in pools.items():
            if queued or live:
                self._pools.add(path, queued, live)

    def _add(self, counts: Iterable[tuple[int, int]]) -> None:
        """There are so many more tasks of each state."""
        for state, more in counts:
            if more and state in OPEN:
                self._steps.add(NAMES[state], more)
            elif more > 0 and state in ENDED_TASKS:
                self._steps.count(NAMES[state], more)

    def _add_on_hold(self, more: int) -> None:
        if more:
            self._steps.add(ON_HOLD, more)

    def _note(self, since: I32, sign: int) -> None:
        seconds, tasks = counted(since)
        for second, number in zip(seconds.tolist(), tasks.tolist(), strict=True):
            self._note_some(second, sign * number)

    def _note_some(self, second: int, more: int) -> None:
        """So many more tasks are queued since a second."""
        tasks = self._queued.get(second, 0) + more
        if tasks:
            self._queued[second] = tasks
        else:
            self._queued.pop(second, None)

    def _set_oldest(self) -> None:
        if self._steps.level(OLDEST) not in self._queued:
            self._steps.set(OLDEST, min(self._queued, default=0))
