"""The tree of pools: what each may use, holds and wants, and who waits."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from events.pool_paths import ROOT
from events.resources import Amounts, Kinds
from projections.api.all_cells import OpenCell
from projections.queries.cell_capacity import capacity_of
from projections.queries.pool_levels import Standings, Waits, pools_named, standings, waits
from projections.queries.pool_tree import cell_json, spec_of
from projections.queries.preemption_flows import flows
from projections.queries.resources import kinds_of
from projections.ui.format import lasts, titled, with_unit
from projections.ui.page_values import PageValues
from projections.ui.pool_bars import bars, shared, verdict
from projections.ui.preemption_matrix import HOUR_MS, HOURS, hours_of, matrix
from projections.ui.scene import Page, Scene
from projections.views.rows import PoolRow, amounts_in

OPEN_AT_ONCE = 100
"""A tree of so many pools is shown whole."""
LEVEL_MAX = 200
ROWS_MAX = 500
NAMED = 3


def load(scene: Scene) -> PageValues:
    """The trees of the cells that are asked for, in one resource."""
    cells = {cell: each for cell, each in scene.cells.items() if scene.query.get("cell", str(cell)) == str(cell)}
    scale = "cell" if scene.query.get("scale") == "cell" else "pool"
    trees = [_tree(scene, cell, each, scale) for cell, each in (cells or scene.cells).items()]
    hours = hours_of(scene.query.get("hours", ""))
    flow_counts = Counter[tuple[str, str]]()
    for each in (cells or scene.cells).values():
        flow_counts.update(flows(each.connection, scene.now_ms - hours * HOUR_MS))
    matrix_values = {"flows": matrix(flow_counts), "hours": hours, "choices": HOURS}
    return {"trees": trees, "scale": scale, "asked": scene.parameters(), **matrix_values}


class Shown(NamedTuple):
    """The data of rows."""

    kinds: Kinds
    names: list[str]
    capacity: Mapping[str, int]
    standing: Standings
    waiting: Mapping[str, Waits]
    now_ms: int


def _tree(scene: Scene, cell: int, of: OpenCell, scale: str) -> PageValues:
    connection = of.connection
    kinds, whole, standing = kinds_of(connection), capacity_of(connection), standings(connection)
    names = resources_shown(connection, kinds, scene.query.get("resource", ""))
    first = list(standing.below.get(ROOT, ()))
    roots = [path for path, row in pools_named(connection, first).items() if spec_of(row).cell == cell]
    roots.sort()
    own = [path for root in roots for path in _with_all_below(standing, root)]
    opened = _opened(scene, standing, own)
    after = scene.query.get("after", "")
    roots = [path for path in roots if path > after]
    paths = list(_visible(standing, roots[:LEVEL_MAX], opened))
    rows = pools_named(connection, paths[:ROWS_MAX])
    scaled = whole.amounts if scale == "cell" else {}
    context = Shown(kinds, names, scaled, standing, waits(connection, rows), scene.now_ms)
    info = cell_json(connection, cell)
    units = kinds.units
    return {
        "cell": cell,
        "count": len(own),
        "hosts": whole.hosts,
        "capacity": ", ".join(f"{with_unit(whole.amounts.get(each, 0), units[each])} {each}" for each in names),
        "warnings": info["warnings"],
        "verdicts": list(_verdicts(standing, own, context.waiting.get(ROOT), scene.now_ms)),
        "resources": [name for name in units if whole.amounts.get(name)] or list(units),
        "names": [(name, titled(name, units[name])) for name in names],
        "rows": [pool_row(context, rows[path], path.count("/"), opened) for path in paths[:ROWS_MAX] if path in rows],
        "more": roots[LEVEL_MAX - 1] if len(roots) > LEVEL_MAX else None,
    }


def resources_shown(connection: Connection, kinds: Kinds, choice: str) -> list[str]:
    """The resource that is asked for, and two more, as many as hosts have and pools use; memory in any case."""
    have, root = capacity_of(connection).amounts, pools_named(connection, [ROOT]).get(ROOT)
    used = amounts_in(root.allocation) if root is not None else {}
    names = sorted(kinds.names, key=lambda name: (not used.get(name), not have.get(name)))
    first = choice if choice in kinds.units else kinds.names[0]
    return [first, *[name for name in names if name != first and have.get(name) and _matters(name, used)][:2]]


def _matters(name: str, used: Amounts) -> bool:
    return name == "memory" or bool(used.get(name))


def _with_all_below(standing: Standings, path: str) -> Iterator[str]:
    waiting = [path]
    while waiting:
        path = waiting.pop()
        yield path
        waiting += standing.below.get(path, ())


def _opened(scene: Scene, standing: Standings, own: list[str]) -> set[str]:
    if "open" in scene.query:
        return {path for path in scene.query.getlist("open") if path}
    return {path for path in own if path in standing.below} if len(own) <= OPEN_AT_ONCE else set()


def _visible(standing: Standings, paths: list[str], opened: set[str]) -> Iterator[str]:
    for path in paths:
        yield path
        if path in opened:
            yield from _visible(standing, list(standing.below.get(path, ()))[:LEVEL_MAX], opened)


def _verdicts(standing: Standings, own: list[str], all_: Waits | None, now_ms: int) -> Iterator[tuple[str, str]]:
    """Whether pools get their share, in a sentence each: a shape and text."""
    mine = set(own)
    leaves = [path for path in standing.under if path in mine and path not in standing.below]
    over = [path for path in standing.over if path in mine and path not in standing.below]
    if leaves:
        since = min(standing.under[path] for path in leaves)
        yield (
            "warn",
            f"{_named(leaves)} less than entitled to, since {lasts(now_ms - since)}: admitted tasks find no host.",
        )
    if over:
        since = min(standing.over[path] for path in over)
        yield "preempted", f"{_named(over)} more than entitled to, for {lasts(now_ms - since)}."
    if own and not leaves and not over:
        waiting = f" {all_.tasks:,} tasks wait." if all_ is not None and all_.tasks else ""
        yield "good", f"Every pool has what it is entitled to.{waiting}"


def _named(paths: list[str]) -> str:
    """`/maps has`, `/maps, /batch and 3 more pools have`."""
    names = ", ".join(paths[:NAMED]) + (f" and {len(paths) - NAMED} more pools" if len(paths) > NAMED else "")
    return f"{names} {'has' if len(paths) == 1 else 'have'}"


def pool_row(context: Shown, row: PoolRow, depth: int, opened: set[str]) -> PageValues:
    """A row of the tree."""
    pool, waiting = shared(row), context.waiting.get(row.path)
    codes = waiting.codes.most_common(1) if waiting else []
    below = context.standing.below.get(row.path, ())
    return {
        "path": row.path,
        "depth": min(depth, 6),
        "below": len(below),
        "open": row.path in opened and bool(below),
        "toggled": sorted(opened ^ {row.path}) or [""],
        "verdict": verdict(row, pool, waiting, context.now_ms),
        "bars": bars(pool, context.names, context.capacity, context.kinds),
        "jobs": waiting.jobs if waiting else 0,
        "waiting": waiting.tasks if waiting else 0,
        "placing": waiting.placing.total() if waiting else 0,
        "code": codes[0] if codes else None,
    }


def rows_of_level(context: Shown, rows: Mapping[str, PoolRow], paths: Sequence[str]) -> list[PageValues]:
    """Rows of pools that stand beside one another."""
    return [pool_row(context, rows[path], 1, set()) for path in paths if path in rows]


PAGES = (Page("/pools", "pools.html", load, "Pools"),)
