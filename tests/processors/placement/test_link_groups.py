"""Gangs by link groups of cards: `within`, `near` and `segments` over `link_group`, and ranks along them."""

import random
from collections import Counter
from itertools import combinations
from typing import Any

from events.codes import Code
from events.device_columns import devices_of
from events.records.base import Event
from events.records.parts import HostDevice, PlacementRules, ResourceKind, TaskShape
from events.records.placement import GangsUnplaced, TasksPlaced
from tests.helpers.drawn import seeds
from tests.helpers.machines import mixed
from tests.processors.placement.harness import World

Islands = dict[tuple[str, str], int]
"""The cards that are well of each host and link group."""


def cell_of(islands: Islands, cpus: dict[str, int], topology: tuple[str, ...] = ()) -> World:
    """A cell of hosts with link groups of cards."""
    cell = World()
    if topology:
        cell.configure(topology=topology)
    for host, cpu in cpus.items():
        groups = [group for (of, group), count in islands.items() if of == host for _ in range(count)]
        cards = tuple(HostDevice(f"{number}", "gpu", link_group=group) for number, group in enumerate(groups))
        cell.host(host, cpu=cpu * 1000, gpu=1000 * len(cards), devices=cards, attributes={"rack": host[0]})
    return cell


def gang(cell: World, tasks: int, cards: int = 1, name: str = "gang", **rules: Any) -> list[Event]:
    shape = TaskShape({"cpu": 1000, "gpu": 1000 * cards}, rules=PlacementRules(**rules))
    return cell.run(name, tasks, gang_min=tasks, shapes=(shape,))


def places(said: list[Event], islands: Islands) -> list[tuple[str, str]]:
    """The host and link group of each card of members, by rank; none: the gang waits."""
    out: list[tuple[int, str, str]] = []
    for event in said:
        for item, held in devices_of(event) if isinstance(event, TasksPlaced) else ():
            host = event.host_ids[event.host_array[item]]
            groups = [group for (of, group), count in islands.items() if of == host for _ in range(count)]
            out += [(int(event.instance_array[item]), host, groups[int(card)]) for card, _, _ in held]
    return [(host, group) for _, host, group in sorted(out)]


def drawn(draw: random.Random) -> tuple[Islands, dict[str, int]]:
    hosts = [f"{rack}{number}" for number, rack in enumerate(draw.choices("ab", k=draw.randint(1, 3)))]
    islands = {(host, group): draw.randint(0, 4) for host in hosts for group in draw.choice(["", "l", "lr"])}
    return islands, {host: draw.randint(0, 9) for host in hosts}


def fewest(islands: Islands, cpus: dict[str, int], cards: int, segment: int, tasks: int) -> int | None:
    """The fewest link groups that hold a gang in whole segments, by trying all."""
    for count in range(1, len(islands) + 1):
        for chosen in combinations(islands, count):
            room = Counter[str]()
            for each in chosen:
                room[each[0]] += islands[each] // cards // segment
            if sum(min(each, cpus[host] // segment) for host, each in room.items()) * segment >= tasks:
                return count
    return None


@seeds(2_000, suite=150)
def test_a_gang_within_a_link_group_waits_only_if_none_holds_it(seed: int) -> None:
    draw = random.Random(seed)
    islands, cpus = drawn(draw)
    tasks, cards = draw.randint(2, 4), draw.randint(1, 2)
    said = places(gang(cell_of(islands, cpus), tasks, cards, within="link_group"), islands)
    assert bool(said) == any(count >= tasks * cards and cpus[host] >= tasks for (host, _), count in islands.items())
    assert len({*said}) <= 1


@seeds(2_000, suite=150)
def test_a_gang_near_by_link_groups_is_in_the_fewest_and_waits_only_for_segments(seed: int) -> None:
    draw = random.Random(seed)
    islands, cpus = drawn(draw)
    cards, segment = draw.randint(1, 2), draw.choice([0, 2, 3])
    tasks = (segment or 1) * draw.randint(2 if not segment else 1, 4)
    topology = draw.choice([(), ("rack", "host", "link_group")])
    said = places(gang(cell_of(islands, cpus, topology), tasks, cards, near="link_group", segments=segment), islands)
    wanted = fewest(islands, cpus, cards, segment or 1, tasks)
    if wanted is not None:
        assert len({*said}) == wanted
    elif segment:
        assert not said
    if segment:
        parts = [said[at : at + segment * cards] for at in range(0, len(said), segment * cards)]
        assert all(len({*part}) == 1 for part in parts)
    if topology:
        assert said == sorted(said)


def test_of_link_groups_those_of_one_host_are_taken_then_those_of_one_rack() -> None:
    islands = {("a1", "l"): 2, ("b1", "l"): 2, ("b1", "r"): 2, ("a2", "l"): 2}
    cpus = {"a1": 9, "b1": 9, "a2": 9}
    cell = cell_of(islands, cpus, ("rack", "host", "link_group"))
    assert {*places(gang(cell, 4, near="link_group"), islands)} == {("b1", "l"), ("b1", "r")}
    assert {*places(gang(cell, 4, near="link_group", name="more"), islands)} == {("a1", "l"), ("a2", "l")}


def test_a_gang_takes_the_link_group_with_least_room() -> None:
    islands = {("a1", "l"): 4, ("a1", "r"): 2}
    for level in ("within", "near"):
        assert {*places(gang(cell_of(islands, {"a1": 9}), 2, **{level: "link_group"}), islands)} == {("a1", "r")}


def test_members_that_ask_different_things_are_in_one_link_group() -> None:
    islands = {("a1", "l"): 3, ("a1", "r"): 3, ("a2", "l"): 4}
    cell = cell_of(islands, {"a1": 9, "a2": 9})
    rules = PlacementRules(within="link_group")
    large, small = (TaskShape({"cpu": 1000, "gpu": 1000 * cards}, rules=rules) for cards in (2, 1))
    said = cell.run("gang", gang_min=3, **mixed((1, large), (2, small)))
    assert places(said, islands) == [("a2", "l")] * 4


def waits(said: list[Event]) -> GangsUnplaced:
    (unplaced,) = (event for event in said if isinstance(event, GangsUnplaced))
    return unplaced


def rooms_of(unplaced: GangsUnplaced) -> list[tuple[str, int]]:
    return [(each.value, each.fit) for each in unplaced.groups]


def test_who_waits_hears_how_many_members_each_link_group_had_room_for() -> None:
    cell = cell_of({("a1", "l"): 4, ("a1", "r"): 4, ("a2", ""): 1}, {"a1": 99, "a2": 99})
    gang(cell, 3, within="link_group", name="first")
    gang(cell, 2, within="link_group", name="second")
    unplaced = waits(gang(cell, 3, within="link_group", name="large"))
    assert (unplaced.code, unplaced.level, unplaced.segment) == (Code.NO_GROUP_FITS, "link_group", 0)
    assert (rooms_of(unplaced), unplaced.groups_considered) == ([("a1 r", 2), ("a1 l", 1), ("a2 0", 1)], 3)


def test_a_gang_that_no_link_group_holds_never_fits_though_its_hosts_do() -> None:
    cell = cell_of({("a1", "l"): 4, ("a1", "r"): 4}, {"a1": 99})
    unplaced = waits(gang(cell, 5, within="link_group"))
    assert unplaced.code == Code.NEVER_FITS
    assert rooms_of(unplaced) == [("a1 l", 4), ("a1 r", 4)]


def test_parts_of_cards_are_no_link_groups_of_a_gang_that_asks_cards() -> None:
    cell = World()
    cell.know(ResourceKind("gpu/1g"))
    parts = [HostDevice(f"part{at}", "gpu/1g", of="0") for at in range(3)]
    cards = (HostDevice("0", "gpu", link_group="l"), HostDevice("1", "gpu", link_group="l"), *parts)
    cell.host("a1", cpu=9000, gpu=2000, more={"gpu/1g": 3000}, devices=cards)
    unplaced = waits(gang(cell, 3, within="link_group"))
    assert (unplaced.code, rooms_of(unplaced), unplaced.groups_considered) == (Code.NEVER_FITS, [("a1 l", 2)], 1)


def test_segments_that_link_groups_do_not_hold_beside_each_other_never_fit() -> None:
    cell = cell_of({("a1", "l"): 4, ("a1", "r"): 4}, {"a1": 5})
    unplaced = waits(gang(cell, 6, near="link_group", segments=3))
    assert unplaced.code == Code.NEVER_FITS
    cell = cell_of({("a1", "l"): 4, ("a1", "r"): 4}, {"a1": 99})
    unplaced = waits(gang(cell, 9, near="link_group", segments=3))
    assert (unplaced.code, unplaced.segment) == (Code.NEVER_FITS, 3)
    assert places(gang(cell, 6, near="link_group", segments=3, name="two"), {("a1", "l"): 4, ("a1", "r"): 4})
