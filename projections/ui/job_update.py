"""An update of a job as pages show it: its steps, and the batches in which its instances were taken."""

from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from events.codes import UpdateStep
from events.columns import ints
from events.instance_ranges import write_ranges
from projections.queries import versions
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.ui.format import lasts
from projections.ui.page_values import PageValues
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.update_rows import UpdateStepRow

BATCHES_SHOWN, STEPS_READ = 10, 400
RANGES_SHOWN = 8


def update_shown(connection: Connection, job: JobRow, now_ms: int) -> PageValues | None:
    """The newest update of a job with its last batches; None: there was none."""
    row = versions.newest_updates(connection, [job]).get(job.job_id)
    if row is None:
        return None
    update = versions.update_json(row)
    steps = update["steps"]
    total = sum(steps.values())
    parts = [("succeeded", steps["done"]), ("failed", steps["failed"]), ("running", steps["in_flight"])]
    took = lasts((row.ended_ms or now_ms) - row.started_ms)
    return update | {
        "total": total,
        "parts": [(colour, count * 100 / total) for colour, count in parts] if total else [],
        "took": took,
        "rolls": not row.ended_ms,
        "batches": _batches(connection, job, row.number),
    }


def _batches(connection: Connection, job: JobRow, number: int) -> list[PageValues]:
    """The instances that were taken at once, and how far the update is with them."""
    steps = tables.update_steps
    query = select(steps).where(steps.c.job_id == job.job_id, steps.c.number == number)
    batches = []
    for values in connection.execute(query.order_by(steps.c.offset.desc(), steps.c.place.desc()).limit(STEPS_READ)):
        row = UpdateStepRow(*values)
        first, count, step = np.reshape(ints(row.ranges), (3, -1))
        mine = step == UpdateStep.IN_FLIGHT
        if mine.any():
            batches.append((row.at_ms, first[mine], count[mine]))
        if len(batches) == BATCHES_SHOWN:
            break
    return [_batch(connection, job, number, *each) for each in batches]


def _batch(connection: Connection, job: JobRow, number: int, at_ms: int, first: Any, count: Any) -> PageValues:
    pairs = list(zip(first.tolist(), count.tolist(), strict=True))
    instances = np.concatenate([np.arange(start, start + size) for start, size in pairs])
    there = instances[instances < job.instances]
    columns = columns_of(connection, job, there)
    step = np.where(columns[TASK_PLACES["update"]] == number, columns[TASK_PLACES["step"]], 0)
    counts = {each.name.lower(): int((step == each).sum()) for each in UpdateStep}
    counts["failed"] += counts.pop("no_progress")
    more = sum(size for _, size in pairs[RANGES_SHOWN:])
    state = "running" if counts["in_flight"] else "failed" if counts["failed"] else "succeeded"
    return {
        "at_ms": at_ms,
        "instances": write_ranges(pairs[:RANGES_SHOWN]) + (f" and {more} more" if more else ""),
        "size": len(instances),
        "state": state,
        **counts,
    }
