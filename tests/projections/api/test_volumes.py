"""Volumes of hosts in the views and over HTTP."""

from events.codec import decode
from events.records.hosts import HostVolumes
from events.records.jobs import VolumeRemovalRequested
from events.records.lifecycle import CommandAnswered
from events.records.parts import Volume
from events.records.placement import HostRemoved

DATA, WAL, OTHER = Volume("db", 0, "data", 1000), Volume("db", 0, "wal", 2000), Volume("web", 3, "data", 3000)
DATA_OF_1 = {"job_id": "db", "instance": 0, "name": "data"}


def have(api, host_id, *volumes, session=1):
    api.cell.fact(HostVolumes(host_id=host_id, session=session, volumes=volumes))
    api.fold()


def listed(api, **query):
    found = api.get("/v1/volumes", params=query)["volumes"]
    return [(each["host_id"], each["job_id"], each["instance"], each["name"]) for each in found]


def test_a_list_shows_what_hosts_have_said_last(api):
    api.cell.host("h1")
    api.cell.host("h2")
    have(api, "h2", DATA)
    have(api, "h1", WAL, DATA, OTHER)
    every = [("h1", "db", 0, "data"), ("h1", "db", 0, "wal"), ("h1", "web", 3, "data"), ("h2", "db", 0, "data")]
    assert listed(api) == every
    assert listed(api, job="db") == [every[0], every[1], every[3]]
    assert listed(api, host="h2") == [every[3]]
    assert listed(api, host="h2", job="web") == []
    page = api.get("/v1/volumes", params={"page_size": 3})
    assert page["volumes"][0]["created_at"] == "1970-01-01T00:00:01.000Z"
    rest = api.get("/v1/volumes", params={"page_size": 3, "page_token": page["next_page_token"]})
    assert [each["host_id"] for each in rest["volumes"]] == ["h2"]
    have(api, "h1", OTHER)
    assert listed(api) == [every[2], every[3]]
    have(api, "h1")
    assert listed(api) == [every[3]]


def test_volumes_of_unknown_names_are_an_error_with_the_nearest(api):
    api.cell.host("host-1")
    have(api, "host-1", OTHER)
    for query, wrong in (({"host": "hots-1"}, "there is no host hots-1; did you mean host-1?"),
                         ({"job": "webb"}, "there is no job webb; did you mean web?")):  # fmt: skip
        problem = api.problem(api.client.get("/v1/volumes", params=query), 422, "NOT_FOUND")
        assert problem["detail"] == wrong
        assert problem["errors"] == [{"pointer": f"/query/{next(iter(query))}", "message": wrong}]
    api.cell.accept("empty")
    api.fold()
    assert listed(api, job="empty") == [], "a job without volumes is no unknown one"


def test_an_earlier_session_says_nothing_of_volumes(api):
    api.cell.host("h1", session=2)
    have(api, "h1", DATA, session=1)
    assert listed(api) == []


def test_a_host_that_is_removed_takes_its_volumes_along_whichever_was_read_first(api):
    api.cell.host("h1", session=2)
    have(api, "h1", DATA, session=2)
    api.cell.decide("placement", HostRemoved(host_id="h1", session=1, code="ASKED", left_ms=0))
    api.fold()
    assert listed(api) == [("h1", "db", 0, "data")]
    api.cell.decide("placement", HostRemoved(host_id="h1", session=2, code="ASKED", left_ms=0))
    api.fold()
    assert listed(api) == []
    have(api, "h1", DATA, session=2)
    assert listed(api) == []


def test_a_volume_is_removed_by_what_tells_it_from_all_others(api):
    api.cell.host("h1")
    have(api, "h1", DATA)
    codes = iter(["DONE", "VOLUME_IN_USE"])

    def answer(at, event):
        assert isinstance(event, VolumeRemovalRequested)
        code, words = next(codes), "host h1 removes it"
        said = CommandAnswered(job_id="db", jobs_offset=at, command_id=event.command_id, code=code, message=words)
        return (said,)

    api.answer("paceline.jobs", "lifecycle", answer)
    path = "/v1/hosts/h1/volume-removals?wait=30s"
    done = api.client.post(path, json={**DATA_OF_1, "reason": "old"}).json()
    assert (done["code"], done["message"]) == ("DONE", "host h1 removes it")
    fact = decode(list(api.cell.log.scan("paceline.jobs", 0))[-1].value)
    assert isinstance(fact, VolumeRemovalRequested)
    assert (fact.host_id, fact.job_id, fact.instance, fact.name, fact.created_ms, fact.reason) == (
        *("h1", "db", 0, "data", 1000),
        "old",
    )
    api.problem(api.client.post(path, json=DATA_OF_1), 409, "VOLUME_IN_USE")


def test_a_volume_that_no_host_has_told_of_is_not_found(api):
    api.cell.host("h1")
    have(api, "h1", DATA)
    answer = api.client.post("/v1/hosts/h1/volume-removals", json={**DATA_OF_1, "name": "wal"})
    problem = api.problem(answer, 404, "NOT_FOUND")
    assert problem["detail"] == "host h1 has no volume wal of task db/0"
    assert api.cell.log.bounds("paceline.jobs")[1] == 0
