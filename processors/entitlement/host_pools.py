"""The host pools that kinds of jobs of a pool reach, and what these hold (decisions 108, 114)."""

from collections.abc import Mapping
from typing import NamedTuple

from events.host_pools import KINDS, Kind, of_kind
from events.pool_paths import levels_of
from events.resources import Kinds, Vector, total
from events.work_classes import FIRM, SERVICES
from processors.entitlement.rows import CellRow, PoolRow

UNBOUNDED = 1 << 62
"""More than any host pool holds."""
Group = frozenset[str]
OF_CLASS: Mapping[int, Kind] = {0: "batch", FIRM: "batch-non-preemptible", SERVICES: "service"}
Mask = int
"""Kinds of jobs, each as the bit at its place among `KINDS`."""
ALL_KINDS: Mask = (1 << len(KINDS)) - 1


class WithinReach(NamedTuple):
    """The host pools that a kind of jobs of a pool reaches."""

    capacity: Vector
    """The amount that they hold."""
    idle: Vector
    """The amount of it that loans may have."""
    admitted: Vector
    """The amount that is admitted of jobs of the pool that reach these host pools and no others."""


def kinds_in(mask: Mask) -> list[int]:
    """The kinds of a mask: their places among `KINDS`."""
    return [kind for kind in range(len(KINDS)) if mask >> kind & 1]


def of_class(kind: int) -> int:
    """The kind of the jobs of a class of work: its place among `KINDS`."""
    return KINDS.index(OF_CLASS[kind & (SERVICES if kind & SERVICES else FIRM)])


def choices_of(pools: Mapping[str, PoolRow], cell: CellRow, path: str) -> tuple[tuple[str, ...], ...]:
    """The host pools that each kind of jobs of a pool may use, in the order of `KINDS`, the first choice first."""
    for level in levels_of(path):
        if level in pools and pools[level].host_pools:
            return (pools[level].host_pools,) * len(KINDS)
    kinds = {name: row.kinds for name, row in cell.host_pools.items()}
    return tuple(of_kind(kinds, kind) for kind in KINDS)


def reach_of(pools: Mapping[str, PoolRow], cell: CellRow, path: str) -> tuple[Group, ...]:
    """The same without an order."""
    return tuple(map(frozenset, choices_of(pools, cell, path)))


def capacity_of(cell: CellRow, kinds: Kinds, group: Group) -> Vector:
    """The amounts that host pools hold together; `UNBOUNDED` of licences, which no host has."""
    rows = [cell.host_pools[name] for name in sorted(group) if name in cell.host_pools]
    amounts = total([(0,) * len(kinds), *(kinds.asked_of_host(row.capacity) for row in rows)])
    return tuple(
        [UNBOUNDED if name in kinds.licences else amount for name, amount in zip(kinds.names, amounts, strict=True)]
    )
