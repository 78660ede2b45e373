"""Many jobs in one request: each answered, checked in their order, all or nothing where that is asked for."""

import asyncio
import json
import time

import pytest

from events.codec import decode
from events.process.images import ImageFault
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import JobRejected
from events.records.pools import PoolDefined
from events.topics import ALL
from projections.api import image_tags, job_batches, told_problems
from projections.api.context import Context
from tests.helpers.written_cell import accepted
from tests.projections.api.test_all_cells import two  # noqa: F401
from tests.projections.conftest import TOKEN

JSON = {"Content-Type": "application/json"}
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


@pytest.fixture
def registry(monkeypatch):
    """A registry that is asked: `says` of names what they stand for or why they don't; others never get an answer."""
    asked = []

    class Registry(dict):
        most = going = 0

    says = Registry()

    async def resolve(name, authfile=""):
        asked.append(name)
        says.going += 1
        says.most = max(says.most, says.going)
        try:
            await (asyncio.sleep(0) if name in says else asyncio.Event().wait())
        finally:
            says.going -= 1
        if isinstance(says[name], Exception):
            raise says[name]
        return says[name]

    monkeypatch.setattr(image_tags, "resolve", resolve)
    says.asked = asked
    return says


def test_the_images_of_a_batch_are_looked_up_together_and_each_once(api, registry, monkeypatch):
    monkeypatch.setattr(job_batches, "RESOLVE_S", 0.2)
    api.pool()
    digest = f"sha256:{'1' * 64}"
    registry |= {f"r/{each}:1": digest for each in range(6)} | {"r/bad:1": ImageFault("r/bad:1: denied", lasting=True)}
    names = [*(f"r/{each % 6}:1" for each in range(12)), "r/bad:1", "r/hangs:1", "r/hangs:2", f"r/x@{digest}", ""]
    jobs = [{**SPEC, "job_id": f"j{number}", "image": name} for number, name in enumerate(names) if name]
    started = time.monotonic()
    body = api.client.post("/v1/job-batches", json={"jobs": [*jobs, *batch("last")["jobs"]]}).json()
    assert time.monotonic() - started < 5
    assert [each["status"] for each in body["jobs"]] == [*[202] * 12, 422, 503, 503, 202, 202]
    assert {each["problem"]["code"] for each in body["jobs"][12:15]} == {"IMAGE_UNPINNED"}
    assert (sorted(registry.asked), registry.most) == (sorted({*names[:15]}), image_tags.LOOKS_MAX)
    facts = [decode(record.value) for record in api.cell.log.scan("paceline.jobs", 0)]
    assert [each.isolation.image_digest for each in facts[:12]] == [digest] * 12


@pytest.mark.parametrize("path", ["/v1/job-batches", "/v1/jobs"])
def test_a_client_that_leaves_while_a_registry_is_asked_leaves_no_traceback(api, registry, path):
    api.pool()
    job = {**SPEC, "job_id": "a", "image": "r/hangs:1"}
    text = json.dumps({"jobs": [job]} if path.endswith("batches") else job).encode()
    said = [{"type": "http.request", "body": text}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return said.pop(0)

    async def send(message):
        sent.append(message)

    headers = {"host": "127.0.0.1:7400", "content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path,
             "raw_path": path.encode(), "query_string": b"wait=30s", "scheme": "http", "root_path": "",
             "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
             "server": ("127.0.0.1", 7400), "client": ("127.0.0.1", 1)}  # fmt: skip
    asyncio.run(api.app(scope, receive, send))
    assert sent[0]["status"] == 499
    assert submitted(api.cell) == []


@pytest.mark.parametrize("field", [{"job_id": "a\ud800"}, {"pool": "/\ud800"}, {"env": {"A": "\udc00"}}, {"\ud800": 1}])
def test_half_a_character_is_refused_alone(api, field):
    api.pool()
    jobs = batch("a", "b", "c")["jobs"]
    jobs[1] |= field
    answer = api.client.post("/v1/job-batches", content=json.dumps({"jobs": jobs}), headers=JSON)
    assert [each["status"] for each in answer.json()["jobs"]] == [202, 422, 202]
    assert "half of a character" in answer.json()["jobs"][1]["problem"]["errors"][0]["message"]
    again = api.client.post("/v1/job-batches?all_or_nothing=true", content=json.dumps({"jobs": jobs}), headers=JSON)
    assert api.problem(again, 422, "INVALID_SPEC")["errors"][0]["pointer"].startswith("/jobs/1")


def test_an_answer_with_many_faults_has_a_bound_and_the_status_of_each_job(api, monkeypatch):
    monkeypatch.setattr(told_problems, "BYTES_MAX", 10_000)
    api.pool()
    jobs = batch(*(f"j{each}" for each in range(50)), **{f"unknown{each}": 1 for each in range(20)})["jobs"]
    answer = api.client.post("/v1/job-batches", json={"jobs": [*jobs, *batch("good")["jobs"]]})
    told = answer.json()["jobs"]
    assert [each["status"] for each in told] == [*[422] * 50, 202]
    errors = told[0]["problem"]["errors"]
    assert (len(errors), errors[-1]["message"]) == (11, "and 10 more")
    assert {each["problem"]["code"] for each in told[:50]} == {"INVALID_SPEC"}
    assert ("errors" in told[49]["problem"], "send the job alone" in told[49]["problem"]["detail"]) == (False, True)
    assert len(answer.content) < 10_000 + 51 * 500
    whole = api.client.post("/v1/job-batches?all_or_nothing=true", json={"jobs": jobs})
    assert len(whole.content) < 25_000
    assert "50 of 50 jobs are refused" in api.problem(whole, 422, "INVALID_SPEC")["detail"]


def test_a_batch_that_is_appended_in_several_pieces_tells_each_position(api, monkeypatch):
    monkeypatch.setattr(job_batches, "APPENDED_MAX", 2)
    api.pool()
    body = api.client.post("/v1/job-batches", json=batch("a", "b", "c", "d", "e")).json()
    assert [each["position"] for each in body["jobs"]] == [f"paceline.jobs:{at}" for at in range(5)]


def test_jobs_of_a_batch_get_their_own_warnings(api):
    api.pool()
    api.cell.host()
    api.fold()
    jobs = batch(*"abcd")["jobs"]
    for number in (0, 2):
        jobs[number]["health"] = {"command": ["true"]}
    told = api.client.post("/v1/job-batches", json={"jobs": jobs}).json()["jobs"]
    assert [len(each.get("warnings", [])) for each in told] == [1, 0, 1, 0]


def test_a_batch_for_a_pool_of_a_moment_ago_is_checked_once_the_pool_is_known(api, monkeypatch):
    at = api.cell.fact(PoolDefined(path="/new", command_id="c"))
    api.cell.decide("entitlement", PoolAnswered(path="/new", pools_offset=at, command_id="c", code="DONE"))

    async def settled(_):
        api.fold()

    monkeypatch.setattr(Context, "settle_pools", settled)
    told = api.client.post("/v1/job-batches", json=batch("a", "b", pool="/new")).json()["jobs"]
    assert [each["status"] for each in told] == [202, 202]
