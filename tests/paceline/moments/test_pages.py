"""Every page as it was; and one that shows how far the making of its moment is."""

import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from paceline.moments.log_cut import CutLog
from projections.api.moments import Asker, Making, Moment, PastCell
from projections.ui.app import add_ui
from projections.ui.contents import DATA, PAGES
from projections.views.projector import rebuild
from projections.views.reader import Views
from tests.helpers.drawn import seeds
from tests.paceline.moments.conftest import TOKEN, Server, app_of, client_of

NAMES = {
    "job_id": "nightly",
    "host_id": "large-1",
    "path:path": "maps",
    "subject:path": "huge",
    "instance": "3",
    "machine": "placement",
    "number": "3",
    "maintenance_id": "kernel",
}

ABSENT = ("/ui/maintenances/kernel",)
"""The history has no campaign: its page says so."""


class Source:
    """Moments whose views the test says."""

    def __init__(self, server: Server, answer: Mapping[int, PastCell] | tuple[int, int]) -> None:
        self._server = server
        self._answer = answer

    def resolve(self, text: str) -> Moment:
        return self._server.moments.resolve(text)

    def look(self, moment: Moment, asker: Asker) -> Mapping[int, PastCell] | Making:
        return Making(moment, *self._answer) if isinstance(self._answer, tuple) else self._answer


def pages_of(server: Server, source: Source | None = None) -> TestClient:
    context = server.app.state.context
    app = app_of(context.views, context.log, source or server.moments)  # type: ignore[arg-type]
    add_ui(app, {0: app.state.context}, TOKEN)
    return client_of(app)


def addresses() -> Iterator[str]:
    for each in (*PAGES, *DATA):
        if getattr(each, "for_writing", False):
            continue
        filled = re.sub(r"\{([\w:]+)\}", lambda found: NAMES.get(found[1], found[0]), each.path)
        assert "{" not in filled, f"the test knows no name for {each.path}"
        yield f"/ui{filled}"


def lasting(text: str) -> str:
    """A page without how long its making took."""
    return re.sub(r'"rest_ms": \d+', "", text)


@seeds(2, 1)
def test_every_page_is_that_of_a_log_that_ended_then(server: Server, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    at = f"0/lifecycle/round/{draw.randrange(60, 250)}"
    cut = CutLog(server.log, server.moments.resolve(at).ends[0])
    views = Views(rebuild(cut, tmp_path))
    shown, expected = pages_of(server), pages_of(server, Source(server, {0: PastCell(views, cut)}))
    for address in addresses():
        while (page := shown.get(address, params={"at": at})).status_code in (202, 503):
            pass
        right = expected.get(address, params={"at": at})
        assert (page.status_code, lasting(page.text)) == (right.status_code, lasting(right.text)), address
        assert page.status_code == (404 if address in ABSENT else 200), f"{address}: {page.text[:300]}"
    views.engine.dispose()


def test_a_page_whose_moment_is_being_made_says_how_far_it_is_and_asks_again(server: Server) -> None:
    client = pages_of(server, Source(server, (1_200, 45_000)))
    page = client.get("/ui/jobs", params={"at": "lifecycle/round/9"})
    assert (page.status_code, page.headers["Refresh"]) == (202, "1")
    assert "1,200 of 45,000 records" in page.text
    assert '<progress max="45000" value="1200"' in page.text
    assert 'id="live_track"' in page.text
    assert '<a class="button live" href="/ui/jobs"' in page.text
    answer = client.get("/ui/data/hosts", params={"at": "lifecycle/round/9"})
    assert (answer.status_code, answer.json()["done"], answer.json()["of"]) == (503, 1_200, 45_000)


@pytest.mark.parametrize("at", ["2001-01-01T00:00:00Z", "nonsense", "lifecycle/round/999999", "2999-01-01T00:00:00Z"])
def test_a_refused_moment_leads_to_those_that_there_are(server: Server, at: str) -> None:
    client = pages_of(server)
    page = client.get("/ui/jobs", params={"at": at})
    assert page.status_code in (400, 404)
    assert 'id="live_track"' in page.text
    assert '<a class="button live" href="/ui/jobs"' in page.text
    found = re.search(r'<a href="/ui/jobs([^"]*)">The beginning', page.text)
    assert found
    while (beginning := client.get(f"/ui/jobs{found[1]}")).status_code == 202:
        pass
    assert beginning.status_code == 200


def test_links_of_a_page_stay_in_the_moment(server: Server) -> None:
    client = pages_of(server)
    while (page := client.get("/ui/jobs", params={"at": "lifecycle/round/200"})).status_code == 202:
        pass
    links = [link for link in re.findall(r'<a[^>]* href="(/ui/[^"]*)"', page.text) if "sign-in" not in link]
    assert len(links) > 5
    stay = [link for link in links if "at=lifecycle%2Fround%2F200" in link or "at=0%2Flifecycle%2Fround%2F200" in link]
    assert len(stay) > len(links) * 2 / 3


def test_what_says_the_same_as_a_page_says_it_of_the_same_moment(server: Server) -> None:
    client, at = pages_of(server), "lifecycle/round/200"
    for address in addresses():
        while (page := client.get(address, params={"at": at})).status_code in (202, 503):
            pass
        links = [
            link for link in re.findall(r'href="(/v1/[^"]*)"', page.text) if "/log?" not in link or "/v1/log" in link
        ]
        assert all("at=lifecycle" in link for link in links), (address, links)
        for same in re.findall(r"<span>same as(.*?)</span>", page.text):
            commands = re.findall(r'<code class="cmd">(.*?)</code>', same)
            assert commands, address
            assert all(command.endswith(f"--at {at}") for command in commands), (address, commands)
