"""How a task failed last is said first, in the words of its host, with how often and when it is tried again."""

from typing import Any

import pytest
from msgspec.structs import replace

from events.codes import Counts, JobState, Outcome, RunCause, RunReport, TaskState
from events.columns import pack_ints
from events.records.lifecycle import JobChanged
from events.records.tasks import RunsReported
from projections.queries.job_counts import WaitReason, wait_reasons
from projections.queries.job_filter import JobFilter
from tests.helpers.written_cell import ended, ordered, runs

WHY = "no-such-program: No such file or directory"


def fail(api: Any, run: int, reason: str = "", why: int = 0, signal: int = 0, **more: Any) -> None:
    """A run of task 0 of job a is ordered and fails, and is tried again 40 s later."""
    one, state = pack_ints([1]), pack_ints([RunReport.CANNOT_START if why else RunReport.EXITED])
    api.cell.decide("lifecycle", ordered("a", (0,), run, "h1"))
    said = {"reasons": (reason,), "reason": one} if reason else {}
    named = runs("a", (0,), run)
    report = {"host": pack_ints([0]), "state": state, "exit_code": pack_ints([127]), "signal": pack_ints([signal])}
    api.cell.fact(RunsReported(gateway="g", host_ids=("h1",), **named, **report, **said))
    over = ended("a", (0,), Outcome.FAILED, run, exit_code=127, following=more.pop("following", TaskState.BACKOFF))
    counts = {"counts_as": pack_ints([Counts.TASK]), "failures": pack_ints([run]), "wait_ms": pack_ints([40_000])}
    api.cell.decide("lifecycle", replace(over, why=pack_ints([why]), **counts))


def told(api: Any) -> tuple[str, str, str]:
    api.fold()
    headline = api.get("/v1/jobs/a/explanation")["headline"]
    return headline["code"], headline["actor"], headline["message"]


@pytest.fixture
def service(api):
    api.cell.host()
    api.cell.accept("a", kind="stateless")
    return api


AGAIN = "it is tried again at 2023-11-14T22:14:00.000Z"


def test_a_service_that_fails_for_the_third_time_in_a_row_is_stuck_and_before_it_waits(service):
    fail(service, 1)
    assert told(service)[:2] == ("BACKOFF", "nobody, wait")
    fail(service, 2)
    waits = f"1 task waits before it is tried again; task 0 exited with 127, its failure 2 in a row; {AGAIN}"
    assert told(service) == ("BACKOFF", "nobody, wait", waits)
    fail(service, 3)
    help_ = "look at the output of its tasks, correct the job and update it again"
    loops = f"task 0 exited with 127, its failure 3 in a row; {AGAIN}; {help_}"
    assert told(service) == ("CRASH_LOOP", "you", loops)
    assert service.get("/v1/jobs")["jobs"][0]["reason"]["code"] == "CRASH_LOOP"
    with service.projector.views.read() as connection:
        assert wait_reasons(connection, JobFilter()) == [WaitReason("CRASH_LOOP", 1, 1)], "counted as it is explained"


def test_a_service_whose_program_is_not_there_is_stuck_at_once_and_says_so_in_the_agents_words(service):
    fail(service, 1, WHY, RunCause.CANNOT_START)
    help_ = "correct the command, or install the program on the hosts"
    assert told(service) == ("CRASH_LOOP", "you", f"task 0: {WHY}; {AGAIN}; {help_}")


def test_a_signal_is_named(service):
    fail(service, 1, signal=9)
    assert "task 0 was killed by SIGKILL" in told(service)[2]


def test_the_words_of_a_host_stand_with_the_exit_code(service):
    fail(service, 1, "killed by the kernel: out of memory")
    assert "task 0 exited with 127: killed by the kernel: out of memory" in told(service)[2]


def test_a_job_that_failed_for_a_program_that_is_not_there_says_so_and_sends_nobody_to_its_output(api):
    api.cell.host()
    api.cell.accept("a")
    fail(api, 1, WHY, RunCause.CANNOT_START, following=TaskState.FAILED)
    api.cell.decide("lifecycle", JobChanged(job_id="a", state=JobState.FAILED, failed=1))
    help_ = (
        "correct the command or the image in the file, then `paceline job delete a` and submit it again; or put there "
        "what is missing: `paceline job start a --failed` runs what failed again"
    )
    assert told(api) == ("RUN_FAILED", "you", f"1 task of 1 failed; task 0: {WHY}; {help_}")
    [task] = api.get("/v1/jobs/a/tasks")["tasks"]
    assert (task["cause"], task["reason"]) == ("CANNOT_START", WHY)
