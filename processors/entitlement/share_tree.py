"""What each pool is entitled to, level by level from the capacity of the cell down, each resource by itself.

A change of what one pool wants touches its path; an entitlement is read along its path. Neither looks at other pools.
"""

from bisect import bisect_left, insort

from events.resources import Kinds, Vector
from processors.entitlement.pool_node import Node
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.rows import PoolRow
from processors.entitlement.watches import Watch, Watches
from processors.entitlement.whole_tree import WholeTree


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
        self._watches = Watches(self._nodes, self._entitlement)

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
        self._watches.changed(node)

    def remove(self, path: str) -> None:
        """Removes a pool that has none below it."""
        self.set_floor(path, None)
        self._changed()
        node = self._nodes.pop(path)
        self._watches.removed(node)
        if node.parent is not None:
            del node.parent.below[bisect_left(node.parent.below, path, key=_path)]
            node.parent.rearrange()
            for kind, want in enumerate(node.want):
                node.parent.pass_up(kind, -want)

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds. No pool is watched any more."""
        self._changed()
        self._watches = Watches(self._nodes, self._entitlement)
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
        self._watches.changed(node)

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
        self._watches.changed(node)

    def entitlement(self, path: str) -> Vector:
        """What a pool may use now. Raises `KeyError` where there is no such pool."""
        return self._entitlement(self._nodes[path])

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

    def watch(self, path: str, watch: Watch | None) -> None:
        """Watches a pool that has none below it, until it was `found`."""
        self._watches.watch(path, watch)

    def found(self) -> list[str]:
        """The watched pools that are to be looked at since it was last asked."""
        return self._watches.found()

    def touched(self, since: int) -> list[str] | None:
        """The pools without any below them whose entitlement may have changed since a version; None: any pool's."""
        return [] if since >= self.version else None

    def _changed(self) -> None:
        """Counts a change of the pools."""
        self.version += 1
        self._whole = None

    def _entitlement(self, node: Node) -> Vector:
        return self._read(node, any(self._nodes["/"].floors))

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
