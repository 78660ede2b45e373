"""Each promise about times and explanations, broken in rounds of this test alone."""

from contextlib import nullcontext

import pytest
from msgspec import structs

from events.bounds import LOAD_STEPS
from events.columns import pack_ints
from events.records.entitlement import AdmissionsRanked, GangsHeld, PoolAnswered
from events.records.hosts import HostsLoaded
from events.records.lifecycle import JobAccepted, PreemptionAnswered
from events.records.parts import Cause
from events.records.placement import GangsParked
from events.records.pools import CellConfigured, PoolDefined
from paceline.simulate.checker.claims import SOON_MS, Claims
from paceline.simulate.checker.history import Violation
from paceline.simulate.checker.idle import IDLE_MS, Idle
from paceline.simulate.checker.rest import REST_MS
from tests.paceline.simulate.checker.checked import (
    MINUTE,
    RESERVED,
    A,
    B,
    World,
    admitted,
    asked,
    breaks,
    columns,
    contended,
    ended,
    job,
    ordered,
    queued,
    ranges,
    reserved,
)


def violation(looks: Idle | Claims, world: World, minutes: int) -> str:
    """What is found at looks a minute apart; empty: nothing."""
    for _ in range(minutes):
        world.later(MINUTE)
        try:
            looks.look(world.now)
        except Violation as found:
            return str(found)
    return ""


def idle(world: World) -> Idle:
    return Idle(world.hosts, world.plans, world.pools)


def test_capacity_that_waiting_work_could_use_isnt_idle_for_long() -> None:
    world = World(A, B)
    world.waits(job("slow", "/a"), entitled=0)
    looks = idle(world)
    assert "of /a waits and would fit on ['h']" in violation(looks, world, 2 * IDLE_MS // MINUTE)


@pytest.mark.parametrize(
    "why", ["full now and then", "firm", "closed", "closed until now", "limit", "reserved", "static"]
)
def test_capacity_that_may_be_idle_is(why: str) -> None:
    pool = PoolDefined(
        path="/a",
        command_id="c",
        closed=why.startswith("closed"),
        limit={"cpu": 500} if why == "limit" else {},
        reservation={"cpu": 4000},
    )
    other = PoolDefined(path="/b", command_id="c", reservation={"cpu": 3500}, static=("cpu",) * (why == "static"))
    world = World(pool, other)
    world.entitlement([job("slow", "/a", preemptible=why != "firm"), queued("slow")])
    if why == "reserved":
        world.waits(job("large", "/b"))
        world.later(MINUTE)
        world.placement([], [reserved("large", "RESERVED", world.now)])
    looks = idle(world)
    for minute in range(2 * IDLE_MS // MINUTE):
        world.later(MINUTE)
        if why == "full now and then" and minute % 10 == 0:
            world.hosts.hosts["h"].used["cpu"] += 4000
            looks.look(world.now)
            world.hosts.hosts["h"].used["cpu"] -= 4000
        looks.look(world.now)
    if why == "closed until now":
        world.pools.defined["/a"] = structs.replace(pool, closed=False)
        world.later(MINUTE)
        looks.look(world.now)


def test_a_run_that_is_over_does_not_wait_though_entitlement_has_not_heard_so() -> None:
    world = World(A, B)
    world.runs(job("quick", "/a"), 1)
    looks = idle(world)
    world.placement([ended("quick", 0)])
    assert not violation(looks, world, 2 * IDLE_MS // MINUTE)


def test_a_cell_lends_from_the_answer_to_its_settings_on() -> None:
    world = World(A, B)
    loads = HostsLoaded.pack(
        gateway="g", host_ids=("h",), host_session=[1], cpu_used=[0], memory_used=[0], slack=[LOAD_STEPS]
    )
    world.placement([CellConfigured(command_id="c", slack=True), loads])
    assert not world.hosts.hosts["h"].lent
    world.placement([PoolAnswered(path="/", pools_offset=0, command_id="c", code="DONE"), loads])
    assert world.hosts.hosts["h"].lent


def test_what_is_lent_at_last_had_no_room_before() -> None:
    kept = PoolDefined(path="/b", command_id="c", reservation={"cpu": 4000}, static=("cpu",))
    world = World(A, kept)
    world.entitlement([job("slow", "/a"), queued("slow", 2)])
    looks = idle(world)
    assert not violation(looks, world, 2 * IDLE_MS // MINUTE)
    world.entitlement([], [admitted("slow", entitled=0)])
    assert not violation(looks, world, 1)


def test_a_claim_gets_what_others_must_give() -> None:
    world = contended()
    looks = Claims(world.hosts, world.plans, world.pools, world.orders)
    assert "has a right since long, and others on h needn't leave" in violation(looks, world, 4 + SOON_MS // MINUTE)


def ranked(job_id: str, rank: int) -> AdmissionsRanked:
    return AdmissionsRanked(**ranges(job_id, 1), entitled=pack_ints([rank]))


def parked(world: World, taker: JobAccepted) -> World:
    """A claim is parked."""
    world.waits(taker)
    world.entitlement([], [ranked(taker.job_id, 2)])
    world.entitlement([GangsParked(**ranges(taker.job_id, 1))])
    return world


def test_a_parked_claim_keeps_its_part_of_a_reservation_and_comes_back_though_that_was_lowered() -> None:
    firm = job("firm", "/b", preemptible=False)
    world = parked(World(A, RESERVED), firm)
    world.pools.defined["/b"] = structs.replace(RESERVED, reservation={"cpu": 500})
    world.entitlement([], [ranked("firm", 1)])
    world = parked(World(A, structs.replace(RESERVED, reservation={"cpu": 1000})), firm)
    more = [job("more", "/b", preemptible=False), queued("more")]
    breaks(world, "2000 cpu of /b aren't preemptible, it reserves 1000", more, [admitted("more")])


@pytest.mark.parametrize("limit", [1000, 999])
def test_a_parked_claim_waits_for_room_within_the_limit(limit: int) -> None:
    world = parked(World(A, B), job("taker", "/b"))
    world.entitled(a=2000, b=2000)
    world.pools.defined["/b"] = structs.replace(B, limit={"cpu": limit})
    looks = Claims(world.hosts, world.plans, world.pools, world.orders)
    assert bool(violation(looks, world, 4 + SOON_MS // MINUTE)) == (limit == 1000)


def test_no_claim_waits_longer_than_the_longest_slice() -> None:
    world = contended()
    world.entitled(a=4000, b=1000)  # nobody must give
    looks = Claims(world.hosts, world.plans, world.pools, world.orders)
    assert "is entitled and waits for a place since 19860 s" in violation(looks, world, 6 * 60)


def test_preemption_comes_to_rest_when_demand_does() -> None:
    world = contended()
    world.later(REST_MS)
    world.entitlement([asked(3)], [ordered(3)])
    world.rest.look()
    world.later(1)
    world.entitlement([asked(2)], [ordered(2, order=2)])
    world.rest.look()
    left = PreemptionAnswered(number=2, order=Cause(machine="entitlement"), code="LEFT", victims=1, **columns("victim"))
    world.entitlement([left])
    with pytest.raises(Violation, match="orders others to leave for taker, and demand is settled for 7200 s"):
        world.rest.look()


# Explanations


def held(code: str, *, at: str = "/a", firm: bool = False, **numbers: dict[str, int]) -> GangsHeld:
    return GangsHeld(pool="/a", at=at, code=code, firm=firm, **{"asked": {"cpu": 1000}, **numbers}, **ranges("slow", 1))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (held("LIMIT_REACHED", allocated={"cpu": 1000}, limit={"cpu": 2000}), "it would fit within that"),
        (held("ENTITLEMENT_REACHED", entitlement={"cpu": 1000}), "it would fit within that"),
        (held("POOL_CLOSED"), "the pool is open"),
        (held("SHARE_OF_NOTHING"), "the pool has a share"),
        (held("NOT_YET_EVALUATED"), "it was evaluated"),
        (held("BACKOFF", at="/b"), "of /a at /b, it is in /a"),
        (held("BACKOFF", firm=True), "as of another class"),
    ],
)
def test_an_explanation_contradicts_itself(said: GangsHeld, says: str) -> None:
    breaks(World(A, B), says, [job("slow", "/a"), queued("slow")], [said])


def test_whoever_waits_is_told_why() -> None:
    world = World(A, B)
    world.entitlement([job("slow", "/a"), queued("slow")])
    world.reasons.at_rest(world.now)
    world.later(MINUTE)
    with pytest.raises(Violation, match="run 1 waits and isn't told why"):
        world.reasons.at_rest(world.now)
    world.entitlement([], [held("BEHIND_IN_QUEUE")])
    world.later(MINUTE)
    with pytest.raises(Violation, match="is told that others come before it, and none does"):
        world.reasons.at_rest(world.now)
    world.entitlement([], [held("BACKOFF")])
    world.reasons.at_rest(world.now)


@pytest.mark.parametrize(("kind", "stands_behind"), [("daemon", True), ("batch", False)])
def test_daemons_stand_in_line_as_they_came_and_other_work_by_priority(kind: str, stands_behind: bool) -> None:
    world = World(A, B)
    for job_id, priority in (("first", 0), ("slow", 2)):
        world.entitlement([job(job_id, "/a", kind=kind, priority=priority), queued(job_id)])
    world.entitlement([], [structs.replace(held("BACKOFF"), **ranges("first", 1)), held("BEHIND_IN_QUEUE")])
    world.later(MINUTE)
    with nullcontext() if stands_behind else pytest.raises(Violation, match=r"'slow', 0.* is told that others come"):
        world.reasons.at_rest(world.now)
