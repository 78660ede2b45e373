"""The job of a request, or the problem that there is none."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from events.answers import gone_job
from events.codes import Code
from paceline.client.models import Job
from projections.api.context import Context
from projections.api.problems import Problem
from projections.queries import entities
from projections.views.rows import JobRow


def read_views(context: Context, look: Callable[[Connection], Any]) -> Any:
    """Reads the views as they are now."""
    with context.views.read() as connection:
        return look(connection)


def find_job(connection: Connection, job_id: str) -> JobRow:
    """The row of a job. Raises a problem where there is none."""
    row = entities.job_row(connection, job_id)
    if row is None:
        raise Problem(404, Code.NOT_FOUND, gone_job(job_id))
    return row


def job_shown(connection: Connection, job_id: str, overrides: bool = False) -> Job:
    """A job as the API shows it, if asked for with all its overrides. Raises a problem where there is none."""
    return entities.job_json(connection, find_job(connection, job_id), overrides)
