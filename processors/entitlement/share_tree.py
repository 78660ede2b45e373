"""What each pool is entitled to, level by level from the capacity of the cell down, each resource by itself.

A change of what one pool wants touches its path; an entitlement is read along its path. Neither looks at other pools.
"""

from bisect import bisect_left, insort

from events.resources import Kinds, Vector
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.rows import PoolRow
from processors.entitlement.siblings import Siblings


class Node:
    """A pool in the tree."""

    __slots__ = ("at", "below", "floor", "level", "own", "parent", "path", "read", "row", "stale", "static", "wanted")

    def __init__(self, path: str, parent: "Node | None", row: PoolRow, kinds: Kinds) -> None:
        self.path = path
        self.parent = parent
        self.at = 0
        """Its place among those right below its parent."""
        self.below: list[Node] = []
        """Those right below it, by path."""
        self.level: list[Siblings] = [Siblings((), ()) for _ in kinds.names]
        """How these share, for each kind."""
        self.stale = False
        """Whether that is to be arranged anew."""
        self.own: Vector = (0,) * len(kinds)
        """What it wants itself."""
        self.wanted = [0] * len(kinds)
        """What it and all below it want."""
        self.floor: Vector | None = None
        self.read: list[tuple[int, Vector]] = [(-1, ()), (-1, ())]
        """Version and value when it was last read, without floors and with them."""
        self.define(row, kinds)

    def define(self, row: PoolRow, kinds: Kinds) -> None:
        """Gives it other rules."""
        self.row = row
        self.static = [name in row.static for name in kinds.names]

    def want(self, kind: int) -> int:
        """What it wants within its limit; not less than its reservation where that is static."""
        want, limit = self.wanted[kind], self.row.limit[kind]
        if 0 <= limit < want:
            want = limit
        return max(want, self.row.reservation[kind]) if self.static[kind] else want

    def floor_of(self, kind: int) -> "int | Siblings | None":
        """Its floor in a kind, or the pools below it where one of them has one."""
        if self.floor is not None and self.floor[kind]:
            return self.floor[kind]
        return self.level[kind] if self.level[kind].floors else None


def _path(node: Node) -> str:
    return node.path


def _depth(node: Node) -> int:
    return node.path.count("/") if node.parent else 0


class ShareTree:
    """The pools of a cell with what each wants; the root is `/`."""

    def __init__(self, kinds: Kinds) -> None:
        self.version = 0
        """Grows with each change."""
        self._kinds = kinds
        self._capacity: Vector = (0,) * len(kinds)
        self._nodes: dict[str, Node] = {}
        self._stale: list[Node] = []
        self._floors = 0
        """How many pools have one."""

    def define(self, path: str, row: PoolRow) -> None:
        """Creates or changes a pool; the one above it must exist."""
        self.version += 1
        node = self._nodes.get(path)
        if node is not None:
            node.define(row, self._kinds)
        else:
            parent = None if path == "/" else self._nodes[parent_of(path)]
            node = self._nodes[path] = Node(path, parent, row, self._kinds)
            if parent is not None:
                insort(parent.below, node, key=_path)
        if node.parent is not None:
            self._mark(node.parent)

    def remove(self, path: str) -> None:
        """Removes a pool that has none below it."""
        self.version += 1
        node = self._nodes.pop(path)
        self._floors -= node.floor is not None
        if node.parent is not None:
            del node.parent.below[bisect_left(node.parent.below, path, key=_path)]
            self._mark(node.parent)

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        self.version += 1
        self._kinds = kinds
        self._capacity = kinds.widened(self._capacity)
        for node in self._nodes.values():
            node.define(node.row.widened(kinds), kinds)
            node.own = kinds.widened(node.own)
            node.floor = node.floor and kinds.widened(node.floor)
            self._mark(node)

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
        if not node.stale:
            for kind, (before, now) in enumerate(zip(old, want, strict=True)):
                if before != now:
                    self._pass_up(node, kind, node.wanted[kind] + now - before)

    def set_floor(self, path: str, floor: Vector | None) -> None:
        """What a pool is entitled to at least while it has a turn; None: its turn is over."""
        node = self._nodes[path]
        if floor == node.floor:
            return
        self.version += 1
        self._floors += (floor is not None) - (node.floor is not None)
        node.floor = floor
        self._pass_up_floor(node)

    def entitlement(self, path: str) -> Vector:
        """What a pool may use now. Raises `KeyError` where there is no such pool."""
        self._arrange()
        return self._read(self._nodes[path], self._floors > 0)

    def share(self, path: str) -> Vector:
        """What it would be entitled to if nobody had a turn."""
        self._arrange()
        return self._read(self._nodes[path], floors=False)

    def want(self, path: str) -> Vector:
        """What it wants with all below it, within its limit; not less than its reservation where that is static."""
        self._arrange()
        node = self._nodes[path]
        return tuple([node.want(kind) for kind in range(len(self._kinds))])

    def all(self) -> dict[str, Vector]:
        """The entitlement of each pool."""
        self._arrange()
        return {path: self._read(node, self._floors > 0) for path, node in self._nodes.items()}

    def touched(self, since: int) -> list[str] | None:
        """The pools without any below them whose entitlement may have changed since a version; None: any pool's."""
        return [] if since >= self.version else None

    def _mark(self, node: Node) -> None:
        if not node.stale:
            node.stale = True
            self._stale.append(node)

    def _arrange(self) -> None:
        """Orders those below some pools anew: one came, went, or has other rules."""
        if not self._stale:
            return
        stale, self._stale = self._stale, []
        for node in sorted(stale, key=_depth, reverse=True):
            node.stale = False
            rows = [child.row for child in node.below]
            node.level = []
            for at, child in enumerate(node.below):
                child.at = at
            for kind in range(len(self._kinds)):
                siblings = Siblings([row.reservation[kind] for row in rows], [row.share[kind] for row in rows])
                node.level.append(siblings)
                for child in node.below:
                    siblings.change(child.at, child.want(kind))
                    if (floor := child.floor_of(kind)) is not None:
                        siblings.floors[child.at] = floor
            wanted = [own + siblings.wanted for own, siblings in zip(node.own, node.level, strict=True)]
            node.wanted += [0] * (len(wanted) - len(node.wanted))
            for kind, want in enumerate(wanted):
                self._pass_up(node, kind, want)
            self._pass_up_floor(node)

    def _pass_up(self, node: Node, kind: int, wanted: int) -> None:
        """A pool and those below it want something else: those above follow, as far as limits let it through."""
        while True:
            node.wanted[kind] = wanted
            parent = node.parent
            if parent is None or parent.stale:
                return
            more = parent.level[kind].change(node.at, node.want(kind))
            if more == 0:
                return
            node, wanted = parent, parent.wanted[kind] + more

    def _pass_up_floor(self, node: Node) -> None:
        """The floor of a pool, or of one below it, has come or gone."""
        while (parent := node.parent) is not None and not parent.stale:
            for kind, siblings in enumerate(parent.level):
                floor = node.floor_of(kind)
                if floor is None:
                    siblings.floors.pop(node.at, None)
                else:
                    siblings.floors[node.at] = floor
            node = parent

    def _read(self, node: Node, floors: bool) -> Vector:
        version, value = node.read[floors]
        if version == self.version:
            return value
        if node.parent is None:
            value = self._capacity
        else:
            at, totals = node.at, self._read(node.parent, floors)
            value = tuple(
                [each.given(total, at, floors) for each, total in zip(node.parent.level, totals, strict=True)]
            )
        node.read[floors] = self.version, value
        return value
