"""The columns that a list of jobs may have, by the names of `paceline job list --columns`, and the list as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from events.csv_cells import harmless
from projections.ui.format import plain
from projections.ui.page_values import PageValues

COLUMNS: dict[str, Callable[[PageValues], Any]] = {
    "job": lambda job: job["job_id"],
    "state": lambda job: job["state"],
    "reason": lambda job: job["reason"]["code"] if job["reason"] else "",
    "pool": lambda job: job["pool"],
    "kind": lambda job: job["kind"],
    "tasks": lambda job: job["instances"],
    "running": lambda job: job["tasks"]["running"],
    "failed": lambda job: job["tasks"]["failed"],
    "submitted": lambda job: job["submitted_at"],
    "owner": lambda job: job["owner"],
    "labels": lambda job: ", ".join(f"{key}:{value}" for key, value in job["labels"].items()),
    "priority": lambda job: job["priority"],
    "version": lambda job: job["version"],
    "ended": lambda job: job["ended_at"],
    "cell": lambda job: job["cell"],
}
FIELDS = {name: name for name in ("state", "reason", "pool", "kind", "owner", "labels", "priority", "version")} | {
    "tasks": "instances",
    "running": "tasks:running",
    "failed": "tasks:failed",
    "submitted": "submitted_at",
    "ended": "ended_at",
}
"""The fields of a job that columns show, for links to who moved them."""
NUMBERS = frozenset(("tasks", "running", "failed", "priority", "version", "cell"))
TIMES = frozenset(("submitted", "ended"))


def csv_of(jobs: Iterable[PageValues], columns: Sequence[str]) -> bytes:
    """Jobs as CSV (RFC 4180, UTF-8) without formulas, a line each below the names of the columns."""
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(columns)
    rows.writerows([harmless(plain(COLUMNS[name](job))) for name in columns] for job in jobs)
    return file.getvalue().encode()
