"""Who was ordered to leave and hasn't left in time."""

from events.codes import Way
from events.columns import longs, pack_ints
from events.records.entitlement import PreemptionsOrdered, RightsSet
from tests.helpers.machines import columns, of
from tests.processors.entitlement.harness import World, cpu


def test_a_pool_gives_others_when_those_that_were_to_leave_are_overdue() -> None:
    world = World(cpu(6))
    world.configure(hold_for_ms=2000, preemption_delay_ms=1000, clear_after_ms=100_000, move_after_ms=100_000)
    world.define("/a", reservation=cpu(2))
    world.define("/b")
    world.place(*world.submit("slow", "/b", instances=6))
    world.submit("a", "/a", instances=2)
    world.later(2000, 1000)
    excess = [longs(event.excess).tolist()[0] for event in of(world.said, RightsSet) if event.givers]
    assert excess == [2]
    runs = [("slow", 4, 1), ("slow", 5, 1)]
    order = PreemptionsOrdered(
        order=1,
        **columns(runs),
        slice=pack_ints([0, 0]),
        way=pack_ints([Way.GIVE] * 2),
        from_pool=pack_ints([0, 0]),
        from_pools=("/b",),
        for_pool="/a",
        for_job="a",
        for_first=0,
        for_count=1,
        for_run=1,
        host_ids=("h",),
        code="GIVE",
    )
    world.decided(order)
    world.later(1000, 1000)
    assert not world.machine.rights.givers
    world.later(2000, 1000)
    assert world.machine.rights.givers["/b"].excess[0] == 2
