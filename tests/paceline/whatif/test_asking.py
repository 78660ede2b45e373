"""What-ifs that are asked of a server: answered by a process of its own, one at a time, bounded, ended when nobody
looks, and nothing written.
"""

import html
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from events.log.embedded import EmbeddedLog
from events.topics import ALL
from paceline.cli.main import run
from paceline.moments.order import LogAddress
from paceline.moments.what_ifs import KEPT_MAX, LEASE_S, CellWhatIfs, WhatIfLimits
from paceline.services.past import what_ifs_of
from paceline.services.settings import for_up, load
from projections.api.app import create_app
from projections.api.problems import Problem
from projections.api.what_if_questions import AskedWhatIf, Question
from projections.ui.app import add_ui
from projections.views.projector import Projector
from tests.browser.cells import until
from tests.paceline.whatif.recorded import THREE_TEAMS
from tests.projections.conftest import LISTEN, TOKEN, CheckedClient

WHEN = {"from": "2023-11-14T22:15:00Z", "to": "2023-11-14T22:30:00Z"}
ASKED = {**WHEN, "changes": ["/b:share=3"], "runs": 2}
HANGS = (
    'import sys, time; sys.stdin.readline(); print(\'{"type":"progress","done":0.25}\', flush=True); time.sleep(600)'
)
ANSWERS = 'import sys; sys.stdin.readline(); print(\'{"type":"result","summary":{"x":1},"page":{}}\')'


def question(number: int) -> Question:
    return Question(0, 1000 + number, ("/a:share=2",))


class Made:
    """What-ifs answered by scripts, at times that a test sets."""

    def __init__(self, script: str, run_s: float) -> None:
        self.now = 0.0
        limits = WhatIfLimits(run_s, 512)
        self.cell = CellWhatIfs(LogAddress("/nowhere", 0), limits, [sys.executable, "-c", script], lambda: self.now)

    def over(self, asked: Question) -> AskedWhatIf:
        """The answer to a question that somebody waits for."""
        return until(lambda: (found := self.cell.look(asked.id)) and found.over and found, "an answer")


@pytest.fixture
def made() -> Iterator[Callable[..., Made]]:
    with ExitStack() as stack:

        def make(script: str, run_s: float = 1000) -> Made:
            done = Made(script, run_s)
            stack.callback(done.cell.close)
            return done

        yield make


@pytest.mark.outside
def test_one_is_at_work_at_a_time_and_the_same_question_is_the_same(made: Callable[..., Made]) -> None:
    asked = made(HANGS)
    first = asked.cell.ask(question(1))
    until(lambda: asked.cell.look(question(1).id) == first._replace(done=0.25), "progress")
    assert asked.cell.ask(question(1)).done == 0.25
    with pytest.raises(Problem, match=f"what-if {question(1).id} is at work") as refused:
        asked.cell.ask(question(2))
    assert (refused.value.status, refused.value.code) == (409, "WHAT_IF_RUNS")


@pytest.mark.outside
def test_it_is_ended_when_nobody_has_looked_for_long_and_may_be_asked_again(made: Callable[..., Made]) -> None:
    asked = made(HANGS)
    asked.cell.ask(question(1))
    until(lambda: asked.cell.look(question(1).id).done, "progress")
    asked.now = LEASE_S - 1
    assert not asked.cell.look(question(1).id).over
    asked.now += LEASE_S - 1
    assert asked.cell.at_work() is not None  # who looked at it waits for it
    asked.now += 2
    until(lambda: asked.cell.at_work() is None, "its end")
    assert "nobody looked at it for 30 s" in asked.cell.look(question(1).id).error
    assert not asked.cell.ask(question(1)).over


@pytest.mark.outside
def test_it_is_ended_when_it_takes_too_long(made: Callable[..., Made]) -> None:
    asked = made(HANGS, run_s=20)
    asked.cell.ask(question(1))
    asked.now = 21
    assert "longer than 20 s" in asked.over(question(1)).error


@pytest.mark.outside
def test_a_process_that_fails_says_why(made: Callable[..., Made]) -> None:
    asked = made("print('no such thing')")
    asked.cell.ask(question(1))
    assert asked.over(question(1)).error == "it could not be answered: no such thing"


@pytest.mark.outside
def test_the_last_answers_are_kept(made: Callable[..., Made]) -> None:
    asked = made(ANSWERS)
    for number in range(KEPT_MAX + 1):
        asked.cell.ask(question(number))
        assert asked.over(question(number)).summary == b'{"x":1}'
    assert asked.cell.look(question(0).id) is None
    assert asked.cell.ask(question(1)).over


class Server:
    """A server of a simulated cell."""

    def __init__(self, data: Path, stack: ExitStack) -> None:
        log = EmbeddedLog.open_secondary(data / "log")
        stack.callback(log.close)
        projector = Projector(log, data)
        stack.callback(projector.close)
        projector.fold_whole()
        self.settings = for_up(load(None, data=data))
        what_ifs = what_ifs_of(self.settings, 0)
        stack.callback(what_ifs.close)
        self.app = create_app(projector.views, log, token=TOKEN, listen=LISTEN, cell_info=dict, what_ifs=what_ifs)
        add_ui(self.app, {0: self.app.state.context}, TOKEN)
        self.client = CheckedClient(self.app, f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})

    def ends(self) -> dict[str, int]:
        """Where each topic ends now."""
        log = EmbeddedLog.open_secondary(self.settings.data / "log")
        try:
            return dict(log.ends([topic.name for topic in ALL]))
        finally:
            log.close()

    def answered(self, body: dict[str, Any]) -> dict[str, Any]:
        """What a question comes to."""
        asked = self.client.post("/v1/what-ifs", json=body)
        assert asked.status_code == 202, asked.text
        assert asked.headers["Location"] == f"/v1/what-ifs/{asked.json()['id']}"

        def over() -> Any:
            body = self.client.get(asked.headers["Location"], params={"wait": "1s"}).json()
            return body["state"] != "RUNNING" and body

        return until(over, "the answer")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("what-if") / "cell"
    assert run(["simulate", str(THREE_TEAMS), "--data", str(data)]) == 0
    with ExitStack() as stack:
        yield Server(data, stack)


@pytest.mark.outside
def test_the_answer_is_that_of_the_command_and_nothing_is_written(server: Server, tmp_path: Path) -> None:
    before = server.ends()
    asked = {**ASKED, "conditions": ["pool /b mean_wait < -10%", "cell mean_wait < -1000s"]}
    done = server.answered(asked)
    assert (done["state"], done["done"], done["error"]) == ("DONE", 1.0, "")
    words = ["--data", str(server.settings.data), "--from", WHEN["from"], "--to", WHEN["to"], "--runs", "2"]
    words += ["--set", "/b:share=3", "--out", str(tmp_path / "out")]
    assert run(["what-if", *words, *(word for each in asked["conditions"] for word in ("--fail-if", each))]) == 1
    assert done["answer"] == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert server.ends() == before
    assert [each["holds"] for each in done["answer"]["conditions"]] == ["yes", "no"]
    assert server.client.post("/v1/what-ifs", json=asked).json() == done
    for condition, why in {
        "cell waits > 1": "there is no figure waits",
        "pool /bb mean_wait > 1s": "there is no pool /bb",
        "owner nobody mean_wait > 1s": "there is no owner nobody",
    }.items():
        wrong = server.answered({**ASKED, "conditions": [condition]})
        assert (wrong["state"], wrong["done"], why in wrong["error"]) == ("FAILED", 0.0, True)


@pytest.mark.outside
def test_a_change_file_is_read_and_its_faults_are_told_by_line(server: Server) -> None:
    done = server.answered({**WHEN, "change_file": "priorities:\n  b-16: 5\n", "runs": 1})
    assert done["answer"]["change"] == ["job b-16 has priority 5"]
    wrong = server.answered({**WHEN, "change_file": "priorities:\n  nobody: 5\n", "runs": 1})
    assert (wrong["state"], wrong["answer"]) == ("FAILED", None)
    assert wrong["error"].startswith("change.yaml:2:")
    unread = server.answered({**WHEN, "change_file": "priority: 5\n", "runs": 1})
    assert unread["error"].startswith("change.yaml:1:")


@pytest.mark.outside
def test_what_it_may_not_take_of_memory_is_told(server: Server) -> None:
    limits = WhatIfLimits(60, 40)
    what_ifs = CellWhatIfs(LogAddress(str(server.settings.data), 0), limits)
    wish = Question(1_700_000_100_000, 1_700_001_000_000, ("/b:share=3",), runs=1)
    what_ifs.ask(wish)
    error = until(lambda: what_ifs.look(wish.id).error, "an error")
    assert "memory" in error


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({**ASKED, "from": ASKED["to"]}, "/from"),
        ({**ASKED, "to": "2999-01-01T00:00:00Z"}, "/to"),
        (WHEN, "/changes"),
        ({**ASKED, "runs": 0}, "/runs"),
        ({**ASKED, "more": 0}, "/more"),
        ({**ASKED, "from": "-5m"}, "/from"),
        ({**ASKED, "from": "0001-01-01T00:00:00+23:59"}, "/from"),
        ({**ASKED, "changes": ["/bb:share=3"]}, "/changes"),
    ],
)
def test_what_is_no_question_is_refused(server: Server, body: dict[str, Any], pointer: str) -> None:
    answer = server.client.post("/v1/what-ifs", json=body)
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


def test_what_is_meant_is_told(server: Server) -> None:
    no_time = server.client.post("/v1/what-ifs", json={**ASKED, "from": "-5m"}).json()
    assert "must be a time such as 2026-11-18T06:00:00Z" in no_time["errors"][0]["message"]
    no_pool = server.client.post("/v1/what-ifs", json={**ASKED, "changes": ["/bb:share=3"]}).json()
    assert "there is no pool /bb; did you mean /b" in no_pool["errors"][0]["message"]


@pytest.mark.outside
def test_what_its_process_leaves_in_temporary_folders_goes_with_it(
    made: Callable[..., Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    leaves = f"import tempfile; open(tempfile.mkdtemp() + '/left', 'w').close(); {HANGS}"
    asked = made(leaves)
    asked.cell.ask(question(1))
    until(lambda: asked.cell.look(question(1).id).done, "progress")
    assert [each.name for each in tmp_path.rglob("left")] == ["left"]
    asked.cell.close()
    assert list(tmp_path.iterdir()) == []


def test_asking_takes_a_token(server: Server) -> None:
    client = CheckedClient(server.app, f"http://{LISTEN}")
    assert client.post("/v1/what-ifs", json=ASKED).status_code == 401
    assert server.client.get("/v1/what-ifs/nothing").status_code == 404


class Signed:
    """A browser of somebody who is signed in."""

    def __init__(self, server: Server) -> None:
        self.client = TestClient(server.app, f"http://{LISTEN}", headers={"Origin": f"http://{LISTEN}"})
        self.client.post("/ui/sign-in", data={"token": TOKEN, "next": "/ui/what-if"})

    def page(self, path: str) -> Any:
        """A page."""
        return self.client.get(path, follow_redirects=False)

    def ask(self, **fields: str) -> Any:
        """What sending the form comes to."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.page("/ui/what-if").text)
        assert found is not None
        return self.client.post("/ui/what-if", data={"csrf": found[1], "number": "0", **fields}, follow_redirects=False)


@pytest.mark.outside
def test_the_page_asks_shows_progress_and_then_the_lines(server: Server) -> None:
    signed = Signed(server)
    form = {**WHEN, "of": "/b", "field": "share", "value": "3", "runs": "1", "more": "/c:share=2\n"}
    sent = signed.ask(**form)
    assert sent.status_code == 303, sent.text
    page = signed.page(sent.headers["Location"])
    assert page.headers["Refresh"] == "1"
    assert "<progress" in page.text

    def shown() -> Any:
        page = signed.page(sent.headers["Location"])
        return "Refresh" not in page.headers and page.text

    text = until(shown, "the answer")
    assert "/b share: 1 -&gt; 3; /c share: 1 -&gt; 2" in text
    plots = dict(re.findall(r'<script type="application/json" id="plot-([a-z0-9-]+)">(.*?)</script>', text))
    for meaning in ("entitlement", "allocation", "demand"):
        lines = json.loads(plots[f"{meaning}-1"])["series"]
        assert [each["name"] for each in lines] == ["recorded", "again", "changed"]
    assert signed.ask(**form).headers["Location"] == sent.headers["Location"]


@pytest.mark.outside
def test_the_page_takes_conditions_and_says_which_hold(server: Server) -> None:
    signed = Signed(server)

    def shown(conditions: str) -> str:
        asked = {**WHEN, "of": "/b", "field": "share", "value": "3", "runs": "2", "conditions": conditions}
        sent = signed.ask(**asked)
        assert sent.status_code == 303, sent.text
        text = until(
            lambda: "Refresh" not in (page := signed.page(sent.headers["Location"])).headers and page.text, "it"
        )
        return html.unescape(text)

    text = shown("pool /b mean_wait < -10%\r\n\r\n cell mean_wait < -1000s\r\n")
    rows = re.findall(r"<tr><td><code>(.*?)</code></td><td class=\"(\w+)\">(.*?)</td></tr>", text)
    assert rows == [
        ("pool /b mean_wait < -10%", "bad", "yes: a check fails"),
        ("cell mean_wait < -1000s", "good", "no"),
    ]
    assert "--fail-if 'pool /b mean_wait < -10%' --fail-if 'cell mean_wait < -1000s'" in text
    again = re.search(r'href="/ui(/what-if[^"]+)">Ask otherwise', text)
    assert again is not None
    form = html.unescape(signed.page(f"/ui{again[1]}").text)
    assert ">pool /b mean_wait < -10%\ncell mean_wait < -1000s</textarea>" in form
    for condition, why in {
        "cell waits > 1": "there is no figure waits",
        "pool /bb mean_wait > 1s": "there is no pool /bb; did you mean /b",
        "cell mean_wait > 5": "mean_wait is a time, and 5 has no unit",
    }.items():
        wrong = shown(condition)
        assert (f"{condition!r}: {why}" in wrong, "Effects" in wrong) == (True, False)


def test_what_can_not_be_asked_is_told_beside_the_form(server: Server) -> None:
    signed = Signed(server)
    nothing = signed.ask(**WHEN, of="/b", field="share")
    assert (nothing.status_code, "say what is otherwise" in nothing.text) == (422, True)
    no_time = signed.ask(**{**WHEN, "from": "yesterday"}, of="/b", field="share", value="3")
    assert (no_time.status_code, "<code>from</code>" in no_time.text) == (422, True)
    assert 'value="yesterday"' in no_time.text
    assert signed.page("/ui/what-if/nothing").status_code == 404


def test_the_form_is_filled_with_the_stretch_that_a_link_names(server: Server) -> None:
    text = Signed(server).page(f"/ui/what-if?from={WHEN['from']}&to={WHEN['to']}&pool=/c").text
    assert f'value="{WHEN["from"]}"' in text
    assert "<option selected>/c</option>" in text
    assert TestClient(server.app, f"http://{LISTEN}").get("/ui/what-if", follow_redirects=False).status_code == 303
