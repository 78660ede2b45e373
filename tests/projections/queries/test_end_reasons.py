"""What ended tasks that didn't end by themselves is said wherever the job and its tasks are shown."""

from typing import Any

import pytest
from msgspec.structs import replace

from events.codes import JobState, Outcome, RunCause, TaskState
from events.columns import pack_ints
from events.records.jobs import JobStopRequested
from events.records.lifecycle import CommandAnswered, InstancesWanted, JobChanged, RunsAvailable, RunsStopping
from events.records.parts import Cause
from tests.helpers.written_cell import dump, ended, runs


def stopped(api: Any, instances: tuple[int, ...], reason: str, **of: Any) -> None:
    """A user stops instances of job a, all of which run."""
    stopping(api, instances, reason, **of)
    api.cell.ms += 1000
    api.cell.decide("lifecycle", killed(instances, RunCause.STOP))


def stopping(api: Any, instances: tuple[int, ...], reason: str, **of: Any) -> None:
    """They aren't over yet."""
    api.cell.ms += 1000
    at = api.cell.fact(JobStopRequested(job_id="a", command_id=f"c{reason}", reason=reason, **of))
    cause = Cause(topic="paceline.jobs", offset=at)
    done = CommandAnswered(job_id="a", jobs_offset=at, command_id=f"c{reason}", code="DONE")
    api.cell.decide("lifecycle", InstancesWanted(job_id="a", wanted=False, cause=cause, **of), done)
    host = pack_ints([0] * len(instances))
    api.cell.decide(
        "lifecycle",
        RunsStopping(
            **runs("a", instances), host_ids=("h1",), host=host, cause=pack_ints([Outcome.STOPPED] * len(instances))
        ),
    )


def killed(instances: tuple[int, ...], why: RunCause) -> Any:
    over = ended("a", instances, Outcome.STOPPED, following=TaskState.KILLED)
    return replace(over, why=pack_ints([why] * len(instances)))


def some(first: int, count: int) -> dict[str, bytes]:
    return {"first": pack_ints([first]), "count": pack_ints([count])}


@pytest.fixture
def service(api):
    api.cell.host()
    api.cell.accept("a", instances=4, kind="stateless")
    api.cell.run("a", (0, 1, 2, 3))
    running = JobChanged(job_id="a", state=JobState.RUNNING)
    api.cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1, 2, 3))), running)
    return api


def told(api: Any) -> Any:
    api.fold()
    return api.get("/v1/jobs/a/explanation")["headline"]


def test_instances_that_a_user_stopped_stand_in_the_explanation_with_who_when_and_why(service):
    stopped(service, (1, 2), "debug", **some(1, 2))
    found = told(service)
    assert found["code"] == "STOPPED"
    assert found["message"].startswith("2 of 4 instances were stopped by a user at 2023-11-14T22:13:21")
    assert found["message"].endswith(": debug; `paceline job start a` starts them again")
    job = service.get("/v1/jobs/a")
    assert (job["reason"]["code"], job["killed_by"]) == ("STOPPED", {"STOP": 2})
    assert service.get("/v1/jobs")["jobs"][0]["reason"] == job["reason"]
    tasks = service.get("/v1/jobs/a/tasks")["tasks"]
    assert [(each["cause"], each["reason"]) for each in tasks] == [
        (None, None), ("STOP", "stopped by a user: debug"), ("STOP", "stopped by a user: debug"), (None, None)
    ]  # fmt: skip
    [run] = service.get("/v1/jobs/a/tasks/1/runs")["runs"]
    assert (run["outcome"], run["cause"], run["reason"]) == ("STOPPED", "STOP", "stopped by a user: debug")


def test_each_instance_has_the_reason_of_its_own_stop_and_the_job_that_of_the_last(service):
    stopped(service, (0,), "first", **some(0, 1))
    stopped(service, (3,), "second", **some(3, 1))
    service.fold()
    reasons = [each["reason"] for each in service.get("/v1/jobs/a/tasks")["tasks"]]
    assert reasons == ["stopped by a user: first", None, None, "stopped by a user: second"]
    assert ": second;" in told(service)["message"]


def test_a_later_stop_of_the_job_leaves_what_was_stopped_before_with_its_own_reason(service):
    stopped(service, (1, 2), "debug", **some(1, 2))
    stopped(service, (0, 3), "no longer needed")
    service.cell.decide("lifecycle", JobChanged(job_id="a", state=JobState.KILLED, killed=4, kept=True))
    message = told(service)["message"]
    assert message.startswith("4 of 4 instances were stopped by a user: 2 at 2023-11-14T22:13:23")
    assert ": no longer needed; 2 at 2023-11-14T22:13:21" in message
    assert message.endswith(": debug; `paceline job start a` starts them again")
    assert reasons_of_tasks(service) == ["no longer needed", "debug", "debug", "no longer needed"]
    [run] = service.get("/v1/jobs/a/tasks/1/runs")["runs"]
    assert run["reason"] == "stopped by a user: debug"


def test_what_is_still_stopping_keeps_the_reason_of_the_stop_that_stopped_it(service):
    stopping(service, (1, 2), "debug", **some(1, 2))
    stopping(service, (0, 3), "no longer needed")
    service.cell.ms += 1000
    service.cell.decide("lifecycle", killed((0, 1, 2, 3), RunCause.STOP))
    service.fold()
    assert reasons_of_tasks(service) == ["no longer needed", "debug", "debug", "no longer needed"]


def reasons_of_tasks(api: Any) -> list[str]:
    return [each["reason"].removeprefix("stopped by a user: ") for each in api.get("/v1/jobs/a/tasks")["tasks"]]


def test_what_is_started_again_is_no_longer_said_to_be_stopped(service):
    stopped(service, (1, 2), "debug", **some(1, 2))
    service.cell.decide("lifecycle", InstancesWanted(job_id="a", wanted=True, **some(1, 1)))
    assert told(service)["code"] == "BACKOFF"
    assert service.get("/v1/jobs/a")["killed_by"] == {"STOP": 1}


def test_a_job_that_was_stopped_says_so(service):
    stopped(service, (0, 1, 2, 3), "")
    service.cell.decide("lifecycle", JobChanged(job_id="a", state=JobState.KILLED, killed=4, kept=True))
    found = told(service)
    assert found["message"].startswith("4 of 4 instances were stopped by a user at ")
    assert found["actor"] == "you"


def test_tasks_that_ran_for_as_long_as_they_may_say_so(api):
    api.cell.host()
    api.cell.accept("a", instances=3, max_runtime="2s")
    api.cell.run("a", (0, 1, 2))
    api.cell.decide("lifecycle", killed((0, 2), RunCause.RUN_LIMIT), ended("a", (1,), Outcome.SUCCEEDED))
    api.cell.decide("lifecycle", JobChanged(job_id="a", state=JobState.KILLED, succeeded=1, killed=2))
    found = told(api)
    assert found["code"] == "RUN_LIMIT"
    assert found["message"].startswith("2 of 3 tasks ran for as long as they may (max_runtime 2s)")
    help_ = "change max_runtime in the file, then `paceline job delete a` and submit it again"
    assert found["message"].endswith(f"; {help_}")
    assert api.get("/v1/jobs/a")["killed_by"] == {"RUN_LIMIT": 2}
    reasons = [each["reason"] for each in api.get("/v1/jobs/a/tasks")["tasks"]]
    assert reasons == ["ran for as long as it may (max_runtime 2s)", None, "ran for as long as it may (max_runtime 2s)"]


def test_tasks_that_ended_with_their_controller_say_so(api):
    api.cell.host()
    api.cell.accept("a", instances=3, controller=True)
    api.cell.run("a", (0, 1, 2))
    api.cell.decide("lifecycle", killed((1, 2), RunCause.JOB_END), ended("a", (0,), Outcome.STOPPED))
    api.cell.decide("lifecycle", JobChanged(job_id="a", state=JobState.KILLED, killed=3))
    codes = [each["code"] for each in why(api)]
    assert "CONTROLLER_OVER" in codes


def why(api: Any) -> Any:
    api.fold()
    return api.get("/v1/jobs/a/explanation")["reasons"]


def test_a_stop_is_forgotten_with_its_job(service):
    stopped(service, (0, 1, 2, 3), "debug")
    service.cell.decide("lifecycle", JobChanged(job_id="a", state=JobState.KILLED, killed=4, kept=True))
    service.fold()
    assert dump(service.projector.views.engine)["stops"]
    service.cell.forget("a")
    service.fold()
    assert not dump(service.projector.views.engine)["stops"]
