"""Campaigns and their hosts, as the views show them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select, tuple_

from events.codec import decode
from events.codes import Stage, Step
from events.natural_order import natural_key
from events.records.hosts import MaintenanceRequested
from events.spec.maintenance import plan_body
from paceline.client.maintenance_models import Maintenance, MaintenanceHost
from projections.actor_names import actor_json
from projections.queries.campaign_pace import estimated_at, pace_of
from projections.queries.drain_effects import host_rows_of
from projections.queries.drain_pace import Pace
from projections.queries.entities import host_state
from projections.queries.host_maintenance import DRAINS, stages_of, tasks_on, waits_of
from projections.queries.pages import RowsPage, rows_of, some
from projections.record_json import at
from projections.views import tables
from projections.views.maintenance_rows import MaintenanceHostRow, MaintenanceRow

AT_WORK = (Step.DRAIN, Step.WORK, Step.CHECK)
NOT_DONE = (Step.FAILED, Step.SKIPPED)
AT_WORK_MAX = 200
"""Hosts at work that the answer about a campaign has; all stand in the list of its hosts."""


def maintenance_row(connection: Connection, maintenance_id: str) -> MaintenanceRow | None:
    """The row of a campaign."""
    columns = tables.maintenances
    query = select(columns).where(columns.c.maintenance_id == maintenance_id)
    return next(iter(rows_of(connection, MaintenanceRow, query)), None)


def maintenance_rows(connection: Connection, size: int, before: int | None) -> RowsPage[MaintenanceRow]:
    """Campaigns, the newest first, those before one."""
    columns = tables.maintenances
    query = select(columns).order_by(columns.c.number.desc(), columns.c.maintenance_id)
    if before is not None:
        query = query.where(columns.c.number < before)
    return some(connection, MaintenanceRow, query, size, lambda row: len(row.fact))


def maintenance_json(connection: Connection, row: MaintenanceRow) -> Maintenance:
    """A campaign, as lists have it."""
    fact = _fact_of(row)
    return {
        "maintenance_id": row.maintenance_id,
        "state": row.state,
        "code": row.code,
        "message": row.message,
        "reason": fact.reason,
        "actor": actor_json(fact.actor),
        "started_at": at(row.started_ms),
        "changed_at": at(row.changed_ms),
        "ended_at": at(row.ended_ms),
        "hosts": row.hosts,
        "steps": steps_of(connection, row.maintenance_id),
        "plan": plan_body(fact.plan),
    }


def _fact_of(row: MaintenanceRow) -> MaintenanceRequested:
    fact: Any = decode(row.fact)
    assert isinstance(fact, MaintenanceRequested)
    return fact


def whole_maintenance(connection: Connection, row: MaintenanceRow) -> Maintenance:
    """The same with the hosts at work, and what their runs wait for."""
    body = maintenance_json(connection, row)
    plan = _fact_of(row).plan
    pace = Pace() if row.ended_ms else pace_of(connection, row.maintenance_id, plan)
    if pace.text:
        body["bound"] = pace.text
    body["estimated_at"] = estimated_at(connection, row, plan, pace)
    columns = tables.maintenance_hosts
    query = select(columns).where(columns.c.maintenance_id == row.maintenance_id, columns.c.step.in_(AT_WORK))
    query = query.order_by(columns.c.place, columns.c.host_id).limit(AT_WORK_MAX)
    body["at_work"] = hosts_json(connection, rows_of(connection, MaintenanceHostRow, query), waits=True)
    query = select(columns).where(columns.c.maintenance_id == row.maintenance_id, columns.c.step.in_(NOT_DONE))
    query = query.order_by(columns.c.place, columns.c.host_id).limit(AT_WORK_MAX)
    body["not_done"] = hosts_json(connection, rows_of(connection, MaintenanceHostRow, query))
    return body


def steps_of(connection: Connection, maintenance_id: str) -> dict[str, int]:
    """The number of hosts at each step, those of no host left out."""
    columns = tables.maintenance_hosts.c
    query = select(columns.step, func.count()).where(columns.maintenance_id == maintenance_id)
    counts = dict(map(tuple, connection.execute(query.group_by(columns.step))))
    return {step.name: counts[step] for step in Step if step in counts}


def host_rows(
    connection: Connection, maintenance_id: str, size: int, after: str, steps: Sequence[str] = ()
) -> RowsPage[MaintenanceHostRow]:
    """Hosts of a campaign in their natural order, those behind one; `steps`: only those at these."""
    columns = tables.maintenance_hosts
    query = select(columns).where(columns.c.maintenance_id == maintenance_id)
    if steps:
        query = query.where(columns.c.step.in_([Step[name] for name in steps]))
    query = query.order_by(columns.c.place, columns.c.host_id)
    if after:
        query = query.where(tuple_(columns.c.place, columns.c.host_id) > tuple_(natural_key(after), after))
    return some(connection, MaintenanceHostRow, query, size, lambda row: len(row.message))


def hosts_json(
    connection: Connection, rows: Sequence[MaintenanceHostRow], waits: bool = False
) -> list[MaintenanceHost]:
    """Hosts of a campaign; with `waits` also what the runs on those that drain wait for."""
    ids = [row.host_id for row in rows]
    hosts = {row.host_id: row for row in host_rows_of(connection, ids)}
    stages = stages_of(connection, ids)
    tasks = tasks_on(connection, list(hosts.values())) if waits and hosts else []
    out: list[MaintenanceHost] = []
    for row in rows:
        host, stage = hosts.get(row.host_id), stages.get(row.host_id)
        body: MaintenanceHost = {
            "host_id": row.host_id,
            "step": Step(row.step).name,
            "since": at(row.since_ms),
            "code": row.code,
            "message": row.message,
            "stage": Stage(stage.stage if stage is not None else Stage.UP).name,
            "state": host_state(host) if host is not None else "",
            "runs_left": host.runs if host is not None else 0,
        }
        if waits and stage is not None and stage.stage in DRAINS:
            mine = [each for each in tasks if each.host_id == row.host_id]
            body["waits"] = waits_of(connection, stage, mine)
        out.append(body)
    return out
