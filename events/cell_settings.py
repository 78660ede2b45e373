"""The settings of a cell, their bounds and defaults, and how a CellConfigured changes them.

A setting is a field of `Settings` and a field of the record `CellConfigured` with the same name, where null keeps the
value that the cell has. So two operators who each change one setting don't undo each other's change. Everything else
follows from these two fields: bounds, files, API and commands (`events/spec/settings.py`).
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import inspect

from events.bounds import INT_MAX, KINDS_MAX, MS_MAX, PREEMPTION_DELAY_LEAST_MS
from events.host_health import Policy, policies_fault
from events.records.pools import CellConfigured
from events.resources import REVOCABLE, STANDARD, Unit, kinds_fault, with_added
from events.topology import levels_fault

Time = Annotated[int, msgspec.Meta(ge=0, le=MS_MAX)]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Count = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]
Doublings = Annotated[int, msgspec.Meta(ge=0, le=20)]


class KindRow(msgspec.Struct, frozen=True, array_like=True):
    """A kind of resource that was added to the cell."""

    name: str
    unit: str
    amount: int | None


class PolicyRow(msgspec.Struct, frozen=True, array_like=True):
    """The policy of a condition (`Policy`); `drain_after_ms` None: after the time of the cell."""

    name: str
    policy: str
    drain_after_ms: int | None = None


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Settings by which a cell decides. Defaults are left out of rows, so that a new setting changes no row."""

    host_lost_after_ms: Time = 60_000
    host_lost_percent_per_minute: Percent = 10
    host_lost_grace_ms: Time = 600_000
    host_removed_after_ms: Time = 604_800_000
    placement_patience_ms: Time = 20_000
    return_backoff_ms: Time = 20_000
    return_backoff_max_ms: Time = 120_000
    restart_backoff_ms: Time = 1_000
    restart_backoff_max_ms: Time = 300_000
    preemption_delay_ms: Time = 120_000
    reserve_after_ms: Time = 30_000
    reserve_for_ms: Time = 600_000
    hold_for_ms: Time = 600_000
    defer_for_ms: Time = 600_000
    settle_ms: Time = 600_000
    lend_after_ms: Time = 60_000
    preemptions_per_hour: Count = 3
    credit_time_ms: Time = 300_000
    turn_for_ms: Time = 900_000
    turn_doublings: Doublings = 4
    turn_wait_ms: Time = 1_800_000
    move_after_ms: Time = 300_000
    clear_after_ms: Time = 1_800_000
    report_every_ms: Time = 1_000
    forget_after_ms: Time = 604_800_000
    ended_jobs_max: Count = 1_000_000
    exec: bool = True
    slack: bool = False
    drain_force: bool = False
    release_after_ms: Time = 600_000
    drain_after_ms: Time = 900_000
    access: Literal["open", "roles"] = "open"
    agents: Literal["token", "certificates"] = "token"
    names: Literal["plain", "hashed"] = "plain"
    calls_per_s: Count = 0
    streams_per_actor: Count = 0
    late_after_ms: Time = 10_000
    rebalance_moves_per_hour: Count = 0
    topology: tuple[str, ...] = ()
    """Levels of hosts, the largest first (`events/topology.py`)."""
    resources: tuple[KindRow, ...] = ()
    """All kinds that were ever added, in that order."""
    conditions: tuple[PolicyRow, ...] = ()
    """By name."""


DEFAULTS = Settings()
LISTS = "resources", "conditions"
"""The settings of which a change names some items."""
_type = inspect.type_info(Settings)
assert isinstance(_type, inspect.StructType)
TYPES: dict[str, inspect.Type] = {field.name: field.type for field in _type.fields if field.name not in LISTS}
"""The type of each setting beside these, with its bounds."""

LEAST = {"reserve_for_ms": 1_000, "hold_for_ms": 1_000}
"""The least values: a hold of no time at all is given up and taken again at once. Not a bound of the type: rows that
were written before may have less.
"""


def bounds(name: str) -> tuple[int, int] | None:
    """Least and most of a setting; None: it isn't a number."""
    kind = TYPES[name]
    return (LEAST.get(name, kind.ge or 0), kind.le or INT_MAX) if isinstance(kind, inspect.IntType) else None


def choices(name: str) -> tuple[str, ...]:
    """The words that a setting may be; empty: it isn't one of some words."""
    kind = TYPES[name]
    return tuple(str(value) for value in kind.values) if isinstance(kind, inspect.LiteralType) else ()


def is_list(name: str) -> bool:
    """Whether a setting is the list of levels of hosts, which a change replaces whole."""
    return isinstance(TYPES[name], inspect.VarTupleType)


def preemption_delay_ms(settings: Settings, own: int | None) -> int:
    """The time for which claims of a pool wait until others leave for them; -1: others never do. `own`: what the pool
    asks for; None: nothing.
    """
    delay = settings.preemption_delay_ms if own is None else own
    return delay if delay < 0 else max(PREEMPTION_DELAY_LEAST_MS, delay)


class SettingsChange(msgspec.Struct, frozen=True, array_like=True):
    """The changes of a CellConfigured: settings that it names, kinds that it adds, policies of conditions."""

    values: dict[str, Any]
    resources: tuple[KindRow, ...]
    conditions: tuple[PolicyRow, ...] = ()


def change_of(event: CellConfigured) -> SettingsChange:
    """The change that a fact asks for."""
    values = {name: value for name in TYPES if (value := getattr(event, name)) is not None}
    kinds = tuple(KindRow(kind.name, kind.unit, kind.amount) for kind in event.resources)
    policies = tuple(PolicyRow(each.name, each.policy, each.drain_after_ms) for each in event.conditions)
    return SettingsChange(values, kinds, policies)


def changed(settings: Settings, change: SettingsChange) -> Settings:
    """The settings after a change that has no fault; kinds known before keep their places. With slack the cell knows
    `REVOCABLE` from then on.
    """
    resources = with_added(settings.resources, _added(settings, change))
    policies = {each.name: each for each in (*settings.conditions, *change.conditions)}
    conditions = tuple(each for _, each in sorted(policies.items()) if each.policy != Policy.DEFAULT)
    values = {name: tuple(value) if is_list(name) else value for name, value in change.values.items()}
    return msgspec.structs.replace(settings, **values, resources=resources, conditions=conditions)


def change_fault(settings: Settings, change: SettingsChange) -> str:
    """Why settings can't be changed so; empty: they can."""
    for name, value in change.values.items():
        limits = bounds(name)
        if limits and not limits[0] <= value <= limits[1]:
            return f"{name} is {value}, it must be {limits[0]} to {limits[1]}"
        if (words := choices(name)) and value not in words:
            return f"{name} is {value[:40]!r}, it must be {' or '.join(words)}"
        if is_list(name) and (fault := levels_fault(value)):
            return f"{name} {fault}"
    if fault := kinds_fault(settings.resources, change.resources):
        return f"resources: {fault}"
    if fault := policies_fault(settings.conditions, change.conditions):
        return f"conditions: {fault}"
    count = len(STANDARD) + len(with_added(settings.resources, _added(settings, change)))
    return f"resources: slack=on adds {REVOCABLE}, and the cell may know {KINDS_MAX}" if count > KINDS_MAX else ""


def _added(settings: Settings, change: SettingsChange) -> tuple[KindRow, ...]:
    """The kinds that a change adds, or gives another amount."""
    lends = change.values.get("slack") and all(kind.name != REVOCABLE for kind in settings.resources)
    return (*change.resources, KindRow(REVOCABLE, Unit.MILLI.value, None)) if lends else change.resources
