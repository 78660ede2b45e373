"""The job of a page, in whichever cell it is."""

from typing import NamedTuple

from sqlalchemy import Connection

from events.answers import no_job
from events.codes import Code
from projections.api.context import Context
from projections.api.problems import Problem
from projections.queries import entities
from projections.ui.page_values import PageValues
from projections.ui.scene import Scene
from projections.views.job_states import REJECTED
from projections.views.rows import JobRow

GONE = (
    "Check the id; the list of jobs finds one by part of it. A job that has ended is forgotten some days later; a "
    "moment before that still shows it."
)


class FoundJob(NamedTuple):
    """A job, and the cell that has it."""

    cell: int
    context: Context
    connection: Connection
    row: JobRow


def find_job(scene: Scene) -> FoundJob:
    """The job that the path names; one that a cell has accepted comes before one that another has rejected. Raises a
    problem where no cell knows it.
    """
    job_id = scene.path["job_id"]
    jobs = [
        FoundJob(cell, each.context, each.connection, row)
        for cell, each in scene.cells.items()
        if (row := entities.job_row(each.connection, job_id)) is not None
    ]
    if not jobs:
        raise Problem(404, Code.NOT_FOUND, f"{no_job(job_id)}. {GONE}")
    return min(jobs, key=lambda each: each.row.state == REJECTED)


def named(scene: Scene, of_job: FoundJob) -> PageValues:
    """The values that every page of a job has."""
    return {
        "job_id": of_job.row.job_id,
        "job_cell": of_job.cell,
        "cells_more": len(scene.cells) > 1,
        "row": of_job.row,
        "has_output": of_job.context.task_log is not None,
        "has_usage": of_job.context.host_usage is not None,
    }
