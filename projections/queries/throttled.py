"""Tasks that wait before they are run again, over all jobs."""

from collections.abc import Iterator

import numpy as np
from sqlalchemy import Connection, select

from events.codes import TaskState
from paceline.client.models import Task
from projections.queries.pages import RowsPage, first_of, rows_of
from projections.queries.tasks import TASK_PLACES, TaskFilter, columns_of, tasks_page
from projections.views import tables
from projections.views.rows import JobRow

JOBS_READ = 200


def throttled(connection: Connection, size: int, after: tuple[int, int]) -> RowsPage[Task]:
    """Tasks that wait for a time, by the number of their job and their instance, from after these on. `number` is that
    of the job, to go on after.
    """
    return first_of(_waiting(connection, *after, size + 1), size, lambda task: len(task["reason"] or ""))


def _waiting(connection: Connection, number: int, instance: int, most: int) -> Iterator[Task]:
    first = instance + 1
    for job in _jobs_in_backoff(connection, number):
        page = tasks_page(connection, job, TaskFilter([TaskState.BACKOFF]), most, first if job.number == number else 0)
        for task in page.items:
            if task["next_run_at"] is not None:
                yield {"job_id": job.job_id, "pool": job.pool, "number": job.number, **task}


def next_due(connection: Connection, job: JobRow) -> tuple[int, int, int] | None:
    """When the next task of a job is run again that waits for a time: the millisecond, its instance, and how many
    tasks wait for one. None: none does.
    """
    if not job.backoff or job.base < 0:
        return None
    columns = columns_of(connection, job, np.arange(job.instances))
    due_s = np.where(columns[TASK_PLACES["state"]] == TaskState.BACKOFF, columns[TASK_PLACES["due_s"]], 0)
    waiting = np.flatnonzero(due_s)
    if not len(waiting):
        return None
    first = int(waiting[np.argmin(due_s[waiting])])
    return int(due_s[first]) * 1000, first, len(waiting)


def _jobs_in_backoff(connection: Connection, number: int) -> Iterator[JobRow]:
    jobs = tables.jobs
    while True:
        query = select(jobs).where(jobs.c.backoff > 0, jobs.c.number >= number).order_by(jobs.c.number)
        rows = rows_of(connection, JobRow, query.limit(JOBS_READ))
        yield from rows
        if len(rows) < JOBS_READ:
            return
        number = rows[-1].number + 1
