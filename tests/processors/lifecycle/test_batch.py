"""What batch jobs can do, in the words of their users."""

from events.codec import encode
from events.codes import Counts, Outcome, Overdue, RunCause, RunReport, TaskState
from events.columns import ints
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import GangsQueued, JobChanged, JobRejected, RunsEnded, RunsOverdue, RunsStopping
from events.records.placement import HostLost
from tests.helpers.machines import kinds, of, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World

A0, A1 = ("a", 0, 1), ("a", 1, 1)
MINUTE = 60_000


def why(event: RunsEnded | RunsStopping) -> list[int]:
    return ints(event.why).tolist()


def started(world: World, *runs: tuple[str, int, int]) -> None:
    world.place(*runs)
    world.report(RunReport.STARTED, *runs)


def test_a_run_that_is_available_for_max_runtime_is_stopped_and_its_task_is_killed() -> None:
    world = World()
    world.submit("a", instances=2, max_runtime_ms=MINUTE, retries_max=5)
    started(world, A0)
    world.later(30_000)
    started(world, A1)
    assert world.later(29_000) == []
    said = world.later(2_000)
    assert runs_of(one(said, RunsOverdue)) == [A0]
    assert (runs_of(one(said, RunsStopping)), why(one(said, RunsStopping))) == ([A0], [RunCause.RUN_LIMIT])
    ended = one(world.report(RunReport.STOPPED, A0, exit_code=143), RunsEnded)
    assert (ints(ended.outcome).tolist(), why(ended)) == ([Outcome.STOPPED], [RunCause.RUN_LIMIT])
    world.report(RunReport.EXITED, A1)
    assert world.machine.state_of("a") == "KILLED", "one was, the other succeeded"


def test_a_run_that_ends_within_max_runtime_is_left_alone_and_the_next_has_the_whole_time() -> None:
    world = World()
    world.submit("a", max_runtime_ms=MINUTE, retries_max=1)
    started(world, A0)
    world.later(50_000)
    world.report(RunReport.EXITED, A0, exit_code=1)
    started(world, ("a", 0, 2))
    assert world.later(50_000) == []
    assert runs_of(one(world.later(11_000), RunsStopping)) == [("a", 0, 2)]


def test_a_run_that_exits_as_its_time_is_up_has_its_own_outcome_and_no_retry() -> None:
    world = World()
    world.submit("a", max_runtime_ms=MINUTE, retries_max=5)
    started(world, A0)
    world.later(61_000)
    said = world.report(RunReport.EXITED, A0, exit_code=3)
    assert (ints(one(said, RunsEnded).outcome).tolist(), of(said, GangsQueued)) == ([Outcome.FAILED], [])
    assert one(said, JobChanged).state == "FAILED"


def test_a_gang_of_which_a_member_has_had_its_time_ends_as_one_and_is_not_queued_again() -> None:
    world = World()
    world.submit("a", instances=3, gang_min=3, max_runtime_ms=MINUTE, retries_max=5)
    members = [("a", n, 1) for n in range(3)]
    world.place(*members)
    world.report(RunReport.STARTED, members[0])
    said = world.later(61_000)
    assert runs_of(one(said, RunsStopping)) == members
    said = world.report(RunReport.STOPPED, *members)
    assert "GangsQueued" not in kinds(said)
    assert one(said, JobChanged).state == "KILLED"


def test_another_max_runtime_holds_for_runs_that_go_on() -> None:
    for before, after, left in ((MINUTE, 2 * MINUTE, 90_000), (2 * MINUTE, MINUTE, 30_000), (0, MINUTE, 30_000)):
        world = World()
        spec = {"pool": "/p", "command": ("true",), "max_runtime_ms": before}
        world.submit("a", **spec)
        started(world, A0)
        world.later(30_000)
        wanted = encode(JobSubmitted(job_id="a", **spec | {"max_runtime_ms": after}))
        world.fact("paceline.jobs", JobUpdateRequested(job_id="a", command_id="u", spec=wanted))
        assert world.later(left - 1_000) == []
        assert runs_of(one(world.later(2_000), RunsStopping)) == [A0]


def test_a_run_goes_on_without_max_runtime_when_an_update_takes_that_away() -> None:
    world = World()
    spec = {"pool": "/p", "command": ("true",)}
    world.submit("a", **spec, max_runtime_ms=MINUTE)
    started(world, A0)
    world.fact(
        "paceline.jobs", JobUpdateRequested(job_id="a", command_id="u", spec=encode(JobSubmitted(job_id="a", **spec)))
    )
    assert world.later(2 * MINUTE) == []


def test_max_runtime_is_for_batch_jobs() -> None:
    rejected = one(World().submit("a", kind="stateless", max_runtime_ms=MINUTE), JobRejected)
    assert "runs until it is stopped" in rejected.message


def test_what_a_host_cant_start_runs_again_after_a_growing_wait_until_retries_system_are_used() -> None:
    world = World()
    world.submit("a", retries_max=0, retries_system=2)
    waits = []
    for run in (1, 2):
        world.place(("a", 0, run))
        ended = one(world.report(RunReport.NOT_STARTED, ("a", 0, run), exit_code=127), RunsEnded)
        assert (ints(ended.counts_as).tolist(), ints(ended.failures).tolist()) == ([Counts.HOST], [run])
        waits.append(ints(ended.wait_ms).tolist()[0])
        assert one(world.later(10_000), GangsQueued)
    assert waits == [1000, 2000]
    world.place(("a", 0, 3))
    assert one(world.report(RunReport.NOT_STARTED, ("a", 0, 3), exit_code=127), JobChanged).state == "FAILED"


def test_a_run_whose_holder_was_killed_counts_against_its_host_and_a_lost_or_preempted_one_against_nobody() -> None:
    world = World()
    world.submit("a", retries_system=1)
    started(world, A0)
    world.peer("placement", HostLost(host_id="h1", session=1, code="SILENT", silent_ms=60_000))
    started(world, ("a", 0, 2))
    world.preempt(("a", 0, 2))
    world.report(RunReport.STOPPED, ("a", 0, 2))
    started(world, ("a", 0, 3))
    ended = one(world.report(RunReport.VANISHED, ("a", 0, 3), exit_code=255), RunsEnded)
    assert (ints(ended.counts_as).tolist(), ints(ended.failures).tolist()) == ([Counts.HOST], [1])
    assert ints(ended.next).tolist() == [TaskState.BACKOFF]


def test_what_three_hosts_cant_start_has_failed_itself() -> None:
    world = World()
    world.submit("a", retries_system=9)
    world.submit("b", retries_system=9)
    for run, host in enumerate(("h1", "h2", "h2", "h3"), start=1):
        world.place(("a", 0, run), host=host)
        said = world.report(RunReport.NOT_STARTED, ("a", 0, run), exit_code=127)
        world.place(("b", 0, run), host="h2")
        world.report(RunReport.NOT_STARTED, ("b", 0, run), exit_code=127)
        world.later(60_000)
    assert one(said, JobChanged).state == "FAILED"
    assert world.machine.state_of("b") == "PENDING", "always the same host: it is to blame"
    assert list(world.machine.failures.unstarted) == [("b", 0)]


def avoided(event: GangsQueued) -> list[str]:
    """The hosts that the ranges of a record are kept from."""
    return [event.host_ids[at] for at in ints(event.avoid).tolist() if at >= 0]


def test_what_can_not_be_started_fails_at_once_after_one_try_on_another_host() -> None:
    world = World()
    world.submit("a", retries_max=5)
    world.place(A0, host="h1")
    world.inventory(1, host="h2")
    said = world.report(RunReport.CANNOT_START, A0, exit_code=127)
    assert why(one(said, RunsEnded)) == [RunCause.CANNOT_START]
    assert avoided(one(said, GangsQueued)) == ["h1"], "at once"
    world.place(("a", 0, 2), host="h2")
    said = world.report(RunReport.CANNOT_START, ("a", 0, 2), exit_code=127)
    assert one(said, JobChanged).state == "FAILED"


def test_what_can_not_be_started_fails_at_once_where_there_is_one_host() -> None:
    world = World()
    world.submit("a", retries_max=5)
    world.place(A0)
    assert one(world.report(RunReport.CANNOT_START, A0, exit_code=127), JobChanged).state == "FAILED"


def test_what_another_host_can_start_runs_there_and_may_go_anywhere_afterwards() -> None:
    world = World()
    world.submit("a", retries_max=5)
    world.place(A0, host="h1")
    world.inventory(1, host="h2")
    world.report(RunReport.CANNOT_START, A0, exit_code=127)
    started(world, ("a", 0, 2))
    again = one(world.report(RunReport.EXITED, ("a", 0, 2), exit_code=1), GangsQueued)
    assert again.avoid == b""


def test_a_gang_fails_at_once_when_a_member_can_not_be_started_on_two_hosts() -> None:
    world = World()
    world.submit("a", instances=2, gang_min=2, retries_max=5)
    world.place(A0, A1)
    world.inventory(1, host="h2")
    world.report(RunReport.CANNOT_START, A0, exit_code=127)
    assert one(world.report(RunReport.STOPPED, A1), GangsQueued)
    second = [("a", 0, 2), ("a", 1, 2)]
    world.place(*second)
    world.report(RunReport.CANNOT_START, second[0], exit_code=127)
    assert one(world.report(RunReport.STOPPED, second[1]), JobChanged).state == "FAILED"


def test_a_service_that_can_not_be_started_is_tried_again() -> None:
    world = World()
    world.submit("a", kind="stateless")
    world.place(A0)
    said = world.report(RunReport.CANNOT_START, A0, exit_code=127)
    assert ints(one(said, RunsEnded).next).tolist() == [TaskState.BACKOFF]
    assert one(world.later(60_000), GangsQueued)


def test_hosts_that_could_not_start_a_task_before_it_ran_are_not_held_against_it() -> None:
    world = World()
    world.submit("a", retries_system=9, retries_max=1)
    for run, (host, report) in enumerate([("h1", 4), ("h2", 4), ("h3", 2), ("h3", 4)], start=1):
        world.place(("a", 0, run), host=host)
        world.report(report, ("a", 0, run), exit_code=1)
        world.later(60_000)
    assert world.machine.state_of("a") == "PENDING"


def test_a_gang_waits_and_fails_when_hosts_cant_start_its_members_too_often() -> None:
    world = World()
    world.submit("a", instances=2, gang_min=2, retries_system=1)
    world.place(A0, A1)
    said = world.report(RunReport.NOT_STARTED, A0, exit_code=127)
    assert runs_of(one(said, RunsStopping)) == [A1]
    assert "GangsQueued" not in kinds(world.report(RunReport.STOPPED, A1))
    assert one(world.later(1_000), GangsQueued)
    second = [("a", 0, 2), ("a", 1, 2)]
    world.place(*second)
    world.report(RunReport.NOT_STARTED, second[1], exit_code=127)
    assert one(world.report(RunReport.STOPPED, second[0]), JobChanged).state == "FAILED"


def test_a_run_that_is_not_ready_in_time_is_stopped_and_its_host_has_failed() -> None:
    world = World()
    world.submit("a", start_deadline_ms=MINUTE)
    world.place(A0)
    said = world.later(61_000)
    assert (runs_of(one(said, RunsStopping)), why(one(said, RunsStopping))) == ([A0], [RunCause.START_LATE])
    ended = one(world.report(RunReport.STOPPED, A0, exit_code=143), RunsEnded)
    assert (ints(ended.outcome).tolist(), why(ended)) == ([Outcome.FAILED], [RunCause.START_LATE])
    assert ints(ended.counts_as).tolist() == [Counts.HOST]
    assert one(world.later(1_000), GangsQueued)


def test_a_stop_that_is_not_obeyed_is_ordered_again_as_a_kill_until_it_is() -> None:
    world = World()
    world.submit("a", stop_grace_ms=10_000)
    started(world, A0)
    assert ints(one(world.stop("a"), RunsStopping).kill).tolist() == []
    assert world.later(69_000) == []
    for _ in range(2):
        said = world.later(71_000)
        assert ints(one(said, RunsOverdue).what).tolist() == [Overdue.STOP]
        assert ints(one(said, RunsStopping).kill).tolist() == [1]
    world.report(RunReport.STOPPED, A0, exit_code=137)
    assert world.machine.state_of("a") == "KILLED"


def led(world: World, **spec: object) -> None:
    """A controller and two more, all running."""
    world.submit("a", instances=3, controller=True, **spec)
    started(world, A0, A1, ("a", 2, 1))


def test_when_the_controller_is_over_the_rest_is_stopped_and_its_outcome_is_that_of_the_job() -> None:
    for exit_code, outcome in ((0, "SUCCEEDED"), (1, "FAILED")):
        world = World()
        led(world, retries_system=3)
        world.report(RunReport.VANISHED, ("a", 2, 1), exit_code=255)
        said = world.report(RunReport.EXITED, A0, exit_code=exit_code)
        assert (runs_of(one(said, RunsStopping)), why(one(said, RunsStopping))) == ([A1], [RunCause.JOB_END])
        assert [runs_of(each) for each in of(said, RunsEnded)] == [[A0], [("a", 2, 2)]], "it waited for another run"
        said = world.report(RunReport.STOPPED, A1, exit_code=143)
        assert (one(said, JobChanged).state, one(said, JobChanged).killed) == (outcome, 2)


def test_a_controller_that_runs_again_ends_nothing() -> None:
    world = World()
    led(world, retries_max=1)
    said = world.report(RunReport.EXITED, A0, exit_code=1)
    assert (of(said, RunsStopping), ints(one(said, RunsEnded).next).tolist()) == ([], [TaskState.BACKOFF])


def test_a_job_waits_for_all_its_tasks_if_its_controller_says_so_and_has_the_outcome_of_the_controller() -> None:
    world = World()
    led(world, on_controller_end="wait")
    assert of(world.report(RunReport.EXITED, A0), RunsStopping) == []
    world.report(RunReport.EXITED, A1, exit_code=1)
    assert one(world.report(RunReport.EXITED, ("a", 2, 1), exit_code=1), JobChanged).state == "SUCCEEDED"


def test_at_most_max_running_tasks_are_queued_or_run_and_the_others_follow_by_instance() -> None:
    world = World()
    said = world.submit("a", instances=5, max_running=2, retries_max=1)
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 2, 1, 0)]
    started(world, A0, A1)
    said = world.report(RunReport.EXITED, A1)
    assert ranges_of(one(said, GangsQueued)) == [("a", 2, 1, 1, 0)]
    said = world.report(RunReport.EXITED, A0, exit_code=1)
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 2, 0)], "its retry comes before new ones"
    assert ints(one(said, GangsQueued).admitted).tolist() == [1]
    said = world.stop("a")
    ended = [run for each in of(said, RunsEnded) for run in runs_of(each)]
    assert sorted(ended) == [("a", 0, 2), *[("a", n, 1) for n in (2, 3, 4)]]
    assert [each.state for each in of(said, JobChanged)] == ["KILLING", "KILLED"]


def test_what_waits_for_its_host_to_recover_lets_others_go_first_under_max_running() -> None:
    world = World()
    world.submit("a", instances=3, max_running=1)
    world.place(A0)
    said = world.report(RunReport.NOT_STARTED, A0, exit_code=127)
    assert ranges_of(one(said, GangsQueued)) == [("a", 1, 1, 1, 0)]
    assert world.later(10_000) == [], "there is no room"
    started(world, A1)
    assert ranges_of(one(world.report(RunReport.EXITED, A1), GangsQueued)) == [("a", 0, 1, 2, 0)]


def test_a_gang_goes_first_under_max_running() -> None:
    world = World()
    said = world.submit("a", instances=4, gang_min=2, max_running=3)
    assert [each for event in of(said, GangsQueued) for each in ranges_of(event)] == [
        ("a", 0, 2, 1, 1),
        ("a", 2, 1, 1, 0),
    ]


def test_a_gang_that_is_started_again_waits_for_room_under_max_running_and_nothing_goes_before_it() -> None:
    world = World()
    world.submit("a", instances=5, gang_min=2, max_running=2)
    started(world, A0, A1)
    world.report(RunReport.EXITED, A0, A1)
    started(world, ("a", 2, 1), ("a", 3, 1))
    assert of(world.act("a", "start", (0, 1)), GangsQueued) == []
    assert of(world.report(RunReport.EXITED, ("a", 2, 1)), GangsQueued) == []
    said = world.report(RunReport.EXITED, ("a", 3, 1))
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 2, 2, 1)]
    started(world, ("a", 0, 2), ("a", 1, 2))
    said = world.report(RunReport.EXITED, ("a", 0, 2), ("a", 1, 2))
    assert ranges_of(one(said, GangsQueued)) == [("a", 4, 1, 1, 0)]


def test_a_controller_under_max_running_is_a_range_of_its_own() -> None:
    said = World().submit("a", instances=4, controller=True, max_running=3)
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 1, 0), ("a", 1, 2, 1, 0)]


def test_a_run_that_goes_on_as_its_deadline_passes_has_the_deadline_of_what_follows() -> None:
    """A process that was down decides on both at once."""
    world = World()
    world.submit("a", instances=2, max_runtime_ms=5_000)
    world.place(("a", 0, 1), ("a", 1, 1))
    world.busy = True
    world.stop_some("a", (0, 1))
    world.report(RunReport.STARTED, ("a", 1, 1))
    world.now += 700_000
    world.busy = False
    said = world.quiet()
    assert [ints(each.kill).tolist() for each in of(said, RunsStopping)] == [[]], "it has its grace"
    said = world.later(5_000)
    assert runs_of(one(said, RunsStopping)) == [("a", 1, 1)], "the other one has had its time"


def test_an_array_runs_from_its_first_task_to_its_last_and_is_not_pending_between_them() -> None:
    world = World()
    world.submit("a", instances=3)
    told = []
    for task in range(3):
        world.place(("a", task, 1))
        said = world.report(RunReport.EXITED, ("a", task, 1))
        told += [each.state for each in said if isinstance(each, JobChanged)]
    assert told == ["RUNNING", "SUCCEEDED"], "each was over before it had started for the cell"
