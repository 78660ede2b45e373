"""Rounds decided again from a server: identical or not, one at a time, bounded, and only by who has the token."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from events.codec import decode, encode
from events.log.embedded import EmbeddedLog
from events.log.port import Log
from events.records.placement import TasksPlaced
from events.records.rounds import RoundCommitted
from paceline.client import operation_models
from paceline.client.errors import PacelineError
from paceline.history.decide_again import decide_again
from paceline.moments.order import LogAddress, RoundOrder, RoundResult
from paceline.moments.replays import CellReplays
from paceline.services.past import replays_of
from paceline.services.settings import for_up, load
from projections.api.app import create_app
from projections.api.context import RoundReplay
from projections.api.problems import Problem
from projections.ui.app import add_ui
from projections.views.projector import Projector
from tests.browser.cells import until
from tests.helpers.forge import forge
from tests.helpers.past import past, written
from tests.paceline.moments.conftest import LISTEN, TOKEN

PLACED = 3
"""A round of placement that places tasks."""


def otherwise(round_: RoundCommitted) -> RoundCommitted:
    """The tasks go to another host than placement chose."""
    decisions = [decode(value) for value in round_.decisions]
    out = [
        msgspec.structs.replace(each, host_ids=each.host_ids[::-1]) if isinstance(each, TasksPlaced) else each
        for each in decisions
    ]
    return msgspec.structs.replace(round_, decisions=tuple(map(encode, out)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("cell")
    written(past(), folder)
    with ExitStack() as stack:
        yield server(folder, stack)


def server(folder: Path, stack: ExitStack) -> TestClient:
    log = EmbeddedLog.open_secondary(folder / "log")
    stack.callback(log.close)
    projector = Projector(log, folder)
    stack.callback(projector.close)
    projector.fold_whole()
    replays = replays_of(for_up(load(None, data=folder)), 0)
    stack.callback(replays.close)
    app = create_app(projector.views, log, token=TOKEN, listen=LISTEN, cell_info=dict, replays=replays)
    add_ui(app, {0: app.state.context}, TOKEN)
    return TestClient(app, f"http://{LISTEN}", headers={"Origin": f"http://{LISTEN}"})


def in_process(log: Log, folder: Path) -> RoundResult:
    """The round that places tasks, decided again in this process."""
    return decide_again(log, RoundOrder(LogAddress(str(folder), 0), "placement", PLACED), lambda done, of: None)


def test_a_round_that_was_decided_by_this_build_is_identical(tmp_path: Path) -> None:
    result = in_process(past(), tmp_path)
    rounds = [decode(record.value) for record in past().scan("paceline.placement", 0)]
    by_number = {each.round: each for each in rounds if isinstance(each, RoundCommitted)}
    assert (result.decided, result.difference, result.begun) == (True, None, 0)
    assert result.decisions == len(by_number[PLACED].decisions)
    assert result.hash == by_number[PLACED + 1].start_hash.hex()
    with pytest.raises(PacelineError, match="There is no round 9999 of placement"):
        decide_again(past(), RoundOrder(LogAddress(str(tmp_path), 0), "placement", 9999), lambda done, of: None)


def test_a_round_that_was_forged_differs_and_both_sides_are_shown(tmp_path: Path) -> None:
    forged = forge(past(), "placement", PLACED, otherwise)
    result = in_process(forged, tmp_path)
    difference = result.difference
    assert difference is not None
    body = msgspec.to_builtins(result)
    assert msgspec.to_builtins(msgspec.convert(body, operation_models.RoundResult)) == body
    assert (difference["round"], difference["index"]) == (PLACED, 0)
    assert difference["recorded"]["host_ids"] == difference["decided"]["host_ids"][::-1]

    class Done:
        def last(self, machine: str, number: int) -> RoundReplay:
            return RoundReplay(result=msgspec.to_builtins(result))

        start = last

        def at_work(self) -> tuple[str, int]:
            return "placement", PLACED

    projector = Projector(forged, tmp_path)
    projector.fold_whole()
    app = create_app(projector.views, forged, token=TOKEN, listen=LISTEN, cell_info=dict, replays=Done())
    add_ui(app, {0: app.state.context}, TOKEN)
    client = TestClient(app, f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = client.post(f"/v1/rounds/placement/{PLACED}/replays", json={})
    text = client.get(f"/ui/rounds/placement/{PLACED}").text
    projector.close()
    assert (answer.status_code, answer.json()["result"]["difference"]["round"]) == (200, PLACED)
    assert 'class="card differs"' in text
    assert re.search(r'class="del">- host_ids [^<]*small-2', text)


def test_who_is_signed_in_decides_a_round_again_from_its_page(client: TestClient) -> None:
    page = f"/ui/rounds/placement/{PLACED}"
    assert "Sign in to decide again" in client.get(page).text
    assert client.post(f"/v1/rounds/placement/{PLACED}/replays", json={}).status_code == 401
    assert client.post(f"{page}/replays", data={"cell": "0"}).status_code in (401, 403)
    client.post("/ui/sign-in", data={"token": TOKEN, "next": page})
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get(page).text)
    assert csrf
    client.post(f"{page}/replays", data={"cell": "0", "csrf": csrf[1]})
    until(lambda: "at work" not in client.get(page).text, "the round")
    text = client.get(page).text
    assert "identical" in text
    assert 'class="card same"' in text
    client.cookies.clear()


def test_what_is_no_round_is_not_decided(client: TestClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("placement/9999", "nothing/1"):
        assert client.post(f"/v1/rounds/{path}/replays", headers=headers, json={}).status_code == 404


def fake(script: str, make_s: float = 60) -> CellReplays:
    return CellReplays(LogAddress("/nowhere", 0), "", make_s, [sys.executable, "-c", script])


def test_one_round_at_a_time() -> None:
    replays = fake("import sys; sys.stdin.read()")
    replays.start("sla", 1)
    assert not replays.start("sla", 1).over, "it is the same"
    with pytest.raises(Problem, match="round 1 of sla is being decided again"):
        replays.start("sla", 2)
    until(lambda: replays._process, "the process")
    replays.close()
    found = until(lambda: (last := replays.last("sla", 1)) and last.over and last, "its end")
    assert found.error


def test_who_asks_for_a_second_round_reads_on_its_page_which_one_is_at_work(tmp_path: Path) -> None:
    projector = Projector(past(), tmp_path)
    projector.fold_whole()
    replays = fake("import sys; sys.stdin.read()")
    replays.start("sla", 1)
    app = create_app(projector.views, past(), token=TOKEN, listen=LISTEN, cell_info=dict, replays=replays)
    add_ui(app, {0: app.state.context}, TOKEN)
    client = TestClient(app, f"http://{LISTEN}", headers={"Origin": f"http://{LISTEN}"})
    client.post("/ui/sign-in", data={"token": TOKEN})
    page = f"/ui/rounds/placement/{PLACED}"
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get(page).text)
    assert csrf
    answer = client.post(f"{page}/replays", data={"cell": "0", "csrf": csrf[1]})
    assert answer.status_code == 200
    assert '<a href="/ui/rounds/sla/1">Round 1 of sla</a> is being decided again' in answer.text
    at_work = client.get("/ui/rounds/sla/1").text
    assert "at work" in at_work
    assert "0 of 0" not in at_work
    replays.close()
    projector.close()


def test_a_process_that_takes_too_long_is_ended() -> None:
    replays = fake("import time; time.sleep(600)", make_s=0.2)
    replays.start("sla", 1)
    found = until(lambda: (last := replays.last("sla", 1)) and last.over and last, "its end")
    assert found.error.startswith("it took longer than 0.2 s")


def test_what_a_process_says_that_fails_is_the_error() -> None:
    replays = fake("print('There is no round 1 of sla in the log.'); raise SystemExit(1)")
    replays.start("sla", 1)
    found = until(lambda: (last := replays.last("sla", 1)) and last.over and last, "its end")
    assert found.error.endswith("There is no round 1 of sla in the log.")
    assert replays.last("sla", 2) is None
