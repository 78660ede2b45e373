"""Names that lists are filtered by: of an unknown one the nearest is told (decision 086)."""

from collections.abc import Iterable

from sqlalchemy import Column, Connection, select

from events.nearest import meant
from events.pool_paths import ROOT
from projections.access.limits import limits
from projections.queries.job_filter import subtree
from projections.views import tables

PREFIX, ALIKE_MAX = 2, 1000
"""There may be very many jobs: these many of those that begin with the same characters are looked at."""


def unknown_pool(connections: Iterable[Connection], path: str) -> str:
    """A sentence about a pool in a filter that isn't there; empty: it is there, or jobs of it are kept, in one of these
    cells.
    """
    cells = list(connections)
    if path in ("", ROOT) or any(_has_pool(each, path) for each in cells):
        return ""
    return f"there is no pool {path[:200]}{nearest_pool(cells, path)}"


def nearest_pool(connections: Iterable[Connection], path: str) -> str:
    """The end of a sentence about an unknown pool: the one that may have been meant."""
    return meant(path, {each for connection in connections for each in _paths(connection)})


def _paths(connection: Connection) -> Iterable[str]:
    return connection.execute(select(tables.pools.c.path).where(tables.pools.c.path != ROOT)).scalars()


def _has_pool(connection: Connection, path: str) -> bool:
    own, first, end = subtree(path)
    for column in (tables.pools.c.path, tables.jobs.c.pool):
        within = (column == own) | (column > first) & (column < end)
        if connection.execute(select(column).where(within).limit(1)).first() is not None:
            return True
    return False


def _is_there(connections: Iterable[Connection], columns: Iterable[Column[str]], name: str) -> bool:
    queries = [select(column).where(column == name).limit(1) for column in columns]
    return any(connection.execute(query).first() is not None for connection in connections for query in queries)


def unknown_host(connections: Iterable[Connection], host_id: str) -> str:
    """A sentence about a host in a filter that isn't known; empty: it is known, or tasks were ordered there."""
    cells = list(connections)
    hosts, names = tables.hosts.c.host_id, tables.host_names.c.host_id
    if _is_there(cells, (hosts, names) if limits() is None else (hosts,), host_id):  # others' hosts have names too
        return ""
    near = meant(host_id, {each for connection in cells for each in connection.execute(select(hosts)).scalars()})
    return f"there is no host {host_id[:140]}{near}"


def unknown_job(connections: Iterable[Connection], job_id: str) -> str:
    """A sentence about a job in a filter that isn't known; empty: it is, or has volumes and is deleted."""
    cells = list(connections)
    jobs, owners = tables.jobs.c.job_id, tables.volumes.c.job_id
    if _is_there(cells, (jobs, owners), job_id):
        return ""
    begin = job_id[:PREFIX]
    alike = select(jobs).where(jobs.between(begin, f"{begin}\U0010ffff")).limit(ALIKE_MAX)
    queries = (select(owners).distinct(), alike)
    near = {each for connection in cells for query in queries for each in connection.execute(query).scalars()}
    return f"there is no job {job_id[:140]}{meant(job_id, sorted(near))}"
