"""One pool: what it may use and how that came about, who waits in it, and who gave up runs for whom."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from events.cell_settings import preemption_delay_ms
from events.pool_paths import path_to
from events.records.pools import PoolDefined
from events.resources import Kinds
from events.spec.pool import from_event
from events.words import plural
from paceline.client.json_type import Json
from projections.api.all_cells import OpenCell
from projections.api.problems import not_found
from projections.asked_values import whole_number
from projections.queries.cell_capacity import capacity_of
from projections.queries.entitlements import entitlement_json
from projections.queries.log_time import oldest_ms
from projections.queries.pool_levels import Standings, Waits, pools_named, standings, waits
from projections.queries.pool_tree import pools_in_full, queue_json, spec_of
from projections.queries.preemption_flows import flows
from projections.queries.reservations import reservations
from projections.queries.resources import kinds_of, settings_of
from projections.ui import forecast_cards, wait_bars
from projections.ui.format import iso, lasts, ms_of, titled
from projections.ui.history_lines import history_lines
from projections.ui.page_values import PageValues
from projections.ui.pages.pools import Shown, resources_shown, rows_of_level
from projections.ui.pool_bars import bars, shared, verdict
from projections.ui.pool_plots import changes, plots
from projections.ui.preemption_matrix import HOUR_MS, HOURS, hours_of, matrix
from projections.ui.rendering import link
from projections.ui.scene import Page, Scene
from projections.ui.time_bar import MINUTE_MS, SHORTEST_MS
from projections.views.other_histories import of_pool
from projections.views.rows import PoolRow

QUEUE = 20
QUEUE_MAX = 1000
PLOTS = 2
CHILDREN = 100
RESERVATIONS = 20
CLASSES = {
    "preemptible": "preemptible",
    "controllers": "preemptible controllers",
    "non_preemptible": "not preemptible",
    "non_preemptible_controllers": "controllers, not preemptible",
    "daemons": "daemons",
    "revocable": "on slack",
}

FIGURES = {
    "reserved": "reservation",
    "limit": "limit",
    "entitled": "entitlement",
    "held": "held",
    "without hosts": "without_hosts",
    "demand": "demand",
}
"""Figures of a resource, and the fields of the pool that they are."""


def load(scene: Scene) -> PageValues:
    """The pool that the path names."""
    path = f"/{scene.path['path']}"
    of, row = _found(scene, path)
    connection, kinds, pool = of.connection, kinds_of(of.connection), shared(row)
    capacity = capacity_of(connection).amounts
    names = [name for name in kinds.names if capacity.get(name) or _named_in(row, name)]
    level = _level(scene, connection, path)
    waiting = level.waiting.get(path)
    size, hours, units = _size(scene), hours_of(scene.query.get("hours", "")), kinds.units
    drawn = bars(pool, names, {}, kinds)
    units = kinds.units
    begin_ms = min(max(oldest_ms(connection), scene.now_ms - hours * HOUR_MS), scene.now_ms - SHORTEST_MS)
    changed = changes(connection, path, begin_ms, scene.now_ms)
    plotted = [name for name in kinds.names if drawn.get(name)][:PLOTS]
    entitled = entitlement_json(connection, of.context.cell, path)
    [body] = pools_in_full(connection, path)
    weeks = wait_bars.of_pool(connection, path, scene.now_ms)
    return {
        "path": path,
        "cell": of.context.cell,
        "above": [each for each in path_to(path) if each != path],
        "verdict": verdict(row, pool, waiting, scene.now_ms),
        "bars": [(name, titled(name, units[name]), each) for name, each in drawn.items() if each],
        "figures": FIGURES,
        "shares": _shares(body["share"]),
        "body": body,
        "row": row,
        "waits": waiting,
        "wants": any(pool.demand.values()),
        "lines": entitled["lines"],
        "note": entitled["note"],
        "queue": _queue(connection, path, size, scene.now_ms),
        "more": size * 5 if size < QUEUE_MAX else None,
        "plots": plots(
            connection,
            path,
            (begin_ms, scene.now_ms),
            [(name, units[name]) for name in plotted],
            [each["at_ms"] for each in changed],
        ),
        "plotted": [(name, titled(name, units[name])) for name in plotted],
        "changes": [(each, link(f"{of.context.cell}/{each['position']}", f"/pools{path}")) for each in changed],
        "forecast_scores": forecast_cards.of_pool(connection, path, scene.now_ms),
        "wait_weeks": weeks,
        "wait_keys": wait_bars.keys(weeks),
        "flows": matrix(flows(connection, begin_ms, path)),
        "hours": hours,
        "what_if": {"from": _minute(begin_ms), "to": _minute(scene.now_ms), "pool": path},
        "choices": HOURS,
        "reserved": reservations(connection, path, RESERVATIONS),
        "spec": _document(path, pool.spec, kinds),
        "asked": scene.parameters(),
        "delay_ms": _delay_ms(connection, pool.spec),
        **history_lines(scene, connection, of_pool(path)),
        **_children(scene, connection, kinds, level),
    }


def _shares(share: Mapping[str, int]) -> dict[str, int]:
    """The weights of a pool that differ from that in all other resources, and that one."""
    return {name: weight for name, weight in share.items() if name == "others" or weight != share["others"]}


def _minute(ms: int) -> str:
    """The minute of a time: links that say it change no more often."""
    return iso(ms // MINUTE_MS * MINUTE_MS)


def _found(scene: Scene, path: str) -> tuple[OpenCell, PoolRow]:
    """The pool, in the cell that it belongs to. Raises a problem."""
    for cell, each in scene.cells.items():
        row = pools_named(each.connection, [path]).get(path)
        if row is not None and row.spec and spec_of(row).cell == cell:
            return each, row
    raise not_found("pool", path)


def _named_in(row: PoolRow, name: str) -> bool:
    pool = shared(row)
    return bool(pool.spec.reservation.get(name) or pool.spec.limit.get(name) or pool.demand.get(name))


def _delay_ms(connection: Connection, spec: PoolDefined) -> int:
    """Milliseconds that its admitted tasks wait for hosts before others leave for them; -1: for ever."""
    return preemption_delay_ms(settings_of(connection), spec.preemption_delay_ms)


def _size(scene: Scene) -> int:
    size = whole_number(scene.query.get("size", ""), 5)
    return QUEUE if size is None else min(QUEUE_MAX, max(1, size))


def _queue(connection: Connection, path: str, size: int, now_ms: int) -> list[Json]:
    """Each class of work with its first gangs."""
    return [
        {
            "title": CLASSES[name],
            **line,
            "said": f"{plural(line['tasks'], 'task')} of {plural(line['jobs'], 'job')}",
            "gangs": [
                {**gang, "ago": lasts(now_ms - ms_of(gang["since"])) if gang["since"] else "-"}
                for gang in line["gangs"]
            ],
        }
        for name, line in queue_json(connection, path, size)["classes"].items()
    ]


class _Level(NamedTuple):
    """The pools right below one: how many, those that are shown, their rows, where to go on, and what waits in them."""

    standing: Standings
    below: int
    paths: Sequence[str]
    rows: dict[str, PoolRow]
    after: str | None
    waiting: dict[str, Waits]


def _level(scene: Scene, connection: Connection, path: str) -> _Level:
    standing, after = standings(connection), scene.query.get("after", "")
    below = standing.below.get(path, ())
    paths = [each for each in below if each > after]
    first_paths = paths[:CHILDREN]
    following = first_paths[-1] if len(paths) > len(first_paths) else None
    rows, waiting = pools_named(connection, first_paths), waits(connection, [path, *first_paths])
    return _Level(standing, len(below), first_paths, rows, following, waiting)


def _children(scene: Scene, connection: Connection, kinds: Kinds, level: _Level) -> PageValues:
    names = resources_shown(connection, kinds, scene.query.get("resource", ""))
    context = Shown(kinds, names, {}, level.standing, level.waiting, scene.now_ms)
    return {
        "below": level.below,
        "children": rows_of_level(context, level.rows, level.paths),
        "after": level.after,
        "names": [(name, titled(name, kinds.units[name])) for name in names],
    }


def _document(path: str, spec: PoolDefined, kinds: Kinds) -> str:
    """The pool as a file that `paceline pool apply` takes, what has its default left out."""
    body = from_event(spec, kinds.units)
    default = from_event(PoolDefined(path=path, command_id=""), kinds.units)
    spec_values = {name: value for name, value in body.items() if value != default[name]}
    if list(share := spec_values.get("share") or {}) == ["others"]:
        spec_values["share"] = share["others"]
    lines = ({"path": path} | spec_values).items()
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in lines)


PAGES = (Page("/pools/{path:path}", "pool.html", load, "Pools"),)
