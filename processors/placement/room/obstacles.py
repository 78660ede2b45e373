"""The tasks that must leave so that one of a unit may be on a host: rules about neighbours forbid one of the two.

Found with the rules (`neighbours.py`), or where hosts are closed by tasks that want them for themselves; who of them
may leave is judged where plans are made (`search.py`).
"""

from typing import NamedTuple

import numpy as np

from events.columns import I64
from processors.placement.packing import Mask


class Obstacle(NamedTuple):
    """Tasks each of which is in the way on all hosts of its group."""

    groups: I64
    """The number of each host's group."""
    slots: I64
    """The tasks, ascending by their groups."""
    hosts: I64
    """The host of each."""
    of: I64
    """The group of each."""


def obstacle(groups: I64, slots: I64, hosts: I64) -> Obstacle:
    """Tasks on hosts that are in the way in their groups."""
    of = groups[hosts]
    order = np.argsort(of, kind="stable")
    return Obstacle(groups, slots[order], hosts[order], of[order])


class Obstacles(NamedTuple):
    """All that is in the way of one unit: at least one part."""

    parts: tuple[Obstacle, ...]

    def at(self, host: int) -> dict[int, int]:
        """The host of each task that must leave so that a task may be on a host, by slot."""
        by_slot: dict[int, int] = {}
        for each in self.parts:
            first, end = np.searchsorted(each.of, (each.groups[host], each.groups[host] + 1)).tolist()
            by_slot.update(zip(each.slots[first:end].tolist(), each.hosts[first:end].tolist(), strict=True))
        return by_slot

    def beside(self, other: "Obstacles | None") -> "Obstacles":
        """These and others."""
        return self if other is None else Obstacles(self.parts + other.parts)

    def slots(self) -> I64:
        """All tasks, some of them twice."""
        return np.concatenate([each.slots for each in self.parts])

    def where(self, slots: I64 | None = None) -> Mask:
        """True for hosts where any is in the way, or any of some slots, ascending."""
        there = np.zeros(len(self.parts[0].groups), dtype=np.bool_)
        for each in self.parts:
            of = each.of if slots is None else each.of[np.isin(each.slots, slots)]
            there |= np.isin(each.groups, of)
        return there
