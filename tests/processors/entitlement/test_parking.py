"""A claim without a place holds nothing under limits while others wait for them: what it would hold is lent."""

from msgspec.structs import replace

from events.codes import Code, Way
from events.columns import pack_ints
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, PreemptionRefused, PreemptionsOrdered
from events.records.placement import GangsParked, PreemptionAsked
from processors.state.preemption_rules import Flag
from tests.helpers.machines import of, one, ranges
from tests.processors.entitlement.harness import World, borrowed, cpu, preempted, ranked, told
from tests.processors.entitlement.test_limits import MINUTE, leave

BIG = [("big", 0, 1, 1, 0)]


def parked() -> World:
    """A pool with a limit of 4: a task of 4 is entitled and finds no host, small ones run on what it would hold."""
    world = World(cpu(12))
    world.define("/p", limit=cpu(4))
    assert world.submit("big", need=cpu(4), priority=5) == [("big", 0, 1)]
    assert not world.submit("small", instances=8)
    assert not of(world.later(MINUTE - 2000, 1000), AdmissionsRanked)
    assert ranked(world.later(4000, 1000), 2) == [("big", 0, 1)]
    assert world.holds("/p") == 4, "a placement may cross"
    lent = borrowed(world.peer("placement", GangsParked(**ranges(BIG))))
    assert len(lent) == 4
    world.place(*lent)
    assert world.holds("/p") == 4
    return world


def ask(world: World, first: int = 0) -> list[Event]:
    """Placement has found a host for a large task."""
    none = {"job_ids": (), "job": b"", "instance": b"", "victim_run": b"", "way": b""}
    unit = {"job_id": "big", "first": first, "count": 1, "run": 1, "host_ids": ("h",), "tasks": pack_ints([1])}
    return world.peer("placement", PreemptionAsked(**unit, **none))


def test_what_was_lent_leaves_when_the_claim_has_a_place() -> None:
    world = parked()
    (order,) = of(ask(world), PreemptionsOrdered)
    assert preempted([order]) == [("small", each, 1) for each in (3, 2, 1, 0)]
    assert (order.for_job, order.host_ids, order.code) == ("big", ("h",), Code.LIMIT_REACHED)
    assert ranked(leave(world, order), 1) == [("big", 0, 1)]
    assert world.holds("/p") == 4
    world.place(("big", 0, 1))
    assert world.holds("/p") == 4


def test_a_claim_for_which_the_limit_has_room_gets_it_at_once() -> None:
    world = parked()
    world.over("small")
    assert world.holds("/p") == 0
    assert ranked(ask(world), 1) == [("big", 0, 1)]
    assert not len(world.machine.requests.table)
    assert world.holds("/p") == 4


def test_room_that_somebody_still_holds_who_leaves_for_others_is_no_room_yet() -> None:
    (order,) = of(ask(parked()), PreemptionsOrdered)
    world = parked()
    world.define("/q")
    world.submit("other", pool="/q")
    give = pack_ints([int(Way.GIVE)] * 4)
    leaving = replace(order, for_pool="/q", for_job="other", way=give, code=Code.BELOW_ENTITLEMENT)
    world.decided(leaving)
    (refused,) = of(ask(world), PreemptionRefused)
    assert (refused.code, refused.victim_job_id) == (Code.LIMIT_REACHED, "")
    assert world.holds("/p") == 4


def test_where_not_enough_can_leave_the_claim_is_refused_and_stays_parked() -> None:
    world = parked()
    world.configure(preemptions_per_hour=0)
    (refused,) = of(ask(world), PreemptionRefused)
    assert (refused.code, refused.victim_job_id, refused.wanted) == (Code.LIMIT_REACHED, "", {"cpu": 4})
    assert world.holds("/p") == 4


def test_a_claim_for_whose_room_nobody_waits_is_not_parked() -> None:
    world = World(cpu(12))
    world.define("/p", limit=cpu(4))
    world.submit("big", need=cpu(4))
    assert not of(world.later(10 * MINUTE, MINUTE), AdmissionsRanked)
    assert Flag.MOVE in Flag(world.machine.rights.rights["big", 0].flags)


def test_what_leaves_for_one_claim_is_not_given_to_the_next() -> None:
    world = World(cpu(20))
    world.define("/p", limit=cpu(8))
    world.submit("big", instances=2, need=cpu(4), priority=5)
    world.submit("small", instances=8)
    world.later(MINUTE + 2000, 1000)
    world.place(*borrowed(world.peer("placement", GangsParked(**ranges([("big", 0, 2, 1, 0)])))))
    first = one(ask(world), PreemptionsOrdered)
    second = one(ask(world, 1), PreemptionsOrdered)
    assert sorted(preempted([first, second])) == [("small", each, 1) for each in range(8)]
    leave(world, first)
    leave(world, second)
    assert world.holds("/p") == 8


def test_who_waits_behind_it_hears_that_it_counts_as_entitled() -> None:
    world = parked()
    world.capacity({"cpu": 12, "memory": 2})
    world.define("/q")
    world.place(*world.submit("memory", pool="/q", need={"memory": 2}))
    world.over("small")
    assert not world.submit("next", need={"cpu": 4, "memory": 1})
    said = told(world.said, "next")
    assert (said.code, said.allocated["cpu"], said.entitlement["cpu"]) == (Code.ENTITLEMENT_REACHED, 4, 4)


def test_those_behind_it_take_nothing_of_its_entitlement() -> None:
    world = World(cpu(12))
    world.define("/p", limit=cpu(8))
    world.define("/q")
    assert len(world.submit("big", instances=2, need=cpu(4), priority=5)) == 2
    assert not world.submit("small", instances=8)
    assert len(ranked(world.later(MINUTE + 2000, 1000), 2)) == 2
    world.place(*borrowed(world.peer("placement", GangsParked(**ranges([("big", 0, 2, 1, 0)])))))
    assert len(world.submit("others", pool="/q", instances=8)) == 6
    assert world.entitled("/p") == (6, 0, 0, 0), "one of the two is beyond it"
    assert one(ask(world, 1), PreemptionRefused).code == Code.LIMIT_REACHED
    said = ask(world)
    assert (ranked(said, 1), ranked(said, 0)) == ([("big", 0, 1)], [])
