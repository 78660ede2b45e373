"""Amounts that jobs asked for and used, counted when runs end: for each job, and for each pool and owner, by month.

All of it follows from lifecycle's topic: what hosts reported of a run counts from the round that has read the report,
and once, while the run is the present one of its task. A run belongs to the month in which it ended (decision
074).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from events.codes import LIVE_TASKS
from events.columns import indexed
from events.resources import Amounts
from projections.views.cache import Cache
from projections.views.host_use import NEEDS_KEPT, SPAN, need_of
from projections.views.named_tasks import NamedTasks
from projections.views.rows import JobRow
from projections.views.run_needs import RunNeeds
from projections.views.usage_rows import MOST

DAY_MS = 86_400_000
Use = tuple[int, int, int, int, int]
"""CPU time in ms, most memory in KiB, throttled in ms, KiB read and written of a run."""
RunUse = tuple[str, int, int, Use]
"""Job, instance, run, and its use."""


def month_of(at_ms: int) -> int:
    """The month of a time: its year times 100 and its number, in UTC."""
    return _month(at_ms // DAY_MS)


@lru_cache(64)
def _month(day: int) -> int:
    time = datetime.fromtimestamp(day * 86_400, UTC)
    return time.year * 100 + time.month


class UsageFold:
    """The counts of what runs asked for and used."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def ended(self, now: int, selection: NamedTasks, needs: RunNeeds) -> None:
        """Live runs end at this time of lifecycle, of which the columns still tell how they stood."""
        rest = np.ones(len(selection.at), dtype=np.bool_)
        for amounts, mask in needs.own(selection):
            self._ended(now, selection.some(mask), amounts)
            rest &= ~mask
        self._ended(now, selection if rest.all() else selection.some(rest))

    def _ended(self, now: int, selection: NamedTasks, need: Amounts | None = None) -> None:
        """The same of runs that held this; None: what their jobs ask."""
        tasks = self._cache.tasks
        seconds = np.maximum(now // 1000 - tasks["ordered_s"][selection.places], 0)
        kinds, kind = indexed(selection.job * SPAN + tasks["version"][selection.places])
        sums = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(sums, kind, seconds)
        counts = np.bincount(kind, minlength=len(kinds))
        month, new = month_of(now), self._cache.usage.new
        for key, count, lasted in zip(kinds.tolist(), counts.tolist(), sums.tolist(), strict=True):
            row = selection.jobs[key // SPAN]
            usual = _asked(row.need, row.needs, key % SPAN)
            cpu, mib = usual if need is None else (need.get("cpu", 0), need.get("memory", 0))
            request = min(cpu * lasted, MOST), min(mib * lasted, MOST)
            new.append((row.job_id, month, row.pool, row.owner, count, 0, lasted, *request, 0, 0, 0, 0, 0, 0))

    def reported(self, now: int, uses: Sequence[RunUse]) -> None:
        """Lifecycle has read, in its round at this time, what hosts say of runs that are over. Of a run that isn't the
        present one of its task, or has ended already, nothing counts.
        """
        if not uses:
            return
        jobs = self._cache.jobs.get_all([job_id for job_id, *_ in uses])
        by_run = {
            each[:3]: (row, each[3])
            for each, row in zip(uses, jobs, strict=True)
            if row is not None and row.base >= 0 and each[1] < row.instances
        }
        slots = np.array([row.base + instance for (_, instance, _), (row, _) in by_run.items()], dtype=np.int64)
        tasks, places = self._cache.tasks, self._cache.tasks.place(slots)
        columns = (tasks[name][places].tolist() for name in ("run", "state", "ordered_s"))
        for ((_, _, run), (row, use)), present, state, ordered_s in zip(by_run.items(), *columns, strict=True):
            if run == present and LIVE_TASKS[0] <= state <= LIVE_TASKS[-1]:
                self._add(row, now, max(0, now // 1000 - ordered_s), use)

    def _add(self, job: JobRow, now: int, seconds: int, use: Use) -> None:
        cpu_ms, memory_kib, *more = use
        used = cpu_ms, min((memory_kib >> 10) * seconds, MOST), memory_kib, *more
        self._cache.usage.new.append((job.job_id, month_of(now), job.pool, job.owner, 0, 1, 0, 0, 0, *used))


@lru_cache(NEEDS_KEPT)
def _asked(need: str, needs: str, version: int) -> tuple[int, int]:
    """CPU and memory that a task of a version of a job asks for, by these columns of its row."""
    amounts = need_of(need, needs, version)
    return amounts.get("cpu", 0), amounts.get("memory", 0)
