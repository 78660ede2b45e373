"""A row about a pool: amounts as bars on one scale, and whether it gets its share."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from events.records.pools import PoolDefined
from events.resources import Amounts, Kinds, Unit
from events.words import plural
from projections.queries.pool_levels import Waits
from projections.queries.pool_tree import spec_of
from projections.ui.format import amount, lasts, percent, with_unit
from projections.ui.page_values import PageValues
from projections.views.rows import PoolRow, amounts_in

ROOM = 1.06
"""Bars end a little before the end of their scale."""
DEMAND_SHOWN = 1.7
"""Demand is shown up to so many times of what else there is of a pool."""


class Shared(NamedTuple):
    """A pool's amounts by kind."""

    spec: PoolDefined
    entitlement: Amounts
    allocation: Amounts
    placed: Amounts
    demand: Amounts


def shared(row: PoolRow) -> Shared:
    """The amounts of a row."""
    return Shared(
        spec_of(row), *(amounts_in(each) for each in (row.entitlement, row.allocation, row.placed, row.demand))
    )


def bar(name: str, pool: Shared, whole: int, unit: Unit) -> PageValues | None:
    """One resource of a pool in percent of a scale: `whole`, or where that is 0 what there is of the pool. None: it
    has nothing of it.
    """
    reserved, limit = pool.spec.reservation.get(name, 0), pool.spec.limit.get(name)
    amounts = {field: getattr(pool, field).get(name, 0) for field in ("entitlement", "allocation", "placed", "demand")}
    if not any((reserved, limit, *amounts.values())):
        return None
    entitled, allocated, placed, demand = amounts.values()
    most = max(reserved, limit or 0, entitled, allocated, placed)
    top = whole or int(max(most, min(demand, most * DEMAND_SHOWN if most else demand)) * ROOM) or 1
    texts = {"reserved": reserved, "entitled": entitled, "held": placed, "without hosts": max(0, allocated - placed)}
    texts |= {"demand": demand} | ({} if limit is None else {"limit": limit})
    return {
        "res": percent(reserved, top),
        "ent": percent(entitled, top),
        "alloc": percent(allocated, top),
        "placed": percent(placed, top),
        "dem": percent(demand, top),
        "lim": None if limit is None else percent(limit, top),
        "over": placed > entitled,
        "label": ", ".join(f"{title} {with_unit(value, unit)}" for title, value in texts.items()),
        "texts": {title: amount(value, unit) for title, value in texts.items()},
    }


def bars(pool: Shared, names: Sequence[str], capacity: Mapping[str, int], kinds: Kinds) -> PageValues:
    """A bar for each resource; `capacity`: that of the scale, empty: each pool has its own."""
    units = kinds.units
    return {name: bar(name, pool, capacity.get(name, 0), units.get(name, Unit.MILLI)) for name in names}


class Verdict(NamedTuple):
    """Whether a pool gets its share: a shape and a few words."""

    shape: str
    words: str


def verdict(row: PoolRow, pool: Shared, waits: Waits | None, now_ms: int) -> Verdict:
    """The first verdict that holds."""
    spec, entitled, demand = pool.spec, pool.entitlement, pool.demand
    reserved = {name: min(most, demand.get(name, 0)) for name, most in spec.reservation.items()}
    below = [name for name, most in reserved.items() if entitled.get(name, 0) < most]
    if row.over_since_ms:
        return Verdict("preempted", f"more than its share, for {lasts(now_ms - row.over_since_ms)}")
    if below:
        return Verdict("bad", f"no: less {', '.join(below)} than reserved")
    if row.under_since_ms and waits is not None and waits.placing["entitled"]:
        return Verdict("warn", f"admitted tasks have no host, for {lasts(now_ms - row.under_since_ms)}")
    if spec.closed:
        return Verdict("warn", "closed: admits nothing")
    short = {name for name, most in demand.items() if most > entitled.get(name, 0)}
    at_limit = any(entitled.get(name, 0) >= most for name, most in spec.limit.items() if name in short)
    if at_limit:
        return Verdict("warn", "at its limit")
    if waits is not None and waits.limited:
        asks = f"{plural(waits.limited, 'task')} {'asks' if waits.limited == 1 else 'ask'} for more than its limit"
        used = any(pool.allocation.get(name) for name in spec.limit)
        return Verdict("warn", f"{asks} leaves" if used else asks)
    if short:
        return Verdict("good", "yes; wants more")
    if waits is not None and waits.tasks:
        return Verdict("good", "yes; tasks wait")
    return Verdict("good", "all it wants") if any(demand.values()) else Verdict("fact", "wants nothing")
