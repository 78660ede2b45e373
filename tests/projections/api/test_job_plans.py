"""Plans over HTTP: the facts that are planned, and what is refused before anything is."""

from typing import Any

from starlette.testclient import TestClient

from events.codec import decode
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.topics import ALL
from projections.api.cell_router import create_cells_app
from tests.projections.conftest import LISTEN, TOKEN, Api

SPEC = {"job_id": "a", "pool": "/p", "command": ["x"], "instances": 2}
PLAN: dict[str, Any] = {
    "job_id": "a", "pool": "/p", "cell": 0, "outcome": "PLACED", "code": "DONE", "message": "", "tasks": 2,
    "placed_at_once": 2, "placed": 2, "waiting": 0, "hosts": [], "preempts": [], "reasons": [], "later_reasons": [],
    "update": None, "at": None, "position": "", "looked_ahead_s": 0.0, "cut_short": False,
}  # fmt: skip


def test_a_new_job_is_planned_as_it_would_be_submitted(api):
    api.pool("/p")
    api.plans.answer = PLAN
    ends = api.cell.log.ends([topic.name for topic in ALL])
    answer = api.client.post("/v1/job-plans", json=SPEC)
    assert (answer.status_code, answer.json()) == (200, PLAN)
    [fact] = api.plans.facts
    assert isinstance(fact, JobSubmitted)
    assert (fact.job_id, fact.instances) == ("a", 2)
    assert api.cell.log.ends([topic.name for topic in ALL]) == ends


def test_of_a_job_that_is_there_and_differs_its_update_is_planned(api):
    api.pool("/p")
    api.cell.accept("a", instances=2, kind="stateless")
    api.fold()
    api.plans.answer = PLAN
    assert api.client.post("/v1/job-plans", json={**SPEC, "instances": 3}).status_code == 200
    [fact] = api.plans.facts
    assert isinstance(fact, JobUpdateRequested)
    spec = decode(fact.spec)
    assert isinstance(spec, JobSubmitted)
    assert (fact.job_id, spec.instances) == ("a", 3)


def test_a_job_of_another_cell_is_planned_there(tmp_path_factory):
    cells = [Api(tmp_path_factory.mktemp("views"), number) for number in (0, 1)]
    for each in cells:
        each.pool("/p", cell=1)
        each.plans.answer = PLAN
    apps = {each.cell.log.cell: each.app for each in cells}
    client = TestClient(create_cells_app(apps), f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = client.post("/v1/job-plans", json=SPEC)
    assert (answer.status_code, answer.headers["log-cell"]) == (200, "1")
    assert [len(each.plans.facts) for each in cells] == [0, 1]
    for each in cells:
        each.close()


def test_several_jobs_are_planned_in_the_order_given(api):
    api.pool("/p")
    api.plans.answer = PLAN
    answer = api.client.post("/v1/job-plans", json={"jobs": [{**SPEC, "job_id": job_id} for job_id in ("b", "a", "c")]})
    assert (answer.status_code, [each["job_id"] for each in answer.json()["plans"]]) == (200, ["b", "a", "c"])
    assert [fact.job_id for fact in api.plans.facts] == ["b", "a", "c"]


def test_what_is_wrong_with_any_of_several_is_told_at_once(api):
    api.pool("/p")
    jobs = [SPEC, {**SPEC, "job_id": "b", "pool": "/none"}, {**SPEC, "job_id": "c", "instances": -1}, SPEC]
    body = api.problem(api.client.post("/v1/job-plans", json={"jobs": jobs}), 422, "INVALID_SPEC")
    faults = {each["pointer"]: each["message"] for each in body["errors"]}
    assert [*faults] == ["/jobs/1/pool", "/jobs/2/instances", "/jobs/3/job_id"]
    assert faults["/jobs/3/job_id"] == "is the id of another job of the request: a"
    for wrong in ({"jobs": []}, {"jobs": {}}, {"jobs": [SPEC], "more": 1}):
        api.problem(api.client.post("/v1/job-plans", json=wrong), 422, "INVALID_REQUEST")
    assert api.plans.facts == []


def test_jobs_of_several_cells_are_planned_each_in_its_own(tmp_path_factory):
    cells = [Api(tmp_path_factory.mktemp("views"), number) for number in (0, 1)]
    for each in cells:
        each.pool("/p", cell=0)
        each.pool("/q", cell=1)
        each.plans.answer = PLAN
    apps = {each.cell.log.cell: each.app for each in cells}
    client = TestClient(create_cells_app(apps), f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    jobs = [{**SPEC, "job_id": job_id, "pool": pool} for job_id, pool in (("a", "/q"), ("b", "/p"), ("c", "/q"))]
    answer = client.post("/v1/job-plans", json={"jobs": jobs})
    assert [each["job_id"] for each in answer.json()["plans"]] == ["a", "b", "c"]
    assert [[fact.job_id for fact in each.plans.facts] for each in cells] == [["b"], ["a", "c"]]
    for each in cells:
        each.close()


def test_what_a_submission_would_be_refused_for_is_not_planned(api):
    api.problem(api.client.post("/v1/job-plans", json=SPEC), 422, "NO_SUCH_POOL")
    api.problem(api.client.post("/v1/job-plans", json={**SPEC, "instances": -1}), 422, "INVALID_SPEC")
    assert api.client.post("/v1/job-plans", json=SPEC, headers={"Authorization": ""}).status_code == 401
    assert api.plans.facts == []


def test_a_dry_run_prepares_the_plan_that_follows_it(api):
    api.pool("/p")
    api.client.post("/v1/jobs", json={**SPEC, "job_id": "b"})
    assert api.plans.prepared == 0
    assert api.client.post("/v1/jobs?dry_run=true", json=SPEC).status_code == 200
    assert api.plans.prepared == 1
