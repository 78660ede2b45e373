"""The past of several cells, and of logs that were archived or cut."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from events.log.archive import archive, remove
from events.log.embedded import EmbeddedLog
from events.topics import ALL
from paceline.moments import copies
from paceline.moments.log_cut import CutLog, write_time
from paceline.moments.order import LogAddress
from paceline.moments.source import CellMoments, CellPast
from paceline.moments.view_maker import MakerLimits
from paceline.services.past import CellFolder, moments_of
from paceline.services.settings import for_up, load
from projections.api.cell_router import create_cells_app
from projections.views.projector import Projector, rebuild
from projections.views.reader import Views
from tests.helpers.past import past, written
from tests.helpers.written_cell import Cell
from tests.paceline.moments.conftest import Server, app_of, client_of, then

LIMITS = MakerLimits(60, 1 << 30)
MINUTE_MS = 60_000


class Two(NamedTuple):
    """Cells 0 and 1 behind one server, with the folders of their logs."""

    logs: list[EmbeddedLog]
    folder: Path
    client: TestClient
    moments: CellMoments

    def get(self, path: str, **query: Any) -> httpx2.Response:
        while (answer := self.client.get(path, params=query)).status_code == 503:
            assert answer.json()["code"] == "MOMENT_IN_THE_MAKING"
        return answer


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Each has a job at its start, and one of its own a minute for three minutes, cell 1 half a minute later."""
    folder = tmp_path_factory.mktemp("two")
    with ExitStack() as stack:
        logs, apps, pasts = [], {}, {}
        for number in (0, 1):
            cell, home = Cell(number=number), folder / str(number)
            cell.host(f"host-{number}")
            cell.ms += number * MINUTE_MS // 2
            for minute in range(3):
                cell.accept(f"job-{number}-{minute}", pool=f"/p{number}")
                cell.run(f"job-{number}-{minute}", host_id=f"host-{number}")
                cell.ms += MINUTE_MS
            home.mkdir()
            written(cell.log, home)
            log = EmbeddedLog.open_secondary(home / "log", number)
            stack.callback(log.close)
            logs.append(log)
            apps[number] = app_of(Views(rebuild(log, home)), log)
            pasts[number] = CellPast(log, LogAddress(str(home), number), home)
        moments = CellMoments(pasts, LIMITS)
        stack.callback(moments.close)
        yield Two(logs, folder, client_of(create_cells_app(apps, moments)), moments)


@pytest.mark.parametrize("at", ["2023-11-14T22:14:25Z", "1/lifecycle/round/4", "0/placement:1"])
def test_a_moment_is_of_all_cells(two: Two, tmp_path: Path, at: str) -> None:
    moment = two.moments.resolve(at)
    fresh = {}
    for number, log in enumerate(two.logs):
        fresh[number] = then(log, moment.ends[number], tmp_path / str(number)).app
    expected = client_of(create_cells_app(fresh))  # type: ignore[arg-type]
    paths = ["jobs", "hosts", "pools", "volumes", "throttled-tasks", "log/quarantine", "jobs/job-1-0", "jobs/job-0-1"]
    for path in paths:
        shown, right = two.get(f"/v1/{path}", at=at), expected.get(f"/v1/{path}")
        assert (shown.status_code, shown.text) == (right.status_code, right.text), path
        assert shown.headers.get("Log-Position", "-") == right.headers.get("Log-Position", "-") or not right.is_success
    page = two.get("/v1/jobs", at=at, page_size=1).json()
    token = page["next_page_token"]
    rest = two.get("/v1/jobs", at=at, page_token=token).json()["jobs"] if token else []
    assert page["jobs"] + rest == expected.get("/v1/jobs").json()["jobs"]


def test_a_round_of_one_cell_shows_the_others_at_its_time(two: Two) -> None:
    ids = [job["job_id"] for job in two.get("/v1/jobs", at="1/lifecycle/round/2").json()["jobs"]]
    assert sorted(ids) == ["job-0-0", "job-1-0"]
    answer = two.get("/v1/jobs", at="1/lifecycle/round/2")
    assert (answer.headers["At"], answer.headers["As-Of"]) == ("1/lifecycle/round/2", "2023-11-14T22:13:50.000Z")


def test_several_cells_need_the_cell_of_a_round_and_know_their_own(two: Two) -> None:
    for at, status, code, detail in (
        ("lifecycle/round/2", 400, "BAD_MOMENT", "say of which cell lifecycle/round/2 is, as in 0/lifecycle/round/2"),
        ("7/lifecycle/round/2", 409, "WRONG_CELL", "this server serves cells 0, 1"),
    ):
        answer = two.get("/v1/jobs", at=at)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert detail in answer.json()["detail"]


class Cut(NamedTuple):
    """A log whose first half was archived and removed, views of all of it, and copies of views from before."""

    log: EmbeddedLog
    folder: Path
    views: Views
    url: str

    def server(self, stack: ExitStack, archived: bool) -> Server:
        settings = load(None, data=self.folder, archive=self.url if archived else None)
        moments = moments_of(for_up(settings), {0: CellFolder(self.log, self.folder)})
        stack.callback(moments.close)
        app = app_of(self.views, self.log, moments)
        return Server(self.log, self.folder, app, client_of(app), moments)


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Cut]:
    folder, url = tmp_path / "cell", str(tmp_path / "archive")
    written(past(), folder)
    log = EmbeddedLog(folder / "log")
    projector = Projector(log, folder)
    projector.fold_whole()
    for topic in (topic.name for topic in ALL):
        half = log.bounds(topic)[1] // 2
        if half:
            archive(log, url, topic, half)
            remove(log, url, topic, half)
    yield Cut(log, folder, projector.views, url)
    projector.close()
    log.close()


def test_an_archive_counts_as_log(cut: Cut, tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = cut.server(stack, archived=True)
        ends = server.moments.resolve("lifecycle/round/60").ends[0]
        shown = server.get("/v1/jobs/nightly/tasks", at="lifecycle/round/60")
        assert shown.json() == then(past(), ends, tmp_path / "then").get("/v1/jobs/nightly/tasks").json()
        assert server.get("/v1/rounds/lifecycle/60", at="lifecycle/round/60").json()["round"] == 60


def test_what_is_before_the_start_of_a_log_is_gone(cut: Cut) -> None:
    with ExitStack() as stack:
        server = cut.server(stack, archived=False)
        for at in ("lifecycle:3", "lifecycle/round/3", "2023-11-14T22:13:20Z"):
            answer = server.get("/v1/jobs", at=at)
            assert (answer.status_code, answer.json()["code"]) == (410, "GONE"), at
        start, end = cut.log.bounds("paceline.lifecycle")
        answer = server.get("/v1/jobs", at=f"lifecycle:{end - 1}")
        assert (answer.status_code, answer.json()["code"]) == (410, "GONE")
        assert "records are missing" in answer.json()["detail"]
        assert start > 3


def test_a_copy_of_views_shows_what_the_log_alone_no_longer_can(cut: Cut, tmp_path: Path) -> None:
    whole = past()
    ends = whole.ends(topic.name for topic in ALL)
    (tmp_path / "copied").mkdir()
    rebuild(CutLog(whole, ends | {"paceline.tasks": ends["paceline.tasks"] - 1}), tmp_path / "copied").dispose()
    copies.copy(tmp_path / "copied" / "views.sqlite", cut.folder / copies.FOLDER, 1, 1)
    last_ms = max(record.at_ms for topic in ALL for record in whole.scan(topic.name, 0))
    with ExitStack() as stack:
        server = cut.server(stack, archived=False)
        shown = server.get("/v1/jobs", at=write_time(last_ms))
        assert shown.json() == then(whole, ends, tmp_path / "then").get("/v1/jobs").json()


def test_the_stream_begins_at_the_moment(server: Server) -> None:
    async def first() -> dict[str, Any]:
        return await event_of(server.app, b"at=lifecycle/round/100")

    event = asyncio.run(first())
    ends = server.moments.resolve("lifecycle/round/100").ends[0]
    topic, _, offset = event["position"].rpartition(":")
    assert int(offset) == ends[topic]


def test_the_stream_of_events_since_a_time_begins_there(server: Server) -> None:
    """Without a position; what is older than the log begins with its first event."""
    at = server.moments.resolve("lifecycle/round/100").time

    async def first(since: str) -> dict[str, Any]:
        return await event_of(server.app, f"since={since}".encode())

    event = asyncio.run(first(at))
    assert event["at"] >= at
    ends = server.moments.resolve(at).ends[0]
    topic, _, offset = event["position"].rpartition(":")
    assert 0 <= ends[topic] - int(offset) < 20
    oldest = asyncio.run(first("2001-01-01T00:00:00Z"))
    assert oldest["position"].endswith(":0")


async def event_of(app: FastAPI, query: bytes) -> dict[str, Any]:
    """The first event of a stream."""
    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
             "path": "/v1/events", "raw_path": b"/v1/events", "query_string": query, "scheme": "http",
             "headers": [(b"host", b"127.0.0.1:7400")], "server": ("127.0.0.1", 7400), "root_path": ""}  # fmt: skip
    sent: asyncio.Queue[Any] = asyncio.Queue(1)

    async def receive() -> Any:
        await asyncio.Event().wait()

    task = asyncio.create_task(app(scope, receive, sent.put))
    text = b""
    try:
        head = await asyncio.wait_for(sent.get(), 30)
        assert head["status"] == 200
        assert dict(head["headers"]).get(b"at") == (b"0/lifecycle/round/100" if b"at=" in query else None)
        while text.count(b"data: ") < 2 or not text.endswith(b"\n\n"):  # a bookmark, and the first event
            text += (await asyncio.wait_for(sent.get(), 30))["body"]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    data: dict[str, Any] = json.loads(text.split(b"data: ")[2].partition(b"\n\n")[0])
    return data


def test_what_a_server_made_goes_with_it(tmp_path: Path) -> None:
    written(past(), tmp_path / "cell")
    with ExitStack() as stack:
        log = EmbeddedLog.open_secondary(tmp_path / "cell" / "log")
        stack.callback(log.close)
        moments = CellMoments({0: CellPast(log, LogAddress(str(tmp_path / "cell"), 0), tmp_path / "cell")}, LIMITS)
        made = Server(
            log, tmp_path, app := app_of(Views(rebuild(log, tmp_path)), log, moments), client_of(app), moments
        )
        assert made.get("/v1/jobs", at="lifecycle/round/9").status_code == 200
        assert list((tmp_path / "cell" / "moments").glob("*/*.sqlite"))
        moments.close()
    assert not list((tmp_path / "cell" / "moments").iterdir())
