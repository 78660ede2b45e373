"""Why something was decided, over the API: the chain over all machines, each record in a sentence."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from events.records.entitlement import GangsAdmitted
from events.records.lifecycle import GangsQueued
from events.records.parts import Cause
from events.records.placement import GangsReturned
from events.records.pools import CellConfigured, PoolDefined
from paceline.cli.main import cli
from paceline.client.client import Client
from projections.api.app import create_app
from projections.queries import why
from projections.queries.story_parts import job
from projections.views.projector import Projector
from tests.helpers.whole_cell import Cell
from tests.projections.conftest import LISTEN, TOKEN
from tests.projections.queries.test_story import example


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One host of four cores, all held by `low`; then the reservation of the pool of `high` is raised."""
    cell = Cell(hosts=1)
    cell.append(CellConfigured(command_id="quick", preemption_delay_ms=2000))
    cell.pool("/a")
    cell.pool("/b")
    cell.submit("low", pool="/a", instances=4, resources={"cpu": 1000}, duration_ms=1_000_000)
    cell.run(2000)
    cell.submit("high", pool="/b", resources={"cpu": 1000}, duration_ms=1_000_000, preemptible=False)
    cell.run(10_000)
    cell.append(PoolDefined(path="/b", command_id="raise", reservation={"cpu": 1000}))
    cell.run(12_000)
    projector = Projector(cell.log, tmp_path_factory.mktemp("views"))
    projector.fold_whole()
    app = create_app(projector.views, cell.log, token=TOKEN, listen=LISTEN, cell_info=dict)
    yield TestClient(app, f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    projector.close()


def asked(api: TestClient, subject: str) -> Any:
    answer = api.get(f"/v1/causes/{subject}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_run_that_began_is_followed_back_over_the_victim_to_the_change_of_its_pool(api: TestClient) -> None:
    body = asked(api, "high")
    records = {each["position"]: each for each in body["records"]}
    reached = {each["event"]: each["text"] for each in body["records"]}
    assert records[body["starts"][0]]["text"] == "high: 1 run ordered on sim-1"
    assert reached["TasksPlaced"] == "high: 1 task placed on sim-1"
    assert reached["JobSubmitted"] == "high: submitted to /b with 1 instance"
    assert reached["PoolDefined"] == "/b defined: reservation 1 cpu"
    assert body["whole"]
    for each in body["records"]:
        for link in each["causes"]:
            assert link["at"] or link["position"] in records


def test_the_end_of_the_victim_is_followed_back_to_the_same_change_and_links_say_how_they_are_known(
    api: TestClient,
) -> None:
    body = asked(api, "low")
    records = {each["position"]: each for each in body["records"]}
    ended = next(each for each in body["records"] if each["event"] == "RunsEnded")
    chain, links = [ended], []
    while chain[-1]["causes"]:
        links.append(chain[-1]["causes"][0]["link"])
        chain.append(records[chain[-1]["causes"][0]["position"]])
    assert [each["event"] for each in chain] == [
        *("RunsEnded", "RunsStopping", "PreemptionsOrdered", "PreemptionAsked"),
        *("RightsSet", "GangsAdmitted", "PoolAnswered", "PoolDefined"),
    ]
    assert links == ["run", "run", "cause", "cause", "newest", "newest", "cause"]
    causes = [link for each in body["records"] for link in each["causes"]]
    accepted = next(link for link in causes if records[link["position"]]["event"] == "JobAccepted")
    assert (accepted["link"], accepted["recorded"]) == ("entity", False)
    assert chain[2]["text"].startswith("low: 1 run preempted for high by order ")


def test_positions_name_records_rounds_and_single_decisions(api: TestClient) -> None:
    body = asked(api, "high")
    position = body["starts"][0]
    machine, _, number, index = position.split("/")
    assert asked(api, position)["starts"] == [position]
    whole = asked(api, f"{machine}/round/{number}")["starts"]
    assert position in whole
    record = api.get(f"/v1/rounds/{machine}/{number}").json()["position"]
    assert asked(api, record)["starts"] == whole
    assert asked(api, f"0/{record}/{index}")["starts"] == [position]
    (fact,) = asked(api, "paceline.jobs:0")["records"]
    assert (fact["event"], fact["causes"]) == ("JobSubmitted", [])


@pytest.mark.parametrize(
    ("subject", "status", "code"),
    [
        ("nobody", 404, "NOT_FOUND"),
        ("paceline.jobs:99", 404, "NOT_FOUND"),
        ("paceline.jobs:0/1", 200, ""),
        ("placement/round/999", 404, "NOT_FOUND"),
        ("placement/round/1/999", 404, "NOT_FOUND"),
        ("paceline.nothing:1", 400, "BAD_POSITION"),
        ("round/1", 400, "BAD_POSITION"),
        ("1/paceline.jobs:0", 409, "WRONG_CELL"),
    ],
)
def test_what_isnt_there_is_said(api: TestClient, subject: str, status: int, code: str) -> None:
    answer = api.get(f"/v1/causes/{subject}")
    assert answer.status_code == status, answer.text
    assert answer.json().get("code", "") == code


def test_what_goes_round_and_round_is_counted_and_its_beginning_still_shown() -> None:
    """A job is queued, then ten times admitted and returned."""
    places = [Cause(machine="entitlement", round=number) for number in range(22)]
    admitted, returned, queued = map(example, (GangsAdmitted, GangsReturned, GangsQueued))
    records = []
    for at, place in enumerate(places):
        event = queued if at >= 20 else (returned if at % 2 else admitted)
        links = [why.Link(place, places[at + 1], "run")] if at < 21 else []
        records.append(why.Record(place, event, at, None, (job("j" if at < 20 else f"first-{at}"), ": x"), links))
    rows = why.tree(why.Chain([why.Start(places[0])], records, True))
    told = [(row.number, row.of, row.depth, type(row.record.event).__name__, row.times) for row in rows]
    assert told == [
        (1, 0, 0, "GangsAdmitted", 0),
        (2, 1, 1, "GangsReturned", 0),
        (3, 2, 2, "GangsAdmitted", 8),
        (4, 3, 3, "GangsReturned", 8),
        (5, 4, 4, "GangsQueued", 0),
        (6, 5, 5, "GangsQueued", 0),
    ]


def test_a_chain_that_is_cut_says_so(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "RECORDS_MAX", 3)
    body = asked(api, "high")
    assert (len(body["records"]), body["whole"]) == (3, False)


def test_the_command_prints_the_chain_indented(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "causes", lambda _, subject: asked(api, subject))
    lines = CliRunner().invoke(cli, ["log", "why", "high", "--server", LISTEN, "--utc"]).output.splitlines()
    assert lines[0].endswith("high: 1 run ordered on sim-1")
    assert lines[1].startswith("  because ")
    assert lines[1].endswith("high: 1 task placed on sim-1")
    assert any("because (same entity) " in line and "accepted" in line for line in lines)
    assert len([line for line in lines if line.endswith("/b defined: reservation 1 cpu")]) == 1
