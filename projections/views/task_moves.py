"""Tasks get other states: their columns, the counts of their jobs, the series and the standings follow.

Most records of a quiet cell name one task, and for one task each call of numpy costs more than the work does.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from events.codes import TaskState
from events.columns import I32, I64
from projections.views.cache import Cache
from projections.views.ledger import Ledger
from projections.views.named_tasks import STATES, NamedTasks
from projections.views.record_context import RecordContext
from projections.views.state_times import StateTimes
from projections.views.task_series import TaskSeries
from projections.views.waiting import Standing, Waiting

ALONE = 1


class TaskMoves:
    """Moves tasks from state to state."""

    def __init__(self, cache: Cache, times: StateTimes, series: TaskSeries, ledger: Ledger) -> None:
        self._cache = cache
        self._ledger = ledger
        self._times = times
        self._series = series
        self._waiting = Waiting(cache)

    def move(
        self,
        moment: RecordContext,
        selection: NamedTasks,
        after: NDArray[Any] | int,
        keeps_admission: I64 | None = None,
    ) -> None:
        """Gives tasks new states and counts them in their jobs; `kept`: 1 where one that is queued stays admitted."""
        if len(selection.places) == ALONE:
            one = after if isinstance(after, int) else int(after[0])
            self._move_one(moment, selection, one, None if keeps_admission is None else keeps_admission[0] == 1)
            return
        tasks, places = self._cache.tasks, selection.places
        state = tasks["state"]
        before = state[places]
        first = selection.job * STATES
        size = len(selection.jobs) * STATES
        counted = np.bincount(first + after, minlength=size) - np.bincount(first + before, minlength=size)
        state[places] = after
        since = tasks["state_s"][places]
        self._series.moved(moment, selection, counted.reshape(-1, STATES), before, state[places], since)
        news = places if keeps_admission is not None else places[before != after]
        tasks["since_s"][news] = moment.now // 1000
        self._times.left(tasks, places[before != after], before[before != after], moment.now // 1000)
        tasks.touch(places)
        self._stand(selection, before, keeps_admission)
        cells = np.flatnonzero(counted)
        more = zip(cells.tolist(), counted[cells].tolist(), strict=True)
        self._ledger.moved(moment.now, [(selection.jobs[cell // STATES], cell % STATES, tasks) for cell, tasks in more])

    def _move_one(self, moment: RecordContext, task: NamedTasks, after: int, stays: bool | None) -> None:
        tasks, place, now_s = self._cache.tasks, int(task.places[0]), moment.now // 1000
        job, state = task.jobs[task.job[0]], tasks["state"]
        before, since = int(state[place]), int(tasks["state_s"][place])
        state[place] = after
        self._series.moved_one(moment, job, int(task.instance[0]), before, after, since)
        if before != after or stays is not None:
            tasks["since_s"][place] = now_s
        if before != after:
            self._times.left_one(before, now_s - since)
            tasks["state_s"][place] = now_s
            self._ledger.moved(moment.now, ((job, before, -1), (job, after, 1)))
        tasks.touch(task.places)
        leaves, comes = before == TaskState.QUEUED, after == TaskState.QUEUED
        standing = tasks["standing"]
        if leaves:
            self._waiting.count_each(((job, int(standing[place]), -1),))
        if comes and stays is not None:
            standing[place] = min(int(standing[place]), 0) if stays else Standing.UNKNOWN
        elif leaves and not comes and after != TaskState.ORDERED:
            standing[place] = Standing.UNKNOWN
        if comes:
            self._waiting.count_each(((job, int(standing[place]), 1),))

    def _stand(self, selection: NamedTasks, before: I32, keeps_admission: I64 | None) -> None:
        """Keeps the standing by entitlement of a task that gets a place, and of one that keeps its admission."""
        tasks, places = self._cache.tasks, selection.places
        after, standing = tasks["state"][places], tasks["standing"][places]
        leaving, came = before == TaskState.QUEUED, after == TaskState.QUEUED
        if not leaving.any() and not came.any():
            return
        self._waiting.count(selection.jobs, selection.job[leaving], standing[leaving], -1)
        fresh = (
            np.where(keeps_admission == 1, np.minimum(standing, 0), Standing.UNKNOWN)
            if keeps_admission is not None
            else standing
        )
        over = leaving & ~came & (after != TaskState.ORDERED)
        standing = np.where(came, fresh, np.where(over, Standing.UNKNOWN, standing)).astype(np.int32)
        tasks["standing"][places] = standing
        self._waiting.count(selection.jobs, selection.job[came], standing[came], 1)
