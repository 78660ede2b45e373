"""Plans of updates: whether all instances would get their version, or how many."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.abilities import CONTAINER, VALUE
from events.codec import encode
from events.records.jobs import JobStopRequested, JobSubmitted, JobUpdateRequested
from events.records.parts import Isolation, UpdatePolicy
from events.records.pools import PoolDefined
from events.spec.job import JobSpec
from hostagent.fleet import SimHost
from paceline.client.plan_models import JobPlan
from tests.paceline.plans.cells import PlannedCell, job

WEB: dict[str, Any] = {"kind": "stateless", "instances": 39, "resources": {"cpu": 1000}, "max_unavailable": 3}


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """Three hosts of 20 CPUs, and a service of 39."""
    cell = PlannedCell(tmp_path, [SimHost(3, {"cpu": 20_000, "memory": 65_536})])
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1000)
    cell.submit("web", "/p", **WEB)
    cell.run(1000)
    yield cell
    cell.close()


def update(**changes: Any) -> JobUpdateRequested:
    return JobUpdateRequested(job_id="web", command_id="u", spec=encode(job("web", "/p", **{**WEB, **changes})))


def steps(plan: JobPlan) -> tuple[str, str, int]:
    """The outcome, the state of the update, and how many instances it is done with."""
    assert plan["update"] is not None
    return plan["outcome"], plan["update"]["state"], plan["update"]["steps"]["done"]


def test_an_update_that_fits_is_told_and_then_done(cell: PlannedCell) -> None:
    change = update(resources={"cpu": 1200})
    plan = cell.plan(change, job_id="web")
    assert steps(plan) == ("UPDATED", "SUCCEEDED", 39)
    assert sum(each["tasks"] for each in plan["hosts"]) == 39
    cell.append(change)
    cell.run(round(plan["looked_ahead_s"] * 1000))
    assert cell.outcome("web") == {"placed": 39, "waiting": 0, "reasons": [], "state": "RUNNING"}


def test_an_update_for_whose_last_instances_there_is_no_room_is_told_so(cell: PlannedCell) -> None:
    plan = cell.plan(update(resources={"cpu": 1600}), job_id="web")
    assert steps(plan) == ("UPDATE_WAITS", "ROLLING", 35)
    assert {each["code"] for each in plan["later_reasons"]} >= {"NO_HOST_FITS", "UPDATING"}


def test_an_update_that_fits_nowhere_fails(cell: PlannedCell) -> None:
    plan = cell.plan(update(resources={"cpu": 30_000}), job_id="web")
    assert steps(plan) == ("UPDATE_FAILS", "FAILED", 0)
    assert {each["code"] for each in plan["reasons"]} == {"NEVER_FITS", "UPDATING"}


def limited(limit: int, job_id: str = "web") -> JobSubmitted:
    """The service with a limit for each host."""
    body = {"job_id": job_id, "pool": "/p", "kind": "stateless", "instances": 39, "command": ["x"], "host_limit": limit}
    return JobSpec.model_validate({**body, "resources": {"cpu": 1}, "sla": {"max_unavailable": 3}}).to_event()


def test_a_limit_for_each_host_that_an_update_brings_does_not_fail_against_its_old_instances(cell: PlannedCell) -> None:
    """The instances are 20, 19 and none on three hosts; they become 13 on each."""
    change = JobUpdateRequested(job_id="web", command_id="u", spec=encode(limited(13)))
    plan = cell.plan(change, job_id="web")
    assert steps(plan) == ("UPDATED", "SUCCEEDED", 39)
    assert [each["tasks"] for each in plan["hosts"]] == [13, 13, 13]


def test_a_limit_that_leaves_no_place_for_all_is_told(cell: PlannedCell) -> None:
    change = JobUpdateRequested(job_id="web", command_id="u", spec=encode(limited(12)))
    plan = cell.plan(change, job_id="web")
    assert plan["outcome"] == "UPDATE_FAILS"
    assert "HOST_LIMIT_REACHED" in {each["code"] for each in plan["later_reasons"]}
    cell.append(JobStopRequested(job_id="web", command_id="stop"))
    cell.run(60_000)
    anew = cell.plan(limited(12, "anew"), job_id="anew")
    assert (anew["outcome"], anew["placed"], anew["waiting"]) == ("PARTLY_PLACED", 36, 3)
    assert [each["code"] for each in anew["reasons"]] == ["HOST_LIMIT_REACHED"]


def test_an_update_of_another_version_is_refused(cell: PlannedCell) -> None:
    change = JobUpdateRequested(job_id="web", command_id="u", expected_version=7, spec=update().spec)
    plan = cell.plan(change, job_id="web")
    assert (plan["outcome"], plan["code"], plan["update"]) == ("REFUSED", "VERSION_CONFLICT", None)


def test_hosts_of_a_plan_pull_the_image_of_an_update_at_once(tmp_path: Path) -> None:
    hosts = [SimHost(3, {"cpu": 20_000, "memory": 65_536}, attributes={CONTAINER: VALUE})]
    cell = PlannedCell(tmp_path, hosts)
    apart = [Isolation(level="container", image=f"r/web:{n}", image_digest=f"sha256:{str(n) * 64}") for n in (1, 2)]
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1000)
    cell.submit("web", "/p", **WEB, isolation=apart[0])
    cell.run(1000)
    plan = cell.plan(update(isolation=apart[1], update=UpdatePolicy(prefetch=True)), job_id="web")
    assert steps(plan) == ("UPDATED", "SUCCEEDED", 39)
    assert plan["looked_ahead_s"] < 600
    cell.close()
