"""A history that was imported is looked at as of its end: what waits then has waited until then, and no longer."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from paceline.cli.main import run
from paceline.history.importer import import_history
from paceline.history.read_only_api import history_app
from paceline.services.settings import for_up, load
from tests.helpers.past import written
from tests.helpers.play import play
from tests.paceline.fake import FakeCell
from tests.projections.conftest import LISTEN
from tests.projections.queries.test_preemption_loops import quota_policy

MINUTES_MS = 60_000
END_MIN = 85
"""The policy sets pools on each other for 75 minutes, and ten more pass."""
LOOP = "pools /a, /b preempt each other again and again: 10 orders since "


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the whole log of a cell of two years ago, exported up to today, whose two jobs never end."""
    folder = tmp_path_factory.mktemp("loop")
    session = play(quota_policy(5))
    written(session.run.cell.log, folder / "cell")
    session.run.cell.close()
    file = folder / "whole.avro"
    assert run(["log", "export", "--data", str(folder / "cell"), "--from", "2023-11-14", str(file)]) == 0
    import_history(file, folder / "imported")
    return folder / "imported"


@pytest.fixture(scope="module")
def api(imported: Path) -> Iterator[TestClient]:
    with history_app(for_up(load(data=imported)), LISTEN) as app, TestClient(app, f"http://{LISTEN}") as client:
        yield client


def get(api: TestClient, path: str, status: int = 200) -> Any:
    answer = api.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def page(api: TestClient, path: str) -> str:
    """The text of a page, in small letters; one of a moment is there once its views are made."""
    while (answer := api.get(path)).status_code == 202:
        pass  # each time the server waits for them
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.text))).lower()


def test_open_jobs_have_waited_until_the_end_of_the_history(api: TestClient) -> None:
    end = api.get("/v1/cell").headers["as-of"]
    assert end.startswith("2023-11-14T23:"), "exported up to today, it ends with its last round"
    both = [get(api, f"/v1/jobs/{job}/ledger") for job in ("a", "b")]
    for ledger in both:
        assert ledger["until"] == end
        assert ledger["waiting_ms"] + ledger["running_ms"] == 2 * END_MIN * MINUTES_MS, "two tasks"
    week = get(api, "/v1/waits?since=2023-11-10T00:00:00Z")
    assert week["until"] == end
    assert week["total"]["waiting_ms"] == sum(each["waiting_ms"] for each in both)


def test_the_last_week_of_a_history_is_that_before_its_end(api: TestClient, cli: Any, cell: FakeCell) -> None:
    answer = api.get("/v1/waits?since=2023-11-10T00:00:00Z")
    end = answer.headers["as-of"]
    cell.answer("GET", "/v1/waits", answer.json(), at=answer.headers["at"], as_of=end)
    code, out, _ = cli("pool", "waits", "--last", "7d")
    assert (code, out.startswith("STATE")) == (0, True)
    assert cell.asked[-1].query["since"] == "2023-11-07" + end[10:]


def test_loops_of_the_end_and_of_moments_are_told(api: TestClient) -> None:
    for query in ("", "?at=2023-11-14T23:36:00Z"):
        for path in ("/ui/", "/ui/operations"):
            assert LOOP in page(api, path + query)
    assert LOOP not in page(api, "/ui/?at=2023-11-14T22:40:00Z"), "one turn is none"


def test_a_check_of_an_import_says_what_to_do_instead(imported: Path, cli: Any) -> None:
    code, _, err = cli("cell", "check", "--data", str(imported))
    assert code == 1
    assert f"`paceline up --read-only --data {imported}`" in err


def test_a_check_of_a_stopped_cell_says_in_days_what_it_leaves_unread(imported: Path, cli: Any) -> None:
    code, out, _ = cli("cell", "check", "--data", str(imported.parent / "cell"))
    assert code == 1
    assert re.search(r"leaves unread has waited for \d+d\d+h\. Look", out)
