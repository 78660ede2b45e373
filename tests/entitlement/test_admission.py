"""Who is admitted and who waits, in users' words. Amounts are thousandths of a core."""

from events.codes import Code
from events.records.entitlement import EntitlementsSet, GangsHeld
from tests.entitlement.harness import World, admitted, cpu, waits
from tests.machines import START_MS, one


def test_a_job_gets_what_fits_and_the_rest_as_runs_end() -> None:
    world = World(cpu(10))
    world.define("/p")
    assert world.submit("a", instances=4, need=cpu(4)) == [("a", 0, 1), ("a", 1, 1)]
    held = one(world.said, GangsHeld)
    assert (held.code, held.pool, held.tasks, held.asked, held.free) == (
        Code.ENTITLEMENT_REACHED,
        "/p",
        2,
        cpu(4),
        cpu(2),
    )
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
    assert world.submit("small", need=cpu(1)) == []
    assert waits(world.said) == [("big", Code.ENTITLEMENT_REACHED), ("small", Code.BEHIND_IN_QUEUE)]
    behind = [event for event in world.said if isinstance(event, GangsHeld)][1]
    assert behind.ahead == 1
    assert world.end(("filler", 0, 1)) == [("big", 0, 1), ("small", 0, 1)]


def test_many_jobs_behind_are_not_told_each() -> None:
    world = World(cpu(1))
    world.define("/p")
    for number in range(50):
        world.submit(f"j{number:02}")
    assert len(waits(world.said)) == 1 + 3


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("filler", instances=5)
    assert world.submit("gang", instances=8, gang_min=6) == []
    held = one(world.said, GangsHeld)
    assert (held.tasks, held.asked, held.free) == (8, cpu(6), cpu(5))
    assert world.end(("filler", 0, 1)) == [("gang", at, 1) for at in range(6)]
    assert world.end(("filler", 1, 1)) == [("gang", 6, 1)]


def test_a_gang_whose_members_are_still_ending_waits_for_them() -> None:
    world = World(cpu(4))
    world.define("/p")
    world.submit("gang", instances=3, gang_min=3)
    world.end(("gang", 0, 1))
    assert world.requeue(("gang", 0, 2)) == []
    world.end(("gang", 1, 1), ("gang", 2, 1))
    assert world.requeue_gang("gang", 3, 2) == [("gang", at, 2) for at in range(3)]


def test_limits_of_the_pools_above_bind() -> None:
    world = World(cpu(100))
    world.define("/a", limit={"cpu": 10})
    world.define("/a/x")
    assert len(world.submit("j", "/a/x", instances=20)) == 10
    held = one(world.said, GangsHeld)
    assert held.code == Code.LIMIT_REACHED


def test_a_gang_above_the_limit_holds_up_nobody_and_goes_when_the_limit_is_raised() -> None:
    world = World(cpu(100))
    ten, forty = ({"cpu": most} for most in (10, 40))
    world.define("/p", limit=ten)
    assert world.submit("big", need=cpu(20)) == []
    assert world.submit("small", need=cpu(1)) == [("small", 0, 1)]
    held = one(world.said, GangsHeld)
    assert (held.job_id, held.code, held.free) == ("big", Code.LIMIT_REACHED, {"cpu": 10})
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


def test_a_returned_job_waits_for_its_time_and_holds_up_nobody() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("a", instances=3, need=cpu(3))
    said = world.give_back("a", 0, 3, 1, Code.NO_HOST_FITS, START_MS + 1000)
    held = one(said, GangsHeld)
    assert (held.code, held.tasks, held.not_before_ms) == (Code.BACKOFF, 3, START_MS + 1000)
    assert world.holds("/p") == 0
    assert world.submit("b", need=cpu(2)) == [("b", 0, 1)]
    assert admitted(world.later(750)) == []
    assert admitted(world.later(250)) == [("a", 0, 1), ("a", 1, 1)]


def test_a_return_of_an_old_run_takes_nothing_from_the_one_that_holds() -> None:
    world = World(cpu(2))
    world.define("/p")
    world.submit("kept")
    world.end(("kept", 0, 1), kept=1)
    world.submit("again")
    world.end(("again", 0, 1))
    assert world.requeue(("again", 0, 2)) == [("again", 0, 2)]
    for job_id in ("kept", "again"):
        assert world.give_back(job_id, 0, 1, 1, Code.NO_HOST_FITS, START_MS + 1000) == []
    assert world.holds("/p") == 2
    assert admitted(world.later(2000)) == []
    world.give_back("again", 0, 1, 2, Code.NO_HOST_FITS, 0)
    assert world.holds("/p") == 1


def test_a_job_that_no_host_can_hold_waits_for_a_change_of_hosts() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("a")
    said = world.give_back("a", 0, 1, 1, Code.NEVER_FITS, 0)
    assert one(said, GangsHeld).code == Code.NEVER_FITS
    assert admitted(world.later(100_000, step=10_000)) == []
    assert admitted(world.capacity(cpu(10), hosts=2)) == [("a", 0, 1)]


def test_an_end_that_comes_first_makes_what_it_ends_void() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("a", instances=2)
    world.end(("a", 0, 1))
    said = world.give_back("a", 0, 2, 1, Code.NO_HOST_FITS, START_MS + 1000)
    assert one(said, GangsHeld).tasks == 1, "the ended one isn't queued again"
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
    running = [run for pool in pools for run in world.submit(f"job{pool[1:]}", pool, instances=10, need=cpu(1000))]
    served: set[str] = set()
    for _ in range(5):
        served |= {job for job, _, _ in running}
        assert len(running) == 4
        running = running[1:] + world.end(running[0])
    assert served == {"joba", "jobb", "jobc", "jobd", "jobe"}


def test_numbers_are_said_at_most_once_a_second() -> None:
    world = World(cpu(100))
    world.define("/p")
    world.said.clear()
    world.later(1000)
    world.said.clear()
    for number in range(20):
        world.submit(f"j{number}")
        world.later(100, step=100)
    assert sum(isinstance(event, EntitlementsSet) for event in world.said) in (2, 3)
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
    world.give_back("j1", 0, 2, 1, Code.NO_HOST_FITS, START_MS + 5000)
    before = world.machine.shares(), world.machine.next_wakeup()
    world.restart()
    assert (world.machine.shares(), world.machine.next_wakeup()) == before
    assert admitted(world.quiet()) == []
    assert world.end(("j3", 1, 1)) == [("j5", 0, 1)]
    assert admitted(world.later(5000)) == []
    assert world.end(("j3", 0, 1)) == [("j1", 0, 1)], "its time has come, and it stands before j5 and j0"


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
