"""Writes of who doesn't see all: what is refused is refused by a dry run too, and stands in nobody's history."""

from typing import Any

import pytest

from events.records.lifecycle import JobRejected
from events.topics import JOBS
from tests.projections.access.matrix import Matrix, token_of
from tests.projections.access.test_limited_reads import OF_MAPS, asking, told
from tests.projections.api.test_stream_filters import heard
from tests.projections.conftest import Api

__all__ = ["told"]
JOB = {"command": ["true"], "resources": {"cpu": "1m"}}


@pytest.fixture
def matrix(tmp_path: Any) -> Any:
    held = Matrix(tmp_path)
    yield held
    held.api.close()


def sent(matrix: Matrix, path: str, body: Any) -> Any:
    shown = {"Authorization": f"Bearer {token_of('submitter')}"}
    return matrix.api.client.post(path, json=body, headers=shown)


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs?dry_run=true"])
def test_an_id_of_a_job_that_may_not_be_seen_is_taken_and_nothing_is_written(matrix: Matrix, path: str) -> None:
    end = matrix.api.cell.log.bounds(JOBS.name)[1]
    job = {**JOB, "job_id": "other", "pool": "/maps/x"}
    refused = sent(matrix, path, job)
    assert matrix.api.problem(refused, 409, "ID_TAKEN")["detail"] == (
        "another job was submitted under the id other; choose another id"
    )
    assert matrix.api.cell.log.bounds(JOBS.name)[1] == end


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_such_an_id_is_taken_in_a_batch_too(matrix: Matrix, query: str) -> None:
    jobs = [{**JOB, "job_id": job_id, "pool": "/maps/x"} for job_id in ("other", "new")]
    answers = sent(matrix, f"/v1/job-batches{query}", {"jobs": jobs}).json()["jobs"]
    assert answers[0]["problem"]["code"] == "ID_TAKEN"
    assert answers[1]["status"] < 300
    planned = sent(matrix, "/v1/job-plans", {"jobs": jobs[:1]})
    assert "choose another id (ID_TAKEN)" in matrix.api.problem(planned, 422, "INVALID_SPEC")["detail"]


def test_a_dry_run_of_an_update_says_that_a_job_stays_in_its_pool(told: Api) -> None:
    spec = {**JOB, "job_id": "m0", "pool": "/ads"}
    refused = told.client.post("/v1/jobs/m0/updates?dry_run=true", json={"spec": spec})
    assert told.problem(refused, 409, "NOT_UPDATABLE")["detail"] == (
        "pool of a batch job can't be changed; submit another job for it"
    )


@pytest.mark.parametrize("path", ["/v1/bindings?dry_run=true", "/v1/tokens?dry_run=true"])
def test_a_dry_run_takes_no_subject_that_nobody_sees(told: Api, path: str) -> None:
    body = {"subject": "ann\u2800", "role": "viewer", "pool": "/maps"}
    refused = told.problem(told.client.post(path, json=body), 422, "INVALID_ACCESS")
    assert refused["errors"] == [{"pointer": "/subject", "message": "it has characters that can't be shown"}]


def test_what_others_submitted_under_the_id_of_a_job_isn_t_told_to_its_readers(told: Api) -> None:
    at = told.cell.submit("m0", pool="/ads", owner="bob")
    told.cell.decide("lifecycle", JobRejected(job_id="m0", jobs_offset=at, code="ID_TAKEN", message="taken"))
    told.fold()
    whole = told.get("/v1/jobs/m0/history?page_size=100")["events"]
    with asking(OF_MAPS):
        history = told.get("/v1/jobs/m0/history?page_size=100")["events"]
        events = [each for each in heard(told) if each.event in ("JobSubmitted", "JobRejected")]
    assert {"submitted to /ads with 1 instance by bob", "rejected: ID_TAKEN: taken"} <= {each["text"] for each in whole}
    assert len(history) == len(whole) - 2
    assert "bob" not in str(history)
    assert [each.event for each in events] == ["JobSubmitted"] * 3
