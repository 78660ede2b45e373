"""Others leave for a unit that has a right, and what they leave is that unit's."""

import sys
from types import FrameType
from typing import Any

import pytest

from events.cell_settings import DEFAULTS
from events.codes import Code, Way
from events.columns import ints
from events.records.lifecycle import JobChanged
from events.records.parts import TaskShape
from events.records.placement import PreemptionAsked, TasksPlaced
from processors.state.preemption_rules import Flag
from tests.helpers.machines import Run, mixed, of, one
from tests.processors.placement.harness import hosts_of
from tests.processors.placement.sharing import Giver, Shared, Taker, asks, places, victims

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def world() -> Shared:
    """Two hosts of 4 cores, filled by 8 tasks of one pool."""
    world = Shared()
    for host in ("h1", "h2"):
        world.host(host, cpu=4000)
    world.run("soft", 8)
    return world


def taker(world: Shared, job: str = "a", instances: int = 1, cpu: int = 1000, gang: int = 0, **more: int) -> Taker:
    """A job of another pool whose tasks are claims, and its right."""
    world.run(job, instances, cpu=cpu, gang_min=gang, pool="/a")
    return Taker(job, count=instances, gang=int(gang > 0), pool="/a", **more)


def ask_of(world: Shared, job: str = "a", instances: int = 1, cpu: int = 1000, gang: int = 0) -> PreemptionAsked:
    """The ask for a unit that may take from the others what it likes."""
    return one(world.right(taker(world, job, instances, cpu, gang), Giver("/p")), PreemptionAsked)


def test_a_gang_asks_for_whole_places_and_gets_what_is_left_there(world: Shared) -> None:
    ask = ask_of(world, "gang", 2, 3000, gang=2)
    assert places(ask) == {"h1": 1, "h2": 1}
    assert len(victims(ask)) == 6
    assert set(ints(ask.way).tolist()) == {Way.GIVE}
    assert ask.spared == {Code.NOT_NEEDED: 2}
    assert not asks(world.order(ask)), "an ask that is answered isn't repeated"
    leave = victims(ask)
    assert not hosts_of(world.leave(*leave[:5])), "a gang is placed whole"
    assert not hosts_of(world.run("other", 1)), "what others left is the gang's"
    assert hosts_of(world.leave(leave[5])) == {("gang", 0, 1): "h1", ("gang", 1, 1): "h2"}
    assert not world.machine.sharing.room.table
    assert hosts_of(world.end(("soft", 7, 1))) == {("other", 0, 1): "h2"}


def test_what_a_plan_does_not_need_anybody_may_use(world: Shared) -> None:
    ask = ask_of(world, cpu=2000)
    world.order(ask)
    world.run("other", 1)
    (host,) = places(ask)
    stays = [("soft", each, 1) for each in range(8) if ("soft", each, 1) not in victims(ask)]
    mine = [run for run in stays if host_of(world, run) == host]
    assert not hosts_of(world.end(mine[0])), "until the task has its two cores, what is free there is kept for it"
    assert hosts_of(world.leave(victims(ask)[0])) == {("a", 0, 1): host}, "it needs no more than that"
    assert hosts_of(world.leave(victims(ask)[1])) == {("other", 0, 1): host}


def host_of(world: Shared, run: Run) -> str:
    job, instance, _ = run
    runs = world.machine.runs
    return world.machine.hosts.ids[int(runs.arena["host"][runs.jobs[job].base + instance]) - 1]


def test_tasks_with_one_right_each_have_a_plan_of_their_own(world: Shared) -> None:
    said = asks(world.right(taker(world, instances=3, cpu=2000), Giver("/p")))
    assert [(ask.first, ask.count, len(victims(ask))) for ask in said] == [(0, 1, 2), (1, 1, 2), (2, 1, 2)]
    leave = [run for ask in said for run in victims(ask)]
    assert len({*leave}) == 6, "nobody is asked twice"
    for ask in said:
        world.order(ask)
    (place,) = places(said[2])
    assert hosts_of(world.leave(*victims(said[2]))) == {("a", 2, 1): place}, "whoever's place is free gets it"
    assert not hosts_of(world.run("other", 1))
    assert {*hosts_of(world.leave(*victims(said[0]), *victims(said[1])))} == {("a", 0, 1), ("a", 1, 1)}


def test_a_right_reaches_as_far_as_its_amounts(world: Shared) -> None:
    said = asks(world.right(taker(world, instances=4, others=2000), Giver("/p", excess=8000)))
    assert [ask.first for ask in said] == [0, 1]
    said = asks(world.right(taker(world, "b", 4), Giver("/p", excess=3000)))
    assert [(ask.job_id, ask.first) for ask in said] == [("b", 0)], "of three one may go, for two are asked already"


def test_who_leaves_first() -> None:
    world = Shared()
    world.host("h", cpu=6000)
    world.run("service", kind="stateless")
    world.run("dear", priority=1)
    world.run("old")
    world.run("firm", preemptible=False)
    world.run("driver", controller=True)
    world.available(("old", 0, 1))
    world.later(MINUTE_MS)
    world.run("young")
    world.available(("young", 0, 1))
    ask = ask_of(world, cpu=5000)
    assert [job for job, _, _ in victims(ask)] == ["young", "old", "service", "driver", "dear"]
    assert ask.spared == {Code.NON_PREEMPTIBLE: 1}


def test_within_a_pool_lower_priority_and_borrowed_work_leave(world: Shared) -> None:
    world.end(*(("soft", each, 1) for each in range(4)))
    world.borrow("lent", 2, priority=9)
    world.run("low", 2)
    world.run("high", 5, priority=5)
    said = asks(world.right(Taker("high", count=5, others=0)))
    assert {run[0] for ask in said for run in victims(ask)} == {"low", "soft"}
    assert {way for ask in said for way in ints(ask.way).tolist()} == {Way.OWN}
    world.run("higher", 2, priority=9)
    said = asks(world.right(Taker("higher", count=2, others=0)))
    assert [run[0] for ask in said for run in victims(ask)] == ["soft", "lent"], "of its own priority what is borrowed"


def test_a_gang_leaves_whole_and_frees_its_hosts() -> None:
    world = Shared()
    for host in ("h1", "h2"):
        world.host(host, cpu=4000)
    world.run("pair", 2, cpu=3000, gang_min=2)
    ask = ask_of(world, "a", 2, 4000, gang=2)
    assert victims(ask) == [("pair", 0, 1), ("pair", 1, 1)]


def test_who_is_refused_is_not_asked_again_and_others_are_at_once(world: Shared) -> None:
    ask = ask_of(world)
    (victim,) = victims(ask)
    again = one(world.refuse(ask, Code.CAP_REACHED, victim), PreemptionAsked)
    assert victims(again) != [victim]
    asked = [victim, *victims(again)]
    for _ in range(6):
        again = one(world.refuse(again, Code.VICTIM_GONE, victims(again)[0]), PreemptionAsked)
        asked += victims(again)
    assert sorted(asked) == [("soft", each, 1) for each in range(8)]
    assert not asks(world.refuse(again, Code.VICTIM_GONE, victims(again)[0])), "nobody is left to ask"
    assert asks(world.later(2 * MINUTE_MS)), "refusals count for a time"


def test_a_unit_that_its_limit_refuses_does_not_ask_again_at_once(world: Shared) -> None:
    ask = ask_of(world)
    assert not asks(world.refuse(ask, Code.LIMIT_REACHED)), "whom it would ask doesn't matter"
    assert asks(world.later(2 * MINUTE_MS))


def test_an_order_that_sla_defers_is_void_and_others_are_asked(world: Shared) -> None:
    ask = ask_of(world, cpu=4000)
    world.order(ask)
    refused = victims(ask)[1]
    again = one(world.answer(Code.DEFERRED, refused), PreemptionAsked)
    assert {*places(ask)} != {*places(again)}
    world.order(again)
    third = asks(world.answer(Code.DEFERRED, victims(again)[0]))
    assert not third, "on each host one stays"
    said = asks(world.later(DEFAULTS.defer_for_ms - 20_000))
    assert not said
    assert asks(world.later(40_000)), "a refusal counts as long as the cell says"


def test_what_was_ordered_and_does_not_come_is_asked_of_others_after_a_time(world: Shared) -> None:
    ask = ask_of(world, cpu=4000)
    world.order(ask)
    assert not asks(world.later(DEFAULTS.hold_for_ms - 1))
    again = one(world.later(1), PreemptionAsked)
    assert not {*victims(again)}.intersection(victims(ask))
    world.order(again)
    assert hosts_of(world.leave(*victims(ask))), "if they leave after all, the place is used"


def test_a_hold_lasts_where_the_time_of_the_order_is_an_hour_behind(world: Shared) -> None:
    world.later(HOUR_MS)
    ask = ask_of(world)
    world.busy, world.now = True, world.now - HOUR_MS
    world.order(ask)
    world.busy, world.now = False, world.now + HOUR_MS
    assert not asks(world.quiet()), "nobody else is asked"
    assert hosts_of(world.leave(*victims(ask)))


def test_an_ask_without_an_answer_is_given_up_too(world: Shared) -> None:
    ask = ask_of(world)
    assert victims(one(world.later(DEFAULTS.hold_for_ms), PreemptionAsked)) == victims(ask)


def test_a_unit_that_waits_no_more_holds_nothing(world: Shared) -> None:
    ask = ask_of(world, cpu=4000)
    world.order(ask)
    world.run("other", 4)
    world.leave(*victims(ask)[:3])
    assert len(hosts_of(world.peer("lifecycle", JobChanged(job_id="a", state="KILLED")))) == 3
    assert not world.machine.sharing.room.table


def test_a_unit_that_is_borrowed_now_holds_nothing(world: Shared) -> None:
    world.order(ask_of(world))
    world.rank(("a", 0, 1, 1, 0), entitled=0)
    assert not world.machine.sharing.room.table


def test_an_answer_to_an_earlier_ask_does_not_count_for_a_later_one(world: Shared) -> None:
    ask = ask_of(world)
    cause = world.position(ask)
    world.later(DEFAULTS.hold_for_ms)
    row = world.machine.sharing.room.table["a", 0]
    assert not row.order
    world.order(ask, cause)
    assert not world.machine.sharing.room.table["a", 0].order
    assert (world.machine.runs.arena["leaving"] > 0).sum() == 1, "its runs leave all the same"


def test_a_place_elsewhere_ends_a_plan(world: Shared) -> None:
    ask = ask_of(world)
    world.order(ask)
    (host,) = places(ask)
    other = next(run for run in ((("soft", each, 1)) for each in range(8)) if host_of(world, run) != host)
    assert hosts_of(world.end(other)) == {("a", 0, 1): host_of_free(world)}
    assert not world.machine.sharing.room.table


def host_of_free(world: Shared) -> str:
    runs = world.machine.runs
    return world.machine.hosts.ids[int(runs.arena["host"][runs.jobs["a"].base]) - 1]


def test_a_plan_on_a_host_that_is_lost_is_made_anew(world: Shared) -> None:
    ask = ask_of(world, cpu=3000)
    world.order(ask)
    (host,) = places(ask)
    world.silence(host)
    again = one(world.confirm(host), PreemptionAsked)
    assert {*places(again)} != {host}


def test_whoever_was_preempted_as_often_as_may_be_in_an_hour_is_asked_when_it_is_over() -> None:
    world = Shared()
    world.host("h", cpu=1000)
    world.run("victim")
    for run in range(1, 4):
        ask = ask_of(world, f"a{run}")
        world.order(ask)
        world.leave(("victim", 0, run))
        world.admit(("victim", 0, 1, run + 1, 0))
        world.end((f"a{run}", 0, 1))
        world.later(MINUTE_MS)
    mine = taker(world, "a4")
    assert not asks(world.right(mine, Giver("/p")))
    assert asks(world.right(mine._replace(flags=Flag.BELOW_RESERVATION)))
    world.right(removed=[mine])
    world.later(DEFAULTS.hold_for_ms)
    world.right(mine)
    found = 0
    for _ in range(60):
        found += len(asks(world.later(MINUTE_MS)))
        if found:
            break
    assert found == 1, "time alone brings it about"


def test_a_victim_larger_than_the_excess_goes_when_its_slice_is_over() -> None:
    world = Shared()
    world.host("h", cpu=4000)
    world.run("large", cpu=4000)
    mine = taker(world, cpu=2000, others=2000)
    assert not asks(world.right(mine, Giver("/p", excess=1000, entitlement=3000, spare=0)))
    assert not asks(world.later(DEFAULTS.turn_for_ms - 1000))
    (ask,) = asks(world.later(MINUTE_MS))
    assert victims(ask) == [("large", 0, 1)]


def test_who_can_be_moved_makes_room_where_free_capacity_lies_in_pieces() -> None:
    world = Shared()
    for host in ("h1", "h2"):
        world.host(host, cpu=4000)
    world.run("x", 1, cpu=3000)
    world.run("y", 1, cpu=1000)
    world.run("z", 1, cpu=1000)
    world.end(("y", 0, 1))  # h1: 3 of 4 cores used, h2: 1
    world.available(("x", 0, 1))
    world.later(MINUTE_MS)
    mine = taker(world, cpu=4000, others=0)
    assert not asks(world.right(mine))
    (ask,) = asks(world.right(mine._replace(flags=Flag.MOVE)))
    assert victims(ask) == [("z", 0, 1)]
    assert set(ints(ask.way).tolist()) == {Way.MOVE}


def test_nobody_is_moved_who_has_no_place_elsewhere() -> None:
    world = Shared()
    for host in ("h1", "h2"):
        world.host(host, cpu=4000)
    world.run("x", 2, cpu=3000)
    assert not asks(world.right(taker(world, cpu=4000, others=0, flags=Flag.MOVE)))


def test_hosts_are_cleared_of_other_pools_work_that_has_run_for_its_slice() -> None:
    world = Shared()
    world.host("h", cpu=4000)
    world.run("x", 4, cpu=1000)
    mine = taker(world, cpu=4000, others=0, flags=Flag.MOVE | Flag.CLEAR)
    assert not asks(world.right(mine, Giver("/p", excess=0, spare=4000)))
    said = asks(world.later(DEFAULTS.turn_for_ms + MINUTE_MS))
    assert [set(ints(ask.way).tolist()) for ask in said] == [{Way.CLEAR}]


def test_a_gang_of_several_shapes_has_its_places_by_shape() -> None:
    world = Shared()
    world.host("h1", cpu=4000)
    world.host("h2", cpu=4000, gpu=1000)
    world.run("soft", 8)
    head, worker = TaskShape({"cpu": 3000, "gpu": 1000}), TaskShape({"cpu": 1000})
    world.run("gang", **mixed((1, head), (3, worker)), gang_min=4, pool="/a")
    (ask,) = asks(world.right(Taker("gang", count=4, gang=1, pool="/a"), Giver("/p")))
    where = zip(ask.host_ids, ints(ask.tasks).tolist(), ints(ask.shape).tolist(), strict=True)
    assert ("h2", 1, 0) in [*where]
    assert sum(ints(ask.tasks).tolist()) == 4
    world.order(ask)
    placed = hosts_of(world.leave(*victims(ask)))
    assert placed["gang", 0, 1] == "h2"
    assert len(placed) == 4


def test_ports_of_victims_count() -> None:
    world = Shared()
    world.host("h", cpu=4000, port_first=1000, port_last=1001)
    world.run("cheap", 1)
    world.run("porter", 1, ports=2, priority=1)
    world.run("a", 1, ports=1, pool="/a")
    (ask,) = asks(world.right(Taker("a", pool="/a"), Giver("/p")))
    assert victims(ask) == [("porter", 0, 1)]


def test_what_is_asked_at_once_is_bounded() -> None:
    world = Shared()
    world.budget = 20
    for host in range(20):
        world.host(f"h{host}", cpu=4000)
    world.run("soft", 80)
    said = asks(world.right(taker(world, instances=20, cpu=4000), Giver("/p")))
    assert len(said) == 20
    assert len({run for ask in said for run in victims(ask)}) == 80


def test_free_places_are_not_waited_for() -> None:
    world = Shared()
    world.host("h1", cpu=4000)
    assert of(world.right(taker(world), Giver("/p")), TasksPlaced) == []
    assert hosts_of(world.run("b", 1)) == {("b", 0, 1): "h1"}
    assert not world.machine.sharing.room.table


def calls_of_a_look(claims: int) -> int:
    """The functions that are called to look at what waits, where others leave for so many claims."""
    world = Shared()
    for number in range(40):
        world.host(f"h{number:02}", cpu=4000)
    world.run("soft", 160)
    for ask in asks(world.right(taker(world, instances=claims), Giver("/p"))):
        world.order(ask)
    world.machine.restored()  # it looks again at all that waits
    world.machine.decide(world.now, True, 1000)
    world.machine._quiet = False
    world.machine.disturb()
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        assert not world.machine.decide(world.now, True, 1000)
    finally:
        sys.setprofile(None)
    return calls


def test_units_that_wait_for_what_others_leave_are_looked_at_together() -> None:
    few, many = calls_of_a_look(10), calls_of_a_look(100)
    assert many < few * 1.2
