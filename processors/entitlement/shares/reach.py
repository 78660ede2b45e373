"""The hosts that pools can reach, where a cell has host pools: what these hold bounds what pools are entitled to, and
what they borrow (decisions 108, 114).

Jobs of a pool reach the host pools that it names, or the first one above it that names some; else those that are for
their kind, and `SHARED`. All that reach nothing but some host pools share what these hold: pools by reservations and
shares, as siblings do, and kinds of jobs of one pool by their priorities, since what the pool gets there is for all of
these kinds together. That holds for the host pools of each kind, and for those of several together where they overlap.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from events.resources import Kinds, Vector, subtract, total
from processors.entitlement.host_pools import (
    ALL_KINDS,
    UNBOUNDED,
    Group,
    Mask,
    capacity_of,
    choices_of,
    kinds_in,
    reach_of,
)
from processors.entitlement.rows import CellRow, PoolRow
from processors.entitlement.shares.fill import Siblings

GROUPS_MAX = 256
"""So many groups of host pools are looked at, those of the fewest first."""
Limits = Mapping[Mask, Vector]
"""The most that a pool may be entitled to by the host pools that it reaches: for kinds of jobs together, of which more
is wanted; `UNBOUNDED` of resources of which it isn't.
"""


class Share(NamedTuple):
    """A group of host pools, what these hold of a resource, and who reaches nothing else: pools with kinds of jobs."""

    amount: int
    members: Sequence[tuple[str, Mask]]


class Reach:
    """The reach of pools with jobs."""

    def __init__(self, pools: Mapping[str, PoolRow], cell: CellRow, kinds: Kinds, paths: Iterable[str]) -> None:
        self._pools = pools
        self._cell = cell
        self._kinds = kinds
        self._nothing: Vector = (0,) * len(kinds)
        self._of = {path: reach_of(pools, cell, path) for path in sorted(paths)}
        self._groups = [(group, capacity_of(cell, kinds, group)) for group in self._closed_groups()]

    def tells_kinds(self, pool: str) -> bool:
        """Whether kinds of jobs of a pool reach other host pools."""
        return len({*self._of[pool]}) > 1

    def limits(self, wants: Mapping[str, Sequence[Vector]]) -> dict[str, Limits]:
        """The most that pools may be entitled to, of those that want more; `wants`: by pool what each kind of jobs
        wants.
        """
        bounded: dict[str, dict[Mask, list[int]]] = {}
        for at in range(len(self._kinds)):
            shares = [Share(amounts[at], self._within(group)) for group, amounts in self._groups]
            of_resource = {path: [each[at] for each in wants[path]] for path in self._of}
            for path, mask, most in _Division(self._pools, at, of_resource).limits(shares):
                bounded.setdefault(path, {}).setdefault(mask, [UNBOUNDED] * len(self._kinds))[at] = most
        return {path: {mask: tuple(most) for mask, most in limits.items()} for path, limits in bounded.items()}

    def waits(
        self, wants: Mapping[str, Sequence[Vector]], limits: Mapping[str, Limits], most: Callable[[str], Vector]
    ) -> dict[str, Vector]:
        """By host pool the amount that jobs want of which it is the first choice, beyond their `limits` and within
        what else bounds their pools (`most`). Kinds that reach the fewest host pools get what there is first.
        """
        waiting: dict[str, Vector] = {}
        for path, of_pool in sorted(limits.items()):
            firsts = [choices[0] for choices in choices_of(self._pools, self._cell, path)]
            order = sorted(range(len(firsts)), key=lambda kind: len(self._of[path][kind]))
            room = most(path)
            for at in range(len(self._kinds)):
                mine, bounds = [each[at] for each in wants[path]], {mask: one[at] for mask, one in of_pool.items()}
                rest, gets, mask = room[at] - most_of(mine, bounds, ALL_KINDS), 0, 0
                for kind in order:
                    mask |= 1 << kind
                    before, gets = gets, most_of(mine, bounds, mask)
                    lacks = max(0, min(rest, mine[kind] - (gets - before)))
                    rest -= lacks
                    have = waiting.get(firsts[kind], self._nothing)
                    waiting[firsts[kind]] = (*have[:at], have[at] + lacks, *have[at + 1 :])
        return {name: amounts for name, amounts in sorted(waiting.items()) if any(amounts)}

    def within(self, pool: str, kind: int) -> Mask:
        """The kinds of jobs of a pool that reach no other host pools than one of them."""
        return self._mask(pool, self._reach(pool)[kind])

    def capacity(self, pool: str, kind: int) -> Vector:
        """The amounts that the host pools hold which a kind of jobs of a pool reaches."""
        return capacity_of(self._cell, self._kinds, self._reach(pool)[kind])

    def room(self, pool: str, kind: int, use: Callable[[str, Mask], Vector]) -> Vector:
        """The amount that host pools hold for a kind of jobs of a pool beyond what is admitted of those that reach
        nothing else: `use`, by pool and kinds of jobs.
        """
        free: Vector = (UNBOUNDED,) * len(self._kinds)
        own = self._reach(pool)[kind]
        for group, amounts in self._groups:
            if own <= group:
                used = [use(*member) for member in self._within(group)]
                free = tuple(map(min, free, subtract(amounts, total([self._nothing, *used]))))
        return free

    def _reach(self, pool: str) -> tuple[Group, ...]:
        return self._of[pool] if pool in self._of else reach_of(self._pools, self._cell, pool)

    def _within(self, group: Group) -> list[tuple[str, Mask]]:
        """The pools, and the kinds of jobs of each, that reach nothing but a group."""
        return [(path, mask) for path in self._of if (mask := self._mask(path, group))]

    def _mask(self, pool: str, group: Group) -> Mask:
        return sum(1 << kind for kind, reach in enumerate(self._reach(pool)) if reach <= group)

    def _closed_groups(self) -> list[Group]:
        """The groups that pools reach, with unions of those that overlap, the smallest first; not all host pools."""
        everything = frozenset(self._cell.host_pools)
        groups: dict[Group, None] = {}
        more = sorted({group for reach in self._of.values() for group in reach}, key=_order, reverse=True)
        while more and len(groups) < GROUPS_MAX:
            if (group := more.pop()) not in groups:
                more += [group | other for other in groups if group & other]
                groups[group] = None
        return sorted((group for group in groups if not group >= everything), key=_order)


class _Division:
    """Divides among pools what host pools hold of one resource; `wants`: by pool and kind of jobs."""

    def __init__(self, pools: Mapping[str, PoolRow], resource: int, wants: Mapping[str, Sequence[int]]) -> None:
        self._pools = pools
        self._resource = resource
        self._wants = wants
        self._limits: dict[str, dict[Mask, int]] = {path: {} for path in wants}

    def limits(self, shares: Sequence[Share]) -> list[tuple[str, Mask, int]]:
        """The limits of pools and kinds of jobs. The smallest groups are divided first; what larger ones, which
        overlap, leave unused of these then goes to the first that wants it.
        """
        for amount, members in shares:
            self._divide(amount, members)
        limits = [(path, mask) for path, of_pool in self._limits.items() for mask in sorted(of_pool)]
        for path, mask in limits:
            self._raise(path, mask, shares)
        least = []
        for path, of_pool in self._limits.items():
            whole = self._most(path, ALL_KINDS)
            if whole < sum(self._wants[path]):
                of_pool[ALL_KINDS] = whole
            least += [(path, mask, most) for mask, most in sorted(of_pool.items()) if most < self._want(path, mask)]
        return least

    def _divide(self, amount: int, members: Sequence[tuple[str, Mask]]) -> None:
        """Gives so much to pools and kinds of jobs, if they want more."""
        most = [self._most(*member) for member in members]
        if sum(most) <= amount:
            return
        at, rows = self._resource, [self._pools[path] for path, _ in members]
        siblings = Siblings(at, [row.reservation[at] for row in rows], [row.share[at] for row in rows], most, {})
        for place, (path, mask) in enumerate(members):
            self._limits[path][mask] = siblings.given(amount, place, False)

    def _raise(self, path: str, mask: Mask, shares: Sequence[Share]) -> None:
        """Raises a limit by what all groups leave that it concerns."""
        concerned = [each for each in shares if any(one == path and of & mask for one, of in each.members)]
        rests = [each.amount - self._use(each) for each in concerned if (path, mask) in each.members]
        before = self._limits[path][mask]
        self._limits[path][mask] = min(self._want(path, mask), before + min(rests, default=0))
        if any(self._use(each) > each.amount for each in concerned):
            self._limits[path][mask] = before

    def _use(self, share: Share) -> int:
        return sum(self._most(*member) for member in share.members)

    def _want(self, path: str, mask: Mask) -> int:
        return sum(self._wants[path][kind] for kind in kinds_in(mask))

    def _most(self, path: str, mask: Mask) -> int:
        """The most that kinds of jobs of a pool may get together, by what they want and the limits that there are."""
        return most_of(self._wants[path], self._limits[path], mask)


def most_of(wants: Sequence[int], limits: Mapping[Mask, int], mask: Mask) -> int:
    """The most that kinds of jobs may get together, of which each wants so much, within limits of some together."""
    if not mask:
        return 0
    rests = [most + most_of(wants, limits, mask & ~of) for of, most in limits.items() if of & mask]
    return min(sum(wants[kind] for kind in kinds_in(mask)), *rests, UNBOUNDED)


def _order(group: Group) -> tuple[int, list[str]]:
    return len(group), sorted(group)
