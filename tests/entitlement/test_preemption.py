"""Who must leave for whom, in users' words."""

import pytest

from events.codes import Code
from events.records.entitlement import EntitlementsSet, GangsHeld, PreemptionsOrdered
from events.records.parts import Cause
from tests.entitlement.harness import World, admitted, cpu, preempted, waits
from tests.machines import one


def full_cell(cores: int = 10, reservation: int = 5, **spec: object) -> World:
    """/a holds everything; /b has a reservation."""
    world = World(cpu(cores))
    world.define("/a")
    world.define("/b", reservation=cpu(reservation))
    world.submit("greedy", "/a", instances=cores, **spec)
    world.later(3000)
    return world


def test_a_pool_below_its_reservation_gets_its_own_back_after_the_delay() -> None:
    world = full_cell()
    assert world.submit("owner", "/b", instances=3) == []
    held = [event for event in world.said if isinstance(event, GangsHeld)][-1]
    assert (held.job_id, held.code, held.pool) == ("owner", Code.WAITING_FOR_PREEMPTION, "/")
    assert preempted(world.later(1750)) == []
    said = world.later(3000)
    order = one(said, PreemptionsOrdered)
    assert (order.for_pool, order.from_pool, order.code) == ("/b", "/a", Code.BELOW_RESERVATION)
    assert preempted(said) == [("greedy", 7, 1), ("greedy", 8, 1), ("greedy", 9, 1)]
    assert preempted(world.later(60_000)) == [], "they were asked once, and they are enough"
    assert world.end(*(("greedy", at, 1) for at in (7, 8, 9))) == [("owner", at, 1) for at in range(3)]
    assert preempted(world.later(60_000)) == []


def test_nobody_leaves_for_more_than_a_reservation() -> None:
    world = full_cell(reservation=5)
    world.submit("owner", "/b", instances=9)
    assert len(preempted(world.later(5000))) == 5
    world.end(*(("greedy", at, 1) for at in range(5, 10)))
    assert world.holds("/b") == 5
    assert preempted(world.later(60_000)) == []


def test_a_pool_without_reservation_waits_for_others_to_end() -> None:
    world = full_cell(reservation=0)
    world.submit("owner", "/b", instances=3)
    assert preempted(world.later(60_000)) == []
    assert waits(world.said)[-1] == ("owner", Code.ENTITLEMENT_REACHED)
    assert world.end(("greedy", 0, 1)) == [("owner", 0, 1)]


def test_a_reservation_that_is_raised_is_reason_enough() -> None:
    """Its own numbers stay as they were: by its share it was entitled to as much before."""
    world = full_cell(reservation=0)
    world.submit("owner", "/b", instances=3)
    assert preempted(world.later(60_000)) == []
    world.define("/b", reservation=cpu(2))
    changed = Cause(machine="entitlement", round=world.rounds["entitlement"], index=0)
    said = world.later(5000)
    assert len(preempted(said)) == 2
    entitled = [event for event in world.said if isinstance(event, EntitlementsSet)][-1]
    assert (entitled.pools, entitled.causes) == ((), (changed,))
    order = one(said, PreemptionsOrdered).cause
    assert (order.machine, order.round) == ("entitlement", changed.round), "it was said in the same round"


def test_a_wait_names_the_task_and_what_changed_its_reason() -> None:
    world = full_cell(reservation=0)
    world.submit("owner", "/b", instances=3)
    first = [event for event in world.said if isinstance(event, GangsHeld)][-1]
    assert (first.instance, first.run, first.cause) == (0, 1, None), "it was queued: the run says so"
    world.capacity(cpu(0), hosts=0)
    second = [event for event in world.said if isinstance(event, GangsHeld)][-1]
    assert second.code != first.code
    assert second.cause == Cause(machine="placement", round=world.rounds["placement"], index=0)


def test_the_delay_is_a_setting() -> None:
    world = full_cell()
    world.configure(preemption_delay_ms=10_000)
    world.submit("owner", "/b")
    assert preempted(world.later(9000)) == []
    assert len(preempted(world.later(3000))) == 1


def test_a_wait_that_ends_in_time_disturbs_nobody() -> None:
    world = full_cell()
    world.submit("owner", "/b")
    world.later(1500)
    assert world.end(("greedy", 4, 1)) == [("owner", 0, 1)]
    assert preempted(world.later(60_000)) == []


def test_lowest_priority_first_then_the_newest() -> None:
    world = World(cpu(8))
    world.define("/a")
    world.define("/b", reservation=cpu(5))
    for job_id, priority in (("old", 0), ("high", 9), ("new", 0), ("low", -5)):
        world.submit(job_id, "/a", instances=2, priority=priority)
    world.end(("old", 0, 1))
    world.requeue(("old", 0, 2))
    world.submit("owner", "/b", instances=4)
    said = world.later(5000)
    assert preempted(said) == [("low", 0, 1), ("low", 1, 1), ("old", 0, 2), ("new", 1, 1)]


def test_work_that_is_not_preemptible_stays() -> None:
    world = World(cpu(10))
    world.define("/a", reservation=cpu(5))
    world.define("/b", reservation=cpu(5))
    world.submit("firm", "/a", instances=5, preemptible=False, priority=-9)
    world.submit("soft", "/a", instances=5)
    world.submit("owner", "/b", instances=5)
    assert {job for job, _, _ in preempted(world.later(5000))} == {"soft"}


def test_a_gang_leaves_whole() -> None:
    world = full_cell(gang_min=6)
    world.submit("owner", "/b", instances=5)
    assert sorted(preempted(world.later(5000))) == [("greedy", at, 1) for at in range(10)]


def test_only_as_much_leaves_as_whole_gangs_can_use() -> None:
    world = full_cell(reservation=5)
    world.submit("owner", "/b", instances=4, gang_min=4)
    assert len(preempted(world.later(5000))) == 4


def test_a_gang_larger_than_the_reservation_disturbs_nobody() -> None:
    world = full_cell(reservation=5)
    world.submit("owner", "/b", instances=6, gang_min=6)
    said = world.later(60_000)
    assert preempted(said) == []
    assert len([event for event in said if type(event).__name__ == "TimerPassed"]) <= 2, "weighed once, not polled"


def test_only_the_pools_under_the_full_one_give() -> None:
    world = World(cpu(100))
    ten = {"cpu": 10}
    world.define("/a", reservation=cpu(10), limit=ten)
    world.define("/a/x", reservation=cpu(5))
    world.define("/a/y")
    world.define("/b")
    world.submit("aside", "/b", instances=95)
    world.submit("over", "/a/y", instances=10)
    world.end(*(("aside", at, 1) for at in range(90, 95)))
    world.submit("owner", "/a/x", instances=2)
    assert preempted(world.later(5000)) == [("over", 8, 1), ("over", 9, 1)], "not /b"


def test_a_shrunken_cell_does_not_throw_runs_back_and_forth() -> None:
    """Two reservations of 10 in a cell of 10: each gets 5, and nobody is asked to leave beyond that."""
    world = World(cpu(20))
    world.define("/a", reservation=cpu(10))
    world.define("/b", reservation=cpu(10))
    world.submit("one", "/a", instances=10)
    world.capacity(cpu(10))
    world.submit("two", "/b", instances=10)
    leaving = preempted(world.later(5000))
    assert len(leaving) == 5
    world.end(*leaving)
    assert world.holds("/b") == 5
    world.requeue(*((job, at, 2) for job, at, _ in leaving))
    assert preempted(world.later(60_000)) == []


@pytest.mark.parametrize("members", [1, 3])
def test_a_successor_remembers_who_was_asked(members: int) -> None:
    world = full_cell()
    world.submit("owner", "/b", instances=members)
    asked = preempted(world.later(5000))
    assert len(asked) == members
    world.restart()
    assert preempted(world.later(60_000)) == []
    assert len(admitted([*world.said])) == 10
    assert len(world.end(*asked)) == members
