"""Windows of maintenance, as the views show them: when they open next, in UTC and where they are."""

from datetime import UTC, datetime, timedelta, timezone

from sqlalchemy import Connection, select

from events.codec import decode
from events.quantities import write_ms
from events.records.hosts import MaintenanceWindowSet
from events.records.parts import ZoneOffsets
from events.schedules import local
from events.spec.sla import UTC as UTC_NAME
from paceline.client.maintenance_models import MaintenanceWindow
from projections.actor_names import actor_json
from projections.queries.pages import rows_of
from projections.record_json import at
from projections.views import tables
from projections.views.maintenance_rows import MaintenanceWindowRow


def window_row(connection: Connection, window_id: str) -> MaintenanceWindowRow | None:
    """The row of a window."""
    columns = tables.maintenance_windows
    query = select(columns).where(columns.c.window_id == window_id)
    return next(iter(rows_of(connection, MaintenanceWindowRow, query)), None)


def window_rows(connection: Connection) -> list[MaintenanceWindowRow]:
    """All windows: those that are open or open next first, those that never do last."""
    columns = tables.maintenance_windows
    never = columns.c.opens_ms == 0
    query = select(columns).order_by(never, columns.c.opens_ms, columns.c.window_id)
    return list(rows_of(connection, MaintenanceWindowRow, query))


def window_json(row: MaintenanceWindowRow, whole: bool = False) -> MaintenanceWindow:
    """A window; `whole`: with the ids of its hosts."""
    fact = decode(row.fact)
    assert isinstance(fact, MaintenanceWindowSet)
    body: MaintenanceWindow = {
        "window_id": row.window_id,
        "state": row.state,
        "opens_at": at(row.opens_ms),
        "opens_local": local_time(row.opens_ms, fact.zone),
        "closes_at": at(row.closes_ms),
        "closed_at": at(row.closed_ms),
        "missed_at": at(row.missed_ms),
        "schedule": fact.schedule,
        "duration": write_ms(fact.duration_ms),
        "time_zone": fact.zone.name or UTC_NAME,
        "lead": write_ms(fact.lead_ms),
        "escalate": fact.escalate,
        "hosts": len(fact.host_ids),
        "known_until": at(fact.zone.until_s * 1000),
        "reason": fact.reason,
        "actor": actor_json(fact.actor),
        "set_at": at(row.set_ms),
    }
    if whole:
        body["host_ids"] = list(fact.host_ids)
    return body


def local_time(ms: int, zone: ZoneOffsets) -> str | None:
    """A time as clocks of a zone have it, with its distance from UTC; None where it hasn't come."""
    if not ms:
        return None
    east = timezone(timedelta(seconds=local(ms // 1000, zone) - ms // 1000))
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(east).isoformat(timespec="minutes")
