"""The runs of a job by host, on one axis of time."""

from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from events.codes import LIVE_TASKS, Outcome
from events.columns import I64
from projections.queries.tasks import TASK_PLACES, columns_of, host_names
from projections.views import tables
from projections.views.rows import JobRow

PAST_MAX = 50_000
"""Past runs that are looked at."""
TROUBLE = (Outcome.FAILED, Outcome.PREEMPTED, Outcome.LOST, Outcome.REVOKED)
_COLUMNS = ("run", "version", "outcome", "ordered_s", "started_s", "ended_s", "host")


class JobRun(NamedTuple):
    """A run. Times are seconds; `end_s` 0: it isn't over."""

    instance: int
    run: int
    version: int
    outcome: str
    """Empty: it isn't over."""
    ordered_s: int
    started_s: int
    ended_s: int


class HostRuns(NamedTuple):
    """The runs of a job on one host, the first ones first; `trouble`: how many ended by which outcome that is none
    that anybody wished for.
    """

    host_id: str
    runs: list[JobRun]
    trouble: dict[str, int]


class RunsByHost(NamedTuple):
    """Hosts with trouble first. `hosts`: how many there are; `partial`: not all past runs were looked at."""

    shown: list[HostRuns]
    hosts: int
    partial: bool


def runs_by_host(connection: Connection, job: JobRow, most: int) -> RunsByHost:
    """The first hosts that a job has or had runs on, with their runs."""
    past, partial = _past(connection, job)
    found = np.concatenate([past, _present(connection, job)])
    host, outcome = found[:, 7], found[:, 3]
    numbers, index = np.unique(host, return_inverse=True)
    trouble = np.bincount(index, np.isin(outcome, TROUBLE), len(numbers)).astype(np.int64)
    counts = np.bincount(index, minlength=len(numbers))
    order = np.lexsort((numbers, -counts, -trouble))[:most]
    names = host_names(connection, numbers[order].tolist())
    shown = []
    for at in order.tolist():
        mine = found[index == at]
        runs = [_run(row) for row in mine[np.argsort(mine[:, 4], kind="stable")].tolist()]
        kinds = {each.name: int((mine[:, 3] == each).sum()) for each in TROUBLE}
        shown.append(HostRuns(names.get(int(numbers[at]), ""), runs, {name: n for name, n in kinds.items() if n}))
    return RunsByHost(shown, len(numbers), partial)


def _run(row: list[int]) -> JobRun:
    instance, run, version, outcome, *times, _ = row
    return JobRun(instance, run, version, Outcome(outcome).name if outcome else "", *times)


def _past(connection: Connection, job: JobRow) -> tuple[I64, bool]:
    rows = tables.past_runs.c
    query = select(rows.instance, *(rows[name] for name in _COLUMNS)).where(rows.job_id == job.job_id)
    found = [tuple(row) for row in connection.execute(query.limit(PAST_MAX + 1))]
    return np.array(found[:PAST_MAX], dtype=np.int64).reshape(-1, 1 + len(_COLUMNS)), len(found) > PAST_MAX


def _present(connection: Connection, job: JobRow) -> I64:
    """The last run of each task that had one; a task that waits for its next run has it among the past ones."""
    instances = np.arange(job.instances if job.base >= 0 else 0)
    columns = columns_of(connection, job, instances)
    there = columns[TASK_PLACES["host"]] > 0
    every = np.stack([instances, *(columns[TASK_PLACES[name]] for name in _COLUMNS)], axis=1)
    found: I64 = every[there].astype(np.int64)
    found[np.isin(columns[0][there], LIVE_TASKS), 3] = 0
    return found
