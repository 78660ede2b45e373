"""Amounts that jobs asked for and used, summed by job, pool, owner or month."""

from typing import Any

from sqlalchemy import Connection, func, select

from paceline.client.usage_models import UsageSum
from projections.views import tables
from projections.views.usage_rows import MOST

SUMS = ("runs", "measured", "seconds", "asked_cpu_ms", "asked_mib_s", "used_cpu_ms", "peak_mib_s")
MORE = ("throttled_ms", "read_kib", "written_kib")


def usage_sums(
    connection: Connection, by: str, first_month: int, pool: str, owner: str, size: int
) -> tuple[list[UsageSum], bool]:
    """The sums from a month on, at most so many, and whether there are more; months in their order, others from the
    most CPU asked for on. `pool`: of it and those below it, `owner`: of this one; empty: all.
    """
    months, jobs = tables.month_usage.c, tables.jobs.c
    of: Any = tables.job_usage.c if by == "job" else months
    whose: Any = jobs if by == "job" else months
    keys: tuple[Any, ...] = (of.job_id, jobs.pool, jobs.owner) if by == "job" else (months[by],)
    sums = [func.total(of[name]).label(name) for name in (*SUMS, *MORE)]
    query = select(*keys, *sums, func.max(of.peak_kib).label("peak_kib")).where(of.month >= first_month)
    if by == "job":
        query = query.join(tables.jobs, jobs.job_id == of.job_id)
    if pool not in ("", "/"):
        below = whose.pool.startswith(f"{pool}/", autoescape=True)
        query = query.where((whose.pool == pool) | below)
    if owner:
        query = query.where(whose.owner == owner)
    order = (months.month,) if by == "month" else (func.total(of.asked_cpu_ms).desc(), keys[0])
    rows = connection.execute(query.group_by(keys[0]).order_by(*order).limit(size + 1)).mappings().all()
    return [_sum(dict(row)) for row in rows[:size]], len(rows) > size


def job_usage(connection: Connection, job_id: str) -> UsageSum | None:
    """The sums of the runs of a job that have ended; None: none has."""
    of = tables.job_usage.c
    sums = [func.total(of[name]).label(name) for name in (*SUMS, *MORE)]
    query = select(of.job_id, *sums, func.max(of.peak_kib).label("peak_kib")).where(of.job_id == job_id)
    row = connection.execute(query.group_by(of.job_id)).mappings().first()
    return _sum(dict(row)) if row is not None else None


def is_pool(connection: Connection, path: str) -> bool:
    """Whether there is such a pool, or was one: its sums stay when it is removed."""
    for column in (tables.pools.c.path, tables.month_usage.c.pool):
        below = column.startswith(f"{path}/", autoescape=True)
        if connection.execute(select(column).where((column == path) | below).limit(1)).first() is not None:
            return True
    return False


def _sum(totals: dict[str, Any]) -> UsageSum:
    # A total is a float, where a sum that is too large for the file would be an error: no query ends by what hosts say.
    row: dict[str, Any] = {
        name: min(int(value), MOST) if isinstance(value, float) else value for name, value in totals.items()
    }
    month = row.get("month")
    return {
        "job_id": row.get("job_id"),
        "pool": row.get("pool"),
        "owner": row.get("owner"),
        "month": f"{month // 100:04}-{month % 100:02}" if month else None,
        "runs": row["runs"],
        "measured_runs": row["measured"],
        "run_s": row["seconds"],
        "asked_cpu_ms": row["asked_cpu_ms"],
        "used_cpu_ms": row["used_cpu_ms"],
        "asked_memory_mib_s": row["asked_mib_s"],
        "peak_memory_mib_s": row["peak_mib_s"],
        "peak_memory_kib": row["peak_kib"],
        "throttled_ms": row["throttled_ms"],
        "read_kib": row["read_kib"],
        "written_kib": row["written_kib"],
    }
