"""Many jobs in one request: each answered, checked in their order, all or nothing where that is asked for."""

import pytest

from events.codec import decode
from events.records.lifecycle import JobRejected
from events.topics import ALL
from tests.helpers.written_cell import accepted
from tests.projections.api.test_all_cells import two  # noqa: F401

SPEC = {"pool": "/p", "command": ["true"], "instances": 2}


def batch(*job_ids, **more):
    return {"jobs": [{**SPEC, "job_id": job_id, **more} for job_id in job_ids]}


def submitted(cell):
    return [decode(record.value).job_id for record in cell.log.scan("paceline.jobs", 0)]


def test_each_job_of_a_batch_is_decided_and_answered(api):
    api.pool()
    api.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    answer = api.client.post("/v1/job-batches?wait=30s", json=batch("a", "b", "c"))
    assert answer.status_code == 200
    assert answer.json() == {
        "jobs": [
            {"job_id": name, "status": 201, "state": "PENDING", "position": f"paceline.jobs:{at}"}
            for at, name in enumerate("abc")
        ],
        "position": "paceline.jobs:2",
    }
    again = api.client.post("/v1/job-batches?wait=30s", json=batch("a", "b", "d")).json()["jobs"]
    assert [(each["status"], each.get("repeated")) for each in again] == [(200, True), (200, True), (201, None)]
    assert submitted(api.cell) == ["a", "b", "c", "d"]


def test_a_bad_job_is_refused_alone(api):
    api.pool()
    jobs = batch("a", "b", "c", "d")["jobs"]
    jobs[1]["pool"], jobs[2]["instances"] = "/none", -1
    body = api.client.post("/v1/job-batches", json={"jobs": [*jobs, "x", {**jobs[0], "instances": 7}]}).json()
    assert [each["status"] for each in body["jobs"]] == [202, 422, 422, 202, 422, 409]
    codes = [each["problem"]["code"] for each in body["jobs"] if "problem" in each]
    assert codes == ["NO_SUCH_POOL", "INVALID_SPEC", "INVALID_SPEC", "ID_TAKEN"]
    assert submitted(api.cell) == ["a", "d"]


def test_all_or_nothing_tells_what_is_wrong_with_any_and_writes_nothing(api):
    api.pool()
    api.pool("/p/leaf")
    jobs = batch("a", "b", pool="/p/leaf")["jobs"] + batch("c")["jobs"]
    body = api.problem(
        api.client.post("/v1/job-batches?all_or_nothing=true", json={"jobs": jobs}), 422, "POOL_NOT_A_LEAF"
    )
    assert [each["pointer"] for each in body["errors"]] == ["/jobs/2/pool"]
    assert "1 of 3 jobs are refused, so none is submitted" in body["detail"]
    assert submitted(api.cell) == []


@pytest.mark.parametrize(
    ("limits", "code"), [({"open_jobs_max": 2}, "OPEN_JOBS_MAX"), ({"open_tasks_max": 5}, "OPEN_TASKS_MAX")]
)
def test_the_jobs_of_a_batch_count_for_those_after_them(api, limits, code):
    api.pool(**limits)
    answer = api.client.post("/v1/job-batches?all_or_nothing=true", json=batch("a", "b", "c"))
    assert [each["pointer"] for each in api.problem(answer, 429, code)["errors"]] == ["/jobs/2"]
    assert answer.headers["retry-after"]
    body = api.client.post("/v1/job-batches", json=batch("a", "b", "c")).json()
    assert [each["status"] for each in body["jobs"]] == [202, 202, 429]


def test_what_the_machines_refuse_is_refused_alone(api):
    api.pool()

    def says(at, event):
        if event.job_id != "b":
            return accepted(event, at)
        return (JobRejected(job_id="b", jobs_offset=at, code="OPEN_JOBS_MAX", message="m"),)

    api.answer("paceline.jobs", "lifecycle", says)
    jobs = api.client.post("/v1/job-batches?wait=30s&all_or_nothing=true", json=batch("a", "b", "c")).json()["jobs"]
    assert [each["status"] for each in jobs] == [201, 429, 201]
    assert (jobs[1]["problem"]["code"], jobs[1]["problem"]["position"]) == ("OPEN_JOBS_MAX", "paceline.jobs:1")


def test_a_dry_run_of_a_batch_writes_nothing(api):
    api.pool()
    ends = api.cell.log.ends([topic.name for topic in ALL])
    body = api.client.post("/v1/job-batches?dry_run=true", json=batch("a", "b")).json()
    assert [each["events"][0]["job_id"] for each in body["jobs"]] == ["a", "b"]
    assert (body["position"], api.cell.log.ends([topic.name for topic in ALL])) == ("", ends)


@pytest.mark.parametrize(
    "body", [{"jobs": []}, {"jobs": {}}, [], {"jobs": [SPEC], "more": 1}, {"jobs": [SPEC] * 10_001}]
)
def test_what_is_no_batch_is_refused(api, body):
    api.problem(api.client.post("/v1/job-batches", json=body), 422, "INVALID_REQUEST")


def test_the_jobs_of_a_batch_go_each_to_the_cell_of_its_pool(two):  # noqa: F811
    jobs = [{"job_id": f"j{number}", "pool": f"/p{number % 3}", "command": ["true"]} for number in range(6)]
    answer = two.client.post("/v1/job-batches", json={"jobs": jobs})
    assert [each["status"] for each in answer.json()["jobs"]] == [202, 202, 409, 202, 202, 409]
    assert answer.json()["jobs"][2]["problem"]["code"] == "WRONG_CELL"
    assert answer.json()["position"] == "paceline.jobs@0:1,paceline.jobs@1:1"
    assert [[fact.job_id for fact in two.facts(number, "paceline.jobs")] for number in (0, 1)] == [
        ["j0", "j3"],
        ["j1", "j4"],
    ]
    for each in two.cells:
        each.fold()
    moved = [{**jobs[0], "pool": "/p1"}]
    refused = two.client.post("/v1/job-batches?all_or_nothing=true", json={"jobs": moved})
    two.refused(refused, 409, "ID_TAKEN")
