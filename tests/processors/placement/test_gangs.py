"""Gangs whose tasks ask different things are placed wherever that can be done, and told truly where it can't."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codes import Code
from events.reasons import LASTING
from events.records.parts import Constraint, TaskShape
from events.records.placement import GangsReturned, GangsUnplaced
from processors.placement import gang_search
from processors.placement.gang_search import Found, Part, together
from processors.placement.packing import Weights
from tests.helpers.drawn import examples
from tests.helpers.machines import mixed, of, one, ranges_of
from tests.processors.placement.harness import World, hosts_of

HERE = (Constraint("disk", "in", ("ssd",)),)


def test_parts_that_compete_for_one_host_are_placed_around_each_other() -> None:
    world = World()
    world.host("h0", cpu=4000, attributes={"disk": "ssd"})
    world.host("h1", cpu=5000)
    large, small = TaskShape({"cpu": 4000}), TaskShape({"cpu": 1000}, constraints=HERE)
    found = hosts_of(world.run("j", gang_min=3, **mixed((1, large), (2, small))))
    assert found == {("j", 0, 1): "h1", ("j", 1, 1): "h0", ("j", 2, 1): "h0"}


def test_a_gang_that_no_order_of_its_parts_places_is_found_a_place_by_the_search() -> None:
    world = World()
    world.host("h0", cpu=2000, memory=4000)
    world.host("h1", cpu=2000, memory=3000)
    wide, tall = TaskShape({"cpu": 2000}), TaskShape({"cpu": 1000, "memory": 2000})
    found = hosts_of(world.run("j", gang_min=3, **mixed((1, wide), (2, tall))))
    assert found == {("j", 0, 1): "h1", ("j", 1, 1): "h0", ("j", 2, 1): "h0"}


def test_a_gang_whose_parts_fit_alone_and_not_together_goes_back_until_hosts_come() -> None:
    world = World()
    world.host("h0", cpu=4000, attributes={"disk": "ssd"})
    large, small = TaskShape({"cpu": 4000}), TaskShape({"cpu": 1000}, constraints=HERE)
    said = world.run("j", gang_min=3, **mixed((1, large), (2, small)))
    told = one(said, GangsUnplaced)
    assert (told.code, told.size, told.fit, told.missing) == (Code.NEVER_FITS, 3, 1, "1-2")
    assert ranges_of(one(said, GangsReturned)) == [("j", 0, 3, 1, 1)]


def test_members_that_are_missing_are_named_by_ranges_and_not_without_end() -> None:
    world = World()
    world.host("h0", cpu=100_000)
    odd, even = TaskShape({"cpu": 2000}), TaskShape({"cpu": 1000, "memory": 5000})
    said = world.run("j", gang_min=100, **mixed(*[(1, shape) for _ in range(50) for shape in (odd, even)]))
    told = of(said, GangsUnplaced)[0]
    assert (told.fit, told.missing[:9], told.missing[-7:]) == (50, "1,3,5,7,9", ",63,...")


PARTS = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
        st.lists(st.booleans(), min_size=3, max_size=3),
        st.integers(1, 2),
    ),
    min_size=2,
    max_size=3,
)
HOSTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=3)


def brute(free: list[tuple[int, ...]], parts: list[Part]) -> bool:
    """Whether the tasks have places, each tried on each host."""
    tasks = [part for part in parts for _ in range(part.size)]
    for hosts in product(range(len(free)), repeat=len(tasks)):
        left = [list(has) for has in free]
        for host, part in zip(hosts, tasks, strict=True):
            left[host] = [have - one for have, one in zip(left[host], part.need, strict=True)]
            if not part.open_[host] or min(left[host]) < 0:
                break
        else:
            return True
    return False


def searched(free: list[tuple[int, ...]], parts: list[Part]) -> Found:
    columns = np.array(free, dtype=np.int64).T
    weight = Weights(np.array([1, 1]), np.array([0, 0]))
    found = together(columns, weight, parts, None)
    assert np.array_equal(columns.T, np.array(free)), "it only looks"
    if found.hosts is not None:
        left = [list(has) for has in free]
        for part, hosts in zip(parts, found.hosts, strict=True):
            assert len(hosts) == part.size
            for host in hosts.tolist():
                assert part.open_[host]
                left[host] = [have - one for have, one in zip(left[host], part.need, strict=True)]
        assert min(min(has) for has in left) >= 0
    return found


def as_parts(specs: list[tuple[tuple[int, int], list[bool], int]]) -> list[Part]:
    return [Part(need, np.array(open_), sum(need), False, size) for need, open_, size in specs]


@examples(400)
@given(HOSTS, PARTS)
def test_the_search_finds_places_exactly_where_there_are_some(free, specs) -> None:  # type: ignore[no-untyped-def]
    parts = as_parts(specs)
    found = searched(free, parts)
    assert (found.hosts is not None) == brute(free, parts)
    assert found.proven == (found.hosts is None)


def test_a_search_that_has_to_give_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_search, "WORK_MAX", 0)
    open_ = [True, True]
    assert searched([(2, 4), (2, 3)], as_parts([((2, 0), open_, 1), ((1, 2), open_, 2)])) == Found(None)


@examples(200)
@given(HOSTS, PARTS, st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_why_a_gang_waits_is_true_of_the_hosts(capacity, specs, filled) -> None:  # type: ignore[no-untyped-def]
    """NEVER_FITS: not on empty hosts; else on those, and not on what is free: as many are missing as don't fit."""
    world = World()
    for number, (cpu, memory) in enumerate(capacity):
        world.host(f"h{number}", cpu=cpu, memory=memory, attributes={"at": f"h{number}"})
    for number, cpu in enumerate(filled):
        world.run(f"fill{number}", cpu=cpu, constraints=(Constraint("at", "in", (f"h{number}",)),))
    shapes = []
    for (cpu, memory), open_, size in specs:
        racks = tuple(f"h{number}" for number, there in enumerate(open_) if there)
        shapes.append((size, TaskShape({"cpu": cpu, "memory": memory}, constraints=(Constraint("at", "in", racks),))))
    size = sum(part[0] for part in shapes)
    free = [tuple(world.free(f"h{number}")[:2]) for number in range(3)]
    said = world.run("j", gang_min=size, **mixed(*shapes))
    parts = as_parts(specs)
    assert (len(hosts_of(said)) == size) == brute(free, parts)
    if told := of(said, GangsUnplaced):
        lasting = not brute([tuple(has) for has in capacity], parts)
        assert (told[0].code in LASTING) == lasting
        assert (told[0].size, told[0].tasks) == (size, size)
        missing = [int(end) for text in told[0].missing.split(",") for end in (text.split("-") * 2)[:2]]
        assert size - told[0].fit == sum(last - first + 1 for first, last in zip(*[iter(missing)] * 2, strict=True)) > 0
        assert bool(of(said, GangsReturned)) == lasting
