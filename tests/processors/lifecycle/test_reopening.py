"""Tasks of a batch job that has ended run again: the job is there again with what became of the others."""

from typing import Any

import pytest

from events.codec import encode
from events.codes import RunReport, TaskState
from events.columns import pack_ints
from events.records.base import Event
from events.records.jobs import JobReopenRequested, JobSubmitted
from events.records.lifecycle import CommandAnswered, GangsQueued, JobAccepted, JobChanged, JobReopened
from tests.helpers.machines import kinds, of, one, ranges_of
from tests.processors.lifecycle.harness import World

SUCCEEDED, FAILED, KILLED = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED


def spec(**fields: Any) -> JobSubmitted:
    return JobSubmitted(**{"job_id": "a", "pool": "/p", "command": ("x",), "resources": {"cpu": 1}} | fields)


def again(world: World, job: JobSubmitted, instances: list[int], over: dict[int, int], **fields: Any) -> list[Event]:
    """Asks that instances run again, each a range of its own, where the others ended as `over` says."""
    ranges = {"first": pack_ints(instances), "count": pack_ints([1] * len(instances))}
    ranges |= {"over_first": pack_ints(over), "over_count": pack_ints([1] * len(over))}
    wish = JobReopenRequested(
        job_id="a", command_id="c", spec=encode(job), over_state=pack_ints(over.values()), **{**ranges, **fields}
    )
    return world.fact("paceline.jobs", wish)


def ended(world: World, job: JobSubmitted, *codes: int) -> None:
    """The job has run, each of its tasks with an exit code."""
    world.fact("paceline.jobs", job)
    runs = [("a", instance, 1) for instance in range(len(codes))]
    world.place(*runs)
    for run, code in zip(runs, codes, strict=True):
        world.report(RunReport.EXITED, run, exit_code=code)
    assert "a" not in world.machine.jobs


def answer(said: list[Event]) -> tuple[str, str]:
    found = one(said, CommandAnswered)
    return found.code, found.message


def test_the_failed_task_runs_again_above_all_runs_that_were_and_the_job_ends_with_what_the_others_did() -> None:
    world, job = World(), spec(instances=3)
    ended(world, job, 0, 1, 0)
    assert world.machine.state_of("a") == "FAILED"
    said = again(world, job, [1], {0: SUCCEEDED, 2: SUCCEEDED})
    assert kinds(said)[:2] == ["JobAccepted", "JobReopened"]
    assert (one(said, JobAccepted).first_run, answer(said)) == (2, ("DONE", "running 1 of 3 tasks again"))
    assert ranges_of(one(said, GangsQueued)) == [("a", 1, 1, 2, 0)]
    assert world.machine.state_of("a") == "RUNNING", "tasks of it have ended, others haven't"
    world.place(("a", 1, 2))
    over = one(world.report(RunReport.EXITED, ("a", 1, 2)), JobChanged)
    assert (over.state, over.succeeded, over.failed) == ("SUCCEEDED", 3, 0)
    assert world.machine.ended.get("a").run == 2


def test_a_job_may_be_opened_again_and_again() -> None:
    world, job = World(), spec(instances=2)
    ended(world, job, 1, 1)
    for run in (2, 3):
        again(world, job, [0], {1: FAILED})
        world.place(("a", 0, run))
        assert one(world.report(RunReport.EXITED, ("a", 0, run), exit_code=1), JobChanged).state == "FAILED"


def test_what_stayed_over_can_be_started_while_the_job_is_open_with_runs_above_all_that_were() -> None:
    world, job = World(), spec(instances=2)
    ended(world, job, 1, 1)
    again(world, job, [0], {1: FAILED})
    said = world.act("a", "start", (1, 1))
    assert ranges_of(one(said, GangsQueued)) == [("a", 1, 1, 2, 0)]


def test_a_gang_is_queued_as_one() -> None:
    world, job = World(), spec(instances=3, gang_min=2)
    ended(world, job, 0, 0, 1)
    said = again(world, job, [0, 1], {2: FAILED})
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 2, 2, 1)]
    code, message = answer(again(World(), job, [0, 1], {2: FAILED}))
    assert (code, "there is no job a" in message) == ("NOT_FOUND", True)


def test_a_part_of_a_gang_does_not_run_again() -> None:
    world, job = World(), spec(instances=2, gang_min=2)
    ended(world, job, 0, 0)
    assert answer(again(world, job, [0], {1: SUCCEEDED})) == (
        "INVALID_SPEC",
        "tasks 0 to 1 are a gang: they run again together",
    )


def test_tasks_beyond_max_running_wait_for_their_turn() -> None:
    world, job = World(), spec(instances=3, max_running=1)
    world.fact("paceline.jobs", job)
    for instance in range(3):
        world.place(("a", instance, 1))
        world.report(RunReport.EXITED, ("a", instance, 1), exit_code=1)
    said = again(world, job, [0, 2], {1: FAILED})
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 2, 0)]
    world.place(("a", 0, 2))
    assert ranges_of(one(world.report(RunReport.EXITED, ("a", 0, 2)), GangsQueued)) == [("a", 2, 1, 2, 0)]


def test_the_controller_of_a_job_stays_as_it_ended_where_the_others_go_on() -> None:
    world, job = World(), spec(instances=2, controller=True, on_controller_end="wait")
    ended(world, job, 0, 1)
    again(world, job, [1], {0: SUCCEEDED})
    world.place(("a", 1, 2))
    assert one(world.report(RunReport.EXITED, ("a", 1, 2), exit_code=1), JobChanged).state == "SUCCEEDED"


def test_a_job_that_ends_with_its_controller_is_not_there_again_without_it() -> None:
    world, job = World(), spec(instances=2, controller=True)
    world.fact("paceline.jobs", job)
    world.place(("a", 0, 1), ("a", 1, 1))
    world.report(RunReport.EXITED, ("a", 1, 1), exit_code=1)
    world.report(RunReport.EXITED, ("a", 0, 1))
    code, message = answer(again(world, job, [1], {0: SUCCEEDED}))
    assert (code, "start task 0 too" in message) == ("ALREADY_ENDED", True)


@pytest.mark.parametrize(
    ("instances", "over", "change", "code"),
    [
        ([1], {0: SUCCEEDED}, {"command": ("another",)}, "VERSION_CONFLICT"),
        ([1], {0: SUCCEEDED}, {"job_id": "b"}, "VERSION_CONFLICT"),
        ([1], {}, {}, "INVALID_SPEC"),
        ([], {0: SUCCEEDED, 1: FAILED}, {}, "INVALID_SPEC"),
        ([1], {0: SUCCEEDED, 1: FAILED}, {}, "INVALID_SPEC"),
        ([1, 2], {0: SUCCEEDED}, {}, "INVALID_SPEC"),
        ([1], {0: TaskState.RUNNING}, {}, "INVALID_SPEC"),
    ],
)
def test_requests_that_do_not_fit_the_job_that_ended_change_nothing(
    instances: list[int], over: dict[int, int], change: dict[str, Any], code: str
) -> None:
    world, job = World(), spec(instances=2)
    ended(world, job, 0, 1)
    said = again(world, spec(**{"instances": 2} | change), instances, over)
    assert (answer(said)[0], kinds(said)) == (code, ["CommandAnswered"])
    assert world.machine.state_of("a") == "FAILED"


def test_the_open_jobs_of_a_pool_are_bounded_for_jobs_that_are_there_again_too() -> None:
    world, job = World(), spec()
    ended(world, job, 1)
    for other in ("b", "c", "d"):
        world.fact("paceline.jobs", spec(job_id=other))
    assert answer(again(world, job, [0], {}))[0] == "OPEN_JOBS_MAX"


def test_a_request_that_comes_again_while_the_job_is_open_changes_nothing() -> None:
    world, job = World(), spec()
    ended(world, job, 1)
    again(world, job, [0], {})
    assert answer(again(world, job, [0], {}))[0] == "REPEATED"
    assert not of(again(world, job, [0], {}), JobReopened)


def test_a_job_that_is_forgotten_is_not_found() -> None:
    world, job = World(), spec()
    ended(world, job, 1)
    world.act("a", "delete")
    assert answer(again(world, job, [0], {}))[0] == "NOT_FOUND"
