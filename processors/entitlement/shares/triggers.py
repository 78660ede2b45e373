"""Which pools are to be looked at again because their entitlement has risen far enough, or fallen too far.

When one pool wants less, all others that share with it get a little more; few of them get enough for what waits there.
So each pool with work that waits says how much would be enough, and, with claims that have no place, how much it needs
to keep them. Right below each pool these are ordered by the level at which they are reached, so that who isn't reached
isn't looked at; of a pool with others below it, how far it must rise or fall before the first of them can be.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import NamedTuple

from events.resources import Vector
from processors.entitlement.shares.level import Node

SCALE = 1 << 20
"""Levels are compared in these fractions of a unit; rounded so that a pool is rather looked at in vain."""


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


Entry = tuple[int, str]
"""The level at which a pool is to be looked at, and its path; falling ones with the level negative."""


class Queue(NamedTuple):
    """The pools right below one that are watched in one kind, in the order in which they are reached."""

    rising: list[Entry]
    falling: list[Entry]

    def reached(self, level: tuple[int, int] | None) -> list[str]:
        """Who may have risen or fallen far enough, at a level as `Siblings` has it."""
        if level is None or not level[1]:
            return [path for _, path in (*self.rising, *(self.falling if level else ()))]
        height = level[0] * SCALE // level[1]
        found = []
        for entries, most in ((self.rising, height), (self.falling, -height - 1)):
            for at, path in entries:
                if at > most:
                    break
                found.append(path)
        return found


class Post:
    """The pools right below one that are watched."""

    def __init__(self) -> None:
        self.queues: dict[int, Queue] = {}
        """By kind."""
        self.bounds: dict[str, Bounds] = {}
        self._entries: dict[str, list[tuple[list[Entry], Entry]]] = {}
        self.changed: dict[str, None] = {}
        """Pools that want something else, or of which something is watched anew."""

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

    def _queue(self, kind: int) -> Queue:
        queue = self.queues.get(kind)
        if queue is None:
            queue = self.queues[kind] = Queue([], [])
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
        self._posts: dict[str, Post] = {}
        self._found: dict[str, None] = {}

    @property
    def is_news(self) -> bool:
        """Whether pools are watched anew, or watched ones have changed, since it was last looked for them."""
        root = self._posts.get("/")
        return bool(self._found) or (root is not None and bool(root.changed))

    def watch(self, path: str, watch: Watch | None) -> None:
        """Watches a pool until it was found; None: not any more."""
        if watch is None:
            self._watches.pop(path, None)
        else:
            self._watches[path] = watch
            node = self._nodes[path]
            while node.parent is not None and node.parent.path not in self._posts:
                node = node.parent
                self._posts[node.path] = Post()
        self.changed(self._nodes[path])

    def changed(self, node: Node) -> None:
        """A pool wants something else, has other rules or another floor."""
        while node.parent is not None:
            post = self._posts.get(node.parent.path)
            if post is not None:
                post.changed[node.path] = None
            node = node.parent

    def removed(self, node: Node) -> None:
        """A pool is no more."""
        self._watches.pop(node.path, None)
        self._posts.pop(node.path, None)
        self._found.pop(node.path, None)
        if node.parent is not None and (post := self._posts.get(node.parent.path)) is not None:
            post.put(node, None)
            post.changed.pop(node.path, None)
            self.changed(node.parent)

    def found(self) -> list[str]:
        """The pools that are to be looked at since it was last asked; they are watched no more."""
        if "/" in self._posts:
            root = self._nodes["/"]
            self._visit(root, any(root.floors))
        found, self._found = self._found, {}
        return sorted(found)

    def _visit(self, node: Node, floors: bool) -> Bounds:
        """Looks at those below a pool that may be reached; returns when it is to be looked at again."""
        post, totals, siblings = self._posts[node.path], self._read(node), node.level()
        paths, post.changed = post.changed, {}
        levels: dict[int, tuple[int, int] | None] = {}
        for kind, queue in post.queues.items():
            if queue.rising or queue.falling:
                levels[kind] = siblings[kind].level(totals[kind], floors)
                paths.update(dict.fromkeys(queue.reached(levels[kind])))
                for at in siblings[kind].floors:
                    paths[node.below[at].path] = None
        for path in paths:
            child = self._nodes[path]
            post.put(child, self._bounds(child, floors))
        bounds = Bounds({}, {})
        for kind, (rising, falling) in post.queues.items():
            if not rising and not falling:
                continue
            level = levels[kind] if kind in levels else siblings[kind].level(totals[kind], floors)
            if rising:
                amount = totals[kind] + self._rise(node, kind, post, level, totals[kind])
                if amount <= node.want[kind]:
                    bounds.rising[kind] = amount
            if falling:
                bounds.falling[kind] = self._fall(node, kind, post, level, totals[kind])
        return bounds

    def _bounds(self, node: Node, floors: bool) -> Bounds | None:
        if node.path in self._posts:
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

    def _rise(self, node: Node, kind: int, post: Post, level: tuple[int, int] | None, total: int) -> int:
        """How much more of a kind a pool must have before anyone below it can be reached: who is first by level rises
        at most as it does, and by what rounding gives.
        """
        at, path = post.queues[kind].rising[0]
        if not level or not level[1] or node.floors[kind] or at == ALWAYS:
            return 1
        have = node.level()[kind].given(total, self._nodes[path].at, False)
        return max(1, post.bounds[path].rising[kind] - have - 2)

    def _fall(self, node: Node, kind: int, post: Post, level: tuple[int, int] | None, total: int) -> int:
        """The amount of a pool below which someone below it may have too little."""
        siblings = node.level()[kind]
        if level is None:
            return siblings.wanted
        at, path = post.queues[kind].falling[0]
        if not level[1] or node.floors[kind] or -at > ALWAYS:
            return total
        if -at <= 1:
            return siblings.claimed + 1  # within its reservation: not before these are divided
        have = siblings.given(total, self._nodes[path].at, False)
        return total - max(0, have - post.bounds[path].falling[kind] - 1)
