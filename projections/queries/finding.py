"""The search by the beginning of a name: jobs, pools and hosts."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select

from events.pool_paths import ROOT
from projections.views import tables

LAST = "\U0010ffff"
_jobs, _pools, _hosts = tables.jobs.c, tables.pools.c, tables.hosts.c


class Named(NamedTuple):
    """Something that has a name: `job`, `pool` or `host`; and what a list says beside it: a job's state."""

    kind: str
    name: str
    note: str = ""


def named(connection: Connection, text: str, most: int) -> list[Named]:
    """At most so many of each kind whose name begins with a text, or that of a pool's last part; by name. One that has
    it as its whole name comes first.
    """
    if not text:
        return []
    jobs = select(_jobs.job_id, _jobs.state).where(_begins(_jobs.job_id, text)).order_by(_jobs.job_id).limit(most)
    path = text if text.startswith("/") else f"/{text}"
    is_pool = or_(_begins(_pools.path, path), func.instr(_pools.path, path) > 0)
    pools = select(_pools.path).where(is_pool).order_by(_pools.path).limit(most)
    hosts = select(_hosts.host_id).where(_begins(_hosts.host_id, text)).order_by(_hosts.host_id).limit(most)
    rows = [
        *(Named("job", name, state) for name, state in connection.execute(jobs)),
        *(Named("pool", name) for name in connection.execute(pools).scalars()),
        *(Named("host", name) for name in connection.execute(hosts).scalars()),
    ]
    return sorted(rows, key=lambda each: each.name not in (text, path))


_NAMES = {"job": _jobs.job_id, "pool": _pools.path, "host": _hosts.host_id}
KINDS = tuple(_NAMES)


def names_with(connection: Connection, kind: str, prefix: str, most: int) -> list[str]:
    """At most so many names of a kind that begin with a text, in their order."""
    column = _NAMES[kind]
    query = select(column).where(_begins(column, prefix), column != ROOT).order_by(column).limit(most)
    return list(connection.scalars(query))


def _begins(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    return column.between(text, text + LAST)
