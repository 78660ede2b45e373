"""The row of a job, or the problem that there is none."""

from sqlalchemy import Connection

from events.answers import gone_job
from events.codes import Code
from projections.api.problems import Problem
from projections.queries import entities
from projections.views.rows import JobRow


def find_job(connection: Connection, job_id: str) -> JobRow:
    """The row of a job. Raises a problem where there is none."""
    row = entities.job_row(connection, job_id)
    if row is None:
        raise Problem(404, Code.NOT_FOUND, gone_job(job_id))
    return row
