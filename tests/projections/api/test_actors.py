"""Who wrote a fact: as the header says it, marked as unverified wherever it is shown; what no header may say."""

from urllib.parse import quote

import pytest

from events.codec import decode
from events.records.parts import Actor
from tests.projections.conftest import TOKEN

SPEC = {"job_id": "a", "pool": "/p", "command": ["true"]}
HOST = "testclient"


def last(api, topic):
    return decode(list(api.cell.log.scan(topic, 0))[-1].value)


@pytest.mark.parametrize(
    ("headers", "actor"),
    [
        ({}, Actor("", "api", HOST)),
        ({"Paceline-Actor": "ann"}, Actor("ann", "header", HOST)),
        (
            {"Paceline-Actor": "J%C3%B6rg 50%25", "Paceline-Actor-How": "environment"},
            Actor("Jörg 50%", "environment", HOST),
        ),
        ({"Paceline-Actor": " ann ", "Paceline-Actor-How": "system-user"}, Actor("ann", "system-user", HOST)),
        ({"Paceline-Actor": "a" * 128}, Actor("a" * 128, "header", HOST)),
    ],
)
def test_a_fact_says_who_the_client_says_it_is_and_where_it_comes_from(api, headers, actor):
    api.pool()
    assert api.client.post("/v1/jobs", json=SPEC, headers=headers).status_code == 202
    assert last(api, "paceline.jobs").actor == actor


@pytest.mark.parametrize(
    ("headers", "pointer"),
    [
        ({"Paceline-Actor": ""}, "/header/Paceline-Actor"),
        ({"Paceline-Actor": "%20"}, "/header/Paceline-Actor"),
        ({"Paceline-Actor": "a" * 129}, "/header/Paceline-Actor"),
        ({"Paceline-Actor": "a%0Ab"}, "/header/Paceline-Actor"),
        ({"Paceline-Actor": "a%00"}, "/header/Paceline-Actor"),
        ({"Paceline-Actor": "%FF"}, "/header/Paceline-Actor"),
        ({"Paceline-Actor": "jörg".encode()}, "/header/Paceline-Actor"),
        *(({"Paceline-Actor": f"a{quote(each)}"}, "/header/Paceline-Actor") for each in "\u3164\u2800\u200b\ufe0f"),
        ({"Paceline-Actor": "ann", "Paceline-Actor-How": "token"}, "/header/Paceline-Actor-How"),
        ({"Paceline-Actor": "ann", "Paceline-Actor-How": ""}, "/header/Paceline-Actor-How"),
    ],
)
def test_a_name_that_is_none_is_refused_and_nothing_written(api, headers, pointer):
    api.pool()
    body = api.problem(api.client.post("/v1/jobs", json=SPEC, headers=headers), 422, "INVALID_REQUEST")
    assert body["errors"][0]["pointer"] == pointer
    assert not list(api.cell.log.scan("paceline.jobs", 0))
    assert api.client.get("/v1/jobs", headers=headers).status_code == 200, "who reads isn't recorded"


def test_histories_name_who_it_was_and_why(api):
    api.cell.accept("a")
    api.fold()
    ann = {"Paceline-Actor": "ann", "Paceline-Actor-How": "environment"}
    api.client.post("/v1/jobs/a/stops", json={"reason": "too many"}, headers=ann)
    api.fold()
    events = api.get("/v1/jobs/a/history")["events"]
    stop = next(each for each in events if each["event"] == "JobStopRequested")
    assert stop["actor"] == {
        "name": "ann (unverified)",
        "subject": "ann",
        "how": "environment",
        "credential": "",
        "binding": None,
        "read_to": None,
        "address": HOST,
        "reason": "",
        "verified": False,
    }
    assert (stop["detail"]["reason"], "actor" in stop["detail"]) == ("too many", False)
    lines = api.get("/v1/log?kind=JobStopRequested")
    assert "too many, by ann (unverified)" in str(lines)
    assert [each["position"] for each in api.get("/v1/log?actor=ann")["records"]] == [stop["position"]]
    assert api.get("/v1/log?actor=ben")["records"] == []


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_changes_of_pools_carry_who_and_why(api, method):
    api.pool()
    body = None if method == "DELETE" else {"description": "x"}
    ann = {"Paceline-Actor": "ann", "If-Match": "*"}
    answer = api.client.request(method, "/v1/pools/p", params={"reason": "year's end"}, json=body, headers=ann)
    assert answer.status_code in (200, 202)
    fact = last(api, "paceline.pools")
    assert (fact.actor.subject, fact.reason) == ("ann", "year's end")


def test_settings_of_the_cell_carry_who_and_why(api):
    api.client.patch("/v1/cell/settings?reason=calm", json={"host_lost_after": "2m"}, headers={"Paceline-Actor": "ann"})
    fact = last(api, "paceline.pools")
    assert (fact.actor.subject, fact.reason) == ("ann", "calm")


def test_a_wrong_token_is_told_before_a_wrong_name(api):
    headers = {"Paceline-Actor": "", "Authorization": f"Bearer not {TOKEN}"}
    assert api.client.post("/v1/jobs", json=SPEC, headers=headers).status_code == 401
