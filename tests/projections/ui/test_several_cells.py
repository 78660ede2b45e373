"""One UI for all cells of an API."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from projections.ui.app import Ui, add_ui
from tests.projections.conftest import LISTEN, TOKEN, Api


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[dict[int, Api]]:
    """Two cells; the second has a pool of its own."""
    made = {}
    for number in (0, 1):
        (tmp_path / str(number)).mkdir()
        made[number] = Api(tmp_path / str(number), number)
    made[1].pool("/only-here", cell=1)
    yield made
    for api in made.values():
        api.close()


@pytest.fixture
def client(cells: dict[int, Api]) -> TestClient:
    """The pages over both."""
    add_ui(cells[0].app, {number: api.app.state.context for number, api in cells.items()}, TOKEN)
    return TestClient(cells[0].app, f"http://{LISTEN}", follow_redirects=False)


@pytest.mark.parametrize(("query", "shown"), [("", "0"), ("?cell=1", "1"), ("?cell=9", "0"), ("?cell=x", "0")])
def test_a_page_says_which_cell_it_shows_and_leads_to_the_others(client: TestClient, query: str, shown: str) -> None:
    page = client.get(f"/ui/{query}").text
    cells = re.search(r'<nav class="cells".*?</nav>', page, re.S)
    assert cells is not None
    assert re.findall(r'cell=(\d)"( aria-current)?', cells[0]) == [
        (each, " aria-current" if each == shown else "") for each in "01"
    ]


def test_links_keep_the_cell(client: TestClient) -> None:
    page = client.get("/ui/?cell=1").text
    assert 'href="/ui/pools?cell=1"' in page
    assert 'data-watch="/?cell=1" data-time="/time?cell=1"' in page


def test_the_stream_tells_of_the_cell_that_is_looked_at(cells: dict[int, Api]) -> None:
    contexts = {number: api.app.state.context for number, api in cells.items()}
    ui = Ui(contexts, TOKEN, cells[0].app.state.moments)
    for number in cells:
        parts = dict(ui._load_of(f"/time?cell={number}")())
        assert f'data-cell="{number}"' in parts["live_moment"]


def test_what_is_in_any_cell_is_found(client: TestClient) -> None:
    answer = client.get("/ui/find?q=only")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/pools/only-here")
