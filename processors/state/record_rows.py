"""Rows of fields that are kept of records, by name (decision 018).

A row that held a record, or its bytes, would change with the record's schema: with one field more the next release
would have other rows, and another state hash, for the same log. So rows name each field that the machine looks at.
"""

from typing import TypeVar

import msgspec

from events.records.base import Event, NestedRecord
from events.records.parts import PlacementRules, SlaPolicy
from events.structs import known
from events.topology import LINK_GROUP

T = TypeVar("T")


class ConstraintRow(msgspec.Struct, frozen=True, array_like=True):
    """A `Constraint` of a job."""

    attribute: str
    operator: str
    values: tuple[str, ...]
    parts: int = 0
    weight: int = 0


class AffinityRow(msgspec.Struct, frozen=True, array_like=True):
    """A `TaskAffinity` of a job."""

    label: str
    value: str
    over: str
    apart: bool
    weight: int = 0


class TargetRow(msgspec.Struct, frozen=True, array_like=True):
    """A `SpreadTarget` of a job."""

    value: str
    percent: int


class StayRow(msgspec.Struct, frozen=True, array_like=True):
    """A `TimedToleration` of a job."""

    taint: str
    for_ms: int


class ModelsRow(msgspec.Struct, frozen=True, array_like=True):
    """The `DeviceModels` of a job."""

    kind: str
    models: tuple[str, ...]


class AmountRow(msgspec.Struct, frozen=True, array_like=True):
    """An `AlternativeAmount` of a job."""

    name: str
    amount: int


class AlternativeRow(msgspec.Struct, frozen=True, array_like=True):
    """An `Alternative` of a job."""

    resources: tuple[AmountRow, ...]
    devices: tuple[ModelsRow, ...] = ()
    devices_within: str = ""
    cores: int = 0

    def amounts(self) -> dict[str, int]:
        """All that a task asks then."""
        return {each.name: each.amount for each in self.resources}


class RulesRow(msgspec.Struct, frozen=True, array_like=True):
    """The `PlacementRules` of a job or a task."""

    tolerations: tuple[str, ...] = ()
    host_limit: int = 0
    exclusive: bool = False
    affinity: tuple[AffinityRow, ...] = ()
    spread_over: str = ""
    skew: int = 0
    targets: tuple[TargetRow, ...] = ()
    hard: bool = False
    within: str = ""
    stays: tuple[StayRow, ...] = ()
    devices: tuple[ModelsRow, ...] = ()
    devices_within: str = ""
    cores: int = 0
    near: str = ""
    segments: int = 0
    most: int = 0
    alternatives: tuple[AlternativeRow, ...] = ()
    took: int = -1
    """The alternative that a task with a place has taken, which no record says; -1: any may be."""

    @property
    def whole_within(self) -> str:
        """The attribute of which the hosts of a whole gang have one value; empty: any."""
        return "" if self.segments and not self.near else self.within

    @property
    def nearness(self) -> str:
        """The attribute of which the hosts of a gang have as few values as possible, those of a segment one; empty:
        none.
        """
        return self.near or (self.within if self.segments else "")

    @property
    def is_linked(self) -> bool:
        """Whether a whole gang, or each of its segments, must be on cards of one link group."""
        return LINK_GROUP in (self.whole_within, self.nearness if self.segments else "")

    def to_part(self) -> PlacementRules:
        """The part of a record."""
        return msgspec.convert(self, PlacementRules, from_attributes=True)


class ZoneRow(msgspec.Struct, frozen=True, array_like=True):
    """The `ZoneOffsets` of a window."""

    name: str = ""
    from_s: tuple[int, ...] = ()
    offset_s: tuple[int, ...] = ()
    until_s: int = 0


class WindowRow(msgspec.Struct, frozen=True, array_like=True):
    """An `SlaWindow` of a job."""

    schedule: str
    duration_ms: int
    zone: ZoneRow


class SlaRow(msgspec.Struct, frozen=True, array_like=True):
    """The `SlaPolicy` of a job."""

    max_unavailable_percent: int | None = None
    min_available: int | None = None
    min_available_percent: int | None = None
    min_healthy_ms: int = 0
    per_hour: int | None = None
    per_hour_percent: int | None = None
    replace: str = ""
    surge: int = 1
    replace_wait_ms: int = 120_000
    group: str = ""
    windows: tuple[WindowRow, ...] = ()


def sla_part(row: SlaRow) -> SlaPolicy:
    """The part of a record."""
    return msgspec.convert(row, SlaPolicy, from_attributes=True)


def rules_row(rules: PlacementRules | None) -> RulesRow | None:
    """The row of what a record says; None where that is nothing."""
    row = None if rules is None else row_of(RulesRow, rules)
    return None if row == RulesRow() else row


def row_of(kind: type[T], record: Event | NestedRecord) -> T:
    """A row of a kind, each field from the field of that name in a record."""
    return msgspec.convert(record, known(kind), from_attributes=True)
