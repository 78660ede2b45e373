"""Figures of pages lead to who moved them last, and a page says it."""

import html
import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from projections.api import blame
from projections.api.app import create_app
from projections.queries.blame_fields import read_target
from projections.ui.app import add_ui
from projections.views.projector import Projector
from tests.helpers.moved_cell import moved_cell
from tests.projections.conftest import LISTEN, TOKEN


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    cell = moved_cell()
    projector = Projector(cell.log, tmp_path_factory.mktemp("views"))
    projector.fold_whole()
    app = create_app(projector.views, cell.log, token=TOKEN, listen=LISTEN, cell_info=dict)
    add_ui(app, {0: app.state.context}, TOKEN)
    yield TestClient(app, f"http://{LISTEN}")
    projector.close()


def page(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(f"/ui{path}")
    assert answer.status_code == status, answer.text
    return answer.text


def words(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", text.partition("<main")[2])))


def asked(text: str) -> dict[str, str]:
    """The addresses that the figures of a page lead to, by target."""
    paths = [html.unescape(each) for each in re.findall(r'<a class="moved" href="/ui([^"]+)"', text)]
    return {re.sub("%(..)", lambda code: chr(int(code[1], 16)), path.partition("?of=")[2]): path for path in paths}


SHOWN = [
    ("/pools/a", {"/a:limit:cpu", "/a:entitlement:cpu", "/a:share:cpu", "/a:share:others", "/a:admitted", "/a:queue"}),
    ("/pools/b", {"/b:reservation:cpu", "/b:held:cpu", "/b:open_jobs_max", "cell:preemption_delay"}),
    ("/jobs/low", {"low:state", "low:priority", "low:waiting_since", "low:reason", "low:tasks:running"}),
    ("/jobs/gone", {"gone:state", "gone:ended_at", "gone:tasks:killed"}),
    ("/jobs/low/tasks", {"low/0:state", "low/7:state", "low/0:since", "low/0:run"}),
    ("/jobs", {"low:state", "low:tasks:running", "low:reason", "low:priority", "low:waiting_since", "gone:state"}),
    ("/jobs?columns=state&columns=failed&columns=ended&columns=labels", {"low:tasks:failed", "gone:ended_at"}),
    ("/hosts", {"host/sim-1:allocated:cpu", "host/sim-1:capacity:cpu", "host/sim-2:state", "host/sim-2:runs"}),
    ("/pools", {"/a:held:cpu", "/a:without_hosts:cpu", "/b:entitlement:cpu", "/b:demand:cpu", "/b:queue"}),
    ("/", {"cell:hosts", "cell:held:cpu", "low:waiting_since", "low:tasks:queued", "low:reason"}),
    ("/jobs/high/tasks/0", {"high/0:state", "high/0:since", "high/0:host_id", "high/0:run", "high/0:failures"}),
    ("/hosts/sim-1", {"host/sim-1:state", "host/sim-1:capacity:cpu", "host/sim-1:allocated:cpu", "host/sim-1:runs"}),
    ("/hosts/sim-2", {"host/sim-2:state", "host/sim-2:maintenance"}),
]


@pytest.mark.parametrize(("path", "targets"), SHOWN)
def test_every_figure_of_a_page_leads_to_an_answer(client: TestClient, path: str, targets: set[str]) -> None:
    links = asked(page(client, path))
    assert targets <= links.keys()
    for of, address in links.items():
        read_target(of)
        assert f"Who moved {of} " in words(page(client, address)), of


def test_nothing_is_looked_for_until_it_is_asked(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(blame.blame, "blame_json")
    for path, _ in SHOWN:
        page(client, path)


@pytest.mark.parametrize(
    ("of", "name", "reason", "event"),
    [
        ("/b:reservation:cpu", "dan", "urgent", "/b defined"),
        ("gone:state", "fay", "not needed", "gone"),
        ("host/sim-2:state", "gus", "disk", "sim-2"),
        ("cell:preemption_delay", "carol", "quick", "settings"),
    ],
)
def test_the_page_says_who_why_and_by_what(client: TestClient, of: str, name: str, reason: str, event: str) -> None:
    text = page(client, f"/blame?of={of}")
    said = words(text)
    assert f"Who{name} (unverified), paceline." in said.replace("Who ", "Who")
    assert f"Reason{reason}" in said
    assert event in said
    assert f"paceline log blame {of}" in said
    position = re.search(r'href="/ui/why/([^"]+)">All that led to it', text)
    assert position is not None
    page(client, f"/why/{position[1]}")


def test_what_followed_and_other_fields_are_shown(client: TestClient) -> None:
    text = page(client, "/blame?of=/b:reservation:cpu")
    followed = text.partition("What followed from it</h2>")[2].partition("</table>")[0]
    assert followed.count("<tr>") > 2
    assert "/b:limit" in asked(text)
    assert "/b:reservation" not in asked(text)


def test_what_nobody_moved_and_what_cant_be_asked_are_said(client: TestClient) -> None:
    assert "nobody: it has its default" in words(page(client, "/blame?of=cell:hold_for"))
    assert "did you mean state?" in page(client, "/blame?of=low:stat", 400)
    assert "nobody" in page(client, "/blame?of=nobody:state", 404)
    form = page(client, "/blame")
    assert 'name="of"' in form
    assert "host/NAME:FIELD" in form
