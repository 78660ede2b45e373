"""What each pool is entitled to, level by level from the capacity of the cell down, each resource by itself.

A change of what one pool wants touches its path; an entitlement is read along its path. Neither looks at other pools.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from events.resources import Kinds, Vector
from processors.entitlement.rows import PoolRow, parent_of
from processors.entitlement.shares.level import Node
from processors.entitlement.shares.solve import WholeTree
from processors.entitlement.shares.triggers import Watch, Watches


def _path(node: Node) -> str:
    return node.path


class ShareTree:
    """The pools of a cell with what each wants; the root is `/`."""

    def __init__(self, kinds: Kinds) -> None:
        self.version = 0
        """Grows with each change."""
        self._found_at = -1
        """That in which it was looked for pools that are watched."""
        self._changed_at = [0] * len(kinds)
        """Of each kind the version of its last change."""
        self._kinds = kinds
        self._capacity: Vector = (0,) * len(kinds)
        self._nodes: dict[str, Node] = {}
        self._has_floors = False
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
        node.pass_up(dict.fromkeys(range(len(self._kinds)), 0))
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
            node.parent.pass_up({kind: -want for kind, want in enumerate(node.want)})

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds. No pool is watched any more."""
        self._kinds = kinds
        self._changed_at = [0] * len(kinds)
        self._changed()
        self._watches = Watches(self._nodes, self._entitlement)
        self._capacity = kinds.widened(self._capacity)
        for node in self._nodes.values():
            node.widen(kinds)

    def set_capacity(self, capacity: Vector) -> None:
        """What the cell has."""
        if capacity != self._capacity:
            self._change(range(len(self._kinds)))
            self._capacity = capacity

    def set_want(self, path: str, want: Vector) -> None:
        """What a pool itself wants, what is beyond its limit too."""
        node = self._nodes[path]
        old, node.own = node.own, want
        changed = [kind for kind, (before, now) in enumerate(zip(old, want, strict=True)) if before != now]
        if not changed:
            return
        self._change(changed)
        node.pass_up({kind: want[kind] - old[kind] for kind in changed})
        self._watches.changed(node)

    def set_floor(self, path: str, floor: Vector | None) -> None:
        """What a pool is entitled to at least while it has a turn; None: its turn is over."""
        node = self._nodes[path]
        old, node.floor = node.floor, floor
        if floor == old:
            return
        self._change(range(len(self._kinds)))
        for kind in range(len(self._kinds)):
            more = bool(floor and floor[kind]) - bool(old and old[kind])
            if more:
                node.pass_up_floor(kind, more)
        self._has_floors = any(self._nodes["/"].floors)
        self._watches.changed(node)

    def entitlement(self, path: str) -> Vector:
        """What a pool may use now. Raises `KeyError` where there is no such pool."""
        return self._entitlement(self._nodes[path])

    def share(self, path: str) -> Vector:
        """What it would be entitled to if nobody had a turn."""
        return self._read(self._nodes[path], floors=False)

    def most(self, path: str) -> Vector:
        """The most that it could be entitled to by a turn, if nobody else had one."""
        return self._most(self._nodes[path])

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
        if self.version == self._found_at and not self._watches.is_news:
            return []
        self._found_at = self.version
        return self._watches.found()

    def _changed(self) -> None:
        """The pools have changed."""
        self._change(range(len(self._kinds)))
        self._whole = None

    def _change(self, kinds: Iterable[int]) -> None:
        self.version += 1
        for kind in kinds:
            self._changed_at[kind] = self.version

    def _most(self, node: Node) -> Vector:
        if node.parent is None:
            return self._capacity
        level, totals = node.parent.level(), self._most(node.parent)
        return tuple([siblings.most(total, node.at) for siblings, total in zip(level, totals, strict=True)])

    def _entitlement(self, node: Node) -> Vector:
        return self._read(node, self._has_floors)

    def _read(self, node: Node, floors: bool) -> Vector:
        version, value = node.read[floors]
        if version == self.version:
            return value
        parent = node.parent
        if parent is None:
            found = self._capacity
        else:
            totals, level, at = self._read(parent, floors), parent.level(), node.at
            old = value if len(value) == len(totals) else totals
            found = tuple(
                [
                    siblings.given(total, at, floors) if changed > version else have
                    for siblings, total, changed, have in zip(level, totals, self._changed_at, old, strict=True)
                ]
            )
        node.read[floors] = self.version, found
        return found
