"""Pools that are watched are found when their entitlement reaches what they need, or is below what they claim."""

from random import Random

from events.pool_paths import parent_of
from events.resources import STANDARD_KINDS, Vector
from processors.entitlement.rows import PoolRow, root_row
from processors.entitlement.shares.tree import ShareTree, Watch
from tests.helpers.drawn import seeds

NOTHING = (0, 0, 0, 0)


class Drawn:
    """A drawn tree in which all leaves are watched, by amounts that are near to what they are entitled to."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.most = self.random.choice((6, 40, 1000))
        self.paths = ["/"]
        for number in range(self.random.randint(5, 40)):
            above = self.random.choice([path for path in self.paths if path.count("/") < 4])
            self.paths.append(f"{'' if above == '/' else above}/p{number}")
        inner = {parent_of(path) for path in self.paths[1:]}
        self.leaves = [path for path in self.paths if path not in inner]
        self.shares = self.random.choice(((1,), (1, 1, 2, 3), (0, 1, 5), (0, 7, 1000), (0,), (1, 900_000)))
        self.turns = self.random.choice((0.0, 0.1, 1.0))
        self.tree = ShareTree(STANDARD_KINDS)
        self.tree.define("/", root_row())
        for path in self.paths[1:]:
            self.tree.define(path, self.row())
        for path in self.leaves:
            self.tree.set_want(path, self.amounts(self.most))
        self.tree.set_capacity(self.amounts(self.most * len(self.leaves)))
        self.watched: dict[str, Watch] = {}

    def amounts(self, most: int) -> Vector:
        return tuple(self.random.randint(0, most) for _ in NOTHING)

    def row(self) -> PoolRow:
        reserved = self.amounts(self.random.choice((0, 0, self.most // 2)))
        limit = tuple(self.random.choice((-1, -1, self.random.randint(0, 3 * self.most))) for _ in NOTHING)
        return PoolRow(reserved, limit, tuple(self.random.choice(self.shares) for _ in NOTHING))

    def near(self, path: str, low: int, high: int) -> Vector:
        entitlement = self.tree.entitlement(path)
        return tuple(max(0, have + self.random.randint(low, high)) for have in entitlement)

    def watch(self) -> None:
        """All leaves that aren't: by some needs just above what they have, and claims just below it."""
        for path in self.leaves:
            if path not in self.watched and self.random.random() < 0.8:
                needs = tuple(self.near(path, -1, 3) for _ in range(self.random.randint(0, 2)))
                least = self.near(path, -3, 0) if self.random.random() < 0.5 else NOTHING
                self.watched[path] = Watch(needs, least)
                self.tree.watch(path, self.watched[path])

    def change(self) -> None:
        """Something a little, or much."""
        path = self.random.choice(self.leaves)
        match self.random.choice(("much", "little", "little", "little", "less", "capacity", "floor", "rules")):
            case "much":
                self.tree.set_want(path, self.amounts(self.most * self.random.choice((1, 4))))
            case "little":
                self.tree.set_want(path, self.near(path, -2, 2))
            case "less":
                self.tree.set_want(path, NOTHING)
            case "capacity":
                at, more = self.random.randrange(4), self.random.choice((-5, -1, 1, 2, 5))
                have = list(self.tree.entitlement("/"))
                have[at] = max(0, have[at] + more)
                self.tree.set_capacity(tuple(have))
            case "floor" if self.random.random() < self.turns:
                self.tree.set_floor(path, self.amounts(2 * self.most) if self.random.random() < 0.5 else None)
            case "rules" if self.random.random() < 0.1:
                self.tree.define(self.random.choice(self.paths[1:]), self.row())

    def holding(self) -> list[str]:
        return [path for path, watch in sorted(self.watched.items()) if watch.holds(self.tree.entitlement(path))]


@seeds(10, 3, "part")
def test_who_is_reached_is_found_and_nobody_else(part: int) -> None:
    for seed in range(part * 20, part * 20 + 20):
        drawn = Drawn(seed)
        for step in range(60):
            drawn.watch()
            drawn.change()
            expected = drawn.holding()
            assert drawn.tree.found() == expected, (seed, step)
            for path in expected:
                del drawn.watched[path]
