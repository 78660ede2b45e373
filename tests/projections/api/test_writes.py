"""Submitting, stopping, pools and loss confirmations over HTTP; who may, and what is refused."""

import json

import msgspec
import numpy as np
import pytest
from anyio import to_thread

from events.bounds import SPEC_BYTES_MAX
from events.codec import decode
from events.job_versions import wanted_spec
from events.log.port import AppendUnknown
from events.override_chunks import name_of, reader
from events.records.entitlement import PoolAnswered
from events.records.hosts import (
    HostClearRequested,
    HostLossConfirmed,
    HostOffered,
    HostRemovalRequested,
    HostTaintRequested,
)
from events.records.jobs import JobPriorityRequested, JobStopRequested, JobSubmitted
from events.records.lifecycle import CommandAnswered, JobPriorityChanged, JobRejected
from events.records.placement import HostAnswered, HostRemoved, HostTainted
from events.records.pools import PoolDefined, PoolRemoved
from events.task_overrides import override_keys
from projections.api import context
from projections.api.guards import BODY_BYTES_MAX
from tests.helpers.written_cell import accepted
from tests.projections.conftest import LISTEN, TOKEN

SPEC = {"job_id": "a", "pool": "/p", "command": ["true"], "instances": 2}


def last(api, topic):
    return decode(list(api.cell.log.scan(topic, 0))[-1].value)


def unsigned(fact):
    return msgspec.structs.replace(fact, actor=None)


def test_a_job_is_taken_and_its_position_told(api):
    api.pool()
    answer = api.client.post("/v1/jobs", json=SPEC)
    assert answer.status_code == 202
    assert answer.json() == {"job_id": "a", "position": "paceline.jobs:0", "state": "SUBMITTED"}
    assert answer.headers["location"] == "/v1/jobs/a"
    event = last(api, "paceline.jobs")
    assert isinstance(event, JobSubmitted)
    assert (event.job_id, event.instances, len(event.spec_hash)) == ("a", 2, 32)
    api.fold()
    job = api.get("/v1/jobs/a")
    assert (job["state"], job["position"], job["reason"]["code"]) == (
        "SUBMITTED",
        "paceline.jobs:0",
        "NOT_YET_EVALUATED",
    )


def test_waiting_gives_the_job_as_accepted(api):
    api.pool()
    api.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    answer = api.client.post("/v1/jobs?wait=30s", json=SPEC)
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/jobs/a")
    assert (answer.json()["state"], answer.json()["tasks"]["queued"], answer.json()["repeated"]) == (
        "PENDING",
        2,
        False,
    )


def test_waiting_gives_the_refusal_of_lifecycle(api):
    api.pool()
    api.answer(
        "paceline.jobs",
        "lifecycle",
        lambda at, event: (JobRejected(job_id=event.job_id, jobs_offset=at, code="POOL_NOT_A_LEAF", message="m"),),
    )
    body = api.problem(api.client.post("/v1/jobs?wait=30s", json=SPEC), 422, "POOL_NOT_A_LEAF")
    assert body["position"] == "paceline.jobs:0"
    assert api.get("/v1/jobs/a")["reason"]["code"] == "POOL_NOT_A_LEAF"


def test_waiting_in_vain_answers_as_without(api):
    api.pool()
    assert api.client.post("/v1/jobs?wait=1ms", json=SPEC).status_code == 202


def test_the_same_job_again_is_a_repeat_and_writes_nothing(api):
    api.pool()
    api.client.post("/v1/jobs", json=SPEC)
    api.fold()
    again = api.client.post("/v1/jobs", json={**SPEC, "resources": {"cpu": "100m"}})
    assert again.status_code == 200
    assert again.json()["repeated"] is True
    assert api.cell.log.bounds("paceline.jobs")[1] == 1


def test_another_job_under_a_taken_id_is_refused(api):
    api.pool()
    api.client.post("/v1/jobs", json=SPEC)
    api.fold()
    api.problem(api.client.post("/v1/jobs", json={**SPEC, "instances": 3}), 409, "ID_TAKEN")


def test_the_id_of_a_rejected_job_is_free(api):
    api.pool()
    at = api.cell.submit("a")
    api.cell.decide("lifecycle", JobRejected(job_id="a", jobs_offset=at, code="OPEN_JOBS_MAX", message="m"))
    api.fold()
    assert api.client.post("/v1/jobs", json=SPEC).status_code == 202


def test_an_unknown_pool_is_refused(api):
    body = api.problem(api.client.post("/v1/jobs", json=SPEC), 422, "NO_SUCH_POOL")
    assert body["errors"][0]["pointer"] == "/pool"
    assert api.cell.log.bounds("paceline.jobs")[1] == 0


def test_a_pool_defined_a_moment_ago_is_waited_for(api, monkeypatch):
    monkeypatch.setattr(context, "POOL_WAIT_S", 60.0)
    api.answer(
        "paceline.pools",
        "entitlement",
        lambda at, event: (PoolAnswered(path=event.path, pools_offset=at, command_id="c", code="DONE"),),
    )
    api.client.put("/v1/pools/p", json={})
    assert api.client.post("/v1/jobs", json=SPEC).status_code == 202


@pytest.mark.parametrize(
    ("limits", "code"), [({"open_jobs_max": 1}, "OPEN_JOBS_MAX"), ({"open_tasks_max": 2}, "OPEN_TASKS_MAX")]
)
def test_a_full_pool_asks_for_patience(api, limits, code):
    api.pool(**limits)
    api.cell.accept("other")
    api.fold()
    answer = api.client.post("/v1/jobs", json=SPEC)
    api.problem(answer, 429, code)
    assert answer.headers["retry-after"]


def test_a_daemon_is_taken_in_a_pool_that_has_more_open_tasks_than_it_may(api):
    api.pool(open_tasks_max=1)
    api.cell.accept("other", instances=3)
    api.fold()
    api.problem(api.client.post("/v1/jobs", json=SPEC), 429, "OPEN_TASKS_MAX")
    daemon = {"job_id": "d", "kind": "daemon", "pool": "/p", "command": ["x"]}
    answer = api.client.post("/v1/jobs", json=daemon)
    assert answer.status_code == 202, answer.text


def test_everything_wrong_with_a_spec_comes_at_once(api):
    spec = {"pool": "p", "comand": ["x"], "resources": {"memroy": "1GiB"}}
    body = api.problem(api.client.post("/v1/jobs", json=spec), 422, "INVALID_SPEC")
    assert {each["pointer"] for each in body["errors"]} == {
        "/job_id", "/pool", "/comand", "/resources/memroy",
    }  # fmt: skip
    assert any("did you mean command?" in each["message"] for each in body["errors"])
    body = api.problem(api.client.post("/v1/jobs", json={**SPEC, "comand": ["x"]}), 422, "INVALID_SPEC")
    assert [each["pointer"] for each in body["errors"]] == ["/comand", "/pool"]
    assert "there is no pool /p" in body["errors"][1]["message"]


def test_a_dry_run_checks_and_writes_nothing(api):
    api.problem(api.client.post("/v1/jobs?dry_run=true", json=SPEC), 422, "NO_SUCH_POOL")
    api.pool()
    answer = api.client.post("/v1/jobs?dry_run=true", json=SPEC)
    [event] = answer.json()["events"]
    assert (answer.status_code, event["event"], event["job_id"]) == (200, "JobSubmitted", "a")
    assert api.cell.log.bounds("paceline.jobs")[1] == 0
    api.cell.accept("a")
    api.fold()
    api.problem(api.client.post("/v1/jobs?dry_run=true", json={**SPEC, "instances": 3}), 409, "ID_TAKEN")


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_a_job_for_a_pool_with_pools_below_it_is_refused_before_it_is_written(api, query):
    for path in ("/p", "/p/q", "/pq"):
        api.pool(path)
    body = api.problem(api.client.post(f"/v1/jobs{query}", json=SPEC), 422, "POOL_NOT_A_LEAF")
    assert body["detail"] == "pool /p has pools below it; jobs go to one of those"
    assert api.cell.log.bounds("paceline.jobs")[1] == 0
    for leaf in ("/p/q", "/pq"):
        assert api.client.post("/v1/jobs?dry_run=true", json={**SPEC, "pool": leaf}).status_code == 200


def test_a_pool_of_another_case_is_not_below_a_leaf(api):
    api.pool("/maps")
    api.pool("/Maps")
    api.pool("/Maps/tiles")
    assert api.client.post("/v1/jobs", json={**SPEC, "pool": "/maps"}).status_code == 202
    api.problem(api.client.post("/v1/jobs", json={**SPEC, "pool": "/Maps"}), 422, "POOL_NOT_A_LEAF")


def test_a_submission_changes_threads_once(api, monkeypatch):
    api.pool()
    hops, plain = [], to_thread.run_sync

    async def counted(*args, **options):
        hops.append(args[0])
        return await plain(*args, **options)

    monkeypatch.setattr(to_thread, "run_sync", counted)
    assert api.client.post("/v1/jobs", json=SPEC).status_code == 202
    assert len(hops) == 1


def test_a_job_that_needs_what_no_host_offers_is_taken_with_a_warning(api):
    api.pool()
    api.cell.host()
    api.fold()
    needs = {**SPEC, "health": {"command": ["true"]}, "open_files": 4096}
    [health, files] = api.client.post("/v1/jobs?dry_run=true", json=needs).json()["warnings"]
    what = "no host offers paceline/health, which the health check of the job needs: it waits for one that does"
    assert (health, files.split(",")[0]) == (what, "no host offers paceline/open-files")
    assert api.client.post("/v1/jobs", json=needs).json()["warnings"] == [health, files]
    offered = {"paceline/health": "yes", "paceline/open-files": "yes"}
    api.cell.host("h2")
    api.cell.fact(HostOffered(host_id="h2", session=1, capacity={"cpu": 1000, "memory": 1024}, attributes=offered))
    api.fold()
    assert "warnings" not in api.client.post("/v1/jobs?dry_run=true", json={**needs, "job_id": "b"}).json()


def test_a_job_that_waits_for_another_is_taken_with_a_warning(api):
    """Of two jobs that want each other the second hears of the circle."""
    api.pool()
    api.cell.host()
    api.fold()

    def warned(job_id, wants):
        spec = {**SPEC, "job_id": job_id, "labels": {"app": job_id}, "affinity": [{"label": "app", "value": wants}]}
        checked = api.client.post("/v1/jobs?dry_run=true", json=spec).json().get("warnings", [])
        assert api.client.post("/v1/jobs", json=spec).json().get("warnings", []) == checked
        return checked

    what = "it waits for a task with the label app="
    assert warned("one", "two") == [f"{what}two: no job has it (AFFINITY_UNMET)"]
    api.cell.decide("lifecycle", *accepted(last(api, "paceline.jobs"), 0))
    api.fold()
    circle = "job one has it and waits itself for app=two, which this job has, so neither goes first (AFFINITY_UNMET)"
    assert warned("two", "one") == [f"{what}one: {circle}"]
    assert warned("self", "self") == []


def test_rules_about_attributes_that_no_host_has_are_taken_with_a_warning(api):
    api.pool()
    for number, room in enumerate(("north", "south"), 1):
        api.cell.host(f"h{number}", session=1_795_673_927_421 + number, rack=f"r{number}", room=room)
    api.fold()

    def warned(**more):
        return api.client.post("/v1/jobs?dry_run=true", json={**SPEC, "job_id": "x", **more}).json().get("warnings", [])

    unknown = "no host has an attribute rakc (did you mean rack?) (CONSTRAINT_MISMATCH)"
    assert warned(spread={"over": "rakc"}) == [f"spread.over: {unknown}"]
    assert warned(gang={"min": 2}, within="rakc") == [f"within: {unknown}"]
    apart = [{"label": "app", "value": "x", "within": "rakc"}]
    assert warned(anti_affinity=apart) == [f"anti_affinity.within: {unknown}"]
    assert warned(spread={"over": "room", "targets": {"nroth": 50, "south": 50}}) == [
        "spread.targets: no host has room nroth (did you mean north?); hosts have north, south (CONSTRAINT_MISMATCH)"
    ]
    assert warned(spread={"over": "room", "targets": {"north": 50}}) == []


def test_a_job_that_would_fit_on_no_host_is_taken_with_a_warning(api):
    api.pool()
    api.cell.host(session=1_795_673_927_421)
    api.fold()

    def warned(**more):
        checked = api.client.post("/v1/jobs?dry_run=true", json={**SPEC, **more}).json().get("warnings", [])
        assert api.client.post("/v1/jobs", json={**SPEC, **more}).json().get("warnings", []) == checked
        return checked

    assert warned(job_id="fits") == []
    too_large = "it asks 40 cpu, the most of those that match is 8 cpu (NEVER_FITS)"
    assert warned(job_id="large", resources={"cpu": 40}) == [f"2 instances would fit on no host: {too_large}"]
    api.cell.host("h2", session=1_795_673_927_422, cpu=16_000)
    api.fold()
    much = {"cpu": 12, "memory": "100GiB"}
    told = "it asks 100GiB memory, the most of those that match is 8GiB memory (NEVER_FITS)"
    assert warned(job_id="deep", resources=much) == [f"2 instances would fit on no host: {told}"]
    constraints = [{"attribute": "rack", "values": ["r9"]}]
    assert warned(job_id="rack", constraints=constraints) == [
        "2 instances would fit on no host: none meets its constraints; no host has an attribute rack "
        "(CONSTRAINT_MISMATCH)"
    ]
    told = "2 of 3 instances would find a place: 2 hosts would take 1 each (`host_limit`) (HOST_LIMIT_REACHED)"
    assert warned(job_id="limited", instances=3, host_limit=1) == [told]
    assert warned(job_id="enough", host_limit=2) == []
    api.cell.fact(HostOffered(host_id="h2", session=1_795_673_927_422, capacity={"cpu": 16_000, "memory": 8192},
                              taints={"dedicated": "ml"}))  # fmt: skip
    api.fold()
    told = "those that meet its constraints and are large enough have taints that it doesn't tolerate: dedicated=ml"
    assert warned(job_id="kept", resources={"cpu": 12}) == [f"2 instances would fit on no host: {told} (HOSTS_TAINTED)"]


def test_a_job_needs_an_id_and_must_fit_a_record(api):
    api.pool()
    spec = {name: value for name, value in SPEC.items() if name != "job_id"}
    body = api.problem(api.client.post("/v1/jobs", json=spec), 422, "INVALID_SPEC")
    assert body["errors"][0]["pointer"] == "/job_id"
    env = dict.fromkeys("ABCDE", "x" * 120000)
    api.problem(api.client.post("/v1/jobs", json={**SPEC, "env": env}), 422, "TOO_LARGE")


def test_bytes_that_are_no_job_are_refused(api):
    kind = {"Content-Type": "application/json"}
    api.problem(api.client.post("/v1/jobs", content=b"{", headers=kind), 400, "NOT_JSON")
    api.problem(api.client.post("/v1/jobs", content=b"[]", headers=kind), 422, "INVALID_SPEC")
    api.problem(api.client.post("/v1/jobs", content=b"", headers=kind), 422, "INVALID_REQUEST")
    api.problem(api.client.post("/v1/jobs", content=b"[" * 100_000, headers=kind), 400, "BAD_REQUEST")
    for path, most in (("/v1/jobs", SPEC_BYTES_MAX), ("/v1/jobs/a/stops", BODY_BYTES_MAX)):
        api.problem(api.client.post(path, content=b" " * (most + 1), headers=kind), 413, "TOO_LARGE")


def test_writes_need_the_token_and_json(api):
    body = json.dumps(SPEC)
    plain = {"Content-Type": "text/plain"}
    api.problem(api.client.post("/v1/jobs", content=body, headers=plain), 415, "JSON_ONLY")
    for wrong, told in (
        ("Bearer ", "none was given"),
        ("", "none was given"),
        (TOKEN, "is wrong"),
        ("Bearer x", "is wrong"),
        ("Bearer schlüssel".encode(), "character 5 of 9 is U+00FC"),
    ):
        refused = api.client.post("/v1/jobs", json=SPEC, headers={"Authorization": wrong})
        assert told in api.problem(refused, 401, "TOKEN_NEEDED")["detail"]
    for header, refuses in (("", False), ("Basic x", False), ("Bearer x", True)):
        planned = api.client.post("/v1/pool-plans", json={"pools": []}, headers={"Authorization": header})
        assert (planned.status_code == 401) == refuses, "a plan writes nothing, and a wrong token is wrong everywhere"
    assert refused.headers["www-authenticate"] == "Bearer"
    assert api.cell.log.bounds("paceline.jobs")[1] == 0


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer"])
def test_the_word_before_the_token_may_be_written_in_any_case(api, scheme):
    api.pool()
    assert api.client.post("/v1/jobs", json=SPEC, headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 202


def test_a_parameter_that_a_route_does_not_have_is_refused_with_the_nearest(api):
    api.pool()
    for path, told in (
        ("/v1/jobs?pol=/p", "no parameter pol; did you mean pool?"),
        ("/v1/jobs?state=RUNNING&page-size=3", "no parameter page-size; did you mean page_size?"),
        ("/v1/cell?colour=red", "no parameter colour; there are at, cell"),
        ("/livez?x", "no parameter x; there are at, cell"),
    ):
        body = api.problem(api.client.get(path), 422, "UNKNOWN_PARAMETER")
        assert (body["detail"], body["errors"][0]["message"]) == (told, "no such parameter")
    refused = api.client.post("/v1/jobs?dryrun=true", json=SPEC)
    assert "did you mean dry_run?" in api.problem(refused, 422, "UNKNOWN_PARAMETER")["detail"]
    assert api.cell.log.bounds("paceline.jobs")[1] == 0, "a misspelt dry run submits nothing"
    for path in ("/v1/jobs?cell=0", "/v1/jobs?pool=/p&label=a:b&label=c:d", "/livez?cell=0&at=now", "/v1/cell?cell=0"):
        assert api.client.get(path).status_code == 200, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7400", "127.0.0.1.evil.example", "", "[", "10.0.0.1"])
def test_a_page_that_renamed_itself_may_not_read(api, host):
    api.problem(api.client.get("/v1/jobs", headers={"Host": host, "Authorization": ""}), 421, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:7400", "[::1]:7400"])
def test_loopback_names_are_known(api, host):
    assert api.client.get("/v1/jobs", headers={"Host": host, "Authorization": ""}).status_code == 200


def test_pages_of_others_may_not_write_and_the_own_may(api):
    api.pool()
    api.problem(
        api.client.post("/v1/jobs", json=SPEC, headers={"Origin": "http://evil.example"}), 403, "ORIGIN_NOT_ALLOWED"
    )
    api.problem(api.client.post("/v1/jobs", json=SPEC, headers={"Origin": "null"}), 403, "ORIGIN_NOT_ALLOWED")
    assert api.client.post("/v1/jobs", json=SPEC, headers={"Origin": f"http://{LISTEN}"}).status_code == 202


def test_a_stop_is_written_and_answered(api):
    api.cell.accept("a")
    api.fold()
    answer = api.client.post("/v1/jobs/a/stops", json={"command_id": "mine", "reason": "enough"})
    assert (answer.status_code, answer.json()["command_id"], answer.json()["position"]) == (
        202,
        "mine",
        "paceline.jobs:1",
    )
    assert answer.headers["log-position"] == "paceline.jobs:1"
    assert unsigned(last(api, "paceline.jobs")) == JobStopRequested(job_id="a", command_id="mine", reason="enough")
    api.answer(
        "paceline.jobs",
        "lifecycle",
        lambda at, event: (
            CommandAnswered(job_id="a", jobs_offset=at, command_id=event.command_id, code="REPEATED", message="m"),
        ),
    )
    waited = api.client.post("/v1/jobs/a/stops?wait=30s", json={})
    assert (waited.status_code, waited.json()["code"], waited.json()["message"]) == (200, "REPEATED", "m")


def test_a_priority_is_written_and_answered_and_shown(api):
    api.cell.accept("a")
    api.fold()
    answer = api.client.post("/v1/jobs/a/priorities", json={"command_id": "mine", "priority": -5, "reason": "later"})
    assert (answer.status_code, answer.json()["position"]) == (202, "paceline.jobs:1")
    wanted = JobPriorityRequested(job_id="a", command_id="mine", priority=-5, reason="later")
    assert unsigned(last(api, "paceline.jobs")) == wanted
    done = CommandAnswered(job_id="a", jobs_offset=1, command_id="mine", code="DONE")
    api.cell.decide("lifecycle", done, JobPriorityChanged(job_id="a", priority=-5))
    api.fold()
    shown = api.get("/v1/jobs/a")
    assert (shown["priority"], shown["state"]) == (-5, "PENDING"), "it isn't being stopped"
    api.problem(api.client.post("/v1/jobs/none/priorities", json={"priority": 1}), 404, "NOT_FOUND")
    for wrong in ({}, {"priority": "1"}, {"priority": 1 << 31}):
        body = api.problem(api.client.post("/v1/jobs/a/priorities", json=wrong), 422, "INVALID_REQUEST")
        assert body["errors"][0]["pointer"] == "/priority"
    api.answer("paceline.jobs", "lifecycle", lambda at, event: (
        CommandAnswered(job_id="a", jobs_offset=at, command_id="", code="ALREADY_ENDED", message="the job is KILLED"),
    ))  # fmt: skip
    late = api.client.post("/v1/jobs/a/priorities?wait=30s", json={"priority": 1})
    api.problem(late, 409, "ALREADY_ENDED")


def test_a_stop_of_nothing_and_a_strange_stop_are_refused(api):
    api.problem(api.client.post("/v1/jobs/none/stops", json={}), 404, "NOT_FOUND")
    body = api.problem(api.client.post("/v1/jobs/a/stops", json={"why": 1}), 422, "INVALID_REQUEST")
    assert body["errors"][0]["pointer"] == "/why"
    api.problem(api.client.post("/v1/jobs/a/stops?wait=soon", json={}), 422, "INVALID_REQUEST")


def test_a_pool_is_defined_refused_and_removed(api):
    def says(at, event):
        code = {"/x/y": "INVALID_POOL", "/used": "POOL_IN_USE"}.get(event.path, "DONE")
        return (PoolAnswered(path=event.path, pools_offset=at, command_id=event.command_id, code=code, message="m"),)

    api.pool("/used")
    api.pool("/used/below")
    assert api.client.put("/v1/pools/early", json={}).status_code == 202
    api.answer("paceline.pools", "entitlement", says)
    done = api.client.put("/v1/pools/maps/tiles?wait=30s", json={"reservation": {"cpu": 4}, "share": 2})
    assert (done.status_code, done.json()["code"]) == (201, "DONE")
    assert done.headers["location"] == "/v1/pools/maps/tiles"
    assert done.headers["etag"] == api.client.get("/v1/pools/maps/tiles").headers["etag"]
    assert done.headers["log-position"] == done.json()["position"] == "paceline.pools:3"
    fact = last(api, "paceline.pools")
    assert isinstance(fact, PoolDefined)
    assert (fact.path, fact.reservation.get("cpu", 0), fact.share_default) == ("/maps/tiles", 4000, 2)
    assert api.get("/v1/pools/maps/tiles")["reservation"]["cpu"] == 4
    refused = api.client.put("/v1/pools/x/y?wait=30s", json={})
    assert api.problem(refused, 422, "INVALID_POOL")["position"] == "paceline.pools:4"
    api.problem(api.client.delete("/v1/pools/used?wait=30s"), 409, "POOL_IN_USE")
    assert api.client.delete("/v1/pools/maps/tiles?wait=30s").status_code == 200
    assert isinstance(last(api, "paceline.pools"), PoolRemoved)
    api.problem(api.client.get("/v1/pools/maps/tiles"), 404, "NOT_FOUND")


def test_a_pool_that_makes_no_sense_is_refused(api):
    body = api.problem(api.client.put("/v1/pools/a", json={"limit": {"cpus": 1}}), 422, "INVALID_POOL")
    assert body["errors"][0] == {"pointer": "/limit/cpus", "message": "is not a known field; did you mean cpu?"}
    api.problem(api.client.put("/v1/pools/a//b", json={}), 422, "INVALID_POOL")
    api.problem(api.client.delete("/v1/pools/none"), 404, "NOT_FOUND")


def test_an_operator_confirms_that_a_host_is_lost(api):
    api.cell.host("h1")
    api.fold()
    assert api.client.post("/v1/hosts/h1/loss-confirmations", json={"reason": "fire"}).status_code == 202
    fact = last(api, "paceline.hosts")
    assert isinstance(fact, HostLossConfirmed)
    assert (fact.host_id, fact.reason) == ("h1", "fire")
    codes = iter(["DONE", "NOT_SILENT"])
    api.answer(
        "paceline.hosts",
        "placement",
        lambda at, event: (HostAnswered(host_id="h1", hosts_offset=at, command_id="", code=next(codes), message="m"),),
    )
    assert api.client.post("/v1/hosts/h1/loss-confirmations?wait=30s", json={}).json()["code"] == "DONE"
    refused = api.client.post("/v1/hosts/h1/loss-confirmations?wait=30s", json={})
    api.problem(refused, 409, "NOT_SILENT")
    api.problem(api.client.post("/v1/hosts/none/loss-confirmations", json={}), 404, "NOT_FOUND")


def test_an_operator_clears_a_suspected_host(api):
    api.cell.host("h1")
    api.fold()
    assert api.client.post("/v1/hosts/h1/clearances", json={"reason": "new disk"}).status_code == 202
    fact = last(api, "paceline.hosts")
    assert isinstance(fact, HostClearRequested)
    assert (fact.host_id, fact.reason) == ("h1", "new disk")

    def answer(at, event):
        return (HostAnswered(host_id="h1", hosts_offset=at, command_id="", code="NOT_AVOIDED", message="m"),)

    api.answer("paceline.hosts", "placement", answer)
    api.problem(api.client.post("/v1/hosts/h1/clearances?wait=30s", json={}), 409, "NOT_AVOIDED")
    api.problem(api.client.post("/v1/hosts/none/clearances", json={}), 404, "NOT_FOUND")


def test_an_operator_taints_a_host_and_everybody_sees_it(api):
    api.cell.host("h1")
    api.fold()
    body = {"key": "dedicated", "value": "ml", "reason": "theirs"}
    assert api.client.post("/v1/hosts/h1/taints", json=body).status_code == 202
    fact = last(api, "paceline.hosts")
    assert isinstance(fact, HostTaintRequested)
    assert (fact.key, fact.value, fact.remove, fact.reason) == ("dedicated", "ml", False, "theirs")

    def answer(at, event):
        evicts = ("dedicated",) if event.effect == "evict" else ()
        given = HostTainted(host_id="h1", taints={"dedicated": "ml"}, evicts=evicts)
        return given, HostAnswered(host_id="h1", hosts_offset=at, command_id="", code="DONE", message="")

    api.answer("paceline.hosts", "placement", answer)
    assert api.client.post("/v1/hosts/h1/taints?wait=30s", json=body).json()["code"] == "DONE"
    taints = api.client.get("/v1/hosts/h1").json()["taints"]
    assert taints == [{"key": "dedicated", "value": "ml", "by": "operator", "effect": "no_place"}]
    evict = body | {"effect": "evict"}
    assert api.client.post("/v1/hosts/h1/taints?wait=30s", json=evict).json()["code"] == "DONE"
    assert last(api, "paceline.hosts").effect == "evict"
    assert api.client.get("/v1/hosts/h1").json()["taints"][0]["effect"] == "evict"
    api.problem(api.client.post("/v1/hosts/h1/taints", json={"key": "a b"}), 422, "INVALID_REQUEST")
    api.problem(api.client.post("/v1/hosts/none/taints", json=body), 404, "NOT_FOUND")


def test_an_operator_removes_a_host_that_has_left(api):
    api.cell.host("h1")
    api.fold()
    assert api.client.post("/v1/hosts/h1/removals", json={"reason": "sold"}).status_code == 202
    fact = last(api, "paceline.hosts")
    assert isinstance(fact, HostRemovalRequested)
    assert (fact.host_id, fact.reason) == ("h1", "sold")
    codes = iter(["RUNS_LEFT", "DONE"])

    def answer(at, event):
        code = next(codes)
        removed = (HostRemoved(host_id="h1", session=1 << 40, code="ASKED", left_ms=0),) if code == "DONE" else ()
        return (*removed, HostAnswered(host_id="h1", hosts_offset=at, command_id="", code=code, message="m"))

    api.answer("paceline.hosts", "placement", answer)
    api.problem(api.client.post("/v1/hosts/h1/removals?wait=30s", json={}), 409, "RUNS_LEFT")
    assert api.client.post("/v1/hosts/h1/removals?wait=30s", json={}).json()["code"] == "DONE"
    assert api.client.get("/v1/hosts").json()["hosts"] == []
    api.problem(api.client.post("/v1/hosts/h1/removals", json={}), 404, "NOT_FOUND")


def test_limits_of_a_pool_come_back_as_they_were(api):
    api.pool(limit={"cpu": 5000})
    assert api.get("/v1/pools/p")["limit"]["cpu"] == 5


def test_an_append_of_unknown_outcome_says_so(api, monkeypatch):
    def lost(records):
        raise AppendUnknown("An append failed.")

    api.pool()
    monkeypatch.setattr(api.cell.log, "append", lost)
    answer = api.client.post("/v1/jobs", json=SPEC)
    problem = api.problem(answer, 503, "OUTCOME_UNKNOWN")
    assert "may stand in the log" in problem["detail"]
    assert answer.headers["retry-after"]


def test_a_log_that_lost_records_is_not_written_any_more(api):
    api.pool()
    api.cell.accept("before")
    api.fold()
    api.cell.log.topic("paceline.placement").end = 0  # not where jobs are written
    before = api.cell.log.bounds("paceline.jobs")
    for _ in range(3):
        answer = api.client.post("/v1/jobs", json=SPEC)
        told = api.problem(answer, 503, "RECORDS_MISSING")
        assert "paceline.placement ends at 0" in told["detail"]
        assert "Restore the log" in told["detail"], "what to do"
        assert answer.headers["retry-after"]
    api.problem(api.client.post("/v1/jobs/before/stops", json={}), 503, "RECORDS_MISSING")
    api.problem(api.client.put("/v1/pools/q", json={}), 503, "RECORDS_MISSING")
    assert api.cell.log.bounds("paceline.jobs") == before
    assert api.get("/v1/jobs/before")["state"], "what was read is still shown"


def test_a_write_that_waited_while_its_log_lost_records_is_not_taken(api, monkeypatch):
    api.pool()
    for number in range(3):
        api.cell.accept(f"before{number}")
    api.fold()
    append = api.cell.log.append

    def back_with_less(records):
        api.cell.log.topic("paceline.jobs").end = 1
        return append(records)

    monkeypatch.setattr(api.cell.log, "append", back_with_less)
    told = api.problem(api.client.post("/v1/jobs", json=SPEC), 503, "RECORDS_MISSING")
    assert "paceline.jobs ends at 1, but offset 3 is needed" in told["detail"]


def test_many_overrides_are_uploaded_before_the_job_that_names_them(api):
    api.pool()
    overrides = [{"instances": f"{at}", "env": {"DATA": f"{at:06}" * 200}} for at in range(2500)]
    answer = api.client.post("/v1/jobs", json={**SPEC, "instances": 2500, "overrides": overrides})
    assert answer.status_code == 202
    *uploads, job = (decode(record.value) for record in api.cell.log.scan("paceline.jobs", 0))
    assert len(uploads) > 10
    assert [chunk.digest for chunk in job.chunks] == [name_of(upload) for upload in uploads]
    assert answer.json()["position"] == f"paceline.jobs:{len(uploads)}"
    api.fold()
    last_tasks = override_keys(job, np.array([2499]), reader({name_of(each): each.content for each in uploads}))
    assert last_tasks > 0


def test_an_update_uploads_its_overrides_too(api):
    api.pool()
    api.cell.accept("a", kind="stateless", instances=2500)
    api.fold()
    overrides = [{"instances": f"{at}", "env": {"DATA": f"{at:06}" * 200}} for at in range(2500)]
    spec = {**SPEC, "kind": "stateless", "instances": 2500, "overrides": overrides}
    before = api.cell.log.bounds("paceline.jobs")[1]
    assert api.client.post("/v1/jobs/a/updates", json={"spec": spec}).status_code == 202
    *uploads, asked = (decode(record.value) for record in api.cell.log.scan("paceline.jobs", before))
    assert len(uploads) > 10
    assert [chunk.digest for chunk in wanted_spec(asked).chunks] == [name_of(upload) for upload in uploads]


@pytest.mark.parametrize(
    ("override", "pointer", "code"),
    [
        ({"instances": "0", "resources": {"fpga": 1}}, "/overrides/1/resources/fpga", "UNKNOWN_RESOURCE"),
        ({"instances": "9"}, "/overrides/1/instances", "INVALID_SPEC"),
    ],
)
def test_a_problem_with_an_override_is_named_where_it_is(api, override, pointer, code):
    api.pool()
    spec = {**SPEC, "overrides": [{"instances": "1"}, override]}
    body = api.problem(api.client.post("/v1/jobs", json=spec), 422, code)
    assert [each["pointer"] for each in body["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("body", "pointer", "told"),
    [
        ({"key": "a b"}, "/key", "must begin with a letter or digit; up to 127 letters, digits and ._/- may follow"),
        ({"key": "maint", "value": "xx", "remove": True}, "", "is taken off by its key, whatever its value"),
    ],
)
def test_a_taint_that_cannot_be_meant_so_is_refused_in_a_sentence(api, body, pointer, told):
    api.cell.host()
    api.fold()
    [error] = api.client.post("/v1/hosts/h1/taints", json=body).json()["errors"]
    assert (error["pointer"], told in error["message"]) == (pointer, True)
