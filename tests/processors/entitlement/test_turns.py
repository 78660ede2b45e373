"""Turns of gangs that are larger than the shares of their pools."""

from msgspec.structs import replace

from events.codes import Code
from events.records.entitlement import TurnSet
from events.records.lifecycle import JobChanged
from events.records.pools import PoolDefined, PoolRemoved
from processors.entitlement.admission.turns import value
from processors.entitlement.rows import CellRow, CreditRow
from tests.helpers.machines import of
from tests.processors.entitlement.harness import World, admitted, cpu, preempted


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


def test_what_a_turn_left_counts_for_the_next_turn_alone() -> None:
    world = two_pools()
    turn = next(event for event in of(world.said, TurnSet))
    row, ones = world.machine.pools["/a"], (1,) * len(world.machine.queues.nothing)
    for state, goes_on in ((Code.ENDED, True), (Code.STARTED, False), (Code.ENDED, True), (Code.SLICE_USED, False)):
        world.machine.pools.change("/a").credit = CreditRow(ones, ones, ones, world.now)
        world.machine.turns.set_turn(replace(turn, state=state), world.now)
        assert row.goes_on == goes_on, state


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


def test_a_turn_frees_room_under_a_limit_that_others_fill() -> None:
    world = World(cpu(12))
    world.configure(credit_time_ms=1000, preemption_delay_ms=2000)
    world.define("/p", limit=cpu(9))
    world.define("/p/a")
    world.define("/p/b")
    world.place(*world.submit("stream", "/p/b", instances=20)[:9])
    world.submit("gang", "/p/a", instances=8, gang_min=8)
    world.later(6000, 1000)
    assert turns(world) == [("/p/a", Code.STARTED)]
    world.end(*preempted(world.said))
    assert ("gang", 0, 1) in admitted(world.said)


def test_below_a_pool_that_is_served_last_siblings_take_turns() -> None:
    world = World(cpu(8))
    world.configure(credit_time_ms=1000)
    world.define("/last", share_default=0)
    world.define("/last/a")
    world.define("/last/b")
    world.define("/z")
    world.place(*world.submit("fills", "/last/b", instances=8))
    world.submit("gang", "/last/a", instances=8, gang_min=8)
    world.later(4000, 1000)
    assert turns(world) == [("/last/a", Code.STARTED)]


def test_a_pool_that_is_served_last_takes_no_turn_from_others() -> None:
    world = World(cpu(8))
    world.configure(credit_time_ms=1000)
    world.define("/last", share_default=0)
    world.define("/last/a")
    world.define("/z")
    world.place(*world.submit("fills", "/z", instances=8))
    world.submit("gang", "/last/a", instances=8, gang_min=8)
    world.later(4000, 1000)
    assert turns(world) == []


def test_a_pool_owes_for_a_whole_slice_at_most() -> None:
    cell = CellRow()
    slice_ = 1000 * cell.settings.turn_for_ms // cell.settings.credit_time_ms
    spends = CreditRow((500, 0), (-1, 0), (1000, 0), 0)
    assert value(spends, 100, cell) == (400, 0)
    assert value(spends, 500 + slice_, cell) == value(spends, 1 << 50, cell) == (-slice_, 0)
