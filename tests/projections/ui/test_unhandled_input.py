"""Whatever an address says, a page says what it can't show: in the same frame, with the same headers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from projections.api import stream
from projections.api.problems import Problem
from projections.asked_values import time_ms, whole_number
from projections.ui import app, live
from projections.ui.rendering import POLICY
from projections.ui.scene import Page
from projections.ui.sessions import fields_of
from tests.projections.conftest import LISTEN
from tests.projections.ui.views import Pages, pages

LONG = "7" * 5000
ODD = ("", ".", "..", "-1", "٣", "1..2", "1e9", LONG)


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as held_pages:
        held_pages.cell.accept("web", instances=2)
        held_pages.cell.run("web", (0,))
        held_pages.fold()
        yield held_pages


@pytest.mark.parametrize("value", ODD, ids=lambda text: text[:4])
@pytest.mark.parametrize(
    "path",
    [
        "/?cell=",
        "/jobs/web/tasks/0?run=",
        "/jobs/web/tasks?from=",
        "/jobs/web/versions?to=",
        "/jobs/web/versions?from=",
        "/jobs/web/history?before=",
        "/rounds/lifecycle/1?from=",
    ],
)
def test_what_is_no_number_is_none(ui: Pages, path: str, value: str) -> None:
    assert ui.browser.get(f"/ui{path}{value}").status_code in (200, 404)


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00", "1969-01-01", LONG], ids=lambda text: text[:10]
)
def test_a_time_that_cant_be_shown_is_refused(ui: Pages, time: str) -> None:
    assert ui.browser.get("/ui/jobs", params={"since": time}).status_code == 422
    assert ui.browser.get("/v1/series", params={"from": time}).status_code == 422


def test_numbers_and_times_are_read() -> None:
    assert [whole_number(text) for text in ("0", "9" * 18, "9" * 19, "+1", "٣")] == [0, 10**18 - 1, None, None, None]
    assert [time_ms(text) for text in ("1970-01-01T00:00:01", "1970-01-01T01:00:00+01:00", "soon")] == [1000, 0, None]


def test_a_mistake_of_a_page_is_shown_as_one_with_the_headers_of_a_page(tmp_path: Path, monkeypatch) -> None:
    page = Page("/tries", "help.html", lambda _: {"none": 1 // 0}, "")
    monkeypatch.setattr(app, "PAGES", (*app.PAGES, page))
    with pages(tmp_path) as ui:
        answer = TestClient(ui.app, f"http://{LISTEN}", raise_server_exceptions=False).get("/ui/tries")
    assert (answer.status_code, answer.headers["Content-Security-Policy"]) == (500, POLICY)
    assert "fault of the server" in answer.text


def test_a_page_with_a_mistake_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Iterator[tuple[str, str]]:
        raise ValueError("a mistake")

    async def test() -> None:
        hub = live.Hub(lambda: 0)
        with hub.reader({"/a": fails, "/b": fails}, False):
            await hub._look()
            await hub._look()

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(test(), 30))
    assert sum("can't be loaded" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("path", ["/find?q=", "/jobs?text=", "/sign-in?next=", "/none?q="])
def test_a_query_that_is_too_long_is_not_said_again(ui: Pages, path: str) -> None:
    answer = ui.browser.get(f"/ui{path}{'z' * 60_000}")
    assert (answer.status_code, "zzzz" in answer.text, answer.headers["Content-Security-Policy"]) == (
        414,
        False,
        POLICY,
    )


def test_one_address_watches_so_many_pages_and_others_more(monkeypatch) -> None:
    monkeypatch.setattr(live, "OF_CLIENT_MAX", 2)

    async def test() -> None:
        hub = live.Hub(lambda: 0)
        pages = {name: lambda: () for name in ("/a", "/b")}
        with hub.reader(pages, False, "one"), hub.reader(pages, False, "one"):
            with pytest.raises(Problem) as refused, hub.reader({"/c": lambda: ()}, False, "one"):
                pass
            assert refused.value.status == 429
            with hub.reader({"/c": lambda: ()}, False, "another"):
                pass

    asyncio.run(asyncio.wait_for(test(), 30))


def test_what_most_look_at_is_loaded_first() -> None:
    loaded: list[str] = []

    async def test() -> None:
        hub = live.Hub(lambda: 0)
        loads = {name: lambda name=name: loaded.append(name) or () for name in ("/a", "/b")}
        with hub.reader(loads, False, "one"), hub.reader({"/b": loads["/b"]}, False, "another"):
            await hub._look()

    asyncio.run(asyncio.wait_for(test(), 30))
    assert loaded[:2] == ["/b", "/a"]


def test_a_stream_ends_whose_reader_takes_nothing(monkeypatch) -> None:
    monkeypatch.setattr(stream, "SEND_S", 0.01)
    ended: list[int] = []

    async def content() -> AsyncIterator[bytes]:
        while True:
            yield b"more"

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    response = stream.EventResponse(content(), lambda: ended.append(1))
    asyncio.run(asyncio.wait_for(response({"type": "http"}, never, never), 30))
    assert ended == [1]


def test_a_form_that_is_cut_off_is_a_wrong_request() -> None:
    class Cut:
        headers = {"content-type": "application/x-www-form-urlencoded"}  # noqa: RUF012

        async def body(self) -> bytes:
            raise ClientDisconnect

    with pytest.raises(Problem) as refused:
        asyncio.run(fields_of(Cut()))  # type: ignore[arg-type]
    assert refused.value.status == 400
