"""Each promise about preemption and kept places, broken in rounds of this test alone."""

import re
from contextlib import nullcontext

import pytest
from msgspec.structs import replace

from events.cell_settings import change_of, changed
from events.codes import Outcome
from events.columns import pack_ints
from events.records.entitlement import (
    AdmissionsRanked,
    GangsAdmitted,
    PreemptionRefused,
    PreemptionsOrdered,
)
from events.records.lifecycle import (
    GangsQueued,
    PreemptionAnswered,
    RunsStopping,
)
from events.records.parts import Cause
from events.records.pools import CellConfigured, PoolDefined
from events.records.rounds import TimerPassed
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.preemptions import Preemptions
from tests.paceline.simulate.checker.checked import (
    CLEAR,
    MINUTE,
    MOVE,
    OWN,
    RESERVED,
    START,
    A,
    B,
    World,
    admitted,
    asked,
    breaks,
    columns,
    contended,
    ended,
    entitlements,
    job,
    ordered,
    placed,
    queued,
    ranges,
    reserved,
)


def test_an_order_that_keeps_all_rules_is_none_of_the_checkers_business() -> None:
    world = contended()
    world.later(2 * MINUTE)
    world.entitlement([asked(3)], [ordered(3)])
    world.entitlement([ended("victim", 3)])
    world.orders.settled()


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (ordered(2), "hasn't asked for that"),
        (ordered(3, run=2), "run 2, which holds nothing"),
        (ordered(3, from_pools=("/b",)), "it is of /a, not /b"),
        (ordered(3, for_pool="/a"), "of /b, it says /a"),
        (ordered(3, way=OWN), "it isn't below its pool's gang"),
        (ordered(3, way=MOVE), "the gang waits for 120000 ms"),
        (ordered(3, way=CLEAR), "the gang waits for 120000 ms"),
        (ordered(3, by_slice=1), "its slice isn't over"),
        (ordered(3, code="BELOW_RESERVATION"), "/b isn't below its reservation"),
    ],
)
def test_an_order_breaks_a_rule(order: PreemptionsOrdered, says: str) -> None:
    world = contended()
    world.later(2 * MINUTE)
    breaks(world, says, [asked(3, run=2 if "run 2" in says else 1)], [order])


def test_hosts_are_cleared_below_a_reservation_once_either_time_is_over() -> None:
    for clear_after_ms, in_order in ((2 * MINUTE, True), (30 * MINUTE, False)):
        world = contended(RESERVED)
        settings = CellConfigured(command_id="c", move_after_ms=5 * MINUTE, clear_after_ms=clear_after_ms)
        world.pools.settings = changed(world.pools.settings, change_of(settings))
        world.later(2 * MINUTE)
        order = ordered(3, way=CLEAR, code="HOSTS_CLEARED")
        if in_order:
            world.entitlement([asked(3, way=CLEAR)], [order])
        else:
            breaks(world, "the gang waits for 120000 ms", [asked(3, way=CLEAR)], [order])


def test_nobody_is_asked_before_the_claim_is_sustained_or_by_one_who_has_a_place() -> None:
    world = contended()
    world.later(MINUTE)
    breaks(world, "entitled for 60000 ms, the delay is 120000", [asked(3)], [ordered(3)])
    world = contended()
    world.later(2 * MINUTE)
    breaks(world, "is no claim", [asked(3), placed("taker", 0)], [ordered(3)])


def test_work_that_may_not_be_preempted_isnt() -> None:
    world = contended(PoolDefined(path="/b", command_id="c"))
    world.pools.defined["/a"] = PoolDefined(path="/a", command_id="c", reservation={"cpu": 4000})
    world.entitlement([job("firm", "/a", preemptible=False), queued("firm")], [admitted("firm")])
    world.entitlement([placed("firm", 0)])
    world.later(2 * MINUTE)
    ask = replace(asked(0), job_ids=("firm",))
    breaks(world, "isn't preemptible", [ask], [replace(ordered(0), job_ids=("firm",))])


def test_a_pool_gives_no_more_than_it_has_above_its_entitlement() -> None:
    world = contended()
    world.entitled(a=4000, b=2000)
    world.later(2 * MINUTE)
    breaks(world, "nothing above its entitlement that is needed", [asked(3)], [ordered(3)])


@pytest.mark.parametrize("before", [True, False])
def test_an_order_follows_from_what_was_said_before_it(before: bool) -> None:
    world = contended()
    world.entitled(a=4000, b=2000)
    world.later(2 * MINUTE)
    decisions = [entitlements(a=2000, b=2000), ordered(3)]
    if before:
        world.entitlement([asked(3)], decisions)
    else:
        breaks(world, "nothing above its entitlement that is needed", [asked(3)], decisions[::-1])


def test_a_pool_takes_no_more_than_its_entitlement() -> None:
    world = World(A, B, cpu=8000)
    world.entitled(a=2000, b=2000)
    world.runs(job("victim", "/a"), 4)
    world.runs(job("other", "/b"), 2)
    world.waits(job("taker", "/b"))
    world.later(2 * MINUTE)
    breaks(world, "has all that it is entitled to", [asked(3)], [ordered(3)])


def oversize(entitled: int) -> World:
    """A victim of 3 cores, of a pool that has a bit more than it may use."""
    world = World(A, RESERVED)
    world.entitled(a=entitled, b=2000)
    world.runs(job("victim", "/a", cpu=3000), 1)
    world.waits(job("taker", "/b", cpu=2000))
    world.later(2 * MINUTE)
    return world


def test_what_is_larger_than_the_excess_stays_unless_a_rule_lets_it_go() -> None:
    says = "larger than what its pool holds above its entitlement"
    breaks(oversize(2000), says, [asked(0)], [ordered(0)])  # the giver would lack all, as the taker does now
    oversize(2000).entitlement([asked(0)], [ordered(0, code="BELOW_RESERVATION")])
    world = oversize(2000)
    world.later(15 * MINUTE)
    world.entitlement([asked(0)], [ordered(0, by_slice=1)])


def test_a_task_isnt_displaced_too_often_but_by_a_pool_below_its_reservation() -> None:
    for below, code in ((False, "BELOW_ENTITLEMENT"), (True, "BELOW_RESERVATION")):
        world = contended(RESERVED if below else B)
        for run in (1, 2, 3):
            world.later(2 * MINUTE)
            world.entitlement([asked(3, run=run)], [ordered(3, run=run, order=run)])
            world.entitlement([ended("victim", 3, run=run), _again(run + 1)], [_admitted_again(run + 1)])
            world.entitlement([placed("victim", 3, run=run + 1)])
        world.later(2 * MINUTE)
        again = [asked(3, run=4)], [ordered(3, run=4, order=4, code=code)]
        if below:
            world.entitlement(*again)
        else:
            breaks(world, "it was displaced 3 times in this hour", *again)
            world.later(60 * MINUTE)


@pytest.mark.parametrize(("reserved_cpu", "stays"), [(3000, True), (5000, False)])
def test_a_pool_below_its_reservation_displaces_its_own_work_as_often_as_it_has_to(
    reserved_cpu: int, stays: bool
) -> None:
    world = World(A, replace(RESERVED, reservation={"cpu": reserved_cpu}))
    world.entitled(a=0, b=4000)
    world.runs(job("victim", "/b"), 4)
    world.waits(job("taker", "/b", priority=1))
    world.pools.units.displaced_ms["victim", 3] = [world.now] * 3
    world.later(2 * MINUTE)
    order = ordered(3, way=OWN, from_pools=("/b",), code="HIGHER_PRIORITY")
    with pytest.raises(Violation, match="3 times in this hour") if stays else nullcontext():
        world.entitlement([asked(3, way=OWN)], [order])


def _again(run: int) -> GangsQueued:
    values = {"job": 0, "first": 3, "count": 1, "run": run, "gang": 0, "admitted": 0}
    return GangsQueued(job_ids=("victim",), **{name: pack_ints([value]) for name, value in values.items()})


def _admitted_again(run: int) -> GangsAdmitted:
    values = {"job": 0, "first": 3, "count": 1, "run": run, "gang": 0, "entitled": 0}
    return GangsAdmitted(job_ids=("victim",), **{name: pack_ints([value]) for name, value in values.items()})


def test_who_was_refused_isnt_asked_again_for_a_while() -> None:
    world = contended()
    world.later(2 * MINUTE)
    world.entitlement([asked(3)], [ordered(3)])
    answer = PreemptionAnswered(
        number=1, order=Cause(machine="entitlement"), code="DEFERRED", victims=1, **columns("victim", 3)
    )
    world.entitlement([answer])
    world.later(9 * MINUTE)
    breaks(world, "sla has refused it a while ago", [asked(3)], [ordered(3, order=2)])


def test_who_was_displaced_settles_before_it_displaces_others() -> None:
    world = contended(taker=job("taker", "/b", instances=1))
    world.pools.units.displaced_ms["taker", 0] = [START]
    world.later(9 * MINUTE)
    breaks(world, "which was displaced 540000 ms ago itself", [asked(3)], [ordered(3)])


def test_each_ask_has_one_answer() -> None:
    refused = PreemptionRefused(job_id="taker", first=0, count=1, run=1, code="VOID", victim_job_id="")
    world = contended()
    world.entitlement([asked(3)], [refused])
    breaks(world, "which hasn't asked", [], [refused])
    world = contended()
    breaks(world, "asks for victims again, before it has an answer", [asked(3), asked(2)], [])
    world = contended()
    world.entitlement([asked(3)], [])
    with pytest.raises(Violation, match="asked for victims and have no answer"):
        world.orders.settled()


def test_a_parked_unit_that_has_room_answers_the_first_ask_alone() -> None:
    ranked = AdmissionsRanked(**ranges("taker", 1), entitled=pack_ints([1]))
    taker, other = (replace(asked(), job_id=job_id) for job_id in ("taker", "other"))
    void, void_other = (
        PreemptionRefused(job_id=job_id, first=0, count=1, run=1, code="VOID", victim_instance=0, victim_run=0)
        for job_id in ("taker", "other")
    )
    for asks, decisions in (((taker, other), (ranked, void_other)), ((other, taker), (ranked, void_other, void))):
        world = contended()
        world.waits(job("other", "/b"))
        world.entitlement(asks, decisions)
        world.orders.settled()


def test_a_gang_leaves_whole() -> None:
    world = World(A, B)
    world.entitled(a=0, b=4000)
    world.runs(job("victim", "/a", gang_min=4, instances=4), 4, gang=True)
    world.waits(job("taker", "/b"))
    world.later(2 * MINUTE)
    breaks(world, "preempts a part of a gang", [asked(3)], [ordered(3)])


def test_of_an_order_that_was_deferred_nobody_leaves() -> None:
    fold = Preemptions(lambda task, run: False)
    order = ordered(2, 3)
    fold.take_orders(Round("entitlement", 1, 0, [], [order]))
    where = Cause(machine="entitlement", round=1, index=0)
    answer = PreemptionAnswered(number=1, order=where, code="DEFERRED", victims=2, **columns("victim", 3))
    fold.round(Round("lifecycle", 1, 0, [], [answer]))
    with pytest.raises(Violation, match="run 1, which its order's answer says stays"):
        fold.round(Round("lifecycle", 2, 0, [], [_stopping(2)]))
    fold = Preemptions(lambda task, run: False)
    fold.take_orders(Round("entitlement", 1, 0, [], [order]))
    fold.round(Round("lifecycle", 1, 0, [], [_stopping(2)]))
    with pytest.raises(Violation, match=r"defers the order .* were told to stop"):
        fold.round(Round("lifecycle", 2, 0, [], [answer]))


def _stopping(*instances: int) -> RunsStopping:
    size = len(instances)
    where = {"host_ids": ("h",), "host": pack_ints([0] * size), "cause": pack_ints([Outcome.PREEMPTED] * size)}
    return RunsStopping(**columns("victim", *instances), **where)


# Placement


def test_those_who_are_asked_to_leave_make_room_and_all_of_them_are_needed() -> None:
    world = contended(taker=job("taker", "/b", cpu=2000))
    world.later(2 * MINUTE)
    world.placement([], [asked(2, 3)])
    for victims, says in (((3,), "h would lack {'cpu': 1000}"), ((1, 2, 3), "('victim', 1) isn't in the way")):
        world = contended(taker=job("taker", "/b", cpu=2000))
        with pytest.raises(Violation, match=re.escape(says)):
            world.placement([], [asked(*victims)])


def test_who_counts_on_what_comes_free_anyway_is_no_reason_to_ask_fewer() -> None:
    """An older claim fits when an order that is under way is through: it asks nobody, and the next one asks others."""
    world = contended(taker=job("taker", "/b", cpu=1000))
    world.placement([ordered(1)])
    with pytest.raises(Violation, match="isn't in the way"):
        world.placement([], [asked(2)])
    for cpu, counts in ((1000, True), (1001, False)):
        world = contended(taker=job("taker", "/b", cpu=1000))
        world.waits(job("older", "/b", cpu=cpu))
        with nullcontext() if counts else pytest.raises(Violation, match="isn't in the way"):
            world.placement([ordered(1)], [asked(2)])


@pytest.mark.parametrize(("way", "is_left_room"), [(MOVE, True), (CLEAR, False)])
def test_whoever_moves_to_a_host_is_left_room_there_by_asks_after_it(way: int, is_left_room: bool) -> None:
    world = contended(taker=job("taker", "/b", cpu=2000))
    world.offer("h", 5000)
    world.offer("g", 1000)
    world.runs(job("mover", "/a", instances=1), 1, host="g")
    world.waits(job("second", "/b"))
    moves = replace(asked(0, way=way, hosts=("g",)), job_id="second", job_ids=("mover",))
    with nullcontext() if is_left_room else pytest.raises(Violation, match="isn't in the way"):
        world.placement([], [moves, asked(2, 3)])


def test_who_was_to_leave_and_has_not_in_time_is_not_counted_on() -> None:
    world = contended()
    world.placement([ordered(1)])
    world.later(10 * MINUTE)
    world.placement([], [asked(2)])


def test_who_left_and_is_back_on_the_host_gives_what_its_new_run_holds() -> None:
    """The order under which its last run left is still open: another run of it hasn't gone yet."""
    world = contended(taker=job("taker", "/b", cpu=2000))
    world.placement([ordered(1, 2)])
    again = replace(admitted("victim", run=2), first=pack_ints([2]))
    world.placement([ended("victim", 2), again], [placed("victim", 2, run=2)])
    world.placement([], [asked(2, run=2)])


def test_what_was_refused_is_not_missed_where_others_counted_on_it() -> None:
    world = contended(taker=job("taker", "/b", cpu=500))
    world.waits(job("second", "/b", cpu=1500))
    world.placement([], [asked(2), replace(asked(3), job_id="second")])
    refusal = {"victim_job_id": "victim", "victim_instance": 2, "victim_run": 1}
    world.placement([PreemptionRefused(job_id="taker", first=0, count=1, run=1, code="CAP_REACHED", **refusal)])


def test_what_others_leave_is_kept_for_whom_they_leave() -> None:
    world = contended(taker=job("taker", "/b", cpu=2000))
    world.placement([], [asked(2, 3)])
    world.placement([ended("victim", 2)])
    world.waits(job("quick", "/b"))
    with pytest.raises(Violation, match="gives others what is kept on h for Unit\\(job_id='taker'"):
        world.placement([], [placed("quick", 0)])


def test_what_is_kept_is_free_again_when_the_time_is_over_or_the_order_void() -> None:
    world = contended(taker=job("taker", "/b", cpu=2000))
    world.placement([], [asked(2, 3)])
    world.waits(job("quick", "/b"))
    world.later(10 * MINUTE)
    world.placement([ended("victim", 2)], [placed("quick", 0)])


def test_what_a_victims_next_run_keeps_is_not_missed() -> None:
    """It ended by itself before it was told to leave, and its host is kept for it."""
    for hold in (1, 0):
        world = contended(taker=job("taker", "/b", cpu=2000))
        world.placement([], [asked(2, 3)])
        world.placement([replace(ended("victim", 2, outcome=Outcome.FAILED), hold=pack_ints([hold]))])
        world.waits(job("quick", "/b"))
        kept = "h: 5000 of 4000 cpu" if hold else "gives others what is kept on h"
        with pytest.raises(Violation, match=kept):
            world.placement([], [placed("quick", 0)])


def test_nothing_is_kept_for_a_plan_whose_unit_is_over_before_others_ask() -> None:
    for ends in (True, False):
        world = contended()
        world.waits(job("second", "/b"))
        world.placement([], [asked(3)])
        inputs = [ended("taker", 0)] if ends else []
        with nullcontext() if ends else pytest.raises(Violation, match="h would lack"):
            world.placement(inputs, [replace(asked(3), job_id="second")])


@pytest.mark.parametrize("due", [10 * MINUTE, 10 * MINUTE - 1])
def test_nothing_is_kept_for_a_plan_whose_time_is_over_before_others_ask(due: int) -> None:
    world = contended()
    world.waits(job("second", "/b"))
    world.placement([], [asked(3)])
    world.later(11 * MINUTE)
    passed = TimerPassed(machine="placement", due_ms=START + due)
    with nullcontext() if due == 10 * MINUTE else pytest.raises(Violation, match="h would lack"):
        world.placement([], [passed, replace(asked(3), job_id="second")])


@pytest.mark.parametrize(
    ("state", "says"), [("RESERVED", "which waits for 29"), ("PLACED", "which has reserved none: PLACED")]
)
def test_hosts_are_reserved_for_who_waits(state: str, says: str) -> None:
    world = contended()
    world.later(29_000 - 1001)
    with pytest.raises(Violation, match=re.escape(says.replace("29", "27"))):
        world.placement([], [reserved("taker", state, world.now)])


def test_two_gangs_dont_each_reserve_hosts_of_a_small_cell() -> None:
    world = contended()
    world.offer("g", 1000)
    world.waits(job("second", "/b"))
    world.later(MINUTE)
    world.placement([], [reserved("taker", "RESERVED", world.now)])
    with pytest.raises(Violation, match="and 1 others have some: 2 of 2"):
        world.placement([], [reserved("second", "RESERVED", world.now, "g")])


def test_what_is_entitled_goes_before_what_is_borrowed_and_the_earlier_before_the_later() -> None:
    for first, second in ((0, 1), (1, 1)):
        world = World(A, B)
        world.waits(job("one", "/a"), entitled=first)
        world.waits(job("two", "/b"), entitled=second)
        order = ("one", "two") if second <= first else ("two", "one")
        with pytest.raises(Violation, match=f"places .'{order[1]}', 0. on h before .'{order[0]}', 0. run 1"):
            world.placement([], [placed(order[1], 0)])


@pytest.mark.parametrize(("one", "two", "first"), [(1, 0, "one"), (0, 1, "two"), (1, 1, "one"), (0, 0, "one")])
def test_of_either_what_is_bound_to_a_host_goes_first(one: int, two: int, first: str) -> None:
    world = World(A, B)
    world.waits(job("two", "/b"), entitled=two)
    world.entitlement([job("one", "/a"), queued("one")], [admitted("one", entitled=one)])
    bound = replace(queued("one"), host_ids=("h",), pin=pack_ints([0]))
    world.placement([job("one", "/a"), bound, admitted("one", entitled=one)])
    other = "two" if first == "one" else "one"
    with pytest.raises(Violation, match=f"places .'{other}', 0. on h before .'{first}', 0. run 1"):
        world.placement([], [placed(other, 0)])
