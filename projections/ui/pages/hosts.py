"""All hosts: a map of them, how full they are, what would still fit, and which are not up."""

import base64
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from events.resources import Kinds, Unit
from projections.asked_values import whole_number
from projections.queries.entities import host_json
from projections.queries.host_map import NONE, STATES, HostMap, step_of, used_of
from projections.queries.pages import Json, rows_of
from projections.queries.resources import kinds_of
from projections.ui.format import GIB, amount, percent, titled
from projections.ui.host_words import COMMANDS, SHAPES, since, why
from projections.ui.rendering import link
from projections.ui.scene import Data, Page, Scene
from projections.views import tables
from projections.views.rows import HostRow

PAGE = 50
NOT_UP = 20
PREFERRED = ("rack", "zone", "class")
BY_STATE = "state"
SIZES = {Unit.MILLI: (1, 2, 4, 8, 16, 32, 64, 128), Unit.MIB: (1, 4, 16, 64, 256, 1024)}
"""Of tasks, in cores or GiB."""
Mask = NDArray[np.bool_]


def load(scene: Scene) -> dict[str, Any]:
    """The hosts of a cell."""
    of, asked = scene.first(), scene.query
    found, kinds = of.context.host_maps.of(of.context.views, of.connection), kinds_of(of.connection)
    resource, names = _resource(scene, found)
    attributes = found.attributes()
    by = _by(asked.get("by", ""), attributes)
    mask, by_state = _mask(scene, found, resource), asked.get("show") == BY_STATE
    return {
        "cell": of.context.cell,
        "hosts": len(found.ids),
        "counts": [(word, SHAPES[word], count) for word, count in found.counts().items() if count],
        "names": names,
        "resource": resource,
        "by_state": by_state,
        "attributes": attributes,
        "by": by,
        "groups": len(found.groups(by)[0]) if by else 0,
        "asked": scene.parameters(),
        "filtered": [(name, asked[name]) for name in ("state", "step", "q") if asked.get(name)],
        "matching": int(mask.sum()),
        "map": _map(scene, found, by, resource, by_state),
        "steps": _steps(found, resource) if resource in found.capacity else [],
        "room": _room(found, resource, kinds) if resource in found.capacity else None,
        "not_up": _rows(of.connection, kinds, found, found.state != 0, "", NOT_UP, scene.now_ms),
        "not_up_count": int((found.state != 0).sum()),
        "rows": _rows(of.connection, kinds, found, mask, asked.get("after", ""), PAGE, scene.now_ms),
        "after": _after(found, mask, asked.get("after", "")),
        "titles": [(name, titled(name, kinds.units[name])) for name in names],
    }


def _resource(scene: Scene, found: HostMap) -> tuple[str, list[str]]:
    """The resource to show, and all that hosts have."""
    names = [name for name, have in found.capacity.items() if have.any()]
    wanted = scene.query.get("show", "")
    return wanted if wanted in names else (names or ["cpu"])[0], names


def _by(wanted: str, attributes: Sequence[str]) -> str:
    """The attribute to group by: what is asked for, or one that is usual; empty: none."""
    if wanted in attributes or wanted == "none":
        return wanted.replace("none", "")
    return next((name for name in (*PREFERRED, *attributes) if name in attributes), "")


def _mask(scene: Scene, found: HostMap, resource: str) -> Mask:
    """The hosts that the filters leave."""
    state, step, text = (scene.query.get(name, "") for name in ("state", "step", "q"))
    mask = np.ones(len(found.ids), dtype=np.bool_)
    if state in STATES:
        mask &= found.state == STATES.index(state)
    tenth = whole_number(step, 1)
    if tenth is not None and resource in found.capacity:
        share = found.share(resource)
        mask &= (found.state == 0) & (share != NONE) & (step_of(share) == tenth)
    if text:
        mask &= found.named(text)
    return mask


def _map(scene: Scene, found: HostMap, by: str, resource: str, by_state: bool) -> Json:
    """What the script of the map needs beside the columns."""
    return {
        "show": BY_STATE if by_state else resource,
        "resource": resource,
        "by": by,
        "data": link(scene.at, "/data/hosts", **scene.parameters("after", "by"), by=by or "none"),
        "at": scene.at,
        "states": [{"word": word.capitalize(), "shape": SHAPES[word]} for word in STATES],
        "version": found.version,
        "rest_ms": found.rest_ms,
    }


def _steps(found: HostMap, name: str) -> list[dict[str, Any]]:
    counts = found.steps(name)
    most = max(counts)
    return [
        {"step": step, "from": 10 * step, "to": 10 * step + 10, "hosts": count, "percent": percent(count, most)}
        for step, count in enumerate(counts)
    ]


def _room(found: HostMap, name: str, kinds: Kinds) -> dict[str, Any]:
    """How many more tasks of some sizes fit, and how many would if what is free were on one host."""
    unit, free = kinds.units[name], found.free(name)
    factor = GIB if unit is Unit.MIB else 1000
    largest, total = int(free.max(initial=0)), int(free.sum())
    biggest = int(found.capacity[name].max(initial=0))
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
    connection: Connection, kinds: Kinds, found: HostMap, mask: Mask, after: str, size: int, now_ms: int
) -> list[dict[str, Any]]:
    ids = [found.ids[at] for at in np.flatnonzero(mask & found.beyond(after))[:size].tolist()]
    hosts = tables.hosts
    rows = rows_of(connection, HostRow, select(hosts).where(hosts.c.host_id.in_(ids)).order_by(hosts.c.host_id))
    telling = found.telling()
    return [_line(row, kinds, telling, now_ms) for row in rows]


def _line(row: HostRow, kinds: Kinds, telling: Container[str], now_ms: int) -> dict[str, Any]:
    """A host in a table."""
    body = host_json(row, kinds)
    return {
        "id": row.host_id,
        "state": body["state"],
        "shape": SHAPES[body["state"]],
        "for": since(row, body["state"], now_ms),
        "why": why(body),
        "by": COMMANDS.get(body["state"], ""),
        "runs": row.runs,
        "uses": uses(row, kinds),
        "attributes": {name: value for name, value in body["attributes"].items() if name in telling},
    }


def uses(row: HostRow, kinds: Kinds) -> dict[str, dict[str, Any]]:
    """Each resource of a host: how much of it runs hold."""
    have, held = used_of(kinds, row.capacity, row.sizes), used_of(kinds, row.allocated, "[]")
    return {
        name: {
            "percent": percent(held.get(name, 0), most),
            "held": amount(held.get(name, 0), kinds.units[name]),
            "most": amount(most, kinds.units[name]),
        }
        for name, most in have.items()
        if most
    }


def _after(found: HostMap, mask: Mask, after: str) -> str | None:
    """Where the next page of the table begins; None: this was the last."""
    places = np.flatnonzero(mask & found.beyond(after))[: PAGE + 1].tolist()
    return found.ids[places[PAGE - 1]] if len(places) > PAGE else None


def columns(scene: Scene) -> bytes:
    """The hosts as columns, for the map: a byte a host and resource, and the number of its group."""
    of = scene.first()
    found = of.context.host_maps.of(of.context.views, of.connection)
    by = _by(scene.query.get("by", ""), found.attributes())
    mask = _mask(scene, found, _resource(scene, found)[0])
    names, group = found.groups(by) if by else ([""], np.zeros(len(found.ids), dtype=np.uint16))
    return orjson.dumps(
        {
            "version": found.version,
            "ids": found.ids,
            "state": packed(found.state),
            "shares": {name: packed(found.share(name)) for name, have in found.capacity.items() if have.any()},
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
