"""The runs that pools gave up for others, over a time."""

from collections import Counter

import msgspec
from sqlalchemy import Connection, select

from events.codes import Code
from projections.views import tables

ORDERS_MAX = 20_000
"""Orders that are looked at: the newest of the time."""
Flows = dict[tuple[str, str], int]


def flows(connection: Connection, since_ms: int, of: str = "") -> Flows:
    """Runs that left, by the pool that they left and the pool for which; `of`: only what a pool or one below it gave
    or got. Orders that were refused don't count, those that aren't answered yet do.
    """
    orders = tables.orders.c
    query = select(orders.for_pool, orders.from_pools).where(
        orders.at_ms >= since_ms, orders.answer.in_(("", Code.LEFT))
    )
    found: Counter[tuple[str, str]] = Counter()
    for winner, losers in connection.execute(query.order_by(orders.at_ms.desc()).limit(ORDERS_MAX)):
        for loser, runs in msgspec.json.decode(losers).items():
            if not of or _within(winner, of) or _within(loser, of):
                found[loser, winner] += runs
    return dict(found)


def _within(path: str, pool: str) -> bool:
    return path == pool or path.startswith(f"{pool}/")
