"""Who is admitted and who waits, in users' words. Amounts are thousandths of a core."""

from events.codes import Code
from events.records.entitlement import EntitlementsSet, GangsHeld
from tests.helpers.machines import of, one, ranges_of
from tests.processors.entitlement.harness import World, admitted, borrowed, cpu, ranked, waits


def test_a_job_gets_what_fits_and_the_rest_as_runs_end() -> None:
    world = World(cpu(10))
    world.define("/p")
    assert world.submit("a", instances=4, need=cpu(4)) == [("a", 0, 1), ("a", 1, 1)]
    held = one(world.said, GangsHeld)
    assert (held.code, held.at, ranges_of(held)) == (Code.ENTITLEMENT_REACHED, "/p", [("a", 2, 2, 1, 0)])
    assert (held.asked, held.allocated, held.entitlement) == (cpu(4), cpu(8), cpu(10))
    assert world.end(("a", 0, 1)) == [("a", 2, 1)]
    assert world.end(("a", 0, 1)) == [], "released once"


def test_higher_priority_first_then_first_come() -> None:
    world = World()
    world.define("/p")
    for job_id, priority in (("late", 0), ("first", 5), ("second", 5), ("lowest", -1)):
        world.submit(job_id, priority=priority)
    assert admitted(world.capacity(cpu(2))) == [("first", 0, 1), ("second", 0, 1)]
    assert world.end(("second", 0, 1)) == [("late", 0, 1)]


def test_a_requeued_task_keeps_the_place_of_its_job() -> None:
    world = World(cpu(1))
    world.define("/p")
    world.submit("a")
    world.submit("b")
    assert world.end(("a", 0, 1)) == [("b", 0, 1)]
    world.submit("c")
    world.requeue(("a", 0, 2))
    assert world.end(("b", 0, 1)) == [("a", 0, 2)]


def test_the_first_that_waits_holds_up_those_behind_it() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("filler", need=cpu(6))
    assert world.submit("big", need=cpu(5)) == []
    assert world.submit("wide", need=cpu(5)) == []
    assert waits(world.said) == [("big", Code.ENTITLEMENT_REACHED), ("wide", Code.BEHIND_IN_QUEUE)]
    world.submit("small", need=cpu(1))
    assert borrowed(world.said) == [("small", 0, 1)], "nobody else can use what is idle"
    assert world.end(("filler", 0, 1)) == [("big", 0, 1), ("wide", 0, 1)]
    assert ranked(world.said, 1) == [], "it is behind wide, which would need it"


def test_all_behind_are_told_so_in_one_record_each_time() -> None:
    world = World(cpu(1))
    world.define("/p")
    world.busy = True
    for number in range(50):
        world.submit(f"j{number:02}")
    world.busy = False
    world.quiet()
    first, behind = of(world.said, GangsHeld)
    assert (first.code, first.job_ids) == (Code.ENTITLEMENT_REACHED, ("j01",))
    assert (behind.code, len(behind.job_ids)) == (Code.BEHIND_IN_QUEUE, 48)
    world.said.clear()
    world.end(("j00", 0, 1))
    assert waits(world.said) == [("j02", Code.ENTITLEMENT_REACHED)], "those behind it hear nothing new"


def test_who_comes_first_leaves_its_reason_to_who_comes_before_it() -> None:
    world = World(cpu(2))
    world.define("/p", limit=cpu(1))
    for job_id, priority in (("holds", 1), ("first", 1), ("before", 2)):
        world.submit(job_id, priority=priority)
    assert waits(world.said) == [
        ("first", Code.LIMIT_REACHED),
        ("before", Code.LIMIT_REACHED),
        ("first", Code.BEHIND_IN_QUEUE),
    ]


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("filler", instances=8)
    assert world.submit("gang", instances=8, gang_min=6, need=cpu(1)) == [("gang", 6, 1), ("gang", 7, 1)]
    held = one(world.said, GangsHeld)
    assert (held.code, ranges_of(held)) == (Code.ENTITLEMENT_REACHED, [("gang", 0, 6, 1, 1)])
    assert (held.asked, held.allocated) == (cpu(6), cpu(10))
    assert world.end(*(("filler", at, 1) for at in range(3))) == []
    assert world.end(("filler", 3, 1)) == [("gang", at, 1) for at in range(6)]


def test_a_gang_whose_members_are_still_ending_waits_for_them() -> None:
    world = World(cpu(4))
    world.define("/p")
    world.submit("gang", instances=3, gang_min=3)
    world.end(("gang", 0, 1))
    assert world.requeue(("gang", 0, 2)) == []
    world.end(("gang", 1, 1), ("gang", 2, 1))
    assert world.requeue_gang("gang", 3, 2) == [("gang", at, 2) for at in range(3)]


def test_of_a_borrowed_gang_the_members_that_still_hold_become_entitled() -> None:
    world = World(cpu(4))
    world.define("/a")
    world.define("/b")
    world.busy = True
    world.submit("big", "/b", need=cpu(3))
    world.submit("gang", "/a", instances=3, gang_min=3)
    world.busy = False
    world.quiet()
    assert borrowed(world.said) == [("gang", at, 1) for at in range(3)]
    world.place(*[("gang", at, 1) for at in range(3)])
    world.end(("gang", 0, 1))
    assert ranked(world.said, 1) == [("gang", 1, 1), ("gang", 2, 1)]


def test_limits_of_the_pools_above_bind() -> None:
    world = World(cpu(100))
    world.define("/a", limit={"cpu": 10})
    world.define("/a/x")
    assert len(world.submit("j", "/a/x", instances=20)) == 10
    held = one(world.said, GangsHeld)
    assert (held.code, held.at, held.pool, held.limit) == (Code.LIMIT_REACHED, "/a", "/a/x", cpu(10))


def test_a_gang_above_the_limit_holds_up_nobody_and_goes_when_the_limit_is_raised() -> None:
    world = World(cpu(100))
    ten, forty = ({"cpu": most} for most in (10, 40))
    world.define("/p", limit=ten)
    assert world.submit("big", need=cpu(20)) == []
    assert world.submit("small", need=cpu(1)) == [("small", 0, 1)]
    held = one(world.said, GangsHeld)
    assert (held.job_ids, held.code, held.limit) == (("big",), Code.LIMIT_REACHED, {"cpu": 10})
    world.define("/p", limit=forty)
    assert world.holds("/p") == 21


def test_work_that_is_not_preemptible_stays_within_the_reservation() -> None:
    world = World(cpu(100))
    world.define("/p", reservation=cpu(10))
    assert len(world.submit("firm", instances=12, preemptible=False)) == 10
    assert one(world.said, GangsHeld).code == Code.RESERVATION_REACHED
    assert len(world.submit("soft", instances=5)) == 5, "other work passes it"
    assert world.submit("too-big", need=cpu(11), preemptible=False) == []
    assert world.end(("firm", 3, 1)) == [("firm", 10, 1)]
    assert world.entitled("/p")[0] == 15, "what can't be used isn't claimed"


def test_a_gang_larger_than_the_cell_waits_for_other_hosts() -> None:
    world = World(cpu(10))
    world.define("/p")
    assert world.submit("big", need=cpu(11)) == []
    assert world.submit("small") == [("small", 0, 1)]
    assert waits(world.said) == [("big", Code.NEVER_FITS)]
    assert admitted(world.capacity(cpu(20))) == [("big", 0, 1)]


def test_without_hosts_everybody_is_told_so() -> None:
    world = World()
    world.define("/p")
    world.submit("a")
    assert waits(world.said) == [("a", Code.NO_HOSTS)]
    assert admitted(world.capacity(cpu(1))) == [("a", 0, 1)]


def two_pools() -> World:
    """/a could use the idle two of three cores only as borrowed ones: it holds its one, /b claims the third."""
    world = World(cpu(3))
    world.define("/a", share=cpu(1))
    world.define("/b", share=cpu(2))
    world.busy = True
    world.submit("big", "/b", need=cpu(3))
    world.submit("small", "/a", instances=4)
    world.busy = False
    world.quiet()
    world.place(("small", 0, 1))
    return world


def test_what_is_claimed_is_not_lent_before_the_claim_is_as_old_as_idle_capacity_must_be() -> None:
    world = World(cpu(160))
    world.define("/p")
    world.later(120_000, step=1000)
    world.submit("many", instances=400)
    assert world.holds("/p") == 160, "it stood idle for two minutes, and is claimed since just now"
    assert not borrowed(world.later(58_000, step=1000))
    assert len(borrowed(world.later(4000, step=500))) == 160
    assert world.holds("/p") == 320


def test_a_shape_of_which_borrowed_work_was_returned_is_lent_again_after_longer_and_longer() -> None:
    world = two_pools()
    assert sorted(borrowed(world.said)) == [("small", 1, 1), ("small", 2, 1)]
    for wait in (20, 40, 80, 120, 120):
        world.give_back("small", 1, 2, 1, Code.NO_HOST_FITS)
        assert borrowed(world.later(wait * 1000 - 1000, step=1000)) == []
        assert sorted(borrowed(world.later(1000))) == [("small", 1, 1), ("small", 2, 1)]
    world.place(("small", 1, 1))
    world.give_back("small", 2, 1, 1, Code.NO_HOST_FITS)
    assert borrowed(world.later(20_000, step=1000)) == [("small", 2, 1)], "one found a host: it begins anew"


def test_what_one_shape_backs_off_from_another_may_have() -> None:
    world = two_pools()
    world.give_back("small", 1, 2, 1, Code.NO_HOST_FITS)
    world.submit("tiny", "/a", need=cpu(2))
    assert borrowed(world.said)[-1] == ("tiny", 0, 1)


def test_what_stands_idle_is_lent_behind_any_number_of_shapes_that_find_no_room() -> None:
    world = World(cpu(40))
    world.define("/a")
    world.define("/b", reservation=cpu(32))
    world.place(*world.submit("firm", "/b", instances=32, preemptible=False))
    for members in range(9, 29):
        assert world.submit(f"gang{members}", "/a", instances=members, gang_min=members) == []
    assert len(world.submit("single", "/a", instances=9)) == 8


def test_a_return_of_an_old_run_takes_nothing_from_the_one_that_holds() -> None:
    world = World(cpu(2))
    world.define("/p")
    world.submit("kept")
    world.end(("kept", 0, 1), kept=1)
    world.submit("again")
    world.end(("again", 0, 1))
    assert world.requeue(("again", 0, 2)) == [("again", 0, 2)]
    for job_id in ("kept", "again"):
        assert world.give_back(job_id, 0, 1, 1, Code.NO_HOST_FITS) == []
    assert world.holds("/p") == 2
    assert admitted(world.later(2000)) == []
    world.give_back("again", 0, 1, 2, Code.NEVER_FITS)
    assert world.holds("/p") == 1


def test_a_job_that_no_host_can_hold_waits_for_a_change_of_hosts() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("a")
    said = world.give_back("a", 0, 1, 1, Code.NEVER_FITS)
    assert one(said, GangsHeld).code == Code.NEVER_FITS
    assert admitted(world.later(100_000, step=10_000)) == []
    assert admitted(world.capacity(cpu(10), hosts=2)) == [("a", 0, 1)]


def test_of_what_was_given_back_and_has_ended_nothing_is_said() -> None:
    """Another task of the job is admitted still, so the job stands in the queues of its pool."""
    world = World(cpu(10), budget=10)
    world.define("/p")
    world.submit("a", instances=2)
    world.busy = True
    world.give_back("a", 0, 1, 1, Code.NEVER_FITS)
    world.busy = False
    world.end(("a", 0, 1))
    assert of(world.said, GangsHeld) == []


def test_an_end_that_comes_first_makes_what_it_ends_void() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("a", instances=2)
    world.end(("a", 0, 1))
    said = world.give_back("a", 0, 2, 1, Code.NEVER_FITS)
    assert ranges_of(one(said, GangsHeld)) == [("a", 1, 1, 1, 0)], "the ended one isn't queued again"
    assert world.holds("/p") == 0
    world.submit("b")
    world.end(("b", 0, 1), ("b", 0, 2))
    assert world.requeue(("b", 0, 2)) == []
    assert world.requeue(("b", 0, 3)) == [("b", 0, 3)]


def test_a_retry_keeps_its_admission() -> None:
    world = World(cpu(1))
    world.define("/p")
    world.submit("a")
    world.submit("b")
    assert world.end(("a", 0, 1), kept=1) == []
    assert world.end(("a", 0, 1)) == [], "run 1 holds nothing any more"
    assert world.end(("a", 0, 2)) == [("b", 0, 1)]


def test_five_pools_with_whole_cores_share_four_cores_in_turns() -> None:
    """Exact shares of 800 would admit nobody; nor may the same four run for ever."""
    world = World(cpu(4000))
    pools = ["/a", "/b", "/c", "/d", "/e"]
    for pool in pools:
        world.define(pool)
    world.busy = True
    for pool in pools:
        world.submit(f"job{pool[1:]}", pool, instances=10, need=cpu(1000))
    world.busy = False
    running = admitted(world.quiet())
    served: set[str] = set()
    world.place(*running)
    for _ in range(5):
        served |= {job for job, _, _ in running}
        assert len(running) == 4
        more = world.end(running[0])
        world.place(*more)
        running = running[1:] + more
    assert served == {"joba", "jobb", "jobc", "jobd", "jobe"}


def test_numbers_are_said_at_most_once_a_second() -> None:
    world = World(cpu(100))
    world.define("/p")
    world.said.clear()
    world.later(1000)
    world.said.clear()
    for number in range(20):
        world.place(*world.submit(f"j{number}"))
        world.later(100, step=100)
    assert len(of(world.said, EntitlementsSet)) in (2, 3)
    world.later(2000)
    world.said.clear()
    world.later(10_000)
    assert world.said == []
    assert world.machine.next_wakeup() is None


def test_a_round_is_bounded_by_its_budget() -> None:
    world = World(cpu(100), budget=7)
    world.define("/p")
    assert len(world.submit("a", instances=50)) == 50
    assert all(len(admitted([event])) <= 7 for event in world.said)


def test_a_successor_goes_on_with_the_same_queues() -> None:
    world = World(cpu(4))
    world.define("/p")
    for number in range(6):
        world.submit(f"j{number}", instances=2, priority=number % 2)
    world.give_back("j1", 0, 2, 1, Code.NEVER_FITS)
    before = world.machine.next_wakeup(), world.machine.reports.row("/p")
    world.restart()
    assert (world.machine.next_wakeup(), world.machine.reports.row("/p")) == before
    assert admitted(world.quiet()) == []
    world.end(("j3", 1, 1))
    assert ranked(world.said, 1)[-1] == ("j0", 0, 1), "it came first, and was borrowed since others came before it"
    world.capacity(cpu(4), hosts=2)
    assert admitted(world.said)[-1] == ("j1", 0, 1), "hosts have changed, and it stands before j0"
    assert ranked(world.said, 0)[-1] == ("j0", 0, 1)


def test_jobs_that_have_ended_leave_their_place() -> None:
    world = World(cpu(4))
    world.define("/p")
    world.submit("a", instances=3)
    world.end(*(("a", at, 1) for at in range(3)))
    world.over("a")
    world.over("unknown")
    world.submit("b", instances=2)
    assert world.machine.queues.jobs["b"].base == 0
    assert world.holds("/p") == 2


def test_jobs_that_must_wait_use_nothing_of_a_rounds_budget() -> None:
    world = World(cpu(10), budget=1)
    world.define("/full", limit=cpu(1))
    world.define("/p")
    world.submit("holds", pool="/full", need=cpu(1))
    world.submit("earlier", pool="/p", need=cpu(1))
    assert world.submit("waits", pool="/full", need=cpu(1)) == []
    assert world.submit("goes", pool="/p", need=cpu(1)) == [("goes", 0, 1)]


def test_who_stood_behind_others_and_can_never_go_on_hears_that() -> None:
    world = World(cpu(10))
    world.define("/p", reservation=cpu(1))
    world.submit("holds", need=cpu(1), preemptible=False)
    world.submit("waits", need=cpu(1), preemptible=False)
    world.submit("never", need=cpu(2), preemptible=False)
    assert waits(world.said)[-1] == ("never", Code.RESERVATION_REACHED)


def test_what_cannot_leave_stays_within_the_reservations_of_all_pools_above() -> None:
    world = World(cpu(10))
    world.define("/a", reservation=cpu(2))
    world.define("/a/x", reservation=cpu(2))
    world.define("/a/y")
    assert world.submit("old", pool="/a/x", need=cpu(2), preemptible=False) == [("old", 0, 1)]
    world.define("/a/x")
    world.define("/a/y", reservation=cpu(2))
    assert world.submit("new", pool="/a/y", need=cpu(1), preemptible=False) == []
    assert waits(world.said)[-1] == ("new", Code.RESERVATION_REACHED)
    assert world.end(("old", 0, 1)) == [("new", 0, 1)]


def test_what_is_kept_for_a_pool_is_not_lent_when_its_claim_comes() -> None:
    world = World(cpu(8))
    world.define("/s", reservation=cpu(4), static=("cpu",))
    world.define("/b")
    world.place(*world.submit("fills", pool="/b", instances=8))
    world.later(120_000, 5000)
    assert world.submit("claims", pool="/s", need=cpu(4)) == [("claims", 0, 1)]
    assert not borrowed(world.later(120_000, 5000))


def test_claims_of_higher_priority_are_looked_at_where_lower_ones_are_beyond_the_entitlement() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.define("/q", share=cpu(9))
    world.place(*world.submit("low", instances=5))
    assert len(world.submit("high", instances=5, priority=1)) == 5
    world.submit("first", pool="/q", instances=4)
    assert world.entitled("/p") == (6, 0, 0, 0)
    world.submit("second", pool="/q", instances=2)
    assert ranked(world.said, 0) == [("high", 4, 1)]
