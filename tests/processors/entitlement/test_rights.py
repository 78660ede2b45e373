"""Who has a right since when, what placement is told of it, and what becomes of what it asks."""

from events.codes import Code, Way
from events.columns import ints
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered, RightsSet
from events.records.rounds import TimerPassed
from processors.state.preemption_rules import Flag
from tests.helpers.machines import of
from tests.processors.entitlement.preempting import World, wide

MINUTE = 60_000


def full() -> World:
    """Two pools that share 8 cores; one of them holds all, tasks of a core."""
    world = World()
    world.pool("/a")
    world.pool("/b")
    world.entitle(a=(4,), b=(4,))
    world.run("long", "/a", 8, (1,))
    return world


def test_a_claim_has_a_right_when_it_has_waited_as_long_as_the_cell_says() -> None:
    world = full()
    world.submit("late", "/b", 3, (1,))
    assert not world.admit("late", 0, 3)
    assert not world.pass_time(2 * MINUTE - 1000)
    (said,) = of(world.pass_time(2000), RightsSet)
    assert world.rights["late", 0].count == 3
    assert world.rights["late", 0].others == wide((4,))
    assert world.givers["/a"].excess == wide((4,))
    assert said.givers == ("/a",)


def test_a_claim_of_a_pool_without_delay_has_no_right_while_placement_looks_for_room() -> None:
    world = full()
    world.pool("/b", preemption_delay_ms=0)
    for job in ("placed", "late"):
        world.submit(job, "/b", 1, (1,))
        assert not of(world.admit(job, 0, 1), RightsSet)
    world.place(("placed", 0, 1))
    world.pass_time(1000)
    assert list(world.rights) == [("late", 0)]


def test_a_pool_has_its_own_delay_or_never_preempts() -> None:
    world = full()
    world.pool("/b", preemption_delay_ms=10 * MINUTE)
    world.pool("/c", preemption_delay_ms=-1)
    world.entitle(c=(4,))
    for job, pool in (("b", "/b"), ("c", "/c")):
        world.submit(job, pool, 1, (1,))
        world.admit(job, 0, 1)
    world.pass_time(9 * MINUTE)
    assert not world.rights
    world.pass_time(2 * MINUTE)
    assert list(world.rights) == [("b", 0)]
    world.pass_time(60 * MINUTE)
    assert list(world.rights) == [("b", 0)]


def test_what_may_be_moved_and_cleared_for_a_claim_grows_with_its_wait() -> None:
    world = full()
    world.submit("late", "/b", 1, (1,))
    world.admit("late", 0, 1)
    flags = []
    for _ in range(32):
        world.pass_time(MINUTE)
        flags.append(world.rights["late", 0].flags if world.rights else None)
    assert flags[1:6] == [None, 0, 0, Flag.MOVE, Flag.MOVE] or flags[1:6] == [0, 0, 0, Flag.MOVE, Flag.MOVE]
    assert flags[-1] == Flag.MOVE | Flag.CLEAR


def test_who_was_preempted_settles_before_it_takes_from_others() -> None:
    world = full()
    world.submit("late", "/b", 2, (1,))
    world.admit("late", 0, 2)
    world.pass_time(3 * MINUTE)
    order = world.ask("late", 0, 1, ("long", 7, 1, Way.GIVE))
    assert isinstance(order, PreemptionsOrdered)
    world.leave(order)
    world.admit("long", 7, 1, run=2)
    world.entitle(a=(8,), b=(1,))
    world.place(("late", 0, 1), ("late", 1, 1))
    world.pass_time(9 * MINUTE)
    assert not world.rights, "it was preempted ten minutes ago, not longer"
    world.pass_time(2 * MINUTE)
    assert list(world.rights) == [("long", 7)]


def test_a_victim_within_the_excess_goes_and_no_more_than_the_excess() -> None:
    world = full()
    world.submit("late", "/b", 8, (1,))
    world.admit("late", 0, 8)
    world.pass_time(3 * MINUTE)
    for instance in range(4):
        order = world.ask("late", instance, 1, ("long", 7 - instance, 1, Way.GIVE))
        assert isinstance(order, PreemptionsOrdered)
        assert (order.order, order.code, order.from_pools) == (instance + 1, Code.BELOW_ENTITLEMENT, ("/a",))
    refused = world.ask("late", 4, 1, ("long", 3, 1, Way.GIVE))
    assert isinstance(refused, PreemptionRefused)
    assert (refused.code, refused.victim_job_id, refused.victim_instance) == (Code.NO_RIGHT, "long", 3)
    assert not world.givers
    assert refused.wanted == {"cpu": 1}


def test_victims_of_one_ask_are_judged_on_what_those_before_left() -> None:
    world = full()
    world.submit("gang", "/b", 4, (1,), gang_min=4)
    world.admit("gang", 0, 4, gang=1)
    world.pass_time(3 * MINUTE)
    victims = [("long", 7 - at, 1, Way.GIVE) for at in range(5)]
    refused = world.ask("gang", 0, 4, *victims)
    assert isinstance(refused, PreemptionRefused)
    assert (refused.code, refused.victim_instance) == (Code.NO_RIGHT, 3)
    order = world.ask("gang", 0, 4, *victims[:4])
    assert isinstance(order, PreemptionsOrdered)
    assert ints(order.slice).tolist() == [0] * 4


def test_each_reason_why_a_victim_stays_is_named() -> None:
    world = full()
    world.run("firm", "/a", 1, (1,), preemptible=False)
    world.submit("late", "/b", 4, (1,))
    world.admit("late", 0, 4)
    world.pass_time(3 * MINUTE)

    def refused(*victims: tuple[str, int, int, Way]) -> str:
        answer = world.ask("late", 0, 1, *victims)
        assert isinstance(answer, PreemptionRefused), answer
        return answer.code

    assert refused(("firm", 0, 1, Way.GIVE)) == Code.NON_PREEMPTIBLE
    assert refused(("long", 0, 2, Way.GIVE)) == Code.VICTIM_GONE
    assert refused(("nobody", 0, 1, Way.GIVE)) == Code.VICTIM_GONE
    assert refused(("long", 0, 1, Way.GIVE), ("long", 0, 1, Way.GIVE)) == Code.VICTIM_GONE
    assert refused(("long", 0, 1, Way.OWN)) == Code.NO_RIGHT
    assert refused(("long", 0, 1, Way.MOVE)) == Code.NO_RIGHT
    assert refused(("long", 0, 1, Way.CLEAR)) == Code.NO_RIGHT
    order = world.ask("late", 0, 1, ("long", 0, 1, Way.GIVE))
    assert isinstance(order, PreemptionsOrdered)
    world.answered(order, "DEFERRED", ("long", 0, 1))
    assert refused(("long", 0, 1, Way.GIVE)) == Code.DEFERRED
    world.place(("late", 0, 1))
    assert refused(("long", 1, 1, Way.GIVE)) == Code.VOID


def test_a_task_goes_so_often_in_an_hour_as_the_cell_says_but_for_a_pool_below_its_reservation() -> None:
    world = full()
    world.settings(preemptions_per_hour=2, settle_ms=0)
    world.submit("late", "/b", 9, (1,))
    for time in range(2):
        world.admit("late", time, 1)
        world.pass_time(3 * MINUTE)
        order = world.ask("late", time, 1, ("long", 0, 1 + time, Way.GIVE))
        assert isinstance(order, PreemptionsOrdered)
        world.leave(order)
        world.admit("long", 0, 1, run=2 + time)
        world.place(("long", 0, 2 + time), ("late", time, 1))
    world.admit("late", 2, 1)
    world.pass_time(3 * MINUTE)
    refused = world.ask("late", 2, 1, ("long", 0, 3, Way.GIVE))
    assert isinstance(refused, PreemptionRefused)
    assert refused.code == Code.CAP_REACHED
    world.pool("/b", reservation=(9,))
    world.entitle(b=(9,), a=(0,))
    assert isinstance(world.ask("late", 2, 1, ("long", 0, 3, Way.GIVE)), PreemptionsOrdered)


def test_a_gang_larger_than_the_excess_goes_only_when_its_slice_is_over_and_its_next_one_is_longer() -> None:
    world = World()
    world.pool("/a")
    world.pool("/b")
    world.entitle(a=(4,), b=(4,))
    world.run("gang", "/a", 8, (1,), gang_min=8)
    world.submit("late", "/b", 1, (1,))
    world.admit("late", 0, 1)
    gang = [("gang", instance, 1, Way.GIVE) for instance in range(8)]
    world.pass_time(3 * MINUTE)
    half = world.ask("late", 0, 1, *gang[:4])
    assert isinstance(half, PreemptionRefused)
    assert half.code == Code.VICTIM_GONE, "a gang goes whole"
    early = world.ask("late", 0, 1, *gang)
    assert isinstance(early, PreemptionRefused)
    assert early.code == Code.SLICE_NOT_OVER
    world.pass_time(13 * MINUTE)
    order = world.ask("late", 0, 1, *gang)
    assert isinstance(order, PreemptionsOrdered)
    assert ints(order.slice).tolist() == [1] * 8
    world.leave(order)
    world.admit("gang", 0, 8, run=2, gang=1)
    world.place(*(("gang", instance, 2) for instance in range(8)))
    world.pass_time(20 * MINUTE)
    again = [("gang", instance, 2, Way.GIVE) for instance in range(8)]
    early = world.ask("late", 0, 1, *again)
    assert isinstance(early, PreemptionRefused)
    assert early.code == Code.SLICE_NOT_OVER
    world.pass_time(11 * MINUTE)
    assert isinstance(world.ask("late", 0, 1, *again), PreemptionsOrdered)


def test_own_work_of_lower_priority_and_borrowed_work_goes_for_a_claim() -> None:
    world = World()
    world.pool("/a")
    world.entitle(a=(4,))
    world.run("low", "/a", 2, (1,), priority=1)
    world.run("high", "/a", 1, (1,), priority=9)
    world.run("borrowed", "/a", 1, (1,), entitled=0, priority=9)
    world.submit("claim", "/a", 3, (1,), priority=5)
    world.admit("claim", 0, 3)
    world.pass_time(3 * MINUTE)
    assert isinstance(world.ask("claim", 0, 1, ("high", 0, 1, Way.OWN)), PreemptionRefused)
    for victim in (("low", 0), ("borrowed", 0)):
        order = world.ask("claim", 0, 1, (*victim, 1, Way.OWN))
        assert isinstance(order, PreemptionsOrdered)
        assert order.code == Code.HIGHER_PRIORITY


def test_nothing_is_said_while_nothing_changes() -> None:
    world = full()
    world.submit("late", "/b", 3, (1,))
    world.admit("late", 0, 3)
    said = world.pass_time(24 * 60 * MINUTE)
    assert len(of(said, RightsSet)) <= 4
    assert len(of(said, TimerPassed)) <= 4


def test_many_rights_are_said_within_the_budget() -> None:
    world = World(budget=3)
    world.pool("/b")
    world.entitle(b=(1000,))
    for at in range(20):
        world.submit(f"late{at}", "/b", 2, (1,))
        world.admit(f"late{at}", 0, 2)
    said = of(world.pass_time(3 * MINUTE), RightsSet)
    assert len(world.rights) == 20
    assert all(len(event.job) // 4 + len(event.givers) + len(event.removed_job) // 4 <= 3 for event in said)
    assert world.rights["late19", 0].others == wide((1000 - 38,))
