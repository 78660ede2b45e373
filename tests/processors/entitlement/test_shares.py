"""The shares of a pool tree against a slow twin: water that rises by equal steps, in fractions of a unit, until nothing
is left; and what must hold whatever the tree is.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from events.cell_settings import KindRow
from events.fairness.certificate import SharedPool, explain, faults
from events.pool_paths import parent_of
from events.resources import STANDARD_KINDS, Kinds, Vector
from processors.entitlement.rows import PoolRow, root_row
from processors.entitlement.shares.tree import ShareTree
from tests.helpers.drawn import examples
from tests.processors.entitlement.test_sharing import rounded

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


@examples(400)
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


@examples(300)
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


LARGE = pool_trees(most=1 << 38, share=1_000_000)
ROOM = st.tuples(*[st.integers(0, 1 << 41)] * 4)


def members(pools: Pools, parent: str) -> list[str]:
    return [path for path in pools if parent_of(path) == parent]


@examples(300)
@given(LARGE, ROOM)
def test_the_whole_tree_is_what_its_paths_say(pools: Pools, capacity: Vector) -> None:
    tree = tree_of(pools, capacity)
    assert tree.all() == {"/": capacity} | {path: tree.entitlement(path) for path in pools}
    assert faults(shared(pools, tree.all()), STANDARD_KINDS.amounts(capacity)) == []


@examples(200)
@given(LARGE, ROOM)
def test_children_share_what_their_parent_has_and_nothing_is_left_that_one_of_them_wants(
    pools: Pools, capacity: Vector
) -> None:
    tree = tree_of(pools, capacity)
    for parent in ("/", *pools):
        below = members(pools, parent)
        for kind, total in enumerate(tree.entitlement(parent) if below else ()):
            wants = sum(tree.want(path)[kind] for path in below)
            assert sum(tree.entitlement(path)[kind] for path in below) == min(total, wants)
            assert all(0 <= tree.entitlement(path)[kind] <= tree.want(path)[kind] for path in below)


@examples(200)
@given(LARGE, ROOM, st.tuples(*[st.integers(0, 1 << 20)] * 4))
def test_more_capacity_takes_from_nobody_but_what_rounding_takes(pools: Pools, capacity: Vector, more: Vector) -> None:
    """Exact shares are monotone without turns. Whole ones are off by less than one unit on each level."""
    less = tree_of(pools, capacity)
    greater = tree_of(pools, tuple(a + b for a, b in zip(capacity, more, strict=True)))
    for path in pools:
        for before, now in zip(less.share(path), greater.share(path), strict=True):
            assert now >= before - path.count("/")


@examples(200)
@given(LARGE, ROOM, st.data())
def test_who_wants_more_takes_from_others_and_never_gets_less(
    pools: Pools, capacity: Vector, data: st.DataObject
) -> None:
    tree = tree_of(pools, capacity)
    before = {path: tree.share(path) for path in pools}
    path = data.draw(st.sampled_from([path for path in pools if not members(pools, path)]))
    tree.set_want(path, tuple(want + data.draw(st.integers(0, 1 << 38)) for want in pools[path].own))
    assert all(now >= was for now, was in zip(tree.share(path), before[path], strict=True))
    if parent_of(path) == "/":
        for other in set(members(pools, "/")) - {path}:
            assert all(now <= was + 1 for now, was in zip(tree.share(other), before[other], strict=True))


@examples(150)
@given(LARGE, ROOM, st.randoms(use_true_random=False))
def test_the_order_in_which_pools_were_defined_does_not_matter(pools: Pools, capacity: Vector, random: Random) -> None:
    expected = tree_of(pools, capacity).all()
    order = sorted(pools, key=lambda path: (path.count("/"), random.random()))
    shuffled = tree_of(pools, capacity, order)
    assert shuffled.all() == expected
    assert {path: shuffled.entitlement(path) for path in expected} == expected


@examples(200)
@given(st.one_of(pool_trees(), LARGE), st.data())
def test_a_tree_that_was_changed_is_one_made_anew(pools: Pools, data: st.DataObject) -> None:
    """Wants, turns, rules, pools and capacity change; what is read in between changes nothing."""
    most = max(max(pool.reservation) for pool in pools.values()) * 4 + 4
    amounts = st.tuples(*[st.integers(0, most)] * 4)
    pools, tree, capacity = dict(pools), tree_of(pools, NOTHING), NOTHING
    for _ in range(data.draw(st.integers(1, 12))):
        leaves = [path for path in pools if not members(pools, path)]
        path = data.draw(st.sampled_from(leaves))
        match data.draw(st.sampled_from(("want", "want", "floor", "rules", "capacity", "remove", "define"))):
            case "want":
                pools[path] = pools[path]._replace(own=data.draw(amounts))
                tree.set_want(path, pools[path].own)
            case "floor":
                pools[path] = pools[path]._replace(floor=data.draw(st.none() | amounts))
                tree.set_floor(path, pools[path].floor)
            case "rules":
                path = data.draw(st.sampled_from(sorted(pools)))
                pools[path] = pools[path]._replace(
                    reservation=data.draw(amounts), share=data.draw(st.tuples(*[st.integers(0, 3)] * 4))
                )
                tree.define(path, pools[path].row)
            case "capacity":
                capacity = data.draw(amounts)
                tree.set_capacity(capacity)
            case "remove" if len(pools) > 1:
                tree.remove(path)
                del pools[path]
            case "define":
                new = f"{data.draw(st.sampled_from(['', *pools]))}/new{len(pools)}"
                if pools.get(parent_of(new), pools[path]).own == NOTHING and new not in pools:
                    pools[new] = pools[path]._replace(floor=None)
                    tree.define(new, pools[new].row)
                    tree.set_want(new, pools[new].own)
        read = data.draw(st.sampled_from(sorted(pools)))
        tree.entitlement(read), tree.share(read)
    anew = tree_of(pools, capacity)
    for path in pools:
        assert tree.entitlement(path) == anew.entitlement(path)
        assert tree.share(path) == anew.share(path)
        assert tree.want(path) == anew.want(path)
    assert tree.all() == anew.all()


def flat(wants: Sequence[int], capacity: int, **rules: int) -> ShareTree:
    """CPU of pools side by side."""
    each = Pool((rules.get("reservation", 0), 0, 0, 0), (-1,) * 4, (rules.get("share", 1),) * 4, (), NOTHING, None)
    pools = {f"/p{at:04}": each._replace(own=(want, 0, 0, 0)) for at, want in enumerate(wants)}
    return tree_of(pools, (capacity, 0, 0, 0))


def test_a_thousand_equal_pools_get_the_same_and_what_cannot_be_divided_goes_to_the_first_by_path() -> None:
    tree = flat([10_000] * 1000, 2_000_300)
    got = [tree.entitlement(f"/p{at:04}")[0] for at in range(1000)]
    assert got == [2001] * 300 + [2000] * 700
    tree.set_want("/p0500", (1, 0, 0, 0))
    got = [tree.entitlement(f"/p{at:04}")[0] for at in range(1000)]
    assert got[500] == 1
    assert sorted(got[:500] + got[501:], reverse=True) == got[:500] + got[501:]
    assert sum(got) == 2_000_300


def test_a_kind_of_which_there_is_nothing_leaves_the_others_as_they_are() -> None:
    pool = Pool(NOTHING, (-1,) * 4, (1,) * 4, (), (8, 8, 8, 8), None)
    tree = tree_of({"/a": pool, "/b": pool}, (10, 0, 20, 1))
    assert (tree.entitlement("/a"), tree.entitlement("/b")) == ((5, 0, 8, 1), (5, 0, 8, 0))


def test_a_static_reservation_is_kept_and_an_elastic_one_is_lent() -> None:
    kept = Pool((6, 6, 0, 0), (-1,) * 4, (1,) * 4, ("cpu",), NOTHING, None)
    wants = kept._replace(reservation=NOTHING, static=(), own=(10, 10, 0, 0))
    tree = tree_of({"/kept": kept, "/wants": wants}, (10, 10, 0, 0))
    assert tree.entitlement("/kept") == (6, 0, 0, 0)
    assert tree.entitlement("/wants") == (4, 10, 0, 0)


def test_a_turn_takes_from_the_others_by_share_and_not_from_their_reservations() -> None:
    pool = Pool(NOTHING, (-1,) * 4, (1,) * 4, (), (10, 0, 0, 0), None)
    pools = {"/a": pool._replace(reservation=(3, 0, 0, 0)), "/b": pool, "/c": pool}
    tree = tree_of(pools, (12, 0, 0, 0))
    assert [tree.entitlement(path)[0] for path in pools] == [6, 3, 3]
    tree.set_floor("/c", (8, 0, 0, 0))
    assert [tree.entitlement(path)[0] for path in pools] == [4, 0, 8], "3 reserved, 8 for the turn, 1 by share"
    assert [tree.share(path)[0] for path in pools] == [6, 3, 3]
    tree.set_floor("/c", (10, 0, 0, 0))
    assert [tree.entitlement(path)[0] for path in pools] == [3, 0, 9], "the reservation stays"


def test_a_cell_that_learns_a_kind_shares_it() -> None:
    pool = Pool(NOTHING, (-1,) * 4, (1,) * 4, (), (8, 0, 0, 0), None)
    tree = tree_of({"/a": pool, "/b": pool}, (10, 0, 0, 0))
    tree.widen(Kinds((KindRow("licence", "milli", 3),)))
    tree.set_capacity((10, 0, 0, 0, 3))
    tree.set_want("/b", (8, 0, 0, 0, 9))
    assert (tree.entitlement("/a"), tree.entitlement("/b")) == ((5, 0, 0, 0, 0), (5, 0, 0, 0, 3))
    assert tree.all()["/b"] == (5, 0, 0, 0, 3)
