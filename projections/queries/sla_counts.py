"""Counts the instances of a job as its SLA does: by the numbers of the job where all that goes on of it runs, else by
its tasks. Sla counts by itself (decision 096).
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codes import ENDED_TASKS, RunCause, TaskState
from events.columns import I32, I64
from events.instance_ranges import write_ranges
from events.records.parts import SlaPolicy
from paceline.client.sla_models import SlaUse
from projections.queries.host_slots import running_on
from projections.queries.tasks import TASK_PLACES, columns_at
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.sla_rows import SlaRow

READ_AT_ONCE = 50_000
"""The tasks of several jobs are read together up to so many."""
LEAVES = (RunCause.REMOVE, RunCause.STOP, RunCause.JOB_END)
"""Causes of stops by which an instance isn't wanted any more."""
CAUSES = {
    RunCause.PREEMPT: "a preemption",
    RunCause.GANG: "its gang",
    RunCause.DRAIN: "a drain",
    RunCause.EVICT: "a forced drain",
    RunCause.UPDATE: "an update or a restart",
    RunCause.HEALTH: "its health check",
    RunCause.HOLD: "a hold",
}
RANGES_SHOWN = 5


class Protected(NamedTuple):
    """A job and its SLA as records have it."""

    job: JobRow
    row: SlaRow | None
    max_unavailable: int | None
    policy: SlaPolicy | None

    @classmethod
    def of(cls, job: JobRow, row: SlaRow | None) -> "Protected":
        """A job by its row and that of its SLA; None: it has none."""
        if row is None:
            return cls(job, None, None, None)
        most = row.max_unavailable if row.max_unavailable >= 0 else None
        return cls(job, row, most, msgspec.json.decode(row.policy, type=SlaPolicy) if row.policy else None)

    @property
    def healthy_s(self) -> int:
        """So many seconds a run is healthy before it counts."""
        return -(-(self.policy.min_healthy_ms if self.policy else 0) // 1000)


class Counted(NamedTuple):
    """The instances of a job, as an SLA counts them."""

    whole: int
    missing: int
    used: list[SlaUse]
    extra: int = 0
    """The number of available instances beyond the wanted ones."""


class SlaCounts:
    """Counts the wanted instances of jobs at one time, and those of them that are missing."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        self._connection = connection
        self._now_ms = now_ms

    def of(self, jobs: Sequence[Protected]) -> list[Counted]:
        """The counts of each of some jobs."""
        silent = self._silent_slots if self._silent_hosts and len(jobs) > 1 else None
        read = [each for each in jobs if _is_open(each.job) and not self._runs_whole(each, silent)]
        by_tasks = dict(self._by_tasks(read))
        return [
            by_tasks.get(each.job.job_id) or Counted(each.job.running if _is_open(each.job) else 0, 0, [])
            for each in jobs
        ]

    @cached_property
    def _silent_hosts(self) -> list[int]:
        hosts = tables.hosts.c
        return list(self._connection.scalars(select(hosts.number).where(hosts.silent_ms > 0, hosts.runs > 0)))

    @cached_property
    def _silent_slots(self) -> I64:
        """The tasks on hosts that aren't heard."""
        return running_on(self._connection, self._silent_hosts)

    def _runs_whole(self, each: Protected, silent: I64 | None) -> bool:
        """Whether all of a job that isn't over runs, for long enough and on hosts that are heard; `silent`: the tasks
        on those that aren't, None: not known.
        """
        job, row = each.job, each.row
        over = job.succeeded + job.failed + job.killed
        if job.running + over < job.tasks or row is None or row.first_surplus >= 0:
            return False
        if (row.started_s + each.healthy_s) * 1000 > self._now_ms and each.healthy_s:
            return False
        if silent is None:
            return not self._silent_hosts
        first, end = np.searchsorted(silent, (job.base, job.base + job.instances)).tolist()
        return bool(first == end)

    def _by_tasks(self, jobs: Sequence[Protected]) -> Iterator[tuple[str, Counted]]:
        """The counts of jobs whose tasks are read."""
        part, size = list[Protected](), 0
        for number, each in enumerate(jobs):
            part, size = [*part, each], size + each.job.instances
            if size < READ_AT_ONCE and number + 1 < len(jobs):
                continue
            slots = [np.arange(one.job.base, one.job.base + one.job.instances) for one in part]
            columns = columns_at(self._connection, np.concatenate(slots))
            ends = np.cumsum([len(one) for one in slots])[:-1]
            for one, mine in zip(part, np.split(columns, ends, axis=1), strict=True):
                yield one.job.job_id, self._counted(one, mine)
            part, size = [], 0

    def _counted(self, each: Protected, columns: I32) -> Counted:
        job, row = each.job, each.row
        state, host, why, run, started_s, due_s = (
            columns[TASK_PLACES[name]] for name in ("state", "host", "why", "run", "started_s", "due_s")
        )
        counts = (state != TaskState.NONE) & ~np.isin(state, ENDED_TASKS)
        counts &= ~((state == TaskState.STOPPING) & np.isin(why, LEAVES))
        if job.kind == "batch":
            counts &= (state == TaskState.RUNNING) | (run > job.first_run)
        surplus = np.zeros(len(state), np.bool_)
        if row is not None and row.first_surplus >= 0:
            surplus[row.first_surplus :] = True
        running = counts & (state == TaskState.RUNNING)
        silent = running & np.isin(host, self._silent_hosts)
        healthy_s = started_s.astype(np.int64) + each.healthy_s
        unripe = running & ~silent & (healthy_s * 1000 > self._now_ms)
        extra = int(np.count_nonzero(running & surplus & ~silent & ~unripe))
        counts &= ~surplus
        missing = counts & (~running | silent | unripe)
        causes = _asked(self._connection, job) if missing.any() else {}
        groups: dict[tuple[str, int], list[int]] = {}
        for instance in np.flatnonzero(missing).tolist():
            if silent[instance]:
                key = "on a silent host", 0
            elif unripe[instance]:
                key = "not available for long enough", int(healthy_s[instance])
            else:
                cause = int(why[instance]) or causes.get((instance, int(run[instance]) - 1), 0)
                key = _what(int(state[instance]), cause), int(due_s[instance])
            groups.setdefault(key, []).append(instance)
        return Counted(int(counts.sum()), int(missing.sum()), list(_used(groups)), extra)


def _is_open(job: JobRow) -> bool:
    return job.base >= 0 and not job.ended_ms and not job.stopping


def _what(state: int, cause: int) -> str:
    """Why an instance isn't available, in words."""
    words = {
        TaskState.STOPPING: "stops",
        TaskState.ORDERED: "starts",
        TaskState.QUEUED: "waits for a place",
        TaskState.BACKOFF: "waits for its next run",
    }
    what = words.get(TaskState(state), "is down")
    by = CAUSES.get(RunCause(cause), "")
    return f"{what}, by {by}" if by else what


def _used(groups: dict[tuple[str, int], list[int]]) -> Iterator[SlaUse]:
    """The missing instances by reason, each with its latest time."""
    together: dict[str, tuple[list[int], int]] = {}
    for (what, until_s), instances in groups.items():
        others, latest_s = together.get(what, ([], 0))
        together[what] = others + instances, max(latest_s, until_s)
    for what, (instances, until_s) in sorted(together.items(), key=lambda each: (-len(each[1][0]), each[0])):
        ranges = _ranges(sorted(instances))
        yield {"what": what, "tasks": len(instances), "instances": ranges, "until": at(until_s * 1000)}


def _ranges(instances: Sequence[int]) -> str:
    numbers = np.array(instances)
    starts = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    counts = np.diff(np.append(starts, len(numbers)))
    pairs = list(zip(numbers[starts].tolist(), counts.tolist(), strict=True))
    rest = sum(count for _, count in pairs[RANGES_SHOWN:])
    return write_ranges(pairs[:RANGES_SHOWN]) + (f" and {rest} more" if rest else "")


def _asked(connection: Connection, job: JobRow) -> dict[tuple[int, int], int]:
    """Why runs of a job are to go, by instance and run."""
    rows = tables.disruptions.c
    query = select(rows.instance, rows.run, rows.why).where(rows.job_id == job.job_id, rows.why > 0)
    return {(instance, run): why for instance, run, why in connection.execute(query)}
