"""The shares of a pool tree against a slow twin: water that rises by equal steps, in fractions of a unit, until nothing
is left; and what must hold whatever the tree is.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from events.resources import STANDARD_KINDS, Vector
from paceline.simulate.checker.certificate import SharedPool, explain, faults
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.rows import PoolRow, root_row
from processors.entitlement.share_tree import ShareTree

NOTHING = (0, 0, 0, 0)


class Pool(NamedTuple):
    """What is known of a pool."""

    reservation: Vector
    limit: Vector
    share: Vector
    static: tuple[str, ...]
    own: Vector
    floor: Vector | None

    @property
    def row(self) -> PoolRow:
        return PoolRow(self.reservation, self.limit, self.share, static=self.static)


Pools = dict[str, Pool]


def tree_of(pools: Pools, capacity: Vector, order: Sequence[str] = ()) -> ShareTree:
    tree = ShareTree(STANDARD_KINDS)
    tree.define("/", root_row())
    for path in order or sorted(pools):
        tree.define(path, pools[path].row)
    for path in order or sorted(pools):
        tree.set_want(path, pools[path].own)
        tree.set_floor(path, pools[path].floor)
    tree.set_capacity(capacity)
    return tree


def rounded(exact: Sequence[Fraction]) -> list[int]:
    """Whole units: what is missing goes to the largest fractional parts, then in order."""
    whole = [int(each) for each in exact]
    order = sorted(range(len(exact)), key=lambda at: (whole[at] - exact[at], at))
    for at in order[: int(sum(exact)) - sum(whole)]:
        whole[at] += 1
    return whole


def rise(total: int, least: Sequence[int], low: Sequence[int], most: Sequence[int], weight: Sequence[int]) -> list[int]:
    """Water that rises from `least`, by weight, to `most`; `low` of it is there from the beginning."""
    sums = {0}
    for each in weight:
        sums |= {each + other for other in sums}
    step = Fraction(1, lcm(*(sums - {0})))
    height = Fraction(0)
    exact = [Fraction(each) for each in low]
    while sum(exact) < total and any(w and have < top for w, have, top in zip(weight, exact, most, strict=True)):
        height += step
        exact = [
            max(Fraction(b), min(Fraction(m), a + height * w))
            for a, b, m, w in zip(least, low, most, weight, strict=True)
        ]
    return rounded(exact)


class Twin:
    """One kind, by recursion over paths."""

    def __init__(self, pools: Pools, kind: int, floors: bool = True) -> None:
        self.pools, self.kind, self.floors = pools, kind, floors

    def below(self, path: str) -> list[str]:
        return sorted(each for each in self.pools if parent_of(each) == path)

    def want(self, path: str) -> int:
        pool, kind = self.pools[path], self.kind
        want = pool.own[kind] + sum(self.want(each) for each in self.below(path))
        if pool.limit[kind] >= 0:
            want = min(want, pool.limit[kind])
        return max(want, pool.reservation[kind]) if STANDARD_KINDS.names[kind] in pool.static else want

    def reserved(self, path: str) -> int:
        return min(self.want(path), self.pools[path].reservation[self.kind])

    def floor(self, path: str) -> int | None:
        floor = self.pools[path].floor
        if floor is not None and floor[self.kind]:
            return floor[self.kind]
        below = {each: self.floor(each) for each in self.below(path)}
        if all(each is None for each in below.values()):
            return None
        return sum(self.low(each) for each in below)

    def low(self, path: str) -> int:
        """What it must have: its reservation, or its floor."""
        floor = self.floor(path) if self.floors else None
        return max(self.reserved(path), min(floor or 0, self.want(path)))

    def entitlements(self, path: str, total: int) -> dict[str, int]:
        below = self.below(path)
        want, least = [self.want(each) for each in below], [self.reserved(each) for each in below]
        share = [self.pools[each].share[self.kind] for each in below]
        if sum(least) >= total:
            found = rise(
                total, [0] * len(below), [0] * len(below), least, [self.pools[p].reservation[self.kind] for p in below]
            )
        else:
            low, left = list(least), total - sum(least)
            for at, each in enumerate(below):
                low[at] += min(self.low(each) - least[at], left)
                left -= low[at] - least[at]
            found = rise(total, least, low, want, share)
            last = [0 if each else 1 for each in share]
            if all(have >= top for have, top, each in zip(found, want, share, strict=True) if each):
                found = rise(
                    total, [h if s else r for h, r, s in zip(found, least, share, strict=True)], found, want, last
                )
        given_here = dict(zip(below, found, strict=True))
        for each, have in tuple(given_here.items()):
            given_here |= self.entitlements(each, have)
        return given_here


@st.composite
def pool_trees(draw: st.DrawFn, most: int = 4, share: int = 3) -> Pools:
    paths: list[str] = []
    for number in range(draw(st.integers(1, 7))):
        roomy = [path for path in ("/", *paths) if sum(parent_of(each) == path for each in paths) < 3]
        above = draw(st.sampled_from(roomy))
        paths.append(f"{'' if above == '/' else above}/{'cab'[number % 3]}{number}")

    def vector(low: int, high: int) -> Vector:
        return tuple(draw(st.integers(low, high)) for _ in NOTHING)

    pools = {}
    for path in paths:
        leaf = not any(parent_of(each) == path for each in paths)
        pools[path] = Pool(
            vector(0, most),
            vector(-1, 2 * most),
            vector(0, share),
            tuple(draw(st.lists(st.sampled_from(STANDARD_KINDS.names), unique=True, max_size=2))),
            vector(0, 3 * most) if leaf else NOTHING,
            vector(0, 3 * most) if leaf and draw(st.integers(0, 3)) == 0 else None,
        )
    return pools


def twin(pools: Pools, capacity: Vector, floors: bool = True) -> dict[str, Vector]:
    kinds = [Twin(pools, kind, floors).entitlements("/", total) for kind, total in enumerate(capacity)]
    return {path: tuple(each[path] for each in kinds) for path in pools}


CAPACITY = st.tuples(*[st.integers(0, 20)] * 4)


@settings(max_examples=400, deadline=None)
@given(pool_trees(), CAPACITY)
def test_a_tree_is_shared_as_rising_water(pools: Pools, capacity: Vector) -> None:
    tree = tree_of(pools, capacity)
    assert {path: tree.entitlement(path) for path in pools} == twin(pools, capacity)
    assert {path: tree.share(path) for path in pools} == twin(pools, capacity, floors=False)


def shared(pools: Pools, found: Mapping[str, Vector]) -> dict[str, SharedPool]:
    """The pools as the certificate takes them."""
    names = STANDARD_KINDS.amounts
    return {
        path: SharedPool(
            names(pool.reservation),
            names(pool.limit, -1),
            names(pool.own),
            dict(zip(STANDARD_KINDS.names, found[path], strict=True)),
            dict(zip(STANDARD_KINDS.names, pool.share, strict=True)),
            static=pool.static,
            floor=names(pool.floor or NOTHING),
        )
        for path, pool in pools.items()
    }


@settings(max_examples=300, deadline=None)
@given(pool_trees(), CAPACITY, st.randoms(use_true_random=False))
def test_the_certificate_accepts_what_is_fair_and_nothing_else(pools: Pools, capacity: Vector, random: Random) -> None:
    tree = tree_of(pools, capacity)
    fair = {path: tree.entitlement(path) for path in pools}
    whole = STANDARD_KINDS.amounts(capacity)
    assert faults(shared(pools, fair), whole) == []
    for path in pools:
        explain(path, shared(pools, fair), whole, lambda name, value: f"{value} {name}")
    for _ in range(5):
        path, kind = random.choice(sorted(pools)), random.randrange(4)
        changed = {each: list(row) for each, row in fair.items()}
        changed[path][kind] += random.choice((-2, -1, 1, 2))
        if random.random() < 0.8:  # another gets the difference
            other = random.choice([each for each in sorted(pools) if parent_of(each) == parent_of(path)])
            changed[other][kind] -= changed[path][kind] - fair[path][kind]
        unfair = {each: tuple(row) for each, row in changed.items()}
        assert unfair == fair or faults(shared(pools, unfair), whole)
