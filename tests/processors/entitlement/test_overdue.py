"""Who was ordered to leave and hasn't left in time."""

from typing import Any

from events.codes import Way
from events.columns import longs, pack_ints
from events.records.entitlement import PreemptionsOrdered, RightsSet
from tests.helpers.machines import columns, of
from tests.processors.entitlement.harness import World, cpu


def ordered(runs: list[tuple[str, int, int]], **more: Any) -> PreemptionsOrdered:
    """Runs of /b leave for the first task of job a."""
    count = len(runs)
    return PreemptionsOrdered(
        order=1,
        **columns(runs),
        slice=pack_ints([0] * count),
        way=pack_ints([Way.GIVE] * count),
        from_pool=pack_ints([0] * count),
        from_pools=("/b",),
        for_pool="/a",
        for_job="a",
        for_first=0,
        for_count=1,
        for_run=1,
        **{"host_ids": ("h",), "code": "GIVE", **more},
    )


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
    order = ordered([("slow", 4, 1), ("slow", 5, 1)])
    world.decided(order)
    world.configure(hold_for_ms=60_000)  # which holds for orders from now on
    world.later(1000, 1000)
    assert not world.machine.rights.givers
    world.later(2000, 1000)
    assert world.machine.rights.givers["/b"].excess[0] == 2


def test_hosts_are_spoken_for_by_orders_that_free_hosts_alone() -> None:
    world = World(cpu(6))
    world.define("/a", reservation=cpu(2))
    world.define("/b")
    world.place(*world.submit("slow", "/b", instances=6))
    world.submit("a", "/a", instances=2)
    nothing, one = world.machine.queues.nothing, world.machine.queues.kinds.vector(cpu(1))
    for hosts, amount in ((("h",), one), ((), nothing)):  # without hosts: room under a limit
        world.decided(ordered([("slow", 5, 1)], host_ids=hosts))
        assert world.machine.task_records.spoken_for() == amount
