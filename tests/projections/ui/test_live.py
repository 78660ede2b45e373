"""The stream of the pages: rendered once for all, what has changed is sent, nobody waits for a slow reader."""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from projections.api.problems import Problem
from projections.ui import live
from projections.ui.app import Ui, add_ui
from projections.ui.live import Hub, Reader
from projections.views.reader import ViewsAway
from tests.projections.conftest import LISTEN, TOKEN, Api


class Views:
    """A page of two parts over a state that a test changes."""

    def __init__(self) -> None:
        self.state = 0
        self.loads = 0
        self.fault: Exception | None = None

    def standing(self) -> int:
        return self.state

    def load(self) -> Iterator[tuple[str, str]]:
        self.loads += 1
        if self.fault is not None:
            raise self.fault
        yield "live_number", f"<p>{self.state}</p>"
        yield "live_still", "<p>still</p>"


async def always() -> bool:
    """Its reader may look."""
    return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for but the order of things."""
    for name in ("LOOK_S", "EVERY_S", "REST"):
        monkeypatch.setattr(live, name, 0.001)
    monkeypatch.setattr(live, "PING_S", 0.01)


def told(text: bytes) -> Iterator[tuple[str, Any]]:
    """The events in a piece of a stream."""
    for piece in text.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in piece.splitlines())
        if "event" in lines:
            yield lines["event"], json.loads(lines["data"])


async def until(reader: Reader, holds: Callable[[dict[str, str]], bool], seen: dict[str, str]) -> list[Any]:
    """Reads until what was seen of the parts holds; returns all events."""
    events = []
    async for text in reader.follow(always):
        for kind, data in told(text):
            events.append((kind, data))
            if kind == "part":
                seen[data[1]] = data[2]
        if holds(seen):
            return events
    raise AssertionError


def run(test: Callable[[Hub, Views], Any]) -> None:
    """Runs a test over a hub, in a bounded time."""
    views = Views()
    asyncio.run(asyncio.wait_for(test(Hub(views.standing), views), 30))


def test_a_reader_gets_all_parts_first_and_then_those_that_change() -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as reader:
            follow = reader.follow(always)
            parts: list[Any] = []
            while len(parts) < 2:
                parts += [data for kind, data in told(await anext(follow)) if kind == "part"]
            assert parts == [["/a", "live_number", "<p>0</p>"], ["/a", "live_still", "<p>still</p>"]]
            views.state, parts = 7, []
            while not parts:
                parts += [data for kind, data in told(await anext(follow)) if kind == "part"]
            assert parts == [["/a", "live_number", "<p>7</p>"]]

    run(test)


def test_a_page_is_loaded_once_for_all_who_look() -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as first, hub.reader({"/a": views.load}, False) as second:
            for reader in (first, second):
                await until(reader, lambda seen: len(seen) == 2, {})
            assert views.loads == 1

    run(test)


def test_nothing_is_loaded_while_nothing_changes() -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as reader:
            await until(reader, lambda seen: len(seen) == 2, {})
            pings = 0
            async for text in reader.follow(always):
                pings += sum(kind == "fresh" for kind, _ in told(text))
                if pings == 10:
                    break
            assert views.loads == 1

    run(test)


def test_a_slow_reader_skips_versions() -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as slow, hub.reader({"/a": views.load}, False) as quick:
            follow = slow.follow(always)
            await anext(follow)
            for state in range(1, 6):
                views.state = state
                await until(quick, lambda seen, state=state: seen.get("live_number") == f"<p>{state}</p>", {})
            numbers: list[str] = []
            while not numbers:
                numbers += [data[2] for kind, data in told(await anext(follow)) if data and kind == "part"]
            assert numbers == ["<p>still</p>", "<p>5</p>"] or numbers == ["<p>5</p>", "<p>still</p>"]

    run(test)


def test_what_is_compressed_says_the_same() -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, True) as packed:
            unpacker, seen = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), b""
            async for text in packed.follow(always):
                seen += unpacker.decompress(text)
                if views.state < 3 and b"<p>%d</p>" % views.state in seen:
                    views.state += 1
                elif b"<p>3</p>" in seen:
                    break
            assert [data[2] for kind, data in told(seen) if kind == "part" and data[1] == "live_number"] == [
                f"<p>{number}</p>" for number in range(4)
            ]

    run(test)


@pytest.mark.parametrize("fault", [ViewsAway("away"), RuntimeError("a mistake")])
def test_the_stream_goes_on_when_the_views_could_not_be_read(fault: Exception) -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as reader:
            await until(reader, lambda seen: len(seen) == 2, {})
            standing = [1, fault, 2]

            def look() -> int:
                found = standing.pop(0) if len(standing) > 1 else standing[0]
                if isinstance(found, Exception):
                    raise found
                views.state = int(found)
                return views.state

            hub._standing = look
            await until(reader, lambda seen: seen.get("live_number") == "<p>2</p>", {})

    run(test)


@pytest.mark.parametrize("fault", [ViewsAway("away"), RuntimeError("a mistake")])
def test_readers_see_that_they_are_behind_and_the_stream_goes_on(fault: Exception) -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as reader:
            await until(reader, lambda seen: len(seen) == 2, {})
            views.fault, views.state = fault, 8
            async for text in reader.follow(always):
                if any(kind == "fresh" and data > 0.1 for kind, data in told(text)):
                    break
            views.fault = None
            await until(reader, lambda seen: seen.get("live_number") == "<p>8</p>", {})

    run(test)


def test_who_looks_at_something_that_is_no_more_is_told() -> None:
    async def test(hub: Hub, views: Views) -> None:
        views.fault = Problem(404, "NOT_FOUND", "there is no job a")
        with hub.reader({"/a": views.load}, False) as reader:
            async for text in reader.follow(always):
                if ("gone", ["/a", "there is no job a"]) in list(told(text)):
                    break

    run(test)


def test_a_stream_ends_with_the_right_to_look() -> None:
    async def test(hub: Hub, views: Views) -> None:
        rights = [True, True]

        async def lasts() -> bool:
            return bool(rights) and rights.pop()

        with hub.reader({"/a": views.load}, False) as reader:
            assert len([text async for text in reader.follow(lasts)]) == 3, "the head, and as often as it might"

    run(test)


def test_nothing_is_loaded_when_nobody_looks() -> None:
    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load}, False) as reader:
            await until(reader, lambda seen: len(seen) == 2, {})
        task = hub._task
        assert task is not None
        await task
        with hub.reader({"/a": views.load}, False) as reader:
            await until(reader, lambda seen: len(seen) == 2, {})

    run(test)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    yield TestClient(api.app, f"http://{LISTEN}", follow_redirects=False)
    api.close()


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("watch=/nope", 404),
        ("watch=http://elsewhere.example/", 404),
        ("watch=//elsewhere.example/", 404),
        ("watch=", 404),
        ("watch=/jobs?at=2026-01-01T00:00:00Z", 404),
        ("watch=/stream", 404),
        ("watch=%ff%00", 404),
        ("&".join(f"watch=/jobs?a={n}" for n in range(live.OF_STREAM_MAX + 1)), 400),
    ],
)
def test_a_stream_of_what_is_no_page_is_refused(client: TestClient, query: str, status: int) -> None:
    assert client.get(f"/ui/stream?{query}").status_code == status


def test_what_streams_watch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "WATCHES_MAX", 2)

    async def test(hub: Hub, views: Views) -> None:
        with hub.reader({"/a": views.load, "/b": views.load}, False), hub.reader({"/b": views.load}, False):
            more = hub.reader({"/c": views.load}, False)
            with pytest.raises(Problem, match="2 pages are watched"):
                more.__enter__()
        with hub.reader({"/c": views.load}, False):
            pass

    run(test)


def test_live_parts_show_the_same_as_the_page(tmp_path: Path) -> None:
    api = Api(tmp_path)
    ui = Ui({0: api.app.state.context}, TOKEN, api.app.state.moments)
    add_ui(api.app, ui.contexts, TOKEN)
    page = TestClient(api.app, f"http://{LISTEN}").get("/ui/jobs").text
    parts = dict(ui._load_of("/jobs")())
    assert parts
    assert all(html in page for html in parts.values())
    api.close()
