"""Who moved a value last, over the API: planted actors change things, and the right one is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from events.records.pools import PoolDefined
from paceline.cli.main import cli
from paceline.client.client import Client
from paceline.client.host_models import Host
from paceline.client.models import Job, Task
from paceline.client.pool_models import CellCapacity, Pool
from projections.api.app import create_app
from projections.queries.blame_fields import FIELDS
from projections.views.projector import Projector
from tests.helpers.moved_cell import moved_cell
from tests.helpers.whole_cell import Cell
from tests.projections.conftest import LISTEN, TOKEN, CheckedClient


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    with served(moved_cell(), tmp_path_factory.mktemp("views")) as client:
        yield client


@contextmanager
def served(cell: Cell, folder: Path) -> Iterator[CheckedClient]:
    projector = Projector(cell.log, folder)
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
        ("/a:share", "ben", "", "PoolDefined"),
        ("/a:share:cpu", "ann", "", "PoolDefined"),
        ("/a:share:gpu", "ben", "", "PoolDefined"),
        ("/a:share:others", "ben", "", "PoolDefined"),
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


@pytest.mark.parametrize(
    ("of", "name", "event"),
    [
        ("host/sim-1:state", "agent of sim-1", "HostConnected"),
        ("host/sim-1:capacity:cpu", "agent of sim-1", "HostOffered"),
    ],
)
def test_what_a_host_said_is_of_its_agent(api: CheckedClient, of: str, name: str, event: str) -> None:
    body = asked(api, of)
    assert body["records"][0]["event"] == event
    assert (body["by"]["actor"]["name"], body["by"]["position"]) == (name, body["moved"])
    assert not body["by"]["actor"]["verified"]


def test_a_wait_began_with_the_record_of_that_time(tmp_path: Path) -> None:
    cell = Cell(hosts=1)
    cell.append(PoolDefined(path="/one", command_id="1", limit={"cpu": 1000}))
    cell.submit("slow", pool="/one", instances=4, resources={"cpu": 1000}, duration_ms=2000)
    cell.run(5000)  # others of its tasks were ordered meanwhile
    with served(cell, tmp_path) as client:
        body = asked(client, "slow:waiting_since")
    [moved] = [each for each in body["records"] if each["position"] == body["moved"]]
    assert moved["at"] == body["value"]


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
        ("/a:limit:cpus", 400, "did you mean cpu?"),
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
