"""Who moved a value last, over the API: planted actors change things, and the right one is named."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from events.records.hosts import HostsDrainRequested
from events.records.jobs import JobPriorityRequested, JobStopRequested
from events.records.parts import Actor
from events.records.pools import CellConfigured, PoolDefined
from paceline.cli.main import cli
from paceline.client.client import Client
from paceline.client.host_models import Host
from paceline.client.models import Job, Task
from paceline.client.pool_models import CellCapacity, Pool
from projections.api.app import create_app
from projections.queries.blame_fields import FIELDS
from projections.views.projector import Projector
from tests.helpers.whole_cell import Cell
from tests.projections.conftest import LISTEN, TOKEN, CheckedClient


def by(name: str) -> Actor:
    return Actor(name, "environment")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    """Several users change pools, settings, jobs and hosts; `high` of carol preempts a task of `low`."""
    cell = Cell(hosts=2)
    cell.append(CellConfigured(command_id="1", preemption_delay_ms=9000, actor=by("ann"), reason="slowly"))
    cell.append(CellConfigured(command_id="2", settle_ms=1000, actor=by("bob")))
    cell.append(CellConfigured(command_id="3", preemption_delay_ms=2000, actor=by("carol"), reason="quick"))
    cell.append(PoolDefined(path="/a", command_id="4", limit={"cpu": 9000, "memory": 90_000}, actor=by("ann")))
    limit = {"cpu": 8000, "memory": 90_000}
    cell.append(PoolDefined(path="/a", command_id="5", limit=limit, actor=by("bob"), reason="too much"))
    cell.append(PoolDefined(path="/a", command_id="6", limit=limit, description="maps", actor=by("carol")))
    cell.append(PoolDefined(path="/b", command_id="7", actor=by("dan")))
    resources = {"cpu": 1000}
    cell.submit("low", pool="/a", instances=8, resources=resources, duration_ms=1_000_000, actor=by("lou"))
    cell.submit("gone", pool="/a", resources=resources, duration_ms=1_000_000, actor=by("lou"))
    cell.run(3000)
    cell.append(JobPriorityRequested(job_id="low", command_id="8", priority=3, actor=by("eve"), reason="later"))
    cell.append(JobStopRequested(job_id="gone", command_id="9", actor=by("fay"), reason="not needed"))
    cell.submit("high", pool="/b", resources=resources, duration_ms=1_000_000, preemptible=False, actor=by("carol"))
    cell.run(10_000)
    cell.append(PoolDefined(path="/b", command_id="raise", reservation={"cpu": 1000}, actor=by("dan"), reason="urgent"))
    cell.run(12_000)
    cell.append(HostsDrainRequested(host_ids=("sim-2",), command_id="d", actor=by("gus"), reason="disk"))
    cell.run(3000)
    projector = Projector(cell.log, tmp_path_factory.mktemp("views"))
    projector.fold_whole()
    app = create_app(projector.views, cell.log, token=TOKEN, listen=LISTEN, cell_info=dict)
    yield CheckedClient(app, f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    projector.close()


def asked(api: CheckedClient, of: str) -> Any:
    answer = api.get("/v1/blame", params={"of": of})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("of", "name", "reason", "event"),
    [
        ("/a:limit:cpu", "bob", "too much", "PoolDefined"),
        ("/a:limit:memory", "ann", "", "PoolDefined"),
        ("/a:limit", "bob", "too much", "PoolDefined"),
        ("/a:description", "carol", "", "PoolDefined"),
        ("/a:closed", "ann", "", "PoolDefined"),
        ("/b:reservation:cpu", "dan", "urgent", "PoolDefined"),
        ("cell:preemption_delay", "carol", "quick", "CellConfigured"),
        ("cell:settle", "bob", "", "CellConfigured"),
        ("low:priority", "eve", "later", "JobPriorityChanged"),
        ("low:pool", "lou", "", "JobSubmitted"),
        ("gone:state", "fay", "not needed", "JobChanged"),
        ("gone:tasks:killed", "fay", "not needed", "RunsEnded"),
        ("gone/0:state", "fay", "not needed", "RunsEnded"),
        ("high/0:state", "carol", "", "RunsAvailable"),
        ("host/sim-2:state", "gus", "disk", "HostMaintenanceChanged"),
        ("host/sim-2:maintenance", "gus", "disk", "HostMaintenanceChanged"),
    ],
)
def test_the_one_is_named_who_moved_it(api: CheckedClient, of: str, name: str, reason: str, event: str) -> None:
    body = asked(api, of)
    moved = next(each for each in body["records"] if each["position"] == body["moved"])
    assert moved["event"] == event
    assert body["by"] is not None
    assert (body["by"]["actor"]["subject"], body["by"]["reason"]) == (name, reason)


def test_what_followed_from_a_change_is_told_in_order(api: CheckedClient) -> None:
    body = asked(api, "/b:reservation:cpu")
    followed = [each["event"] for each in body["followed"]]
    assert followed[:2] == ["PoolAnswered", "EntitlementsSet"]
    times = [each["at"] for each in body["followed"]]
    assert times == sorted(times)
    assert {each["position"] for each in body["followed"]}.isdisjoint({body["moved"]})


def test_an_entitlement_was_moved_by_the_round_in_which_it_changed(api: CheckedClient) -> None:
    body = asked(api, "/b:entitlement:cpu")
    moved = next(each for each in body["records"] if each["position"] == body["moved"])
    assert moved["event"] == "EntitlementsSet"
    assert body["value"] == 1


def test_a_setting_that_nobody_set_has_its_default(api: CheckedClient) -> None:
    body = asked(api, "cell:hold_for")
    assert (body["value"], body["moved"], body["by"], body["records"]) == ("10m", None, None, [])


THINGS = {"job": ("low", Job), "task": ("low/1", Task), "host": ("host/sim-1", Host), "pool": ("/a", Pool)}


@pytest.mark.parametrize("kind", ["job", "task", "host", "pool", "cell"])
def test_every_field_of_get_has_a_blame(api: CheckedClient, kind: Any) -> None:
    if kind == "cell":
        thing, names = "cell", {*CellCapacity.__annotations__} - {"cell"} | {*api.get("/v1/cell/settings").json()}
    else:
        thing, model = THINGS[kind]
        names = model.__annotations__.keys() - {"repeated", "warnings"}  # of the answer to a submission
    assert names <= FIELDS[kind].keys()
    for name in sorted(names):
        body = asked(api, f"{thing}:{name}")
        if kind != "cell" or body["moved"]:
            assert body["moved"] or body["value"] is None, name
            assert body["moved"] in {each["position"] for each in body["records"]} or body["moved"] is None, name


@pytest.mark.parametrize(
    ("of", "status", "words"),
    [
        ("low", 400, "write /POOL:FIELD"),
        ("low:stat", 400, "did you mean state?"),
        ("/a:nothing", 400, "Its fields: admitted, allocation"),
        ("/a:closed:x", 400, "leave out :x"),
        ("host/sim-1:nothing", 400, "Its fields: allocated"),
        ("cell:nothing", 400, "of the cell"),
        ("low/x:state", 400, "JOB/TASK"),
        ("low/99:state", 404, "low/99"),
        ("nobody:state", 404, "nobody"),
        ("/nobody:share", 404, "/nobody"),
        ("host/nobody:state", 404, "nobody"),
    ],
)
def test_what_cant_be_blamed_is_told_with_what_can(api: CheckedClient, of: str, status: int, words: str) -> None:
    answer = api.get("/v1/blame", params={"of": of})
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_the_command_prints_who_why_and_what_followed(api: CheckedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "blame", lambda _, of: asked(api, of))
    lines = (
        CliRunner().invoke(cli, ["log", "blame", "/b:reservation:cpu", "--server", LISTEN, "--utc"]).output.splitlines()
    )
    assert lines[0] == "/b:reservation:cpu is 1"
    assert lines[1].startswith("moved by  ")
    assert "dan (unverified)" in lines[2]
    assert lines[2].endswith("reason: urgent")
    assert lines[3].startswith("then      ")
    nothing = CliRunner().invoke(cli, ["log", "blame", "cell:hold_for", "--server", LISTEN]).output
    assert "nobody has moved it" in nothing
