"""The host pools of a cell, with what is in them and who may use them."""

import msgspec
from sqlalchemy import Connection, func, select

from events.codec import decode
from events.host_pools import SHARED
from events.records.pools import PoolDefined
from paceline.client.host_models import HostPool, HostPoolMove
from projections.queries.host_list import HostFilter
from projections.queries.pages import rows_of
from projections.record_json import at
from projections.views import tables
from projections.views.rows import HostPoolMoveRow, HostPoolRow

_HOSTS = tables.hosts.c
MOVES_MAX = 20


def host_pools(connection: Connection) -> list[HostPool]:
    """All host pools by name, that of hosts in no other one first."""
    defined = rows_of(connection, HostPoolRow, select(tables.host_pools).order_by(tables.host_pools.c.name))
    counts = select(_HOSTS.host_pool, func.count(), func.sum(_HOSTS.runs)).group_by(_HOSTS.host_pool)
    hosts = {name: (many, runs) for name, many, runs in connection.execute(counts)}
    up_counts = HostFilter(states=("UP",)).narrow(select(_HOSTS.host_pool, func.count())).group_by(_HOSTS.host_pool)
    up = {row[0]: row[1] for row in connection.execute(up_counts)}
    pools = _pools_by_host_pool(connection) if len(up) > 1 or len(hosts) > 1 else {}
    return [
        {
            "name": row.name,
            "kinds": msgspec.json.decode(row.kinds),
            "description": row.description,
            "elastic": msgspec.json.decode(row.elastic),
            "pools": pools.get(row.name, []),
            "hosts": hosts.get(row.name, (0, 0))[0],
            "up": up.get(row.name, 0),
            "runs": hosts.get(row.name, (0, 0))[1],
            "defined_at": at(row.defined_ms),
        }
        for row in (HostPoolRow(SHARED), *defined)
    ]


def moves(connection: Connection) -> list[HostPoolMove]:
    """The last moves of hosts, the newest first."""
    table = tables.host_pool_moves
    query = select(table).order_by(table.c.offset.desc(), table.c.place.desc()).limit(MOVES_MAX)
    return [
        {
            "source": row.source,
            "target": row.target,
            "host_ids": msgspec.json.decode(row.host_ids),
            "code": row.code,
            "load": row.load if row.load >= 0 else None,
            "waiting": row.waiting if row.load >= 0 else None,
            "bound": row.bound if row.bound >= 0 else None,
            "since": at(row.since_ms),
            "at": at(row.started_ms),
        }
        for row in rows_of(connection, HostPoolMoveRow, query)
    ]


def _pools_by_host_pool(connection: Connection) -> dict[str, list[str]]:
    """The resource pools that name each host pool, by path."""
    pools: dict[str, list[str]] = {}
    query = select(tables.pools.c.path, tables.pools.c.spec).order_by(tables.pools.c.path)
    for path, spec in connection.execute(query):
        fact = decode(spec) if spec else None
        for name in fact.host_pools if isinstance(fact, PoolDefined) else ():
            pools.setdefault(name, []).append(path)
    return pools
