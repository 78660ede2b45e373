"""Room under limits, and licences: who is entitled but for a limit gets it from others, and no more than is needed."""

from collections import Counter
from random import Random
from typing import Any

from events.codes import Code, Way
from events.columns import ints, pack_ints
from events.ranks import Rank
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import JobPriorityChanged, PreemptionAnswered, RunsEnded
from events.records.parts import Cause, ResourceKind
from events.records.rounds import TimerPassed
from events.resources import scale
from processors.entitlement.preemption.victims import LimitVictims, Taker, needed
from processors.state.preemption_rules import Right
from tests.helpers.drawn import seeds
from tests.helpers.machines import Run, columns, of
from tests.processors.entitlement.harness import World, admitted, cpu, preempted, told

MINUTE = 60_000


def two(limit: int = 4, **cell: Any) -> World:
    """Two pools below one that has a limit, most of the cell is idle."""
    world = World(cpu(100) | cell)
    world.define("/p", limit=cpu(limit))
    world.define("/p/a")
    world.define("/p/b")
    return world


def run(world: World, job_id: str, pool: str, instances: int, **spec: Any) -> list[Run]:
    """Submits; what is admitted gets a place."""
    found = world.submit(job_id, pool, instances, **spec)
    if found:
        world.place(*found)
    return found


def leave(world: World, order: PreemptionsOrdered) -> list[Event]:
    """The runs of an order are preempted, and it is answered."""
    runs = preempted([order])
    zeros = pack_ints([0] * len(runs))
    ended = RunsEnded(**columns(runs), outcome=pack_ints([4] * len(runs)), exit_code=zeros, kept=zeros)
    said = world.peer("lifecycle", ended)
    return said + answer(world, order, "LEFT")


def answer(world: World, order: PreemptionsOrdered, code: str, *runs: Run) -> list[Event]:
    cause = Cause(machine="entitlement", round=1)
    victims = len(order.run) // 4
    return world.peer(
        "lifecycle", PreemptionAnswered(number=order.order, order=cause, code=code, victims=victims, **columns(runs))
    )


def after(world: World, said: list[Event]) -> PreemptionsOrdered:
    """The order that follows what was said, at the next look at the latest."""
    (order,) = of(said + world.later(MINUTE, 1000), PreemptionsOrdered)
    return order


def ordered(world: World, ms: int) -> PreemptionsOrdered:
    (order,) = of(world.later(ms, 1000), PreemptionsOrdered)
    return order


def test_the_share_of_a_limit_comes_back_after_the_pools_delay() -> None:
    world = two()
    assert len(run(world, "a", "/p/a", 8)) == 4
    assert not run(world, "b", "/p/b", 8)
    assert not of(world.later(2 * MINUTE - 2000, 1000), PreemptionsOrdered)
    order = ordered(world, 4000)
    assert preempted([order]) == [("a", 3, 1), ("a", 2, 1)]
    assert (order.code, order.for_job, order.for_first, order.for_count) == (Code.LIMIT_REACHED, "b", 0, 2)
    assert not order.host_ids
    assert {*ints(order.way).tolist()} == {Way.LIMIT}
    assert order.from_pools == ("/p/a",)
    said = leave(world, order)
    assert admitted(said) == [("b", 0, 1), ("b", 1, 1)]
    assert not of(world.later(60 * MINUTE, MINUTE), PreemptionsOrdered)


def test_as_long_as_others_are_leaving_nobody_is_asked_again_and_nobody_else_gets_the_room() -> None:
    world = two()
    world.define("/p/c", share={"cpu": 0})
    run(world, "a", "/p/a", 8)
    run(world, "b", "/p/b", 8)
    run(world, "c", "/p/c", 8)
    order = ordered(world, 3 * MINUTE)
    assert not of(world.later(5 * MINUTE, MINUTE), PreemptionsOrdered)
    victims = preempted([order])
    zeros = pack_ints([0])
    first = RunsEnded(**columns(victims[:1]), outcome=pack_ints([4]), exit_code=zeros, kept=zeros)
    assert admitted(world.peer("lifecycle", first)) == [("b", 0, 1)]


def test_who_waits_below_a_limit_is_told_each_time_it_is_reached_and_no_more() -> None:
    world = two(memory=2)
    run(world, "holds", "/p/a", 2, need={"cpu": 1, "memory": 1})
    world.submit("waits", "/p/a", 1, need={"cpu": 1, "memory": 1})
    assert told(world.said, "waits").code == Code.ENTITLEMENT_REACHED
    for number in range(3):
        runs = run(world, f"other{number}", "/p/b", 2)
        assert (told(world.said, "waits").code, told(world.said, "waits").at) == (Code.LIMIT_REACHED, "/p")
        world.end(*runs)
        assert told(world.said, "waits").code == Code.ENTITLEMENT_REACHED


def test_the_deadline_of_another_machine_is_not_taken_for_its_own() -> None:
    world = two()
    run(world, "a", "/p/a", 8)
    run(world, "b", "/p/b", 8)
    world.now += 3 * MINUTE
    said = world.peer("placement", TimerPassed(machine="placement", due_ms=world.now))
    assert len(of(said, PreemptionsOrdered)) == 1


def test_a_refusal_of_sla_voids_the_order_and_others_leave() -> None:
    world = two()
    run(world, "web", "/p/a", 2, kind="stateless", priority=1)
    run(world, "batch", "/p/a", 2, priority=2)
    run(world, "b", "/p/b", 1)
    order = ordered(world, 3 * MINUTE)
    assert preempted([order]) == [("web", 1, 1)], "the lowest priority goes first"
    order = after(world, answer(world, order, "DEFERRED", ("web", 1, 1)))
    assert preempted([order]) == [("web", 0, 1)]
    order = after(world, answer(world, order, "DEFERRED", ("web", 0, 1)))
    assert preempted([order]) == [("batch", 1, 1)]


def test_a_higher_priority_below_the_limit_of_its_own_pool_takes_from_lower() -> None:
    world = World(cpu(100))
    world.define("/p", limit=cpu(4))
    run(world, "firm", "/p", 1, priority=0, preemptible=False)
    run(world, "low", "/p", 8, priority=1)
    run(world, "high", "/p", 1, need=cpu(2), priority=9)
    order = ordered(world, 3 * MINUTE)
    assert preempted([order]) == [("low", 3, 1), ("low", 2, 1)]
    assert admitted(leave(world, order)) == [("high", 0, 1)]


def test_who_leaves_is_chosen_by_priority_class_and_lost_work_and_no_more_than_needed() -> None:
    world = two(limit=8)
    run(world, "high", "/p/a", 1, priority=2)
    run(world, "controller", "/p/a", 1, priority=1, controller=True)
    run(world, "service", "/p/a", 1, priority=1, kind="stateless")
    run(world, "old", "/p/a", 1, priority=1)
    world.later(5000, 1000)
    run(world, "gang", "/p/a", 2, priority=1, gang_min=2)
    world.later(5000, 1000)
    run(world, "new", "/p/a", 1, priority=1)
    run(world, "small", "/p/a", 1, priority=1, need={"memory": 1})
    run(world, "last", "/p/a", 1, priority=0)
    run(world, "b", "/p/b", 4, gang_min=4)
    order = ordered(world, 3 * MINUTE)
    assert preempted([order]) == [("last", 0, 1), ("new", 0, 1), ("gang", 0, 1), ("gang", 1, 1)]


def test_of_one_priority_a_controller_leaves_after_services_and_both_after_batch() -> None:
    world = two(limit=3)
    run(world, "batch", "/p/a", 1)
    run(world, "service", "/p/a", 1, kind="stateless")
    world.later(5000, 1000)
    run(world, "controller", "/p/a", 1, controller=True)
    run(world, "b", "/p/b", 2, gang_min=2)
    order = ordered(world, 20 * MINUTE)
    assert preempted([order]) == [("batch", 0, 1), ("service", 0, 1)], "though the controller has run least"


def test_what_is_larger_than_the_excess_of_its_pool_waits_for_its_slice() -> None:
    world = two()
    run(world, "gang", "/p/a", 4, gang_min=4)
    world.later(1000)
    run(world, "b", "/p/b", 1)
    assert not of(world.later(13 * MINUTE, MINUTE), PreemptionsOrdered)
    order = ordered(world, 3 * MINUTE)
    assert preempted([order]) == [("gang", each, 1) for each in range(4)]
    assert ints(order.slice).tolist() == [1] * 4


def test_a_licence_that_another_pool_holds_beyond_its_share_comes_back() -> None:
    world = World()
    world.configure(resources=(ResourceKind(name="solver", unit="milli", amount=2),))
    world.capacity({"cpu": 100, "solver": 2})
    world.define("/a")
    world.define("/b")
    need = {"cpu": 1, "solver": 1}
    assert len(run(world, "a", "/a", 4, need=need)) == 2
    assert not run(world, "b", "/b", 4, need=need)
    order = ordered(world, 3 * MINUTE)
    assert len(order.run) // 4 == 1
    assert admitted(leave(world, order)) == [("b", 0, 1)]


def test_victims_of_a_job_whose_priority_was_changed_are_found_where_they_are_now() -> None:
    world = two()
    run(world, "one", "/p/a", 2)
    run(world, "two", "/p/a", 2)
    world.peer("lifecycle", JobPriorityChanged(job_id="two", priority=5))
    run(world, "b", "/p/b", 1)
    order = ordered(world, 3 * MINUTE)
    assert preempted([order]) == [("one", 1, 1)]
    order = after(world, answer(world, order, "DEFERRED", ("one", 1, 1)))
    assert preempted([order]) == [("one", 0, 1)]
    world.peer("lifecycle", JobPriorityChanged(job_id="one", priority=9))
    order = after(world, answer(world, order, "DEFERRED"))
    assert preempted([order]) == [("two", 1, 1)]


@seeds(30, 8)
def test_victims_suffice_and_none_of_them_can_be_left_out(seed: int) -> None:
    """Random pools below a limit; whoever is chosen frees what is lacking, within what their pools have in excess."""
    random = Random(seed)
    world = two(limit=40)
    for at in range(random.randrange(4, 14)):
        spec = {
            "priority": random.randrange(3),
            "kind": random.choice(("batch", "stateless")),
            "preemptible": random.random() < 0.8,
            "gang_min": random.choice((0, 0, 2, 3)),
        }
        instances = random.randrange(max(1, spec["gang_min"]), 6)
        run(world, f"j{at}", random.choice(("/p/a", "/p/b")), instances, need=cpu(random.randrange(1, 4)), **spec)
        world.later(random.choice((1000, 20 * MINUTE)), 20 * MINUTE)
    machine, limits = world.machine, world.machine.limits
    limits.runs.build()
    entitled = {pool: machine.shares.entitlement(pool) for pool in ("/p/a", "/p/b")}
    taker_pool = random.choice(("/p/a", "/p/b"))
    others = (random.randrange(-3, 15), *(0,) * (len(machine.queues.nothing) - 1))
    need = machine.queues.kinds.vector(cpu(1))
    taker = Taker(taker_pool, random.randrange(4), need, Right(others, entitled[taker_pool]))
    lack = random.randrange(1, 12)
    lacks = {("/p", 0): lack}
    claims = machine.limits._claims
    victims = LimitVictims(machine.shared, claims, limits.runs, world.now)
    chosen = victims.choose(taker, ["/p/a", "/p/b"], lacks, 1000)
    enough = lacks["/p", 0] <= 0
    if enough:
        surplus = {name: -lack for name, lack in lacks.items()}
        chosen = needed(chosen, surplus, {each.pool: machine.usage.levels(each.pool) for each in chosen})
    freed, per_pool = 0, Counter[str]()
    for each in chosen:
        amount = scale(each.amount, each.units)[0]
        freed += amount
        per_pool[each.pool] += amount
        for job_id, row, _, slots in machine.queues.split(each.slots):
            assert row.preemptible
            assert job_id in machine.queues.jobs
            assert len(slots) % each.size == 0
            if each.pool == taker_pool:
                borrowed = (machine.queues.arena["rank"][slots] == Rank.BORROWED).all()
                assert row.priority < taker.priority or borrowed
    assert not enough or freed >= lack
    if enough:
        for each in chosen:
            assert freed - each.amount[0] < lack, "one of them isn't needed"
    other = "/p/b" if taker_pool == "/p/a" else "/p/a"
    clean = sum(scale(each.amount, each.units)[0] for each in chosen if each.pool == other and not each.by_slice)
    excess = machine.usage[other].placed[0] - entitled[other][0]
    assert clean <= max(0, excess) + 9, "only the last may be larger, by rule (b)"
    if others[0] <= 0:
        assert not per_pool[other]
