"""Why work waits, told again whenever the reason is another one, whoever decides: one that has just taken over too."""

from events.codes import Code
from events.records.entitlement import GangsHeld
from tests.helpers.machines import of
from tests.processors.entitlement.harness import World, cpu


def codes(world: World, job_id: str) -> list[Code]:
    """What a job was told of why it waits, one after another."""
    return [event.code for event in of(world.said, GangsHeld) if job_id in event.job_ids]


def test_a_controller_is_told_of_its_limit_when_the_entitlement_falls_below_it() -> None:
    world = World(cpu(100))
    world.define("/p", controllers_percent=90)
    world.define("/q")
    world.place(*world.submit("holds", "/p", 20, controller=True))
    world.submit("controller", "/p", 1, need=cpu(85), controller=True)
    world.submit("other", "/q", 20)
    assert codes(world, "controller") == [Code.ENTITLEMENT_REACHED, Code.CONTROLLER_LIMIT_REACHED]


def test_a_pool_without_a_share_of_a_kind_is_told_so_while_it_is_short_of_that_kind() -> None:
    world = World({"cpu": 10, "memory": 10})
    world.define("/p", share={"memory": 0})
    world.define("/q")
    world.place(*world.submit("holds", "/p", 2))
    world.place(*world.submit("other", "/q", 1, need={"cpu": 1, "memory": 5}))
    world.submit("waits", "/p", 1, need={"cpu": 9, "memory": 6})
    world.end(("other", 0, 1))
    assert codes(world, "waits") == [Code.SHARE_OF_NOTHING, Code.ENTITLEMENT_REACHED]


def test_a_gang_saves_for_its_turn_only_while_it_needs_more_than_the_share() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.define("/q")
    world.place(*world.submit("holds", "/p", 2))
    runs = world.submit("other", "/q", 8)
    world.place(*runs)
    world.submit("gang", "/p", 8, gang_min=8)
    world.later(2000)
    assert codes(world, "gang") == [Code.ENTITLEMENT_REACHED, Code.SAVING_FOR_TURN]
    world.end(*runs[:7])
    assert codes(world, "gang")[2:] == [Code.ENTITLEMENT_REACHED]
