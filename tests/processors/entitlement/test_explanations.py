"""Why work waits, told again whenever the reason is another one, whoever decides: one that has just taken over too."""

from events.codes import Code
from events.reasons import stands_aside
from events.records.entitlement import GangsHeld
from processors.entitlement.queues.parts import PartKey
from tests.helpers.machines import of
from tests.processors.entitlement.harness import World, cpu, told


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


def test_what_was_told_says_whether_others_wait_behind_it() -> None:
    """The views read it off the record; entitlement knows its line."""
    world = World(cpu(100))

    def are_aside() -> dict[str, bool]:
        machine, aside = world.machine, dict[str, bool]()
        for job_id in ("large", "firm"):
            [key] = machine.queues.jobs[job_id].parts
            event = told(world.said, job_id)
            aside[job_id] = machine.order.is_refused(PartKey(job_id, key))
            assert stands_aside(event.code, event.at, event.asked, event.limit) == aside[job_id], event
        return aside

    world.define("/p", limit=cpu(4), reservation=cpu(2))
    world.place(*world.submit("holds", "/p", 2, preemptible=False))
    world.submit("large", "/p", 1, need=cpu(8))
    world.submit("firm", "/p", 1, need=cpu(3), preemptible=False)
    assert are_aside() == {"large": True, "firm": True}
    world.define("/p", limit=cpu(9), reservation=cpu(2))
    assert are_aside() == {"large": False, "firm": True}
    world.define("/p", limit=cpu(9), reservation=cpu(3))
    assert are_aside() == {"large": False, "firm": False}
    world.define("/p", limit=cpu(7), reservation=cpu(3))
    assert are_aside() == {"large": True, "firm": False}


def test_who_needs_what_the_first_lacks_since_a_limit_above_is_full_is_behind_it() -> None:
    world = World({"cpu": 14, "memory": 10})
    world.define("/a", limit=cpu(7))
    world.define("/a/x", share=cpu(1))
    world.define("/a/y", share=cpu(1))
    world.define("/b", reservation={"cpu": 8, "memory": 8})
    world.place(*world.submit("b", "/b", need={"cpu": 8, "memory": 8}))
    world.place(*world.submit("has", "/a/x", need={"memory": 2}))
    world.place(*world.submit("y", "/a/y", instances=3))
    world.submit("both", "/a/x", need={"cpu": 2, "memory": 1})
    world.submit("cpu", "/a/x", need=cpu(4))
    assert told(world.said, "cpu").code == Code.ENTITLEMENT_REACHED
    world.submit("more", "/a/y", instances=3)
    world.later(3000)
    assert world.holds("/a/y") == 6
    assert told(world.said, "cpu").code == Code.BEHIND_IN_QUEUE
