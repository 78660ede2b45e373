"""The pools right below one: how they share what it is entitled to, and what each of them wants."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from events.resources import Kinds, Vector
from processors.entitlement.rows import PoolRow
from processors.entitlement.shares.fill import Filling, fill, fill_to_level


class HasFloor(Protocol):
    """A pool that has a floor, or pools below it that do."""

    def floor_in(self, kind: int) -> int:
        """What it needs at least of a kind."""


class Siblings:
    """First each has what it wants of its reservation; then they share by weight what they want beyond it, within a
    floor for those whose turn it is; what nobody with a share wants goes to those with share 0.

    Where the reservations exceed what there is, all of it is divided by reservation.
    """

    __slots__ = (
        *("_by_reservation", "_by_share", "_changes", "_found", "_kind", "_last", "_level", "_reservation", "_share"),
        *("claimed", "floors", "reserved", "want", "wanted"),
    )

    def __init__(
        self,
        kind: int,
        reservation: Sequence[int],
        share: Sequence[int],
        want: Sequence[int],
        floors: Mapping[int, HasFloor],
    ) -> None:
        """The columns of the pools, ordered by path. `want`: within limits; `floors`: of some of them."""
        self._kind = kind
        self._reservation = reservation
        self._share = share
        self.want = list(want)
        self.reserved = list(map(min, want, reservation))
        """What each wants of its reservation."""
        self.wanted = sum(self.want)
        self.claimed = sum(self.reserved)
        """The sums of these."""
        self.floors = dict(floors)
        self._by_reservation: Filling | None = None
        self._by_share: Filling | None = None
        self._last: Filling | None = None
        """Those with share 0."""
        self._found: tuple[object, list[int]] = (None, [])
        self._level = (0, 0)
        """What was found with floors, and for what."""
        self._changes = 0

    def change(self, at: int, want: int) -> None:
        """One of them wants something else."""
        self._changes += 1
        reserved = min(want, self._reservation[at])
        self.wanted += want - self.want[at]
        self.claimed += reserved - self.reserved[at]
        self.want[at], self.reserved[at] = want, reserved
        if self._by_reservation is not None:
            self._by_reservation.change(at, reserved)
        if self._by_share is not None:
            self._by_share.change(at, want - reserved)
        if self._last is not None:
            self._last.change(at, want - reserved)

    def floor(self) -> int:
        """What these need together so that each floor among them holds beside the reservations of the others."""
        return self.claimed + sum(self._floor_of(at) - self.reserved[at] for at in self.floors)

    def given(self, total: int, at: int, floors: bool) -> int:
        """What one of them is entitled to when all together are to an amount; with or without the floors."""
        if total >= self.wanted:
            return self.want[at]
        if total <= self.claimed:
            if self._by_reservation is None:
                self._by_reservation = Filling(self.reserved, self._reservation)
            return self._by_reservation.given(total, at)
        if floors and self.floors:
            return self._with_floors(total)[at]
        free, reserved = total - self.claimed, self.reserved[at]
        by_share = self._shares()
        if self._share[at]:
            return reserved + by_share.given(free, at)
        left, weight = by_share.level(free)
        if weight:
            return reserved
        if self._last is None:
            self._last = Filling(self._beyond(), self._without_share())
        return reserved + self._last.given(left, at)

    def most(self, total: int, at: int) -> int:
        """The most that one of them could be entitled to by a floor, beside what the others want of their reservations
        and while no other has a floor.
        """
        if total <= self.claimed:
            return self.given(total, at, False)
        return min(self.want[at], total - self.claimed + self.reserved[at])

    def level(self, total: int, floors: bool) -> tuple[int, int] | None:
        """What those share by weight that haven't got what they want, and their weights together; None: all have it;
        weights 0: those with share 0 share, or all by reservation.
        """
        if total >= self.wanted:
            return None
        if total <= self.claimed:
            return 0, 0
        if floors and self.floors:
            self._with_floors(total)
            return self._level
        return self._shares().level(total - self.claimed)

    def _shares(self) -> Filling:
        if self._by_share is None:
            self._by_share = Filling(self._beyond(), self._share)
        return self._by_share

    def _beyond(self) -> list[int]:
        return [want - reserved for want, reserved in zip(self.want, self.reserved, strict=True)]

    def _without_share(self) -> list[int]:
        return [0 if share else 1 for share in self._share]

    def _floor_of(self, at: int) -> int:
        return max(self.reserved[at], min(self.floors[at].floor_in(self._kind), self.want[at]))

    def _with_floors(self, total: int) -> list[int]:
        """What all of them are entitled to, with floors. These hold in the order of paths, as far as the reservations
        leave something.
        """
        floors = {at: self._floor_of(at) for at in sorted(self.floors)}
        key = (self._changes, total, tuple(floors.items()))
        if self._found[0] == key:
            return self._found[1]
        free = left = total - self.claimed
        least: dict[int, int] = {}
        for at, floor in floors.items():
            least[at] = min(floor - self.reserved[at], left)
            left -= least[at]
        beyond = self._beyond()
        last = {at: low for at, low in least.items() if not self._share[at]}
        first = {at: low for at, low in least.items() if self._share[at]}
        by_share, self._level = fill_to_level(free - sum(last.values()), beyond, self._share, first)
        rest = fill(free - sum(by_share), beyond, self._without_share(), last)
        given = [sum(parts) for parts in zip(self.reserved, by_share, rest, strict=True)]
        self._found = (key, given)
        return given


class Node:
    """A pool in the tree."""

    __slots__ = (
        *("_static", "arranged", "at", "below", "floor", "floors", "own", "parent", "path", "read", "row", "want"),
        "wanted",
    )

    def __init__(self, path: str, parent: "Node | None", row: PoolRow, kinds: Kinds) -> None:
        self.path = path
        self.parent = parent
        self.at = 0
        """Its place among those right below its parent, where these are arranged."""
        self.below: list[Node] = []
        """Those right below it, by path."""
        self.arranged: list[Siblings] | None = None
        """The sharing among those right below it, by kind; None: `level` arranges it."""
        self.own: Vector = (0,) * len(kinds)
        """What it wants itself."""
        self.wanted = [0] * len(kinds)
        """What it and all below it want, these within their limits."""
        self.want = [0] * len(kinds)
        """What it wants within its limit; not less than its reservation where that is static."""
        self.floor: Vector | None = None
        self.floors = [0] * len(kinds)
        """How many floors there are in it and below it."""
        self.read: list[tuple[int, Vector]] = [(-1, ()), (-1, ())]
        """Version and value when it was last read, without floors and with them."""
        self.define(row, kinds)

    def define(self, row: PoolRow, kinds: Kinds) -> None:
        """Gives it other rules."""
        self.row = row
        self._static = [name in row.static for name in kinds.names]

    def within_rules(self, kind: int) -> int:
        """What it wants of a kind by its rules."""
        want, limit = self.wanted[kind], self.row.limit[kind]
        if 0 <= limit < want:
            want = limit
        return max(want, self.row.reservation[kind]) if self._static[kind] else want

    def level(self) -> list[Siblings]:
        """How those right below it share, for each kind."""
        if self.arranged is None:
            for at, child in enumerate(self.below):
                child.at = at
            self.arranged = [self._arranged(kind) for kind in range(len(self.own))]
        return self.arranged

    def rearrange(self) -> None:
        """One right below it came, went or has other rules."""
        self.arranged = None

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        more = [0] * (len(kinds) - len(self.own))
        self.define(self.row.widened(kinds), kinds)
        self.own = kinds.widened(self.own)
        self.floor = self.floor and kinds.widened(self.floor)
        for column in (self.wanted, self.want, self.floors):
            column += more
        self.rearrange()

    def floor_in(self, kind: int) -> int:
        """See `HasFloor`."""
        return self.floor[kind] if self.floor and self.floor[kind] else self.level()[kind].floor()

    def pass_up(self, more: Mapping[int, int]) -> None:
        """It, or a pool below it, wants so much more of some kinds: those above follow, as far as limits let it
        through.
        """
        node: Node | None = self
        while node is not None and more:
            parent, wants, passed = node.parent, node.want, dict[int, int]()
            level = parent.arranged if parent is not None else None
            for kind, amount in more.items():
                node.wanted[kind] += amount
                want = node.within_rules(kind)
                if want != wants[kind]:
                    passed[kind] = want - wants[kind]
                    wants[kind] = want
                    if level is not None:
                        level[kind].change(node.at, want)
            node, more = parent, passed

    def pass_up_floor(self, kind: int, more: int) -> None:
        """A floor of it has come (1) or gone (-1)."""
        node: Node | None = self
        while node is not None:
            node.floors[kind] += more
            parent = node.parent
            if parent is not None and parent.arranged is not None:
                floors = parent.arranged[kind].floors
                if node.floors[kind]:
                    floors[node.at] = node
                else:
                    floors.pop(node.at, None)
            node = parent

    def _arranged(self, kind: int) -> Siblings:
        rows = [child.row for child in self.below]
        return Siblings(
            kind,
            [row.reservation[kind] for row in rows],
            [row.share[kind] for row in rows],
            [child.want[kind] for child in self.below],
            {child.at: child for child in self.below if child.floors[kind]},
        )
