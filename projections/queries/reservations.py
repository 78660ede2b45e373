"""Hosts that are drained for gangs of a pool."""

import msgspec
from sqlalchemy import Connection, select

from projections.queries.pages import Json, rows_of
from projections.record_json import at
from projections.views import tables
from projections.views.sharing_rows import ReservationRow


def reservations(connection: Connection, pool: str, size: int) -> list[Json]:
    """The first reservations of a pool, by job."""
    rows, jobs = tables.reservations, tables.jobs.c
    mine = select(rows).join(tables.jobs, rows.c.job_id == jobs.job_id).where(jobs.pool == pool)
    return [
        {
            "job_id": row.job_id,
            "first": row.first,
            "count": row.count,
            "hosts": len(msgspec.json.decode(row.host_ids)),
            "since": at(row.since_ms),
            "until": at(row.until_ms),
        }
        for row in rows_of(connection, ReservationRow, mine.order_by(rows.c.job_id, rows.c.first).limit(size))
    ]
