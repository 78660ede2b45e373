"""How what a pool may use came about, line by line, from the rows of the views as entitlement said them last."""

from functools import partial

from sqlalchemy import Connection, select

from events.fairness.certificate import SharedPool, explain
from events.fairness.levels import Unfair
from events.quantities import write_amounts
from events.resources import in_order
from projections.queries.pages import Json, rows_of
from projections.queries.pool_tree import capacity_of, pool_rows, spec_of
from projections.queries.resources import kinds_of
from projections.queries.sentences import amount
from projections.views import tables
from projections.views.rows import PoolRow, amounts_in
from projections.views.sharing_rows import TurnRow

STALE = "what pools may use is being counted anew after a change; ask again in a moment"


def entitlement_json(connection: Connection, cell: int, path: str) -> Json:
    """What a pool may use of each resource, and why: a line for each pool from the first level down to it."""
    kinds, capacity = kinds_of(connection), capacity_of(connection)
    rows = {row.path: row for row in pool_rows(connection) if spec_of(row).cell == cell}
    turns = {row.pool: row for row in rows_of(connection, TurnRow, select(tables.turns))}
    pools = {each: _shared(row, turns.get(each)) for each, row in rows.items()}
    try:
        lines, note = explain(path, pools, capacity.amounts, lambda name, value: amount(name, value, kinds)), None
    except Unfair:
        lines, note = {}, STALE
    row = rows[path]
    write = partial(write_amounts, units=kinds.units)
    return {
        "path": path,
        "cell": cell,
        "capacity": write(in_order(capacity.amounts)),
        **{name: write(amounts_in(getattr(row, name))) for name in ("entitlement", "demand", "allocation")},
        "lines": lines,
        "note": note,
    }


def _shared(row: PoolRow, turn: TurnRow | None) -> SharedPool:
    """A pool as its certificate takes it."""
    spec = spec_of(row)
    return SharedPool(
        reservation=spec.reservation,
        limit=spec.limit,
        want=amounts_in(row.demand),
        entitlement=amounts_in(row.entitlement),
        share=spec.share,
        share_default=spec.share_default,
        static=spec.static,
        floor=amounts_in(turn.floor) if turn else {},
    )
