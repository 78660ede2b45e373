"""The pace of a campaign: the budget that bounds it, in words, and when it is over, going on as until now."""

from sqlalchemy import Connection, select

from events.codes import Step
from events.records.parts import MaintenancePlan
from projections.queries.drain_effects import host_rows_of
from projections.queries.drain_pace import Pace, slowest
from projections.queries.host_maintenance import tasks_on
from projections.queries.leaving import ways_of
from projections.queries.log_time import newest_ms
from projections.record_json import at
from projections.views import tables
from projections.views.maintenance_rows import MaintenanceRow

LEFT = (Step.PENDING, Step.DRAIN)
OVER = (Step.DONE, Step.FAILED, Step.SKIPPED)


def pace_of(connection: Connection, maintenance_id: str, plan: MaintenancePlan) -> Pace:
    """The budget that bounds how fast the hosts are emptied that are left."""
    columns = tables.maintenance_hosts.c
    query = select(columns.host_id).where(columns.maintenance_id == maintenance_id, columns.step.in_(LEFT))
    tasks = tasks_on(connection, host_rows_of(connection, list(connection.execute(query).scalars())))
    return slowest(tasks, ways_of(connection, {task.job.job_id: task.job for task in tasks}, plan.drain))


def estimated_at(connection: Connection, row: MaintenanceRow, plan: MaintenancePlan, pace: Pace) -> str | None:
    """When a campaign is over: the hosts that are left take as long as those before, and no less than the budget that
    bounds it. None: it doesn't go on, an operator or a window decides when, or nothing is known yet.
    """
    if row.ended_ms or row.state != "RUNNING" or plan.work == "manual" or plan.window_id or pace.stops:
        return None
    columns = tables.maintenance_hosts.c
    query = select(columns.since_ms).where(columns.maintenance_id == row.maintenance_id, columns.step.in_(OVER))
    over = list(connection.execute(query).scalars())
    if over:
        last_ms = max(over)
        each_ms = (last_ms - row.started_ms) // len(over)
        at_ms = last_ms + max(each_ms * (row.hosts - len(over)), pace.seconds * 1000)
    elif pace.batch or plan.work != "time":
        return None
    else:
        rounds = -(-row.hosts // max(1, plan.at_a_time))
        at_ms = row.started_ms + max(pace.seconds * 1000, rounds * plan.work_ms)
    return at(at_ms) if at_ms > newest_ms(connection) else None
