"""The views as they are now, and a job in them as the API shows it."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from paceline.client.models import Job
from projections.api.context import Context
from projections.api.job_rows import find_job
from projections.queries import entities


def read_views(context: Context, look: Callable[[Connection], Any]) -> Any:
    """Reads the views as they are now."""
    with context.views.read() as connection:
        return look(connection)


def job_shown(connection: Connection, job_id: str, overrides: bool = False) -> Job:
    """A job as the API shows it, if asked for with all its overrides. Raises a problem where there is none."""
    return entities.job_json(connection, find_job(connection, job_id), overrides)
