"""Gangs near each other: `near`, `segments`, the most of a spread, and ranks along the tree of hosts (decision 107)."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from events.codes import Code
from events.columns import I64
from events.records.parts import HostDevice, PlacementRules, TaskShape
from events.records.placement import GangsUnplaced
from processors.placement.gang_search import Part
from processors.placement.room.unit_parts import Rooms, ways_to_be
from tests.helpers.drawn import seeds
from tests.helpers.machines import mixed
from tests.processors.placement.harness import World, hosts_of

TREE = ("row", "rack")


def world(racks: Sequence[tuple[str, str, Sequence[int]]], topology: tuple[str, ...] = TREE) -> World:
    """A cell of racks: row, rack, and the CPU of each host."""
    cell = World()
    if topology:
        cell.configure(topology=topology)
    for row, rack, cpus in racks:
        for number, cpu in enumerate(cpus, 1):
            cell.host(f"{rack}-{number}", cpu=cpu * 1000, attributes={"row": row, "rack": rack})
    return cell


def shaped(**rules: Any) -> dict[str, Any]:
    """The shape of tasks of one core with such rules."""
    return {"shapes": (TaskShape({"cpu": 1000}, rules=PlacementRules(**rules)),)}


def racks_of(cell: World, tasks: int, **rules: Any) -> list[str]:
    """The rack of each member of a gang, by rank; none: it waits."""
    said = hosts_of(cell.run("gang", tasks, gang_min=tasks, **shaped(**rules)))
    return [host.split("-")[0] for _, host in sorted(said.items())]


def fewest(cpus: dict[str, int], tasks: int) -> int | None:
    """The fewest racks of which some hold so many tasks."""
    sets = (chosen for count in range(1, len(cpus) + 1) for chosen in combinations(cpus.values(), count))
    return next((len(chosen) for chosen in sets if sum(chosen) >= tasks), None)


@seeds(2_000, suite=100)
def test_a_gang_that_wants_to_be_near_is_on_the_fewest_racks_and_never_waits_for_that(seed: int) -> None:
    draw = random.Random(seed)
    racks = [
        (f"r{draw.randint(0, 2)}", f"k{number}", [draw.randint(0, 4) for _ in range(3)])
        for number in range(draw.randint(1, 6))
    ]
    room = {rack: sum(cpus) for _, rack, cpus in racks}
    tasks = draw.randint(2, max(2, sum(room.values())) + 1)
    cell = world(racks, draw.choice([TREE, ()]))
    chosen = racks_of(cell, tasks, near="rack")
    wanted = fewest(room, tasks)
    assert len({*chosen}) == (wanted or 0)
    assert len(chosen) == (tasks if wanted else 0)


@seeds(2_000, suite=100)
def test_segments_are_whole_and_a_gang_waits_only_if_racks_do_not_hold_them(seed: int) -> None:
    draw = random.Random(seed)
    racks = [
        (f"r{draw.randint(0, 1)}", f"k{number}", [draw.randint(0, 5) for _ in range(2)])
        for number in range(draw.randint(1, 5))
    ]
    size, count = draw.randint(2, 3), draw.randint(1, 4)
    level: dict[str, Any] = draw.choice([{"near": "rack"}, {"within": "rack"}])
    chosen = racks_of(world(racks), size * count, segments=size, **level)
    room = {rack: sum(cpus) // size for _, rack, cpus in racks}
    wanted = fewest(room, count)
    assert len({*chosen}) == (wanted or 0)
    assert len(chosen) == (size * count if wanted else 0)
    segments = [chosen[at : at + size] for at in range(0, len(chosen), size)]
    assert all(len({*segment}) == 1 for segment in segments)


def test_the_row_that_holds_a_gang_on_as_few_racks_is_taken() -> None:
    racks = [("a", "k1", [4]), ("b", "k2", [2]), ("b", "k3", [2]), ("a", "k4", [1])]
    assert racks_of(world(racks), 4, near="rack") == ["k1"] * 4
    racks = [("a", "k1", [2]), ("b", "k2", [2]), ("b", "k3", [2]), ("a", "k4", [1])]
    assert racks_of(world(racks), 4, near="rack") == ["k2", "k2", "k3", "k3"]


def test_within_a_row_a_gang_is_on_the_fewest_racks_of_any_row() -> None:
    racks = [("a", "k1", [2]), ("a", "k2", [2]), ("a", "k3", [2]), ("b", "k4", [3]), ("b", "k5", [4])]
    assert racks_of(world(racks), 6, near="rack", within="row") == ["k4", "k4", "k5", "k5", "k5", "k5"]


def test_near_a_row_it_is_on_few_racks_too() -> None:
    racks = [("a", "k1", [1]), ("a", "k2", [2]), ("a", "k3", [2])]
    assert racks_of(world(racks), 4, near="row") == ["k2", "k2", "k3", "k3"]


def test_ranks_follow_the_tree_in_natural_order() -> None:
    racks = [("r10", "k1", [2]), ("r9", "k10", [1]), ("r9", "k9", [1, 1])]
    said = hosts_of(world(racks).run("gang", 5, gang_min=5))
    assert [host for _, host in sorted(said.items())] == ["k9-1", "k9-2", "k10-1", "k1-1", "k1-1"]


def test_without_a_topology_a_gang_without_rules_is_numbered_as_it_was_placed() -> None:
    racks = [("r10", "k1", [3]), ("r9", "k9", [2])]
    said = hosts_of(world(racks, topology=()).run("gang", 5, gang_min=5))
    assert [host for _, host in sorted(said.items())] == ["k9-1"] * 2 + ["k1-1"] * 3


def test_segments_stay_whole_where_racks_of_two_rows_have_one_name() -> None:
    cell = world([])
    for number, (row, rack) in enumerate([("a", "k1"), ("a", "k2"), ("b", "k1"), ("b", "k2")]):
        cell.host(f"h{number}", cpu=2000, attributes={"row": row, "rack": rack})
    said = hosts_of(cell.run("gang", 8, gang_min=8, **shaped(near="rack", segments=4)))
    assert [host for _, host in sorted(said.items())] == ["h0", "h0", "h2", "h2", "h1", "h1", "h3", "h3"]


def test_members_that_ask_different_things_are_near_too() -> None:
    cell = world([("a", "k1", [4]), ("a", "k2", [4, 3]), ("a", "k3", [8])])
    rules = PlacementRules(near="rack")
    parts = [(1, TaskShape({"cpu": 3000}, rules=rules)), (4, TaskShape({"cpu": 1000}, rules=rules))]
    said = hosts_of(cell.run("gang", gang_min=5, **mixed(*parts)))
    assert len({host.split("-")[0] for host in said.values()}) == 1
    assert len(said) == 5


def test_hosts_without_the_attribute_are_one_group() -> None:
    cell = world([("a", "k1", [1])])
    cell.host("x1", cpu=1000)
    cell.host("x2", cpu=1000)
    assert {*hosts_of(cell.run("gang", 2, gang_min=2, **shaped(near="rack"))).values()} == {"x1", "x2"}


def test_racks_hold_what_their_single_cards_hold() -> None:
    cell = World()
    for host, rack, count in (("h1", "k1", 3), ("h2", "k2", 4)):
        cards = tuple(HostDevice(str(number), "gpu") for number in range(count))
        cell.host(host, cpu=9000, gpu=count * 1000, devices=cards, attributes={"rack": rack})
    shape = TaskShape({"cpu": 1000, "gpu": 600}, rules=PlacementRules(near="rack"))
    assert {*hosts_of(cell.run("gang", 4, gang_min=4, shapes=(shape,))).values()} == {"h2"}


def test_segments_that_no_rack_holds_by_its_single_cards_never_fit() -> None:
    cell = World()
    for host, rack in (("h1", "k1"), ("h2", "k2")):
        cards = tuple(HostDevice(str(number), "gpu") for number in range(3))
        cell.host(host, cpu=9000, gpu=3000, devices=cards, attributes={"rack": rack})
    shape = TaskShape({"cpu": 1000, "gpu": 600}, rules=PlacementRules(near="rack", segments=4))
    said = cell.run("gang", 4, gang_min=4, shapes=(shape,))
    (unplaced,) = (event for event in said if isinstance(event, GangsUnplaced))
    assert unplaced.code == Code.NEVER_FITS
    assert [(each.value, each.fit) for each in unplaced.groups] == [("k1", 3), ("k2", 3)]


def test_a_gang_for_which_the_most_of_a_spread_leaves_too_few_places_never_fits() -> None:
    cell = world([("a", "k1", [8]), ("a", "k2", [8]), ("a", "k3", [1])])
    spread = shaped(spread_over="rack", most=2)
    said = cell.run("gang", 6, gang_min=6, **spread)
    (unplaced,) = (event for event in said if isinstance(event, GangsUnplaced))
    assert (unplaced.code, unplaced.fit, unplaced.size) == (Code.NEVER_FITS, 5, 6)
    single = cell.run("single", 6, **spread)
    assert len(hosts_of(single)) == 5
    (unplaced,) = (event for event in single if isinstance(event, GangsUnplaced))
    assert unplaced.code != Code.NEVER_FITS
    cell.host("k4-1", cpu=8000, attributes={"row": "a", "rack": "k4"})
    assert len(hosts_of(cell.run("other", 6, gang_min=6, **spread))) == 6


def test_all_on_one_host() -> None:
    cell = world([("a", "k1", [1, 3]), ("a", "k2", [2, 2])])
    assert {*hosts_of(cell.run("gang", 3, gang_min=3, **shaped(within="host"))).values()} == {"k1-2"}
    assert hosts_of(cell.run("more", 3, gang_min=3, **shaped(within="host"))) == {}


def test_a_spread_gives_no_rack_more_than_its_most() -> None:
    cell = world([("a", "k1", [4]), ("a", "k2", [4]), ("a", "k3", [1])])
    said = hosts_of(cell.run("web", 6, **shaped(spread_over="rack", most=2)))
    assert Counter(host.split("-")[0] for host in said.values()) == {"k1": 2, "k2": 2, "k3": 1}


def test_a_gang_near_a_rack_is_spread_with_at_most_so_many_of_each() -> None:
    cell = world([("a", "k1", [8]), ("a", "k2", [4]), ("a", "k3", [4])])
    chosen = racks_of(cell, 6, near="rack", spread_over="rack", most=3)
    assert sorted(Counter(chosen).values()) == [3, 3]


@seeds(2_000, suite=200)
def test_room_is_made_for_whole_segments_where_most_is_free(seed: int) -> None:
    draw = random.Random(seed)
    hosts = draw.randint(1, 8)
    groups = np.array([draw.randint(0, 3) for _ in range(hosts)])
    free, leaves = (np.array([[draw.randint(0, 4) for _ in range(hosts)]]) for _ in range(2))
    segment = draw.randint(1, 4)
    size = segment * draw.randint(1, 5)
    open_ = np.array([draw.random() < 0.8 for _ in range(hosts)])
    part = Part((1,), open_, 1, False, size, segments=(groups, segment))
    [*ways] = ways_to_be([part], Rooms(free, lambda: leaves))
    now, room = (_sums(groups, np.where(open_, np.minimum(each[0], size), 0)) for each in (free, free + leaves))
    assert bool(ways) == (sum(each // segment for each in room.values()) * segment >= size)
    for way in ways:
        sizes = {int(groups[np.flatnonzero(each.open_)[0]]): each.size for each in way}
        assert sum(sizes.values()) == size
        assert all(each % segment == 0 and each <= room[group] for group, each in sizes.items())
        held_now = sum(min(each, now[group] // segment * segment) for group, each in sizes.items())
        assert held_now == min(size, sum(each // segment * segment for each in now.values()))


def _sums(groups: I64, amounts: I64) -> Counter[int]:
    sums: Counter[int] = Counter()
    for group, amount in zip(groups.tolist(), amounts.tolist(), strict=True):
        sums[group] += amount
    return sums
