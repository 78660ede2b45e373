"""The order in which pools are lent to: by what they hold beyond the entitlement that was reported last, for their
share; pools with a share of 0 come last. A pool stands with the head of its queue, and, after all heads, with the first
units of other shapes behind it.

Pools stand in it by what the unit needs, so that who can't have what is idle isn't looked at. It is derived, and kept
up for pools of which something has changed.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from heapq import nsmallest
from typing import NamedTuple

from sortedcontainers import SortedSet

from events.resources import Vector, fits
from processors.entitlement.admission import closed_at
from processors.entitlement.parts import CONTROLLERS
from processors.entitlement.queues import Queues
from processors.entitlement.rows import PoolRow, ReportedRow
from processors.state.table import Table

FORMS_LOOKED_AT = 16
"""So many shapes of a pool's queue are looked at for one that fits."""
LENT_TO = (0, CONTROLLERS)
"""The classes that may be lent to."""


class Key(NamedTuple):
    """The order in which pools are lent to."""

    behind: bool
    saves: bool
    without_share: bool
    beyond: Fraction
    served: int
    pool: str


Group = tuple[bool, Vector]
"""Whether it is about what is behind heads, and what a unit needs."""


class LendOrder:
    """Where pools stand with work that may be lent to."""

    def __init__(self, queues: Queues, pools: Table[str, PoolRow], reported: Table[str, ReportedRow]) -> None:
        self._queues = queues
        self._pools = pools
        self._reported = reported
        self._groups: dict[Group, SortedSet[Key]] = {}
        self._of: dict[str, dict[Group, Key]] = {}

    def clear(self) -> None:
        """Nobody stands anywhere."""
        self._groups.clear()
        self._of.clear()

    def refresh(self, pools: Iterable[str]) -> None:
        """Something has changed for these pools."""
        for pool in pools:
            for group in list(self._of.get(pool, ())):
                self.drop(group, pool)
            for group in self._groups_of(pool):
                key = self.key(pool, group, self._queues.holdings[pool].allocation)
                self._groups.setdefault(group, SortedSet()).add(key)
                self._of.setdefault(pool, {})[group] = key

    def drop(self, group: Group, pool: str) -> None:
        """A pool gets nothing there before something changes for it."""
        mine, keys = self._of[pool], self._groups[group]
        keys.remove(mine.pop(group))
        if not keys:
            del self._groups[group]
        if not mine:
            del self._of[pool]

    def that_fit(self, room: Vector) -> Iterator[Group]:
        """The groups of which a unit has room."""
        return (group for group in self._groups if fits(group[1], room))

    def at(self, group: Group, place: int) -> Key | None:
        """Who stands at a place of a group, from 0; None: nobody."""
        keys = self._groups[group]
        found: Key | None = keys[place] if place < len(keys) else None
        return found

    def key(self, pool: str, group: Group, held: Vector) -> Key:
        """Where a pool stands that holds so much, if it isn't applied yet."""
        behind, need = group
        row, kinds = self._pools[pool], [kind for kind, want in enumerate(need) if want > 0]
        levels = self._queues.holdings.levels(pool)[:-1]
        without = any(not self._pools[level].share[kind] for level in levels for kind in kinds)
        entitlement = self.entitlement(pool)
        beyond = [Fraction(held[kind] - entitlement[kind], row.share[kind] or 1) for kind in kinds]
        saves = behind and row.credit is not None and any(row.credit.full)
        return Key(behind, saves, without, max(beyond, default=Fraction(0)), row.served, pool)

    def entitlement(self, pool: str) -> Vector:
        """The entitlement of a pool that was reported last."""
        row = self._reported.get(pool)
        return self._queues.nothing if row is None else row.entitlement

    def _groups_of(self, pool: str) -> dict[Group, None]:
        queues = self._queues
        if pool not in self._pools or closed_at(self._pools, queues.holdings.levels(pool)):
            return {}
        forms = queues.lines[pool].forms
        firsts = nsmallest(FORMS_LOOKED_AT, [places[0] for (kind, _), places in forms.items() if kind in LENT_TO])
        needs = [queues.unit_need(queues.jobs[job_id], key) for *_, (job_id, key) in firsts]
        return {(at > 0, need): None for at, need in enumerate(needs)}
