"""Others leave, or hosts are reserved, for the first of a unit's alternatives for which that gives it room."""

from events.codes import Code
from events.records.parts import Alternative, AlternativeAmount, PlacementRules, TaskShape
from events.records.placement import GangsReturned, GangsUnplaced, HostsReserved, PreemptionAsked, TasksPlaced
from tests.helpers.machines import of, one
from tests.processors.placement.harness import World, amounts, hosts_of
from tests.processors.placement.sharing import Giver, Shared, Taker, places, victims

MINUTE_MS = 60_000


def either(*asks: dict[str, int]) -> TaskShape:
    """Tasks of several requests."""
    whole = [amounts() | each for each in asks]
    rules = PlacementRules(
        alternatives=tuple(Alternative(tuple(AlternativeAmount(*one) for one in each.items())) for each in whole)
    )
    return TaskShape(whole[0], rules=rules)


LARGE_OR_LONG = either({"cpu": 4000, "memory": 1000}, {"cpu": 2000, "memory": 4000})


def world_of_two() -> Shared:
    """A host of 4 cores that nobody may leave, and one of two cores that tasks of another pool have filled."""
    world = Shared()
    world.host("a", cpu=4000, memory=1000)
    world.run("firm", cpu=1000, preemptible=False)
    world.host("b", cpu=2000, memory=4000)
    world.run("soft", 2, cpu=1000, memory=1500)
    return world


def test_others_leave_for_the_second_where_nobody_may_leave_for_the_first() -> None:
    world = world_of_two()
    world.run("x", pool="/a", shapes=(LARGE_OR_LONG,))
    ask = one(world.right(Taker("x", pool="/a"), Giver("/p")), PreemptionAsked)
    assert (places(ask), len(victims(ask)), ask.alternative) == ({"b": 1}, 2, 1)
    assert ask.passed_codes == (Code.NO_HOST_FITS,)
    world.order(ask)
    gone, last = victims(ask)
    world.leave(gone)
    assert not hosts_of(world.run("other", cpu=500, memory=2000)), "what was left is kept for the second"
    said = world.leave(last)
    assert hosts_of(said)["x", 0, 1] == "b"
    assert one(said, TasksPlaced).alternative_array.tolist() == [1]


def test_the_first_is_preferred_where_others_may_leave_for_it_too() -> None:
    world = Shared()
    world.host("a", cpu=4000, memory=1000)
    world.run("soft", 4, cpu=1000)
    world.host("b", cpu=2000, memory=4000)
    world.run("one", cpu=100, memory=1000)
    world.run("x", pool="/a", shapes=(LARGE_OR_LONG,))
    ask = one(world.right(Taker("x", pool="/a"), Giver("/p")), PreemptionAsked)
    assert (places(ask), len(victims(ask)), ask.alternative) == ({"a": 1}, 4, 0)
    assert ask.passed_codes == ()


def test_a_gang_has_places_of_one_alternative() -> None:
    world = Shared()
    world.host("a", cpu=4000, memory=1000)
    for host in ("b", "c"):
        world.host(host, cpu=2000, memory=4000)
    world.run("soft", 4, cpu=1000, memory=1500)
    world.run("firm", cpu=4000, preemptible=False)
    world.run("x", 2, pool="/a", gang_min=2, shapes=(LARGE_OR_LONG,))
    ask = one(world.right(Taker("x", count=2, gang=1, pool="/a"), Giver("/p")), PreemptionAsked)
    assert (places(ask), len(victims(ask)), ask.alternative) == ({"b": 1, "c": 1}, 4, 1)
    world.order(ask)
    said = world.leave(*victims(ask))
    assert {**hosts_of(said)} == {("x", 0, 1): "b", ("x", 1, 1): "c"}


def test_a_host_is_reserved_for_the_second_where_a_service_keeps_that_of_the_first() -> None:
    world = Shared()
    world.host("a", cpu=4000, memory=1000)
    world.run("service", cpu=1000, kind="stateless", preemptible=False)
    world.host("b", cpu=2000, memory=4000)
    world.run("soft", 2, cpu=1000, memory=1500)
    world.run("x", pool="/a", shapes=(LARGE_OR_LONG,))
    said = world.later(20 * MINUTE_MS)
    reserved = one(said, HostsReserved)
    assert (places(reserved), reserved.alternative, reserved.passed_codes) == ({"b": 1}, 1, (Code.NO_HOST_FITS,))
    world.end(("soft", 0, 1))
    assert not hosts_of(world.run("other", cpu=500, memory=2000))
    said = world.end(("soft", 1, 1))
    assert hosts_of(said)["x", 0, 1] == "b"


def test_a_task_waits_for_the_second_where_no_host_could_ever_have_the_first() -> None:
    world = World()
    world.host("b", cpu=2000, memory=4000)
    world.run("soft", 2, cpu=1000, memory=1500)
    said = world.run("x", shapes=(LARGE_OR_LONG,))
    assert not of(said, GangsReturned), "it would never be placed"
    assert one(said, GangsUnplaced).code == Code.NO_HOST_FITS
    assert hosts_of(world.end(("soft", 0, 1), ("soft", 1, 1))) == {("x", 0, 1): "b"}
