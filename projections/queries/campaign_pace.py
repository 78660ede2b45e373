"""The pace of a campaign: the budget that bounds it, in words, and when it is over, going on as until now."""

from sqlalchemy import Connection, select

from events.codes import Step
from projections.queries.drain_effects import allowed_by, host_rows_of
from projections.queries.drain_pace import slowest
from projections.queries.host_maintenance import tasks_on
from projections.record_json import at
from projections.views import tables
from projections.views.maintenance_rows import MaintenanceRow

LEFT = (Step.PENDING, Step.DRAIN)
OVER = (Step.DONE, Step.FAILED, Step.SKIPPED)


def bound_of(connection: Connection, maintenance_id: str) -> tuple[str, int]:
    """The budget of one job that takes longest alone, in words, and its seconds; empty: none bounds it."""
    columns = tables.maintenance_hosts.c
    query = select(columns.host_id).where(columns.maintenance_id == maintenance_id, columns.step.in_(LEFT))
    tasks = tasks_on(connection, host_rows_of(connection, list(connection.execute(query).scalars())))
    return slowest(tasks, allowed_by(connection, {task.job.job_id: task.job for task in tasks}))


def estimated_at(connection: Connection, row: MaintenanceRow, bound_s: int) -> str | None:
    """When a campaign is over: the hosts that are left take as long as those before, and no less than the budget that
    bounds it. None: it is over, or nothing is known yet.
    """
    if row.ended_ms:
        return None
    columns = tables.maintenance_hosts.c
    query = select(columns.since_ms).where(columns.maintenance_id == row.maintenance_id, columns.step.in_(OVER))
    over = list(connection.execute(query).scalars())
    if not over:
        return at(row.started_ms + bound_s * 1000) if bound_s else None
    last_ms = max(over)
    each_ms = (last_ms - row.started_ms) // len(over)
    return at(last_ms + max(each_ms * (row.hosts - len(over)), bound_s * 1000))
