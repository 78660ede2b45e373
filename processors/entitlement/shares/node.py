"""A pool in the share tree: what it and those below it want, and how those right below it share."""

from collections.abc import Mapping

from events.resources import Kinds, Vector
from processors.entitlement.rows import PoolRow
from processors.entitlement.shares.level import Siblings


class Node:
    """A pool in the tree."""

    __slots__ = (
        *("_level", "_static", "at", "below", "floor", "floors", "own", "parent", "path", "read", "row", "want"),
        "wanted",
    )

    def __init__(self, path: str, parent: "Node | None", row: PoolRow, kinds: Kinds) -> None:
        self.path = path
        self.parent = parent
        self.at = 0
        """Its place among those right below its parent, where these are arranged."""
        self.below: list[Node] = []
        """Those right below it, by path."""
        self._level: list[Siblings] | None = None
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
        if self._level is None:
            for at, child in enumerate(self.below):
                child.at = at
            self._level = [self._arranged(kind) for kind in range(len(self.own))]
        return self._level

    def rearrange(self) -> None:
        """One right below it came, went or has other rules."""
        self._level = None

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
            level = parent._level if parent is not None else None
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
            if parent is not None and parent._level is not None:
                floors = parent._level[kind].floors
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
