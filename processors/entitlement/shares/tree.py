"""The share tree: the entitlement of each pool, level by level from the capacity of the cell down, by resource.

A change of what one pool wants touches its path; an entitlement is read along its path. Neither looks at other pools.

When one pool wants less, all others that share with it get a little more; few of them get enough for what waits there.
So a pool with work that waits is watched (`Watch`): for how much would be enough, and, with claims that have no place,
for how much it needs to keep them. Right below each pool the watched ones are ordered by the level at which they are
reached, so that only those that may be are looked at; of a pool with others below it, how far it must rise or fall
before the first of them can be.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from events.pool_paths import parent_of
from events.resources import Kinds, Vector
from processors.entitlement.rows import PoolRow
from processors.entitlement.shares.fill import Siblings
from processors.entitlement.shares.solve import WholeTree


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
        """The amount that it wants itself."""
        self.wanted = [0] * len(kinds)
        """The amount that it and all below it want, these within their limits."""
        self.want = [0] * len(kinds)
        """The amount that it wants within its limit; not less than its reservation where that is static."""
        self.floor: Vector | None = None
        self.floors = [0] * len(kinds)
        """The number of floors in it and below it, by kind."""
        self.read: list[tuple[int, Vector]] = [(-1, ()), (-1, ())]
        """Version and value when it was last read, without floors and with them."""
        self.define(row, kinds)

    def define(self, row: PoolRow, kinds: Kinds) -> None:
        """Gives it other rules."""
        self.row = row
        self._static = [name in row.static for name in kinds.names]

    def within_rules(self, kind: int) -> int:
        """The amount of a kind that it wants by its rules."""
        want, limit = self.wanted[kind], self.row.limit[kind]
        if 0 <= limit < want:
            want = limit
        return max(want, self.row.reservation[kind]) if self._static[kind] else want

    def level(self) -> list[Siblings]:
        """The sharing among those right below it, for each kind."""
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
        """Implements `HasFloor`."""
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


SCALE = 1 << 20
"""Levels are compared in these fractions of a unit, rounded so that a pool is looked at rather too often than too late.

A coarser scale costs looks, never a missed one; 2^20 keeps the levels of shares up to a million apart.
"""


ALWAYS = 1 << 200
"""Beyond all levels."""


class Watch(NamedTuple):
    """When a pool is to be looked at: its entitlement reaches one of `needs`, or is below `least` in some kind."""

    needs: tuple[Vector, ...]
    least: Vector

    def holds(self, entitlement: Vector) -> bool:
        """Whether it is to be looked at."""
        if any(have < low for have, low in zip(entitlement, self.least, strict=True)):
            return True
        return any(self._lacks(need, entitlement) is None for need in self.needs)

    def bounds(self, entitlement: Vector) -> "Bounds":
        """In which kinds it must rise to how much, or fall below how much, before it can be."""
        rising: dict[int, int] = {}
        for need in self.needs:
            kind = self._lacks(need, entitlement)
            if kind is not None:
                rising[kind] = min(need[kind], rising.get(kind, need[kind]))
        return Bounds(rising, {kind: low for kind, low in enumerate(self.least) if low > 0})

    def _lacks(self, need: Vector, entitlement: Vector) -> int | None:
        """The first kind of which more is needed."""
        return next((kind for kind, want in enumerate(need) if want > entitlement[kind]), None)


class Bounds(NamedTuple):
    """Amounts of a pool by kind: reached from below, or fallen under."""

    rising: dict[int, int]
    falling: dict[int, int]


Threshold = tuple[int, str]
"""The level at which a pool is to be looked at, and its path; falling ones with the level negative."""


class Thresholds(NamedTuple):
    """The pools right below one that are watched in one kind, in the order in which they are reached."""

    rising: list[Threshold]
    falling: list[Threshold]

    def reached(self, level: tuple[int, int] | None) -> list[str]:
        """The pools that may have risen or fallen far enough, at a level as `Siblings` has it."""
        if level is None or not level[1]:
            return [path for _, path in (*self.rising, *(self.falling if level else ()))]
        height = level[0] * SCALE // level[1]
        paths = []
        for entries, most in ((self.rising, height), (self.falling, -height - 1)):
            for at, path in entries:
                if at > most:
                    break
                paths.append(path)
        return paths


class WatchedChildren:
    """The pools right below one that are watched."""

    def __init__(self) -> None:
        self.queues: dict[int, Thresholds] = {}
        """By kind."""
        self.bounds: dict[str, Bounds] = {}
        self._entries: dict[str, list[tuple[list[Threshold], Threshold]]] = {}
        self.changed: dict[str, None] = {}
        """Pools that want something else, or of which something else is watched."""

    def put(self, node: Node, bounds: Bounds | None) -> None:
        """Watches a pool by other bounds; None: not at all."""
        path = node.path
        self.bounds.pop(path, None)
        for entries, entry in self._entries.pop(path, ()):
            del entries[bisect_left(entries, entry)]
        if bounds is None:
            return
        self.bounds[path] = bounds
        own = self._entries[path] = []
        for kind, amount in bounds.rising.items():
            own.append((self._queue(kind).rising, (_level(node, kind, amount - 1), path)))
        for kind, amount in bounds.falling.items():
            own.append((self._queue(kind).falling, (-1 - _level(node, kind, amount), path)))
        for entries, entry in own:
            insort(entries, entry)

    def _queue(self, kind: int) -> Thresholds:
        queue = self.queues.get(kind)
        if queue is None:
            queue = self.queues[kind] = Thresholds([], [])
        return queue


def _level(node: Node, kind: int, amount: int) -> int:
    """The level at which a pool has an amount, rounded down. One with share 0 is beyond all levels, or below all where
    it has so much of its reservation.
    """
    beyond = amount - min(node.want[kind], node.row.reservation[kind])
    share = node.row.share[kind]
    if share:
        return beyond * SCALE // share
    return ALWAYS if beyond > 0 else -ALWAYS


class Watches:
    """The pools that are watched, in a tree of which `read` says the entitlement of a pool."""

    def __init__(self, nodes: Mapping[str, Node], read: Callable[[Node], Vector]) -> None:
        self._nodes = nodes
        self._read = read
        self._watches: dict[str, Watch] = {}
        self._watched: dict[str, WatchedChildren] = {}
        self._found: dict[str, None] = {}

    @property
    def is_news(self) -> bool:
        """Whether pools are watched that weren't, or watched ones have changed, since it was last looked for them."""
        root = self._watched.get("/")
        return bool(self._found) or (root is not None and bool(root.changed))

    def watch(self, path: str, watch: Watch | None) -> None:
        """Watches a pool until it was found; None: not any more."""
        if watch is None:
            self._watches.pop(path, None)
        else:
            self._watches[path] = watch
            node = self._nodes[path]
            while node.parent is not None and node.parent.path not in self._watched:
                node = node.parent
                self._watched[node.path] = WatchedChildren()
        self.changed(self._nodes[path])

    def changed(self, node: Node) -> None:
        """A pool wants something else, has other rules or another floor."""
        while node.parent is not None:
            watched = self._watched.get(node.parent.path)
            if watched is not None:
                watched.changed[node.path] = None
            node = node.parent

    def removed(self, node: Node) -> None:
        """A pool is no more."""
        self._watches.pop(node.path, None)
        self._watched.pop(node.path, None)
        self._found.pop(node.path, None)
        if node.parent is not None and (watched := self._watched.get(node.parent.path)) is not None:
            watched.put(node, None)
            watched.changed.pop(node.path, None)
            self.changed(node.parent)

    def found(self) -> list[str]:
        """The pools that are to be looked at since it was last asked; they are watched no more."""
        if "/" in self._watched:
            root = self._nodes["/"]
            self._visit(root, any(root.floors))
        paths, self._found = self._found, {}
        return sorted(paths)

    def _visit(self, node: Node, floors: bool) -> Bounds:
        """Looks at those below a pool that may be reached; returns when it is to be looked at again."""
        watched, totals, siblings = self._watched[node.path], self._read(node), node.level()
        paths, watched.changed = watched.changed, {}
        levels: dict[int, tuple[int, int] | None] = {}
        for kind, queue in watched.queues.items():
            if queue.rising or queue.falling:
                levels[kind] = siblings[kind].level(totals[kind], floors)
                paths.update(dict.fromkeys(queue.reached(levels[kind])))
                for at in siblings[kind].floors:
                    paths[node.below[at].path] = None
        for path in paths:
            child = self._nodes[path]
            watched.put(child, self._bounds(child, floors))
        bounds = Bounds({}, {})
        for kind, (rising, falling) in watched.queues.items():
            if not rising and not falling:
                continue
            level = levels[kind] if kind in levels else siblings[kind].level(totals[kind], floors)
            if rising:
                amount = totals[kind] + self._rise(node, kind, watched, level, totals[kind])
                if amount <= node.want[kind]:
                    bounds.rising[kind] = amount
            if falling:
                bounds.falling[kind] = self._fall(node, kind, watched, level, totals[kind])
        return bounds

    def _bounds(self, node: Node, floors: bool) -> Bounds | None:
        if node.path in self._watched:
            return self._visit(node, floors)
        watch = self._watches.get(node.path)
        if watch is None:
            return None
        entitlement = self._read(node)
        if watch.holds(entitlement):
            del self._watches[node.path]
            self._found[node.path] = None
            return None
        bounds = watch.bounds(entitlement)
        for kind in [kind for kind, amount in bounds.rising.items() if amount > node.want[kind]]:
            del bounds.rising[kind]  # it doesn't want so much
        return bounds

    def _rise(self, node: Node, kind: int, watched: WatchedChildren, level: tuple[int, int] | None, total: int) -> int:
        """The least by which a pool must rise in a kind before anyone below it can be reached: the first by level rises
        at most as it does, and by what rounding gives.
        """
        at, path = watched.queues[kind].rising[0]
        if not level or not level[1] or node.floors[kind] or at == ALWAYS:
            return 1
        have = node.level()[kind].given(total, self._nodes[path].at, False)
        return max(1, watched.bounds[path].rising[kind] - have - 2)

    def _fall(self, node: Node, kind: int, watched: WatchedChildren, level: tuple[int, int] | None, total: int) -> int:
        """The amount of a pool below which someone below it may have too little."""
        siblings = node.level()[kind]
        if level is None:
            return siblings.wanted
        at, path = watched.queues[kind].falling[0]
        if not level[1] or node.floors[kind] or -at > ALWAYS:
            return total
        if -at <= 1:
            return siblings.claimed + 1  # within its reservation: not before these are divided
        have = siblings.given(total, self._nodes[path].at, False)
        return total - max(0, have - watched.bounds[path].falling[kind] - 1)


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
        """The version of the last change, by kind."""
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
        """Sets the amount that pools share."""
        if capacity != self._capacity:
            self._change(range(len(self._kinds)))
            self._capacity = capacity

    def set_want(self, path: str, want: Vector) -> None:
        """Sets the amount that a pool itself wants, with what is beyond its limit."""
        node = self._nodes[path]
        old, node.own = node.own, want
        changed = [kind for kind, (before, now) in enumerate(zip(old, want, strict=True)) if before != now]
        if not changed:
            return
        self._change(changed)
        node.pass_up({kind: want[kind] - old[kind] for kind in changed})
        self._watches.changed(node)

    def set_floor(self, path: str, floor: Vector | None) -> None:
        """Sets the least entitlement of a pool while it has a turn; None: its turn is over."""
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
        """The amount that a pool may use now. Raises `KeyError` where there is no such pool."""
        return self._entitlement(self._nodes[path])

    def share(self, path: str) -> Vector:
        """The entitlement that it would have if nobody had a turn."""
        return self._read(self._nodes[path], floors=False)

    def most(self, path: str) -> Vector:
        """The most that it could be entitled to by a turn, if nobody else had one."""
        return self._most(self._nodes[path])

    def want(self, path: str) -> Vector:
        """The amount that it wants with all below it, within its limit; at least a static reservation."""
        return tuple(self._nodes[path].want)

    def all(self) -> dict[str, Vector]:
        """The entitlement of each pool, computed whole."""
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
            entitlement = self._capacity
        else:
            totals, level, at = self._read(parent, floors), parent.level(), node.at
            old = value if len(value) == len(totals) else totals
            entitlement = tuple(
                [
                    siblings.given(total, at, floors) if changed > version else have
                    for siblings, total, changed, have in zip(level, totals, self._changed_at, old, strict=True)
                ]
            )
        node.read[floors] = self.version, entitlement
        return entitlement
