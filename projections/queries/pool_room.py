"""The room that a pool has for a submission, read as one row: each submission asks for it."""

from typing import NamedTuple

from sqlalchemy import Connection

from events.codec import decode
from events.records.pools import PoolDefined
from projections.views.reader import rows_as_text

_ROOM = """SELECT
    spec, coalesce(open_jobs, 0), coalesce(open_tasks, 0),
    EXISTS (SELECT 1 FROM pools AS below WHERE below.path > ? AND below.path < ?)
FROM pools LEFT JOIN pool_use USING (path) WHERE path = ?
"""


class PoolRoom(NamedTuple):
    """A pool as it is defined, what of it is in use, and whether it is no leaf."""

    pool: PoolDefined
    open_jobs: int
    open_tasks: int
    has_pools_below: bool


def room_of(connection: Connection, path: str) -> PoolRoom | None:
    """The room in a pool; None: it is unknown."""
    for spec, jobs, tasks, inner in rows_as_text(connection, _ROOM, (f"{path}/", f"{path}0", path)):
        pool = decode(spec)
        assert isinstance(pool, PoolDefined)
        return PoolRoom(pool, jobs, tasks, bool(inner))
    return None
