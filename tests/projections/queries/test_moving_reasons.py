"""Tasks that are told to start or to stop have a reason as long as they do, and say what it hangs on."""

from typing import Any

import pytest

from events.columns import pack_ints
from events.records.hosts import HostSilent
from events.records.lifecycle import RunsAvailable, RunsStopping
from tests.helpers.written_cell import runs


def told(api: Any) -> tuple[str, str, str]:
    api.fold()
    headline = api.get("/v1/jobs/a/explanation")["headline"]
    assert (
        api.get("/v1/jobs/a")["reason"]["code"] == headline["code"] == api.get("/v1/jobs")["jobs"][0]["reason"]["code"]
    )
    return headline["code"], headline["actor"], headline["message"]


@pytest.fixture
def ordered(api):
    api.cell.host()
    api.cell.accept("a", instances=2)
    api.cell.run("a", (0, 1))
    return api


def test_a_run_that_its_host_has_not_started_yet_says_so(ordered):
    end = "; what isn't ready within start_deadline is stopped, and tried again"
    assert told(ordered) == (
        "STARTING",
        "nobody, wait",
        f"2 tasks are told to start on host h1, and its host hasn't said that it runs yet{end}",
    )


def test_a_health_check_that_does_not_pass_is_named(api):
    api.cell.host()
    api.cell.accept("a", kind="stateless", health={"command": ["true"]})
    api.cell.run("a", (0,))
    assert "1 task is told to start on host h1, and its health check hasn't passed yet" in told(api)[2]


def test_a_silent_host_is_named_with_since_when(ordered):
    ordered.cell.fact(HostSilent(host_id="h1", session=1))
    ordered.cell.decide("placement")
    code, _, message = told(ordered)
    assert code == "STARTING"
    assert "; host h1 hasn't been heard since 2023-11-14T22:13:20.000Z" in message


def test_a_job_that_runs_on_a_silent_host_says_since_when_and_what_comes_next(ordered):
    ordered.cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1))))
    ordered.cell.fact(HostSilent(host_id="h1", session=1))
    ordered.cell.decide("placement")
    ordered.fold()
    said = ordered.get("/v1/jobs/a/explanation")["headline"]
    assert (said["code"], said["actor"]) == ("HOST_SILENT", "nobody, wait")
    lost = "unless heard before, a host is lost at 2023-11-14T22:14:20.000Z, and its tasks run again"
    assert said["message"] == (
        f"2 tasks run on host h1, not heard since 2023-11-14T22:13:20.000Z; {lost}; "
        "sooner by `paceline host confirm-loss h1`"
    )
    ordered.cell.ms += 90_000
    ordered.cell.decide("placement")
    ordered.fold()
    message = ordered.get("/v1/jobs/a/explanation")["headline"]["message"]
    assert "of silent hosts only some a minute are lost, this one by 2023-11-14T22:23:20.000Z" in message


def test_a_run_that_is_told_to_stop_says_so(ordered):
    ordered.cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1))))
    ordered.fold()
    assert ordered.get("/v1/jobs/a/explanation")["headline"] is None
    stop = {"host_ids": ("h1",), "host": pack_ints([0]), "cause": pack_ints([3])}
    ordered.cell.decide("lifecycle", RunsStopping(**runs("a", (0,)), **stop))
    code, _, message = told(ordered)
    assert (code, message.startswith("1 task is told to stop on host h1, and has time for it")) == ("STOPPING", True)
