"""The order in which pools are lent to: by what they hold beyond the entitlement that was reported last, for their
share; pools with a share of 0 come last. A pool stands with the head of its queue, and, after all heads, with the first
units of other shapes behind it.

Pools stand in it by what the unit needs, so that who can't have what is idle isn't looked at. It is derived, and kept
up for pools of which something has changed, in proportion to their shapes.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from sortedcontainers import SortedSet

from events.resources import Vector, fits
from processors.entitlement.admission.bounds import closed_at
from processors.entitlement.queues.parts import CONTROLLERS
from processors.entitlement.state import State

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

    def __init__(self, state: State) -> None:
        self._queues = state.queues
        self._pools = state.pools
        self._reported = state.reported
        self._groups: dict[Group, SortedSet[Key]] = {}
        self._of: dict[str, dict[Group, Key]] = {}

    def clear(self) -> None:
        """Nobody stands anywhere."""
        self._groups.clear()
        self._of.clear()

    def refresh(self, pools: Iterable[str]) -> None:
        """Something has changed for these pools."""
        for pool in pools:
            had, keys = {**self._of.get(pool, {})}, self._keys(pool)
            for group, key in had.items():
                if keys.get(group) != key:
                    self.drop(group, pool)
            for group, key in keys.items():
                if had.get(group) != key:
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

    def _keys(self, pool: str) -> dict[Group, Key]:
        """Where a pool stands. Units that need the same kinds stand alike."""
        queues, held = self._queues, self._queues.holdings[pool].allocation
        if pool not in self._pools or closed_at(self._pools, queues.holdings.levels(pool)):
            return {}
        firsts = [(places[0], form) for (kind, form), places in queues.lines[pool].forms.items() if kind in LENT_TO]
        head = min(firsts, default=None)
        alike: dict[tuple[bool, ...], Key] = {}
        keys: dict[Group, Key] = {}
        for first in firsts:
            place, form = first
            group = (first is not head, queues.form_need(form, queues.jobs[place[-1].job_id]))
            kinds = (group[0], *(want > 0 for want in group[1]))
            if kinds not in alike:
                alike[kinds] = self.key(pool, group, held)
            keys[group] = alike[kinds]
        return keys
