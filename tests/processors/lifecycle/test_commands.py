"""What users command, in their words: stop and start by ranges, hold, release, delete."""

import pytest

from events.codes import Code, JobState, Outcome, RunCause, RunReport, TaskState
from events.columns import ints
from events.records.base import Event
from events.records.lifecycle import (
    CommandAnswered,
    GangsQueued,
    InstancesWanted,
    JobChanged,
    JobHeld,
    JobsForgotten,
    RunsEnded,
    RunsStopping,
)
from tests.helpers.machines import Run, kinds, of, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World

WEB = {"kind": "stateless", "instances": 4}


def code(said: list[Event]) -> str:
    return str(one(said, CommandAnswered).code)


def started(world: World, *runs: Run) -> list[Event]:
    world.place(*runs)
    return world.report(RunReport.STARTED, *runs)


def web(**more: object) -> World:
    """A service of four instances that run."""
    world = World()
    world.submit("web", **{**WEB, **more})
    started(world, *[("web", at, 1) for at in range(4)])
    return world


def states(world: World, job_id: str) -> list[TaskState]:
    row = world.machine.jobs[job_id]
    return [TaskState(each) for each in world.machine.tasks.arena["state"][row.base : row.base + row.instances]]


def test_a_stop_of_ranges_ends_those_instances_alone_and_a_start_brings_them_back() -> None:
    world = web(max_unavailable=1)
    said = world.stop_some("web", (0, 1), (2, 2))
    assert one(said, CommandAnswered).message == "stopping 3 instances, 3 of them running"
    gone = [("web", 0, 1), ("web", 2, 1), ("web", 3, 1)]
    assert runs_of(one(said, RunsStopping)) == gone
    wanted = one(said, InstancesWanted)
    assert (wanted.wanted, ints(wanted.first).tolist(), ints(wanted.count).tolist()) == (False, [0, 2], [1, 2])
    said = world.report(RunReport.STOPPED, *gone, exit_code=143)
    assert ints(one(said, RunsEnded).next).tolist() == [TaskState.KILLED] * 3
    assert world.machine.state_of("web") == "RUNNING"
    said = world.act("web", "start", (2, 2))
    assert one(said, InstancesWanted).wanted
    assert ranges_of(one(said, GangsQueued)) == [("web", 2, 2, 2, 0)]
    assert states(world, "web") == [TaskState.KILLED, TaskState.RUNNING, TaskState.QUEUED, TaskState.QUEUED]
    said = world.act("web", "start")
    assert ranges_of(one(said, GangsQueued)) == [("web", 0, 1, 2, 0)], "all that is stopped"
    assert code(world.act("web", "start")) == Code.REPEATED


def test_a_service_that_was_stopped_as_a_whole_is_kept_and_started_again() -> None:
    world = web()
    world.stop("web")
    said = world.report(RunReport.STOPPED, *[("web", at, 1) for at in range(4)], exit_code=143)
    assert (one(said, JobChanged).state, one(said, JobChanged).kept) == (JobState.KILLED, True)
    assert code(world.stop_some("web")) == Code.REPEATED
    said = world.act("web", "start")
    assert ranges_of(one(said, GangsQueued)) == [("web", 0, 4, 2, 0)]
    assert [each.state for each in of(said, JobChanged)] == [JobState.PENDING]
    started(world, *[("web", at, 2) for at in range(4)])
    assert world.machine.state_of("web") == JobState.RUNNING


def test_a_stateful_job_that_is_started_again_starts_one_instance_after_another() -> None:
    world = World()
    world.submit("a", instances=3, kind="stateful", on_silence="stop_after", stop_after_ms=1000)
    for at in range(3):
        started(world, ("a", at, 1))
    world.stop("a")
    world.report(RunReport.STOPPED, ("a", 1, 1))
    said = world.act("a", "start")
    assert "GangsQueued" not in kinds(said), "0 isn't over yet"
    said = world.report(RunReport.STOPPED, ("a", 2, 1), ("a", 0, 1))
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 2, 0)]
    assert ranges_of(one(started(world, ("a", 0, 2)), GangsQueued)) == [("a", 1, 1, 2, 0)]
    assert ranges_of(one(started(world, ("a", 1, 2)), GangsQueued)) == [("a", 2, 1, 2, 0)]


def test_an_instance_that_is_started_while_it_stops_runs_again_when_its_run_is_over() -> None:
    world = web()
    world.stop_some("web", (1, 1))
    said = world.act("web", "start", (1, 1))
    assert one(said, CommandAnswered).message == "starting 1 instance, 1 of them when their last run is over"
    assert of(said, GangsQueued) == []
    said = world.report(RunReport.STOPPED, ("web", 1, 1), exit_code=143)
    assert ints(one(said, RunsEnded).next).tolist() == [TaskState.BACKOFF]
    assert ranges_of(one(said, GangsQueued)) == [("web", 1, 1, 2, 0)]


def test_a_batch_job_runs_failed_instances_again_while_others_go_on_and_is_over_with_the_last() -> None:
    world = World()
    world.submit("a", instances=3)
    started(world, *[("a", at, 1) for at in range(3)])
    world.report(RunReport.EXITED, ("a", 0, 1), exit_code=1)
    world.report(RunReport.EXITED, ("a", 1, 1))
    said = world.act("a", "start")
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 2, 0)], "what has succeeded is left alone"
    said = world.act("a", "start", (1, 1))
    assert ranges_of(one(said, GangsQueued)) == [("a", 1, 1, 2, 0)], "unless it is named"
    started(world, ("a", 0, 2), ("a", 1, 2))
    world.report(RunReport.EXITED, ("a", 0, 2), ("a", 1, 2), ("a", 2, 1))
    assert world.machine.state_of("a") == "SUCCEEDED"
    assert code(world.act("a", "start")) == Code.ALREADY_ENDED


def test_a_job_with_mixed_outcomes_is_killed_if_one_was_stopped_and_failed_if_one_failed() -> None:
    for stops, outcome in ((True, JobState.KILLED), (False, JobState.FAILED)):
        world = World()
        world.submit("a", instances=3)
        started(world, *[("a", at, 1) for at in range(3)])
        world.report(RunReport.EXITED, ("a", 0, 1))
        world.report(RunReport.EXITED, ("a", 1, 1), exit_code=1)
        if stops:
            world.stop_some("a", (2, 1))
        said = world.report(RunReport.STOPPED if stops else RunReport.EXITED, ("a", 2, 1))
        assert one(said, JobChanged).state == outcome


def test_who_stops_a_member_stops_the_gang_and_who_starts_one_starts_it_anew() -> None:
    world = World()
    world.submit("a", instances=3, gang_min=2, retries_max=1)
    members = [("a", 0, 1), ("a", 1, 1)]
    started(world, *members)
    said = world.stop_some("a", (1, 1))
    assert runs_of(one(said, RunsStopping)) == members
    world.report(RunReport.STOPPED, members[0], exit_code=143)
    said = world.act("a", "start", (0, 1))
    assert of(said, GangsQueued) == [], "a member is still stopping"
    said = world.report(RunReport.STOPPED, members[1], exit_code=143)
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 2, 2, 1)]


def test_a_gang_that_has_failed_is_started_with_all_its_retries() -> None:
    world = World()
    world.submit("a", instances=3, gang_min=2, retries_max=0)
    world.place(("a", 0, 1), ("a", 1, 1))
    world.report(RunReport.EXITED, ("a", 0, 1), exit_code=1)
    world.report(RunReport.STOPPED, ("a", 1, 1))
    assert states(world, "a")[:2] == [TaskState.FAILED] * 2
    said = world.act("a", "start")
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 2, 2, 1)]


def test_a_held_job_takes_its_tasks_from_the_queue_and_lets_runs_go_on() -> None:
    world = World()
    world.submit("a", instances=3, retries_max=5)
    started(world, ("a", 0, 1))
    said = world.act("a", "hold")
    assert one(said, JobHeld).held
    ended = one(said, RunsEnded)
    assert (runs_of(ended), ints(ended.why).tolist()) == ([("a", 1, 1), ("a", 2, 1)], [RunCause.HOLD] * 2)
    assert code(world.act("a", "hold")) == Code.REPEATED
    assert "GangsQueued" not in kinds(world.report(RunReport.EXITED, ("a", 0, 1), exit_code=1)), "its retry waits too"
    said = world.act("a", "release")
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 3, 2, 0)]
    assert states(world, "a") == [TaskState.QUEUED] * 3
    assert code(world.act("a", "release")) == Code.REPEATED


def test_a_held_gang_waits_as_one() -> None:
    world = World()
    world.submit("a", instances=2, gang_min=2)
    said = world.act("a", "hold")
    assert runs_of(one(said, RunsEnded)) == [("a", 0, 1), ("a", 1, 1)]
    assert ranges_of(one(world.act("a", "release"), GangsQueued)) == [("a", 0, 2, 2, 1)]


def test_a_hold_keeps_max_running() -> None:
    world = World()
    world.submit("a", instances=4, max_running=2)
    world.act("a", "hold")
    said = world.act("a", "release")
    assert sum(count for _, _, count, _, _ in ranges_of(one(said, GangsQueued))) == 2


def test_an_ended_job_is_deleted_at_once_and_its_id_is_free() -> None:
    world = World()
    world.submit("a")
    world.stop("a")
    said = world.act("a", "delete")
    assert (code(said), len(one(said, JobsForgotten).digests)) == (Code.DONE, 16)
    assert world.machine.state_of("a") is None
    assert code(world.act("a", "delete")) == Code.NOT_FOUND
    assert kinds(world.submit("a"))[0] == "JobAccepted"


def test_a_running_job_is_deleted_with_force_only_then_stopped_then_forgotten() -> None:
    world = web()
    refused = one(world.act("web", "delete"), CommandAnswered)
    assert (refused.code, refused.message) == (
        Code.NEEDS_FORCE,
        "job web is RUNNING, 4 of its tasks haven't ended; `paceline job delete web --force` stops it first",
    )
    said = world.act("web", "delete", force=True)
    assert len(runs_of(one(said, RunsStopping))) == 4
    assert code(world.act("web", "start")) == Code.BEING_DELETED
    said = world.report(RunReport.STOPPED, *[("web", at, 1) for at in range(4)], exit_code=143)
    assert kinds(said) == ["RunsEnded", "JobChanged", "JobsForgotten"]
    assert not one(said, JobChanged).kept
    assert world.machine.state_of("web") is None


def test_a_stopped_service_is_over_when_it_is_deleted() -> None:
    world = web()
    world.stop("web")
    world.report(RunReport.STOPPED, *[("web", at, 1) for at in range(4)], exit_code=143)
    said = world.act("web", "delete")
    assert kinds(said) == ["InstancesWanted", "CommandAnswered", "JobChanged", "JobsForgotten"]
    assert code(world.act("web", "delete")) == Code.NOT_FOUND


@pytest.mark.parametrize("action", ["start", "hold", "release", "delete"])
def test_commands_for_what_is_not_there_or_over_or_of_another_version_are_refused(action: str) -> None:
    world = World()
    assert code(world.act("nobody", action)) == Code.NOT_FOUND
    world.submit("a")
    refused = one(world.act("a", action, expected_version=7), CommandAnswered)
    assert (refused.code, "version 1" in refused.message, "7" in refused.message) == (Code.VERSION_CONFLICT, True, True)
    world.stop("a")
    if action != "delete":
        assert code(world.act("a", action)) == Code.ALREADY_ENDED


def test_a_stop_and_a_priority_for_another_version_are_refused() -> None:
    world = World()
    world.submit("a")
    assert code(world.stop_some("a", expected_version=2)) == Code.VERSION_CONFLICT
    assert code(world.stop_some("a", expected_version=1)) == Code.DONE


def test_a_repeat_of_a_command_does_nothing_and_a_range_beyond_the_job_is_refused() -> None:
    world = web()
    assert code(world.act("web", "hold", command_id="mine")) == Code.DONE
    world.act("web", "release")
    assert code(world.act("web", "hold", command_id="mine")) == Code.REPEATED
    for ranges in ([(3, 2)], [(-1, 1)], [(0, 0)]):
        assert code(world.stop_some("web", *ranges)) == Code.INVALID_SPEC
        assert code(world.act("web", "start", *ranges)) == Code.INVALID_SPEC
    said = one(world.stop_some("web", (3, 2)), CommandAnswered).message
    assert said == "the job has 4 instances, 0 to 3: name some of these"
    assert code(world.act("web", "dance")) == Code.INVALID_SPEC


def test_nothing_of_a_job_starts_again_when_its_controller_is_over() -> None:
    world = World()
    world.submit("a", instances=2, controller=True)
    started(world, ("a", 0, 1), ("a", 1, 1))
    world.report(RunReport.EXITED, ("a", 0, 1))
    assert code(world.act("a", "start")) == Code.ALREADY_ENDED


def test_a_stopped_run_that_exits_by_itself_has_its_own_outcome_and_stays_stopped() -> None:
    world = web()
    world.stop_some("web", (0, 1))
    ended = one(world.report(RunReport.EXITED, ("web", 0, 1), exit_code=1), RunsEnded)
    assert (ints(ended.outcome).tolist(), ints(ended.next).tolist()) == ([Outcome.FAILED], [TaskState.FAILED])
    said = world.act("web", "start", (0, 1))
    assert ranges_of(one(said, GangsQueued)) == [("web", 0, 1, 2, 0)]


def test_an_answer_shares_its_pass_with_the_ends_of_other_jobs() -> None:
    world = World()
    for job_id in ("a", "b"):
        world.submit(job_id)
        started(world, (job_id, 0, 1))
    world.busy = True
    world.stop("a")
    world.report(RunReport.EXITED, ("a", 0, 1), ("b", 0, 1))
    said = world.machine.decide(world.now, caught_up=True, budget=1000)
    assert kinds(said) == ["InstancesWanted", "CommandAnswered", "RunsEnded"]
    assert runs_of(one(said, RunsEnded)) == [("b", 0, 1)], "what a stop means for a run is decided after it"
    world.busy = False
    assert {run for ended in of(world.quiet(), RunsEnded) for run in runs_of(ended)} == {("a", 0, 1), ("b", 0, 1)}


def test_half_of_the_work_of_a_round_is_left_for_runs_however_many_commands_there_are() -> None:
    world = World()
    world.submit("a", instances=2)
    started(world, ("a", 0, 1), ("a", 1, 1))
    world.busy = True
    for number in range(9):
        world.stop(f"nothing-{number}")
    world.report(RunReport.EXITED, ("a", 0, 1), ("a", 1, 1))
    said = world.machine.decide(world.now, caught_up=True, budget=6)
    assert kinds(said) == ["CommandAnswered"] * 3 + ["RunsEnded"]
    world.busy = False
    world.quiet()
