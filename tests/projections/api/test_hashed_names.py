"""Names and addresses of people as keyed hashes: nowhere as they are, and found by who has the key."""

import sqlite3

import pytest

from events.actors import CERTIFICATE, RUN
from events.codec import decode
from events.hashed_names import NameHashes, is_hashed
from events.records.entitlement import PoolAnswered
from events.records.parts import Actor
from events.records.pools import CellConfigured
from projections.api.acting import hidden
from projections.views.projector import Projector
from tests.projections.conftest import Api

NAME, ADDRESS = "anneliese-unmistakable", "testclient"
ANNE = {"Paceline-Actor": NAME}
SPEC = {"job_id": "a", "pool": "/p", "command": ["true"]}


def configure(api: Api, names: str) -> None:
    at = api.cell.fact(CellConfigured(command_id="c", names=names))
    api.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE"))
    api.fold()


@pytest.fixture
def hashed(api: Api) -> Api:
    """A cell in which a user of two names, one hashed, has submitted a job and stopped it, and changed a pool."""
    api.pool()
    configure(api, "hashed")
    assert api.client.post("/v1/jobs", json=SPEC, headers=ANNE).status_code == 202
    api.cell.accept("a", 0)
    api.fold()
    assert api.client.post("/v1/jobs/a/stops", json={"reason": "done"}, headers=ANNE).status_code == 202
    api.client.patch("/v1/pools/p", json={"description": "x"}, headers={**ANNE, "If-Match": "*"})
    at = next(iter(api.cell.log.ends(["paceline.pools"]).values())) - 1
    api.cell.decide("entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="c", code="DONE"))
    api.fold()
    return api


def texts(api: Api) -> str:
    """All that log and views hold, as text."""
    records = [
        repr(decode(record.value))
        for topic in ("paceline.jobs", "paceline.pools", "paceline.hosts", "paceline.lifecycle", "paceline.entitlement")
        for record in api.cell.log.scan(topic, 0)
    ]
    file = api.projector.views.engine.url.database
    assert file is not None
    with sqlite3.connect(file) as views:
        tables = [name for (name,) in views.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [repr(row) for table in tables for row in views.execute(f'SELECT * FROM "{table}"')]
    return "\n".join(records + rows)


def test_neither_log_nor_views_have_the_name_or_the_address(hashed):
    assert NAME not in texts(hashed)
    assert ADDRESS not in texts(hashed)
    for path in ("/v1/jobs/a/history", "/v1/pool-histories/p", "/v1/log", "/v1/audit", "/v1/jobs/a"):
        assert NAME not in hashed.client.get(path).text, path


def test_what_somebody_did_is_found_by_their_name_before_and_after_names_are_hashed(hashed):
    configure(hashed, "plain")
    assert hashed.client.post("/v1/jobs/a/stops", json={"reason": "again"}, headers=ANNE).status_code == 202
    hashed.fold()
    events = hashed.get(f"/v1/jobs/a/history?actor={NAME}")["events"]
    assert [each["event"] for each in events] == ["JobSubmitted", "JobStopRequested", "JobStopRequested"]
    first, *_, last = (each["actor"] for each in events)
    assert (is_hashed(first["subject"]), is_hashed(first["address"])) == (True, True)
    assert first["name"] == f"{first['subject']} (unverified)"
    assert (last["subject"], last["address"]) == (NAME, ADDRESS)
    assert len(hashed.get(f"/v1/pool-histories/p?actor={NAME}")["events"]) == 1
    assert len(hashed.get(f"/v1/audit?actor={NAME}")["facts"]) == 4
    assert [each["job_id"] for each in hashed.get(f"/v1/jobs?actor={NAME}")["jobs"]] == ["a"]
    assert hashed.get("/v1/jobs/a/history?actor=anneliese")["events"] == []


def test_a_rebuild_of_the_views_knows_the_hashes_alone(hashed, tmp_path):
    (tmp_path / "again").mkdir()
    again = Projector(hashed.cell.log, tmp_path / "again")
    while again.step():
        pass
    with again.views.read() as connection:
        entries = connection.exec_driver_sql("SELECT entries FROM history").scalars().all()
    again.close()
    assert entries
    assert not any(NAME.encode() in each for each in entries)


def test_names_of_runs_and_hosts_stay_and_what_has_no_name_has_none():
    names = NameHashes()
    for how, subject in ((RUN, "job/a/task/0/run/1"), (CERTIFICATE, "h17")):
        assert hidden(Actor(subject, how, "10.0.0.1"), names).subject == subject
    assert hidden(Actor("", "api", ""), names) == Actor("", "api", "")


def test_hashes_differ_by_key():
    assert NameHashes(b"a" * 32).of("ann") == NameHashes(b"a" * 32).of("ann") != NameHashes(b"b" * 32).of("ann")
    assert NameHashes().of("ann") != NameHashes().of("ann")
