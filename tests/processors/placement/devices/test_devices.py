"""Tasks on single devices and cores: which card, which part of one, which node."""

from typing import Any

from events.codes import Code
from events.columns import pack_ints
from events.device_columns import devices_of
from events.host_devices import sums
from events.records.base import Event
from events.records.parts import (
    Alternative,
    AlternativeAmount,
    DeviceModels,
    HostDevice,
    PlacementRules,
    ResourceKind,
    TaskShape,
)
from events.records.placement import GangsUnplaced, TasksPlaced
from tests.processors.placement.harness import World

GIB = 1024
MEMORY = ResourceKind("gpu_memory", unit="MiB")
PARTS = [ResourceKind(f"gpu/{size}g") for size in (7, 4, 2, 1)]


def cards(count: int, memory: int = 24 * GIB, **of: Any) -> tuple[HostDevice, ...]:
    """Cards that are alike."""
    return tuple(HostDevice(str(number), "gpu", memory=memory, **of) for number in range(count))


def with_cards(world: World, host: str, devices: tuple[HostDevice, ...], cores: list[int] | None = None) -> list[Event]:
    """A host connects with these devices, and cores by their nodes."""
    more = sums(devices)
    cpu = 1000 * len(cores) if cores else 64_000
    sizes = ("gpu_memory",) if "gpu_memory" in more else ()
    return world.host(
        host, cpu=cpu, memory=1 << 20, more=more, sizes=sizes, devices=devices, cores=pack_ints(cores or [])
    )


def where(said: list[Event]) -> list[list[tuple[str, int, int]]]:
    """The devices of each task placed."""
    return [devices for each in said if isinstance(each, TasksPlaced) for _, devices in devices_of(each)]


def why(said: list[Event]) -> list[tuple[str, list[str]]]:
    """Why tasks wait: the code, and what the devices of the nearest hosts lack."""
    return [(each.code, [near.devices for near in each.nearest]) for each in said if isinstance(each, GangsUnplaced)]


def test_memory_is_taken_of_one_card_and_who_waits_hears_of_the_best() -> None:
    world = World()
    world.know(MEMORY)
    with_cards(world, "h", cards(8))
    assert len(where(world.run("whole", 7, shapes=(TaskShape({"gpu": 1000}),)))) == 7
    said = world.run("part", 3, shapes=(TaskShape({"gpu_memory": 12 * GIB}),))
    assert where(said) == [[("7", 500, 12 * GIB)]] * 2
    assert why(said) == [(Code.NO_DEVICES_FIT, ["card 7: 0 of 12GiB free"])]


def test_a_share_is_of_one_card_never_of_two() -> None:
    world = World()
    with_cards(world, "h", cards(2))
    world.run("half", shapes=(TaskShape({"gpu": 500}),))
    said = world.run("more", 2, shapes=(TaskShape({"gpu": 600}),))
    assert where(said) == [[("1", 600, 600 * 24 * GIB // 1000)]]
    assert why(said) == [(Code.NO_DEVICES_FIT, ["card 0: 0.5 of 0.6 free"])]


def test_sixteen_halves_are_two_on_each_card() -> None:
    world = World()
    with_cards(world, "h", cards(8))
    said = world.run("half", 16, shapes=(TaskShape({"gpu": 500}),))
    used = sorted(name for ((name, _, _),) in where(said))
    assert used == sorted([*map(str, range(8))] * 2)


def test_nine_of_ten_gib_on_four_cards_of_23() -> None:
    world = World()
    world.know(MEMORY)
    with_cards(world, "h", cards(4, 23 * GIB))
    said = world.run("part", 9, shapes=(TaskShape({"gpu_memory": 10 * GIB}),))
    assert len(where(said)) == 8
    assert why(said) == [(Code.NO_DEVICES_FIT, ["card 3: 3GiB of 10GiB free"])]


def test_a_host_that_says_an_amount_has_so_many_cards() -> None:
    world = World()
    world.host("h", gpu=2000)
    said = world.run("part", 3, shapes=(TaskShape({"gpu": 600}),))
    assert where(said) == [[("gpu:0", 600, 0)], [("gpu:1", 600, 0)]]
    world.end(("part", 0, 1))
    assert where(world.run("whole", shapes=(TaskShape({"gpu": 1000}),))) == []
    world.end(("part", 1, 1), ("part", 2, 1))


def split(*parts: int) -> tuple[HostDevice, ...]:
    """A card of seven parts: {7g}, or {4g, 2g, 1g}."""
    apart = tuple(f"p{size}" for size in parts if size != 7)
    each = (HostDevice(f"p{size}", f"gpu/{size}g", of="0", excludes=apart if size == 7 else ()) for size in parts)
    return (HostDevice("0", "gpu"), *each)


def test_parts_that_exclude_each_other_go_to_one_task() -> None:
    world = World()
    world.know(*PARTS)
    with_cards(world, "h", split(7, 4, 2, 1))
    world.accept("seven", shapes=(TaskShape({"gpu/7g": 1000}),))
    world.accept("two", shapes=(TaskShape({"gpu/2g": 1000}),))
    world.accept("card", shapes=(TaskShape({"gpu": 1000}),))
    said = world.admit(("seven", 0, 1, 1, 0), ("two", 0, 1, 1, 0), ("card", 0, 1, 1, 0))
    assert where(said) == [[("p7", 1000, 0)]]
    world.end(("seven", 0, 1))
    assert where(world.run("four", shapes=(TaskShape({"gpu/4g": 1000}),))) == [[("p4", 1000, 0)]]
    for kind in ("gpu/7g", "gpu"):
        assert where(world.run(kind.replace("/", ""), shapes=(TaskShape({kind: 1000}),))) == []
    assert where(world.run("share", shapes=(TaskShape({"gpu": 100}),))) == []
    assert where(world.run("one", shapes=(TaskShape({"gpu/1g": 1000}),))) == [[("p1", 1000, 0)]]


def test_a_part_that_vanished_is_held_until_its_run_ends() -> None:
    world = World()
    world.know(*PARTS)
    with_cards(world, "h", split(7, 4, 2, 1))
    world.run("two", shapes=(TaskShape({"gpu/2g": 1000}),))
    with_cards(world, "h", split(7, 4, 1))
    row = world.machine.hosts.table["h"]
    assert [each.id for each in row.former] == ["p2"]
    assert where(world.run("seven", shapes=(TaskShape({"gpu/7g": 1000}),))) == []
    assert where(world.run("card", shapes=(TaskShape({"gpu": 1000}),))) == []
    assert where(world.run("four", shapes=(TaskShape({"gpu/4g": 1000}),))) == [[("p4", 1000, 0)]]
    said = world.end(("two", 0, 1))
    assert world.machine.hosts.table["h"].former == ()
    assert where(said) == []  # beside p4 there is no 7g and no card
    assert where(world.end(("four", 0, 1))) == [[("p7", 1000, 0)]]


def test_cores_are_of_one_node_and_who_waits_hears_what_each_has() -> None:
    world = World()
    with_cards(world, "h", (), [0] * 8 + [1] * 8)
    five = PlacementRules(cores=5, devices_within="numa")
    said = world.run("five", 3, shapes=(TaskShape({"cpu": 5000}, rules=five),))
    cores = [[int(name.removeprefix("core/")) for name, _, _ in each] for each in where(said)]
    assert cores == [[0, 1, 2, 3, 4], [8, 9, 10, 11, 12]]
    assert why(said) == [(Code.NO_DEVICES_FIT, ["node 0: 3, node 1: 3 of 5 cores"])]
    assert len(where(world.end(("five", 0, 1)))) == 1


def test_cores_and_a_card_are_of_one_node_or_both_numbers_are_said() -> None:
    world = World()
    devices = (HostDevice("a", "gpu", numa=0), HostDevice("b", "gpu", numa=1))
    with_cards(world, "h", devices, [0] * 8 + [1] * 8)
    pair = TaskShape({"cpu": 5000, "gpu": 1000}, rules=PlacementRules(cores=5, devices_within="numa"))
    world.run("card", shapes=(TaskShape({"gpu": 1000}),))
    said = world.run("pair", 2, shapes=(pair,))
    assert [name for name, _, _ in where(said)[0]] == ["b", *(f"core/{core}" for core in range(8, 13))]
    lack = "node 0: 0 gpu and 8 cores, node 1: 0 gpu and 3 cores of 1 gpu and 5 cores"
    assert why(said) == [(Code.NO_HOST_FITS, [lack])]


def test_models_and_link_groups() -> None:
    world = World()
    devices = tuple(
        HostDevice(str(at), "gpu", model="a100" if at < 4 else "v100", link_group=str(at // 2)) for at in range(8)
    )
    with_cards(world, "h", devices)
    a100 = (DeviceModels("gpu", ("a100",)),)
    said = world.run("one", shapes=(TaskShape({"gpu": 1000}, rules=PlacementRules(devices=a100)),))
    assert where(said) == [[("0", 1000, 0)]]
    two = PlacementRules(devices=a100, devices_within="link_group")
    said = world.run("two", 2, shapes=(TaskShape({"gpu": 2000}, rules=two),))
    assert where(said) == [[("2", 1000, 0), ("3", 1000, 0)]]
    assert why(said) == [(Code.NO_DEVICES_FIT, ["group 0: 1, group 1: 0 of 2 gpu"])]
    three = TaskShape({"gpu": 3000}, rules=PlacementRules(devices_within="link_group"))
    lack = "group 0: 2, group 1: 2, group 2: 2, group 3: 2 of 3 gpu"
    assert why(world.run("three", shapes=(three,))) == [(Code.NEVER_FITS, [lack])]


def test_the_memory_of_a_card_that_has_parts_counts_once() -> None:
    world = World()
    world.know(MEMORY, *PARTS)
    parts = (HostDevice(f"p{at}", "gpu/1g", memory=8 * GIB, of="0") for at in range(3))
    with_cards(world, "h", (HostDevice("0", "gpu", memory=24 * GIB), *parts, HostDevice("b", "gpu", memory=4 * GIB)))
    hosts = world.machine.hosts
    assert hosts.capacity[hosts.kinds.names.index("gpu_memory"), hosts.table["h"].number] == 28 * GIB


def test_who_never_fits_in_a_link_group_hears_of_groups_that_have_cards() -> None:
    world = World()
    world.know(*PARTS)
    with_cards(world, "h", (*split(4, 2), HostDevice("nic0", "nic"), HostDevice("1", "gpu", link_group="l")))
    rules = PlacementRules(devices_within="link_group")
    said = world.run("two", shapes=(TaskShape({"gpu": 2000}, rules=rules),))
    assert why(said) == [(Code.NEVER_FITS, ["card 0: 1, group l: 1 of 2 gpu"])]
    (unplaced,) = (each for each in said if isinstance(each, GangsUnplaced))
    assert (unplaced.nearest[0].lacks, unplaced.hosts_by_reason) == ({}, {"devices": 1})


def alternatives(*asks: tuple[dict[str, int], tuple[str, ...]]) -> TaskShape:
    """Of several requests, by amounts and models, the first that finds a place."""
    each = tuple(
        Alternative(
            tuple(AlternativeAmount(*amount) for amount in resources.items()),
            (DeviceModels("gpu", models),) if models else (),
        )
        for resources, models in asks
    )
    return TaskShape(asks[0][0], rules=PlacementRules(devices=each[0].devices, alternatives=each))


def test_the_first_alternative_that_finds_a_place_is_taken_and_the_others_are_named() -> None:
    world = World()
    devices = (*cards(1, model="h100"), *(HostDevice(f"v{at}", "gpu", model="v100") for at in range(4)))
    with_cards(world, "h", devices)
    either = alternatives(({"gpu": 1000}, ("h100",)), ({"gpu": 2000}, ("v100",)))
    said = world.run("either", 4, shapes=(either,))
    names = [[name for name, _, _ in each] for each in where(said)]
    assert names == [["0"], ["v0", "v1"], ["v2", "v3"]]
    (placed,) = (each for each in said if isinstance(each, TasksPlaced))
    assert placed.alternative_array.tolist() == [0, 1, 1]
    assert placed.passed_over_array.tolist() == [-1, 0, 0]
    assert placed.passed_codes == (Code.NO_DEVICES_FIT,)
    assert world.free("h")[3] == 0
    assert where(world.end(("either", 1, 1))) == [[("v0", 1000, 0), ("v1", 1000, 0)]]


def test_a_gang_takes_one_alternative_as_a_whole() -> None:
    world = World()
    devices = (*cards(1, model="h100"), *(HostDevice(f"v{at}", "gpu", model="v100") for at in range(4)))
    with_cards(world, "h", devices)
    either = alternatives(({"gpu": 1000}, ("h100",)), ({"gpu": 2000}, ("v100",)))
    said = world.run("pair", 2, gang_min=2, shapes=(either,))
    assert [[name for name, _, _ in each] for each in where(said)] == [["v0", "v1"], ["v2", "v3"]]
