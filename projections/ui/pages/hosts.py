"""All hosts: a map of them, how full they are, what would still fit, and which are not up."""

import base64
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from events.resources import Kinds, Unit
from paceline.client.host_models import HostPoolMove
from paceline.client.json_type import Json
from projections.asked_values import whole_number
from projections.queries.entities import host_json
from projections.queries.host_map import NONE, STATES, UP, HostMap, step_of, used_of
from projections.queries.host_pools import host_pools, moves
from projections.queries.pages import rows_of
from projections.queries.resources import kinds_of, settings_of
from projections.ui.card_grid import HOSTS_SHOWN, card_grid
from projections.ui.format import GIB, amount, moment, ms_of, percent, titled
from projections.ui.host_words import COMMANDS, SHAPES, since, why
from projections.ui.page_values import PageValues
from projections.ui.rendering import link
from projections.ui.scene import Data, Page, Scene
from projections.views import tables
from projections.views.rows import HostRow

PAGE = 50
NOT_UP = 20
PREFERRED = ("rack", "zone", "class")
BY_STATE = "state"
SIZES = {Unit.MILLI: (1, 2, 4, 8, 16, 32, 64, 128), Unit.MIB: (1, 4, 16, 64, 256, 1024)}
"""Sizes of tasks, in cores or GiB."""
Mask = NDArray[np.bool_]


def load(scene: Scene) -> PageValues:
    """The hosts of a cell."""
    of, query = scene.first(), scene.query
    host_map, kinds = of.context.host_maps.of(of.context.views, of.connection), kinds_of(of.connection)
    resource, names = _resource(scene, host_map)
    attributes = _attributes(of.connection, host_map)
    by = _by(query.get("by", ""), attributes)
    mask, by_state = _mask(scene, host_map, resource), query.get("show") == BY_STATE
    return {
        "cell": of.context.cell,
        "hosts": len(host_map.ids),
        "counts": [(word, SHAPES[word], count) for word, count in host_map.counts().items() if count],
        "names": names,
        "resource": resource,
        "by_state": by_state,
        "attributes": attributes,
        "by": by,
        "groups": len(host_map.groups(by)[0]) if by else 0,
        "asked": scene.parameters(),
        "filtered": [(name, query[name]) for name in ("state", "step", "q") if query.get(name)],
        "matching": int(mask.sum()),
        "map": _map(scene, host_map, by, resource, by_state),
        "steps": _steps(host_map, resource) if resource in host_map.capacity else [],
        "room": _room(host_map, resource, kinds) if resource in host_map.capacity else None,
        "not_up": _rows(of.connection, kinds, host_map, host_map.state != UP, "", NOT_UP, scene.now_ms),
        "not_up_count": int((host_map.state != UP).sum()),
        "rows": _rows(of.connection, kinds, host_map, mask, query.get("after", ""), PAGE, scene.now_ms),
        "after": _after(host_map, mask, query.get("after", "")),
        **_cards(of.connection, host_map, by, mask, query.get("cards", "")),
        "host_pools": host_pools(of.connection),
        "moves": [_move(each) for each in moves(of.connection)],
        "titles": [(name, titled(name, kinds.units[name])) for name in names],
    }


def _resource(scene: Scene, host_map: HostMap) -> tuple[str, list[str]]:
    """The resource to show, and all that hosts have."""
    names = [name for name, have in host_map.capacity.items() if have.any()]
    choice = scene.query.get("show", "")
    return choice if choice in names else (names or ["cpu"])[0], names


def _move(move: HostPoolMove) -> PageValues:
    """A move with its time in milliseconds, and what led to it in words."""
    why = "by an operator"
    if move["load"] is not None:
        was = "above" if move["code"] == "LOAD_ABOVE" else "below"
        pool = move["target"] if move["code"] == "LOAD_ABOVE" else move["source"]
        waiting = f", of which {move['waiting']} % wait," if move["waiting"] else ","
        bound, since = f"{was} {move['bound']} %", moment(ms_of(move["since"]))
        why = f"the load of {pool} was {move['load']} %{waiting} {bound} since {since}"
    return {**move, "at_ms": ms_of(move["at"]), "why": why}


def _attributes(connection: Connection, host_map: HostMap) -> list[str]:
    """The attributes to group by, the levels of the topology of the cell before the others, the largest first."""
    attributes, topology = host_map.attributes(), settings_of(connection).topology
    levels = [name for name in topology if name in attributes]
    return [*levels, *(name for name in attributes if name not in levels)]


def _by(choice: str, attributes: Sequence[str]) -> str:
    """The attribute to group by: what is asked for, or one that is usual; empty: none."""
    if choice in attributes or choice == "none":
        return choice.replace("none", "")
    return next((name for name in (*PREFERRED, *attributes) if name in attributes), "")


def _mask(scene: Scene, host_map: HostMap, resource: str) -> Mask:
    """The hosts that the filters leave."""
    state, step, text = (scene.query.get(name, "") for name in ("state", "step", "q"))
    mask = np.ones(len(host_map.ids), dtype=np.bool_)
    if state in STATES:
        mask &= host_map.state == STATES.index(state)
    tenth = whole_number(step, 1)
    if tenth is not None and resource in host_map.capacity:
        share = host_map.share(resource)
        mask &= (host_map.state == UP) & (share != NONE) & (step_of(share) == tenth)
    if text:
        mask &= host_map.named(text)
    return mask


def _map(scene: Scene, host_map: HostMap, by: str, resource: str, by_state: bool) -> Json:
    """The values for the script of the map beside the columns."""
    return {
        "show": BY_STATE if by_state else resource,
        "resource": resource,
        "by": by,
        "data": link(scene.at, "/data/hosts", **scene.parameters("after", "cards", "by"), by=by or "none"),
        "at": scene.at,
        "states": [{"word": word.capitalize(), "shape": SHAPES[word]} for word in STATES],
        "version": host_map.version,
        "rest_ms": host_map.rest_ms,
    }


def _steps(host_map: HostMap, name: str) -> list[PageValues]:
    counts = host_map.steps(name)
    most = max(counts)
    return [
        {"step": step, "from": 10 * step, "to": 10 * step + 10, "hosts": count, "percent": percent(count, most)}
        for step, count in enumerate(counts)
    ]


def _room(host_map: HostMap, name: str, kinds: Kinds) -> PageValues:
    """The number of further tasks of some sizes that fit, and that would fit if all that is free were on one host."""
    unit, free = kinds.units[name], host_map.free(name)
    factor = GIB if unit is Unit.MIB else 1000
    largest, total = int(free.max(initial=0)), int(free.sum())
    biggest = int(host_map.capacity[name].max(initial=0))
    rows = []
    for size in SIZES[unit]:
        if size * factor <= biggest:
            bound, fit = total // (size * factor), int((free // (size * factor)).sum())
            rows.append({"size": size, "bound": bound, "fit": fit, "lost": percent(bound - fit, bound)})
    return {
        "rows": rows,
        "largest": amount(largest, unit),
        "total": amount(total, unit),
        "unit": "GiB" if unit is Unit.MIB else name,
    }


def _rows(
    connection: Connection, kinds: Kinds, host_map: HostMap, mask: Mask, after: str, size: int, now_ms: int
) -> list[PageValues]:
    ids = [host_map.ids[at] for at in np.flatnonzero(mask & host_map.beyond(after))[:size].tolist()]
    hosts = tables.hosts
    rows = rows_of(
        connection, HostRow, select(hosts).where(hosts.c.host_id.in_(ids)).order_by(hosts.c.place, hosts.c.host_id)
    )
    telling = host_map.telling()
    return [_line(row, kinds, telling, now_ms) for row in rows]


def _line(row: HostRow, kinds: Kinds, telling: Container[str], now_ms: int) -> PageValues:
    """A host in a table."""
    body = host_json(row, kinds)
    return {
        "id": row.host_id,
        "state": body["state"],
        "shape": SHAPES[body["state"]],
        "for": since(row, body["state"], now_ms),
        "why": why(body),
        "by": next(iter(COMMANDS.get(body["state"], ())), ""),
        "runs": row.runs,
        "uses": uses(row, kinds),
        "attributes": {name: value for name, value in body["attributes"].items() if name in telling},
    }


def uses(row: HostRow, kinds: Kinds) -> dict[str, PageValues]:
    """Each resource of a host: how much of it runs hold."""
    have, allocated = used_of(kinds, row.capacity, row.sizes), used_of(kinds, row.allocated, "[]")
    return {
        name: {
            "percent": percent(allocated.get(name, 0), most),
            "held": amount(allocated.get(name, 0), kinds.units[name]),
            "most": amount(most, kinds.units[name]),
        }
        for name, most in have.items()
        if most
    }


def _cards(connection: Connection, host_map: HostMap, by: str, mask: Mask, after: str) -> PageValues:
    """The cards of some hosts that the filters leave, and after which host the next ones come."""
    places = np.flatnonzero(mask & host_map.has_cards & host_map.beyond(after))[: HOSTS_SHOWN + 1].tolist()
    names, numbers = host_map.groups(by) if by else ([""], np.zeros(len(host_map.ids), dtype=np.uint16))
    page = places[:HOSTS_SHOWN]
    ids = [host_map.ids[at] for at in page]
    grid = card_grid(connection, ids, [names[numbers[at]] for at in page]) if page else []
    return {"grid": grid, "cards_after": ids[-1] if len(places) > HOSTS_SHOWN else None}


def _after(host_map: HostMap, mask: Mask, after: str) -> str | None:
    """Where the next page of the table begins; None: this was the last."""
    places = np.flatnonzero(mask & host_map.beyond(after))[: PAGE + 1].tolist()
    return host_map.ids[places[PAGE - 1]] if len(places) > PAGE else None


def columns(scene: Scene) -> bytes:
    """The hosts as columns, for the map: a byte a host and resource, and the number of its group."""
    of = scene.first()
    host_map = of.context.host_maps.of(of.context.views, of.connection)
    by = _by(scene.query.get("by", ""), _attributes(of.connection, host_map))
    mask = _mask(scene, host_map, _resource(scene, host_map)[0])
    names, group = host_map.groups(by) if by else ([""], np.zeros(len(host_map.ids), dtype=np.uint16))
    return orjson.dumps(
        {
            "version": host_map.version,
            "ids": host_map.ids,
            "state": packed(host_map.state),
            "shares": {name: packed(host_map.share(name)) for name, have in host_map.capacity.items() if have.any()},
            "groups": names,
            "group": packed(group.astype("<u2")),
            "match": "" if mask.all() else packed(mask),
        }
    )


def packed(column: NDArray[Any]) -> str:
    """A column as text: base64 of its bytes."""
    return base64.b64encode(column.tobytes()).decode()


PAGES = (Page("/hosts", "hosts.html", load, "Hosts"),)
DATA = (Data("/data/hosts", columns),)
