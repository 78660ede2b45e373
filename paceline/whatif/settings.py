"""`--set PATH:FIELD[:RESOURCE]=VALUE` and files of pools: what is changed, as in pool files and `cell set`.

A change holds from the start of the stretch on: pools that are there then are defined once more, and each later
definition of them, or setting of the cell, has the changed fields too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace
from pydantic import ValidationError

from events.cell_settings import TYPES, changed
from events.cell_settings import change_of as change_in
from events.host_pools import SHARED
from events.nearest import meant
from events.records.base import Event
from events.records.hosts import HostPoolDefined
from events.records.pools import CellConfigured, PoolDefined
from events.resources import Kinds
from events.spec.pool import Limit, PoolSpec, Reservation, Share, from_event
from events.spec.problems import problems
from events.spec.settings import CellSpec, descriptions, settings_json
from paceline.client.errors import InvalidValue
from paceline.whatif.branch import Change
from paceline.whatif.stretch import Stretch
from processors.entitlement.machine import Entitlement
from processors.entitlement.rows import UNLIMITED, PoolRow

CELL = "cell"
BY_RESOURCE = {"reservation": Reservation, "limit": Limit, "share": Share}
HOST_POOLS = "host_pools"
LISTS = ("static", HOST_POOLS, "owners", "topology")
"""Fields whose values are written with commas."""
FIXED = ("path", "cell")
"""The fields of a pool that can't be changed."""
COMMAND = "what-if"
HOW = "write PATH:FIELD[:RESOURCE]=VALUE, such as /maps:share=2 or /maps:reservation:gpu=4, or cell:NAME=VALUE"
Edit = Callable[[Mapping[str, Any]], dict[str, Any]]
"""The JSON of a pool with something changed."""


class Setting(NamedTuple):
    """One change, as it was written: `of` is the path of a pool, or `cell`; `resource` may be empty."""

    of: str
    field: str
    resource: str
    value: str | int | float | bool | list[str] | None


def read_setting(text: str) -> Setting:
    """Parses what stands after `--set`. Raises `InvalidValue`."""
    name, sign, value = text.partition("=")
    of, *fields = name.split(":")
    if not sign or not 1 <= len(fields) <= 2 or not all(fields) or not (of == CELL or of.startswith("/")):
        raise InvalidValue(f"{text!r} is no change: {HOW}")
    field, resource = fields[0], fields[1] if len(fields) == 2 else ""
    names = [*descriptions()] if of == CELL else [*PoolSpec.model_fields]
    if field not in names or (of != CELL and field in FIXED):
        what = "setting of a cell" if of == CELL else "field of a pool that can be changed"
        raise InvalidValue(f"{text!r}: {field} is no {what}{meant(field, names)}")
    if resource and field not in BY_RESOURCE:
        raise InvalidValue(f"{text!r}: {field} isn't by resource; those are {', '.join(BY_RESOURCE)}")
    if not resource and field in ("reservation", "limit"):
        raise InvalidValue(f"{text!r}: a {field} is of a resource: write {of}:{field}:cpu={value or 8}")
    return Setting(of, field, resource, _value(field, value))


def change_of(stretch: Stretch, settings: Sequence[Setting], pools: Mapping[str, Mapping[str, Any]]) -> Change:
    """The change of a branch, as `change_from`."""
    machine = stretch.entitlement
    later: dict[str, PoolDefined] = {}
    for fact in stretch.facts:
        if isinstance(fact.event, PoolDefined):
            later.setdefault(fact.event.path, fact.event)
    host_pools = {fact.event.name for fact in stretch.facts if isinstance(fact.event, HostPoolDefined)}
    check_host_pools(settings, pools, [*machine.cell.host_pools, *host_pools, SHARED])
    return change_from(machine, stretch.log.cell, settings, pools, later)


def pools_of(stretch: Stretch, change: Change) -> set[str]:
    """The paths of all pools that a branch may have."""
    machine = stretch.entitlement
    defined = [*change.first, *(fact.event for fact in stretch.facts)]
    return {*machine.pools, *(event.path for event in defined if isinstance(event, PoolDefined))}


def check_host_pools(settings: Sequence[Setting], pools: Mapping[str, Mapping[str, Any]], there: Sequence[str]) -> None:
    """Raises `InvalidValue` where a change names a host pool that isn't there at any time."""
    lists = [(each.of, each.value) for each in settings if each.field == HOST_POOLS]
    lists += [(path, body.get(HOST_POOLS)) for path, body in pools.items()]
    for path, names in lists:
        for name in names if isinstance(names, list) else ():
            if name not in there:
                raise InvalidValue(f"{path}:{HOST_POOLS}: there is no host pool {name}{meant(name, sorted(there))}")


def change_from(
    machine: Entitlement,
    cell_number: int,
    settings: Sequence[Setting],
    pools: Mapping[str, Mapping[str, Any]],
    later: Mapping[str, PoolDefined] = MappingProxyType({}),
) -> Change:
    """The change from where entitlement stands: `settings`, and the JSON of `pools` by path. `later`: of the pools that
    are defined after that the first definition. Raises `InvalidValue` where a pool isn't known, or a value can't be.
    """
    kinds = machine.queues.kinds
    present = {path: definition(path, row, kinds, cell_number) for path, row in machine.pools.items() if path != "/"}
    edits: dict[str, list[Edit]] = {path: [_whole(body)] for path, body in pools.items()}
    for setting in settings:
        if setting.of != CELL:
            edits.setdefault(setting.of, []).append(_edit(setting))
    for path in edits:
        if path not in present and path not in later and path not in pools:
            raise InvalidValue(f"there is no pool {path}{meant(path, sorted(present.keys() | later.keys()))}")

    def defined(event: PoolDefined) -> PoolDefined:
        body = from_event(event, kinds.units)
        for edit in edits[event.path]:
            body = edit(body)
        return _pool(event.path, body, event)

    first: list[Event] = []
    lines: list[str] = []
    for path in edits:
        if path in present:
            first.append(new := defined(present[path]))
            other = _differences(path, from_event(present[path], kinds.units), from_event(new, kinds.units))
            lines += other or ([f"{path} is defined otherwise later"] if path in later else [])
        elif path in pools:
            first.append(_pool(path, pools[path], None))
            lines.append(f"{path} is defined")
        else:
            sides = [from_event(each, kinds.units) for each in (later[path], defined(later[path]))]
            lines += _differences(path, *sides) or [f"{path} is defined otherwise"]
    cell = _cell({setting.field: setting.value for setting in settings if setting.of == CELL})
    if cell is not None:
        first.append(cell)
        before, after = machine.cell.settings, changed(machine.cell.settings, change_in(cell))
        lines += _differences(CELL, settings_json(before), settings_json(after))

    def alter(event: Event) -> Event:
        if isinstance(event, PoolDefined) and event.path in edits:
            return defined(event)
        if isinstance(event, CellConfigured) and cell is not None:
            values = {name: getattr(cell, name) for name in TYPES}
            return replace(event, **{
                name: value for name, value in values.items() if value is not None and getattr(event, name) is not None
            })  # fmt: skip
        return event

    return Change(first, alter, lines)


def definition(path: str, row: PoolRow, kinds: Kinds, cell: int) -> PoolDefined:
    """A pool as it is, as the fact that defines it."""
    return PoolDefined(
        path=path,
        command_id=f"{COMMAND} {path}",
        reservation=kinds.amounts(row.reservation),
        limit=kinds.amounts(row.limit, UNLIMITED),
        share=kinds.amounts(row.share, row.share_default),
        share_default=row.share_default,
        static=row.static,
        preemption_delay_ms=row.preemption_delay_ms,
        controllers_percent=row.controllers_percent,
        slack_percent=row.slack_percent,
        strategy=row.strategy,
        host_pools=row.host_pools,
        closed=row.closed,
        owners=row.owners,
        description=row.description,
        open_jobs_max=row.open_jobs_max,
        open_tasks_max=row.open_tasks_max,
        cell=cell,
    )


def _value(field: str, text: str) -> str | int | float | bool | list[str] | None:
    if field in LISTS:
        return [] if text in ("", "none") else [each.strip() for each in text.split(",")]
    words = {"true": True, "on": True, "false": False, "off": False, "null": None, "none": None}
    if text in words:
        return words[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _edit(setting: Setting) -> Edit:
    def edit(body: Mapping[str, Any]) -> dict[str, Any]:
        value: object = setting.value
        if setting.resource:
            value = dict(body[setting.field]) | {setting.resource: value}
        return {**body, setting.field: value}

    return edit


def _whole(body: Mapping[str, Any]) -> Edit:
    return lambda _: dict(body)


def _pool(path: str, body: Mapping[str, Any], before: PoolDefined | None) -> PoolDefined:
    """The fact of a changed pool. Raises `InvalidValue`."""
    try:
        fact = PoolSpec.model_validate(body).to_event(path, f"{COMMAND} {path}")
    except ValidationError as error:
        raise InvalidValue(_said(path, problems(error, PoolSpec))) from error
    return fact if before is None else replace(fact, cell=before.cell, command_id=before.command_id)


def _cell(values: Mapping[str, object]) -> CellConfigured | None:
    """The fact of changed settings. Raises `InvalidValue`."""
    if not values:
        return None
    try:
        return CellSpec.model_validate(values).to_event(f"{COMMAND} {CELL}")
    except ValidationError as error:
        raise InvalidValue(_said(CELL, problems(error, CellSpec))) from error


def _differences(of: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Each field that becomes another: `/b share 1 -> 4`."""
    return [
        f"{of} {name}: {_shown(old.get(name))} -> {_shown(new[name])}" for name in new if new[name] != old.get(name)
    ]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        if value.keys() == {"others"}:  # a share of all resources
            return str(value["others"])
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def _said(of: str, faults: Iterable[tuple[str, str]]) -> str:
    return "; ".join(f"{of}{pointer.replace('/', ':')} {message}" for pointer, message in faults)
