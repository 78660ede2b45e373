"""The derivation of a pool's entitlement, line by line, from the rows of the views as entitlement said them last."""

from collections.abc import Mapping

from sqlalchemy import Connection, select

from events.fairness.certificate import SharedPool, explain
from events.fairness.levels import Unfair
from events.pool_paths import ROOT, path_to
from events.quantities import write_amounts
from events.resources import Amounts, Kinds, Vector, in_order
from events.words import plural
from paceline.client.pool_models import CellCapacity, Entitlement, SharedAmounts
from processors.entitlement.pools import pool_row
from processors.entitlement.rows import DefinedRow, root_row
from processors.entitlement.shares.tree import ShareTree
from processors.state.record_rows import row_of
from projections.queries.cell_capacity import capacity_of
from projections.queries.pages import rows_of
from projections.queries.pool_levels import pools_named, standings
from projections.queries.pool_tree import cell_json, pool_rows, pools_json, spec_of, to_share
from projections.queries.resources import kinds_of
from projections.queries.sentences import amount
from projections.views import tables
from projections.views.rows import PoolRow, amounts_in
from projections.views.sharing_rows import TurnRow

STALE = "what pools may use is being computed after a change, which takes seconds; ask again then"


def entitlement_json(connection: Connection, cell: int, path: str) -> Entitlement:
    """The entitlement of a pool by resource, and why: a line for each pool from the first level down to it; of the root
    what the cell has.
    """
    kinds, whole = kinds_of(connection), cell_json(connection, cell)
    if path == ROOT:
        shared = to_share(connection)
        lines, note = _of_cell(whole, shared, kinds), ""
        entitlement = write_amounts(in_order(shared), kinds.units)
        use: SharedAmounts = whole
    else:
        lines, note = _lines(connection, cell, path, kinds)
        use = pool = pools_json(connection, path)[0]
        entitlement = pool["entitlement"]
    return {
        "path": path,
        "cell": cell,
        "capacity": whole["capacity"],
        "entitlement": entitlement,
        "demand": use["demand"],
        "allocation": use["allocation"],
        "held": use["held"],
        "without_hosts": use["without_hosts"],
        "lines": lines,
        "note": ". ".join(filter(None, (note, *whole["warnings"]))) or None,
    }


def _of_cell(whole: CellCapacity, shared: Amounts, kinds: Kinds) -> dict[str, list[str]]:
    """The part of the capacity that pools share; daemons hold the rest."""
    written, hosts = write_amounts(shared, kinds.units), plural(whole["hosts"], "host")

    def line(name: str, has: float | str) -> str:
        mine = written.get(name, has)
        text = f"{ROOT} may use {mine} {name}: all that the cell has, which has {hosts}"
        return text if mine == has else f"{text} and {has} {name}, without what daemons hold"

    return {name: [line(name, has)] for name, has in whole["capacity"].items()}


def _lines(connection: Connection, cell: int, path: str, kinds: Kinds) -> tuple[dict[str, list[str]], str]:
    shared, whole = to_share(connection), capacity_of(connection).amounts
    daemons = {name: whole.get(name, 0) - most for name, most in shared.items() if whole.get(name, 0) > most}
    anybody = rows_of(connection, TurnRow, select(tables.turns))
    found = pool_rows(connection) if anybody else _along(connection, path)
    rows = {row.path: row for row in found if spec_of(row).cell == cell}
    turns = {row.pool: row for row in anybody if row.pool in rows}
    alone = _without_turns(rows, kinds, shared) if turns else {}
    pools = {each: _shared(row, turns, alone) for each, row in rows.items()}
    try:
        return explain(path, pools, shared, lambda name, value: amount(name, value, kinds), daemons), ""
    except Unfair:
        return {}, STALE


def _along(connection: Connection, path: str) -> list[PoolRow]:
    """The pools right below those on the way to one. What is below them again says nothing that isn't in their rows,
    unless somebody has a turn.
    """
    below = standings(connection).below
    paths = [each for parent in (ROOT, *path_to(path)[:-1]) for each in below.get(parent, ())]
    return list(pools_named(connection, paths).values())


def _without_turns(rows: Mapping[str, PoolRow], kinds: Kinds, capacity: Amounts) -> dict[str, Amounts]:
    """The entitlements of pools if nobody had a turn."""

    def vector(amounts: Amounts) -> Vector:
        return kinds.vector({name: each for name, each in amounts.items() if name in kinds.units})

    shares = ShareTree(kinds)
    shares.set_capacity(vector(capacity))
    shares.define(ROOT, root_row().widened(kinds))
    for path in sorted(rows, key=lambda each: (each.count("/"), each)):
        shares.define(path, pool_row(row_of(DefinedRow, spec_of(rows[path])), kinds))
    above = {path.rpartition("/")[0] for path in rows}
    for path in rows.keys() - above:
        shares.set_want(path, vector(amounts_in(rows[path].demand)))
    return {path: dict(zip(kinds.names, given, strict=True)) for path, given in shares.all().items()}


def _shared(row: PoolRow, turns: Mapping[str, TurnRow], alone: Mapping[str, Amounts]) -> SharedPool:
    """A pool as its certificate takes it."""
    spec, turn = spec_of(row), turns.get(row.path)
    has = turn or next((turns[each] for each in sorted(turns) if each.startswith(f"{row.path}/")), None)
    below = f" in {has.pool}" if has and has is not turn else ""
    return SharedPool(
        reservation=spec.reservation,
        limit=spec.limit,
        want=amounts_in(row.demand),
        entitlement=amounts_in(row.entitlement),
        share=spec.share,
        share_default=spec.share_default,
        static=spec.static,
        floor=amounts_in(turn.floor) if turn else {},
        turn=f"the turn of job {has.job_id}{below}" if has else "",
        alone=alone.get(row.path, {}),
    )
