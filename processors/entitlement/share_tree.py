"""What each pool is entitled to, level by level from the capacity of the cell down, each resource by itself.

A change of what one pool wants touches its path; an entitlement is read along its path. Neither looks at other pools.
"""

from bisect import bisect_left, insort

from events.resources import Kinds, Vector
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.rows import PoolRow
from processors.entitlement.siblings import Siblings
from processors.entitlement.whole_tree import WholeTree


class Node:
    """A pool in the tree."""

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

    def pass_up(self, kind: int, more: int) -> None:
        """It, or a pool below it, wants more: those above follow, as far as limits let it through."""
        node: Node | None = self
        while node is not None:
            node.wanted[kind] += more
            want = node.within_rules(kind)
            more = want - node.want[kind]
            if more == 0:
                return
            node.want[kind] = want
            parent = node.parent
            if parent is not None and parent._level is not None:
                parent._level[kind].change(node.at, want)
            node = parent

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


def _path(node: Node) -> str:
    return node.path


class ShareTree:
    """The pools of a cell with what each wants; the root is `/`."""

    def __init__(self, kinds: Kinds) -> None:
        self.version = 0
        """Grows with each change."""
        self._kinds = kinds
        self._capacity: Vector = (0,) * len(kinds)
        self._nodes: dict[str, Node] = {}
        self._whole: WholeTree | None = None

    def define(self, path: str, row: PoolRow) -> None:
        """Creates or changes a pool; the one above it must exist."""
        self._changed()
        node = self._nodes.get(path)
        if node is None:
            parent = None if path == "/" else self._nodes[parent_of(path)]
            node = self._nodes[path] = Node(path, parent, row, self._kinds)
            if parent is not None:
                insort(parent.below, node, key=_path)
        node.define(row, self._kinds)
        if node.parent is not None:
            node.parent.rearrange()
        for kind in range(len(self._kinds)):
            node.pass_up(kind, 0)

    def remove(self, path: str) -> None:
        """Removes a pool that has none below it."""
        self.set_floor(path, None)
        self._changed()
        node = self._nodes.pop(path)
        if node.parent is not None:
            del node.parent.below[bisect_left(node.parent.below, path, key=_path)]
            node.parent.rearrange()
            for kind, want in enumerate(node.want):
                node.parent.pass_up(kind, -want)

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        self._changed()
        self._kinds = kinds
        self._capacity = kinds.widened(self._capacity)
        for node in self._nodes.values():
            node.widen(kinds)

    def set_capacity(self, capacity: Vector) -> None:
        """What the cell has."""
        if capacity != self._capacity:
            self.version += 1
            self._capacity = capacity

    def set_want(self, path: str, want: Vector) -> None:
        """What a pool itself wants, what is beyond its limit too."""
        node = self._nodes[path]
        old, node.own = node.own, want
        if want == old:
            return
        self.version += 1
        for kind, (before, now) in enumerate(zip(old, want, strict=True)):
            if before != now:
                node.pass_up(kind, now - before)

    def set_floor(self, path: str, floor: Vector | None) -> None:
        """What a pool is entitled to at least while it has a turn; None: its turn is over."""
        node = self._nodes[path]
        old, node.floor = node.floor, floor
        if floor == old:
            return
        self.version += 1
        for kind in range(len(self._kinds)):
            more = bool(floor and floor[kind]) - bool(old and old[kind])
            if more:
                node.pass_up_floor(kind, more)

    def entitlement(self, path: str) -> Vector:
        """What a pool may use now. Raises `KeyError` where there is no such pool."""
        return self._read(self._nodes[path], any(self._nodes["/"].floors))

    def share(self, path: str) -> Vector:
        """What it would be entitled to if nobody had a turn."""
        return self._read(self._nodes[path], floors=False)

    def want(self, path: str) -> Vector:
        """What it wants with all below it, within its limit; not less than its reservation where that is static."""
        return tuple(self._nodes[path].want)

    def all(self) -> dict[str, Vector]:
        """The entitlement of each pool, all anew."""
        if self._whole is None:
            self._whole = WholeTree({path: node.row for path, node in self._nodes.items()}, self._kinds)
        own = {path: node.own for path, node in self._nodes.items()}
        floors = {path: node.floor for path, node in self._nodes.items() if node.floor is not None}
        return self._whole.entitlements(own, self._capacity, floors)

    def touched(self, since: int) -> list[str] | None:
        """The pools without any below them whose entitlement may have changed since a version; None: any pool's."""
        return [] if since >= self.version else None

    def _changed(self) -> None:
        """Counts a change of the pools."""
        self.version += 1
        self._whole = None

    def _read(self, node: Node, floors: bool) -> Vector:
        version, value = node.read[floors]
        if version == self.version:
            return value
        if node.parent is None:
            value = self._capacity
        else:
            at, totals, level = node.at, self._read(node.parent, floors), node.parent.level()
            at = node.at
            value = tuple([each.given(total, at, floors) for each, total in zip(level, totals, strict=True)])
        node.read[floors] = self.version, value
        return value
