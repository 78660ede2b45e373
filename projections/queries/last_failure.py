"""The last failure of a job's tasks, in the words of the host where these say something."""

from collections.abc import Sequence
from signal import Signals
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select, tuple_

from events.codes import JobState, RunCause, RunReport, TaskState
from projections.queries.end_reasons import FAILED_BY
from projections.queries.tasks import TASK_PLACES, columns_at
from projections.views import tables
from projections.views.rows import JobRow

LOOP_ATTEMPTS = 3
"""A service whose task has failed so often in a row is stuck."""


class Failure(NamedTuple):
    """The last failure of a job's tasks. `waits`: it waits to be tried again, at the earliest at `due_ms`, 0:
    at once; `attempts`: how often it has failed in a row; `reason`: in the words of its host, empty: it said nothing.
    """

    instance: int
    text: str
    reason: str
    waits: bool
    due_ms: int
    attempts: int
    cannot_start: bool

    @property
    def lasts(self) -> bool:
        """Whether trying again by itself is no help any more."""
        return self.attempts >= LOOP_ATTEMPTS or self.cannot_start


def failures_of(connection: Connection, rows: Sequence[JobRow], with_words: bool = True) -> dict[str, Failure]:
    """The last failures of jobs, where the jobs have failed or such tasks wait; `with_words`: as their hosts told."""
    return _failures(connection, [row for row in rows if row.state == JobState.FAILED or row.backoff > 0], with_words)


def last_failure(connection: Connection, row: JobRow) -> Failure | None:
    """The last failure of a job's tasks, whatever the task does since; None: none has failed."""
    return _failures(connection, [row], with_words=True).get(row.job_id)


def _failures(connection: Connection, rows: Sequence[JobRow], with_words: bool) -> dict[str, Failure]:
    jobs = [row for row in rows if 0 <= row.failed_instance < row.instances]
    if not jobs:
        return {}
    reported = _reported(connection, jobs) if with_words else {}
    columns = columns_at(connection, np.array([row.base + row.failed_instance for row in jobs]))
    state, due_s, attempts = (columns[TASK_PLACES[name]].tolist() for name in ("state", "due_s", "failures"))
    return {
        row.job_id: _failure(row, state[at], due_s[at], attempts[at], *reported.get(row.job_id, ("", 0)))
        for at, row in enumerate(jobs)
    }


def _reported(connection: Connection, jobs: Sequence[JobRow]) -> dict[str, tuple[str, int]]:
    """The words and the signals with which hosts reported the last failures of jobs."""
    reported, reports = dict[str, tuple[str, int]](), tables.run_reports.c
    runs = [(row.job_id, row.failed_instance, row.failed_run) for row in jobs]
    key = tuple_(reports.job_id, reports.instance, reports.run)
    query = select(reports.job_id, reports.reason, reports.signal).order_by(reports.offset)
    query = query.where(key.in_(runs), reports.state != RunReport.PREPARING)
    for job_id, reason, signal in connection.execute(query):
        before = reported.get(job_id, ("", 0))
        reported[job_id] = reason or before[0], signal or before[1]
    return reported


def _failure(job: JobRow, state: int, due_s: int, attempts: int, reason: str, signal: int) -> Failure:
    if job.failed_why == RunCause.CANNOT_START:
        text = "can't be started"
    elif signal:
        text = f"was killed by {Signals(signal).name if signal in set(Signals) else f'signal {signal}'}"
    elif job.failed_exit_code >= 0:
        text = f"exited with {job.failed_exit_code}"
    else:
        text = FAILED_BY.get(RunCause(job.failed_why), "was ended")
    lasting = job.failed_why == RunCause.CANNOT_START
    waits = state == TaskState.BACKOFF
    return Failure(job.failed_instance, text, reason, waits, due_s * 1000, attempts, lasting)


def words_of(failure: Failure) -> str:
    """Describes a failure: `task 3 exited with 1`, `task 0: sleeep: No such file or directory`."""
    if failure.reason and failure.cannot_start:
        return f"task {failure.instance}: {failure.reason}"
    return f"task {failure.instance} {failure.text}{': ' * bool(failure.reason)}{failure.reason}"
