"""Tasks of several shapes in one job, and kinds of resources beside the four."""

import pytest

from events.codes import Code
from events.records.parts import Constraint, ResourceKind, TaskShape
from events.records.placement import CapacityChanged, GangsReturned, GangsUnplaced
from tests.helpers.machines import mixed, of, one, ranges_of, shaped
from tests.processors.placement.harness import World, hosts_of, places

HEAD, WORKER = TaskShape({"cpu": 3000}, ports=1), TaskShape({"cpu": 1000})
A, B = ResourceKind("gpu/a"), ResourceKind("gpu/b")
SEAT = ResourceKind("seat", amount=2)
PORTS = {"port_first": 31_000, "port_last": 31_009}


def test_tasks_of_two_shapes_are_placed_and_released_by_what_each_needs() -> None:
    world = World()
    world.host("h", cpu=5000, **PORTS)
    found = places(world.run("j", **mixed((1, HEAD), (4, WORKER))))
    assert found == {("j", 0, 1): ("h", (31_000,)), ("j", 1, 1): ("h", ()), ("j", 2, 1): ("h", ())}
    assert world.free("h")[0] == 0
    assert list(hosts_of(world.end(("j", 0, 1)))) == [("j", 3, 1), ("j", 4, 1)]
    assert (world.free("h")[0], world.free("h")[-1]) == (1000, 10)


def test_each_shape_has_its_own_conditions_and_strategy() -> None:
    world = World()
    for name in ("h0", "h1", "h2"):
        world.host(name, cpu=4000, attributes={"rack": name})
    there = TaskShape({"cpu": 1000}, constraints=(Constraint("rack", "in", ("h2",)),))
    around = TaskShape({"cpu": 1000}, strategy="spread")
    found = hosts_of(world.run("j", **mixed((2, there), (3, around))))
    assert list(found.values()) == ["h2", "h2", "h0", "h1", "h0"]


def test_a_shape_that_no_host_can_hold_goes_back_alone() -> None:
    world = World()
    world.host("h", cpu=4000)
    said = world.run("j", **mixed((2, TaskShape({"cpu": 9000})), (2, WORKER)))
    assert list(hosts_of(said)) == [("j", 2, 1), ("j", 3, 1)]
    assert (one(said, GangsUnplaced).code, one(said, GangsUnplaced).tasks) == (Code.NEVER_FITS, 2)
    assert ranges_of(one(said, GangsReturned)) == [("j", 0, 2, 1, 0)]


@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_a_gang_of_two_shapes_is_placed_whole_with_its_largest_tasks_first(strategy: str) -> None:
    world = World()
    world.host("h0", cpu=3000, **PORTS)
    world.host("h1", cpu=2000, **PORTS)
    worker = TaskShape({"cpu": 1000}, strategy=strategy)
    found = hosts_of(world.run("j", gang_min=3, **mixed((2, worker), (1, HEAD))))
    assert found == {("j", 0, 1): "h1", ("j", 1, 1): "h1", ("j", 2, 1): "h0"}


def test_a_gang_of_two_shapes_of_which_one_finds_no_place_leaves_nothing_on_the_board() -> None:
    world = World()
    world.host("h0", cpu=3000, **PORTS)
    world.host("h1", cpu=2000, **PORTS)
    world.run("fill", 1)
    said = world.borrow("j", gang_min=3, **mixed((2, WORKER), (1, HEAD)))
    said += world.run("k", 4, cpu=1000)
    told = of(said, GangsUnplaced)[0]
    assert (told.job_id, told.code, told.tasks, told.need) == ("j", Code.GANG_INCOMPLETE, 3, {"cpu": 1000})
    assert (told.size, told.fit, told.missing) == (3, 2, "1")
    assert [job for job, _, _ in places(said)] == ["k"] * 4
    assert not of(said, GangsReturned)
    assert ranges_of(one(world.later(60_000), GangsReturned)) == [("j", 0, 3, 1, 1)]


def test_two_kinds_of_gpu_are_on_the_hosts_that_offer_them() -> None:
    world = World()
    world.know(A, B)
    world.host("h0", more={"gpu/a": 2000})
    world.host("h1", more={"gpu/b": 1000})
    found = hosts_of(world.run("j", **mixed((2, TaskShape({"gpu/b": 1000})), (2, TaskShape({"gpu/a": 1000})))))
    assert found == {("j", 0, 1): "h1", ("j", 2, 1): "h0", ("j", 3, 1): "h0"}
    told = of(world.said, GangsUnplaced)[-1]
    assert (told.code, told.need) == (Code.NO_HOST_FITS, {"gpu/b": 1000})
    assert told.hosts_by_reason == {"gpu/b": 2}
    assert told.nearest[0].lacks == {"gpu/b": 1000}


def test_what_hosts_offer_of_an_unknown_kind_counts_once_the_cell_knows_it() -> None:
    world = World()
    world.host("h", cpu=4000, more={"gpu/a": 2000, "gpu/b": 1000})
    world.run("j", 2, cpu=1000)
    assert one(world.said, CapacityChanged).capacity == {"cpu": 4000, "memory": 4000, "disk": 10_000}
    said = world.know(A)
    assert one(said, CapacityChanged).capacity == {"cpu": 4000, "memory": 4000, "disk": 10_000, "gpu/a": 2000}
    assert world.free("h") == [2000, 4000, 10_000, 0, 2000, 1000]
    assert len(hosts_of(world.run("k", 3, **shaped({"gpu/a": 1000})))) == 2
    assert one(world.know(B), CapacityChanged).capacity["gpu/b"] == 1000
    assert world.free("h") == [2000, 4000, 10_000, 0, 0, 1000, 1000]
    world.end(("j", 0, 1), ("k", 0, 1))
    assert world.free("h") == [3000, 4000, 10_000, 0, 0, 1000, 1000], "another task of k has come"


def test_licences_count_for_the_cell_and_are_not_asked_of_hosts() -> None:
    world = World()
    world.host("h", cpu=4000, more={"seat": 50})
    assert one(world.know(SEAT), CapacityChanged).capacity["seat"] == 2
    assert len(hosts_of(world.run("j", 4, **shaped({"cpu": 1000, "seat": 9})))) == 4
    assert one(world.know(ResourceKind("seat", amount=5)), CapacityChanged).capacity["seat"] == 5
    assert world.know(ResourceKind("seat", amount=5)) == []


def test_the_state_hash_of_a_history_stays_as_it_was() -> None:
    """Of placement; where rows are to change, `state` is raised and this hash is another."""
    world = World()
    world.know(A, SEAT)
    world.host("h", cpu=9000, more={"gpu/a": 2000}, **PORTS)
    world.run("j", **mixed((1, HEAD), (2, TaskShape({"gpu/a": 1000, "seat": 1})), (1, HEAD)))
    world.end(("j", 1, 1))
    assert world.state.hash.hex()[:16] == "34dc9929c10b7ae8"
