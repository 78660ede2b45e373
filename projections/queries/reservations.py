"""Hosts that are reserved for gangs of a pool."""

from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from projections.queries.pages import rows_of
from projections.record_json import at
from projections.views import tables
from projections.views.sharing_rows import ReservationRow


class Reservation(NamedTuple):
    """Hosts that are reserved for a gang of a job: its first instance and size, and the number of hosts."""

    job_id: str
    first: int
    tasks: int
    hosts: int
    since: str | None
    until: str | None


def reservations(connection: Connection, pool: str, size: int) -> list[Reservation]:
    """The first reservations of a pool, by job."""
    rows, jobs = tables.reservations, tables.jobs.c
    mine = select(rows).join(tables.jobs, rows.c.job_id == jobs.job_id).where(jobs.pool == pool)
    return [
        Reservation(
            row.job_id,
            row.first,
            row.count,
            len(msgspec.json.decode(row.host_ids)),
            at(row.since_ms),
            at(row.until_ms),
        )
        for row in rows_of(connection, ReservationRow, mine.order_by(rows.c.job_id, rows.c.first).limit(size))
    ]
