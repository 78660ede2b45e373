"""Turns of gangs that are larger than the shares of their pools."""

from events.codes import Code
from events.records.entitlement import TurnSet
from events.records.lifecycle import JobChanged
from events.records.pools import PoolDefined, PoolRemoved
from tests.entitlement.harness import World, cpu
from tests.machines import of


def turns(world: World) -> list[tuple[str, str]]:
    return [(event.pool, str(event.state)) for event in of(world.said, TurnSet)]


def two_pools() -> World:
    """/b fills the cell; a gang of /a that needs all of it has its turn."""
    world = World(cpu(8))
    world.configure(credit_time_ms=2000)
    world.define("/a")
    world.define("/b")
    world.place(*world.submit("fills", "/b", instances=8))
    world.submit("gang", "/a", instances=8, gang_min=8)
    world.later(4000, 1000)
    assert turns(world) == [("/a", Code.STARTED)]
    return world


def test_a_pool_may_be_removed_during_its_turn() -> None:
    world = two_pools()
    world.busy = True
    world.peer("lifecycle", JobChanged(job_id="gang", state="KILLED"))
    world.fact(PoolRemoved(path="/a", command_id="remove"))
    world.busy = False
    world.quiet()
    world.later(4000, 1000)
    assert "/a" not in world.machine.pools


def test_a_pool_that_is_removed_and_defined_anew_has_no_turn_and_nothing_saved() -> None:
    world = two_pools()
    world.busy = True
    world.peer("lifecycle", JobChanged(job_id="gang", state="KILLED"))
    world.fact(PoolRemoved(path="/a", command_id="remove"))
    world.fact(PoolDefined(path="/a", command_id="again"))
    world.busy = False
    world.quiet()
    world.said.clear()
    world.submit("next", "/a", instances=8, gang_min=8)
    world.later(1000, 1000)
    assert turns(world) == []
