"""The list of jobs."""

import json
from typing import Any

from projections.queries.job_list import JobFilter
from projections.ui.scene import Page, Scene


def load(scene: Scene) -> dict[str, Any]:
    """The newest jobs of the first cell."""
    context, connection = scene.first()
    found = context.texts.page(connection, JobFilter([], "", []), 100, -1)
    return {"jobs": [json.loads(each.text) for each in found.rows]}


PAGES = (Page("/jobs", "jobs.html", load, "Jobs"),)
