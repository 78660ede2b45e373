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
from projections.views.cache import Cache
from projections.views.host_use import SPAN, need_of
from projections.views.named_tasks import NamedTasks
from projections.views.rows import JobRow
from projections.views.usage_rows import JobUsageRow, MonthUsageRow

DAY_MS = 86_400_000
Use = tuple[int, int, int, int, int]
"""CPU time in ms, most memory in KiB, throttled in ms, KiB read and written of a run."""
RunUse = tuple[str, int, int, Use]
"""Job, instance, run, and its use."""
UsageRow = JobUsageRow | MonthUsageRow
MOST = 2**63 - 1
"""The largest number of the file: a sum stays there, whatever hosts have said."""


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

    def ended(self, now: int, selection: NamedTasks) -> None:
        """Live runs end at this time of lifecycle, of which the columns still tell how they stood."""
        tasks = self._cache.tasks
        seconds = np.maximum(now // 1000 - tasks["ordered_s"][selection.places], 0)
        kinds, kind = indexed(selection.job * SPAN + tasks["version"][selection.places])
        sums = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(sums, kind, seconds)
        counts = np.bincount(kind, minlength=len(kinds))
        for key, count, lasted in zip(kinds.tolist(), counts.tolist(), sums.tolist(), strict=True):
            row = selection.jobs[key // SPAN]
            need = need_of(row.need, row.needs, key % SPAN)
            cpu_ms, mib_s = need.get("cpu", 0) * lasted, need.get("memory", 0) * lasted
            for each in self._rows(row, now):
                each.runs += count
                each.seconds += lasted
                each.asked_cpu_ms = min(each.asked_cpu_ms + cpu_ms, MOST)
                each.asked_mib_s = min(each.asked_mib_s + mib_s, MOST)

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

    def _add(self, row: JobRow, now: int, seconds: int, use: Use) -> None:
        cpu_ms, memory_kib, throttled_ms, read_kib, written_kib = use
        mib_s = (memory_kib >> 10) * seconds
        for each in self._rows(row, now):
            each.measured += 1
            each.used_cpu_ms = min(each.used_cpu_ms + cpu_ms, MOST)
            each.peak_kib = max(each.peak_kib, memory_kib)
            each.peak_mib_s = min(each.peak_mib_s + mib_s, MOST)
            each.throttled_ms = min(each.throttled_ms + throttled_ms, MOST)
            each.read_kib = min(each.read_kib + read_kib, MOST)
            each.written_kib = min(each.written_kib + written_kib, MOST)

    def _rows(self, job: JobRow, now: int) -> tuple[UsageRow, UsageRow]:
        month = month_of(now)
        of_job, of_month = self._cache.job_usage, self._cache.month_usage
        key = month, job.pool, job.owner
        return (
            of_job.change((job.job_id, month)) or of_job.put(JobUsageRow(job.job_id, month)),
            of_month.change(key) or of_month.put(MonthUsageRow(*key)),
        )
