"""What controllers of a pool may hold of its entitlement."""

from events.codes import Code
from tests.processors.entitlement.harness import World, borrowed, cpu, ranked, waits


def test_the_first_controller_of_a_pool_may_always_go_on() -> None:
    world = World(cpu(40))
    world.define("/p", controllers_percent=25)
    world.busy = True
    for job_id in ("first", "second"):
        world.submit(job_id, instances=2, controller=True)
    world.busy = False
    said = world.quiet()
    assert world.holds("/p") == 3, "a controller and the other task of each job"
    assert waits(said) == [("second", Code.CONTROLLER_LIMIT_REACHED)]
    assert world.end(("first", 0, 1)) == [("second", 0, 1)]


def test_where_controllers_may_hold_nothing_there_is_none() -> None:
    world = World(cpu(40))
    world.define("/p", controllers_percent=0)
    assert world.submit("one", instances=2, controller=True) == [("one", 1, 1)]


def test_a_borrowed_controller_becomes_entitled_within_what_controllers_hold() -> None:
    world = World(cpu(4))
    world.define("/a", controllers_percent=25, share=cpu(1))
    world.define("/b", share=cpu(3))
    world.place(*world.submit("fills", "/b", instances=3))
    world.place(*world.submit("before", "/a", priority=1))
    world.end(("fills", 0, 1))
    world.submit("other", "/b", instances=1)
    world.end(("other", 0, 1))
    world.submit("lent", "/a", controller=True)
    assert ("lent", 0, 1) not in borrowed(world.said) or ("lent", 0, 1) in ranked(world.said, 1)
