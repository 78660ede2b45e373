"""The event stream: everything once, in the order of cause and effect, from wherever a reader left off."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schemas
from events.topics import ALL
from projections.api import request_limits, stream
from projections.queries import follow as module
from projections.queries.follow import BadCursor, Tail, read_cursor
from projections.record_json import HASHES, PACKED
from projections.views import projector
from tests.helpers.drawn import examples
from tests.helpers.story import LogSummary
from tests.helpers.written_cell import held
from tests.projections.conftest import Api

START = "0:0"


class Stream:
    """One GET of /v1/events as an ASGI server plays it."""

    def __init__(self, api: Api, last_event_id: str = "", query: str = "", accept: str = "*/*") -> None:
        headers = [(b"host", b"127.0.0.1:7400"), (b"last-event-id", last_event_id.encode()),
                   (b"accept", accept.encode())]  # fmt: skip
        self.scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1",
                      "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events", "query_string": query.encode(),
                      "headers": headers, "scheme": "http", "server": ("127.0.0.1", 7400), "root_path": ""}  # fmt: skip
        self.messages: asyncio.Queue[Any] = asyncio.Queue(1)
        self.gone = asyncio.Event()
        self.app = api.app
        self.text = b""

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def piece(self) -> bytes:
        """The next piece between two blank lines."""
        while b"\n\n" not in self.text:
            message = await asyncio.wait_for(self.messages.get(), 30)
            self.text += message.get("body", b"")
        piece, _, self.text = self.text.partition(b"\n\n")
        return piece

    async def event(self) -> tuple[str, dict[str, Any]]:
        """The next event: its id and its data."""
        while True:
            cursor, data = await self.told()
            if data["event"] != "bookmark":
                return cursor, data

    async def told(self) -> tuple[str, dict[str, Any]]:
        """The next event or bookmark."""
        while True:
            piece = (await self.piece()).decode()
            fields = dict(line.split(": ", 1) for line in piece.splitlines())
            if "data" in fields:
                data = json.loads(fields["data"])
                assert fields["event"] == data["event"]
                return fields["id"], data


@asynccontextmanager
async def opened(api: Api, last_event_id: str = "", query: str = "") -> AsyncIterator[Stream]:
    found = Stream(api, last_event_id, query)
    task = asyncio.create_task(found.app(found.scope, found.receive, found.messages.put))
    head = await found.messages.get()
    assert head["status"] == 200, head
    assert (b"content-type", b"text/event-stream; charset=utf-8") in head["headers"]
    try:
        yield found
    finally:
        found.gone.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_reader_hears_what_happens_from_now_on(api):
    async def play() -> list[dict[str, Any]]:
        api.cell.submit("before")
        api.fold()
        async with opened(api) as events:
            await events.piece()
            api.cell.accept("a", instances=700)
            api.fold()
            return [(await events.event())[1] for _ in range(3)]

    heard = asyncio.run(play())
    assert [each["event"] for each in heard] == ["JobSubmitted", "JobAccepted", "GangsQueued"]
    assert heard[0]["data"]["job_id"] == "a"
    assert heard[2] | {"at": 0} == {
        "position": "paceline.lifecycle:1", "at": 0, "machine": "lifecycle", "round": 1, "index": 1,
        "event": "GangsQueued", "data": {"job_ids": ["a"], "items": 1, "shapes": [], "host_ids": [], "timed": False},
    }  # fmt: skip


def test_a_reader_goes_on_within_a_round(api):
    async def play() -> None:
        api.cell.decide("entitlement", *[held("a", (0,))] * 3)
        api.fold()
        last = START
        for index in range(3):
            async with opened(api, last) as events:
                last, data = await events.event()
                assert data["index"] == index
        async with opened(api, last) as events:
            await events.piece()
            api.cell.submit("z")
            api.fold()
            assert (await events.event())[1]["event"] == "JobSubmitted"

    asyncio.run(play())


def test_an_idle_stream_pings(api, monkeypatch):
    monkeypatch.setattr(stream, "PING_S", 0.0)

    async def play() -> bytes:
        async with opened(api) as events:
            await events.piece()
            await events.piece()
            return await events.piece()

    assert asyncio.run(play()) == b": ping"


def test_streams_are_counted_and_foundback(api):
    async def play() -> None:
        async with opened(api) as one, opened(api) as two:
            await one.piece()
            await two.piece()
            third = Stream(api)
            task = asyncio.create_task(api.app(third.scope, third.receive, third.messages.put))
            assert (await third.messages.get())["status"] == 503
            await third.messages.get()
            await task
        async with opened(api) as again:
            await again.piece()

    asyncio.run(play())


def test_streams_are_counted_before_they_are_read(api):
    """However many are asked for at once, and whether or not anybody reads of them."""

    async def play() -> None:
        asked = [Stream(api) for _ in range(20)]
        tasks = [asyncio.create_task(each.app(each.scope, each.receive, each.messages.put)) for each in asked]
        answers = [(await each.messages.get())["status"] for each in asked]
        assert Counter(answers) == {200: 2, 503: 18}
        for each in asked:
            each.gone.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with opened(api) as one, opened(api) as two:
            await one.piece()
            await two.piece()

    asyncio.run(play())


def test_one_client_leaves_streams_to_others(api, monkeypatch):
    monkeypatch.setattr(request_limits, "OF_CLIENT_MAX", 1)

    async def status(client: str) -> int:
        asked = Stream(api)
        asked.scope["client"] = (client, 1)
        task = asyncio.create_task(asked.app(asked.scope, asked.receive, asked.messages.put))
        held.append(task)
        return int((await asked.messages.get())["status"])

    async def play() -> list[int]:
        found = [await status(client) for client in ("10.0.0.1", "10.0.0.1", "10.0.0.2")]
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        return found

    held: list[asyncio.Task[None]] = []
    assert asyncio.run(play()) == [200, 429, 200]


def test_a_stream_holds_few_bytes_of_large_records(api):
    for each in range(40):
        api.cell.submit(f"job-{each}", env={"A": "x" * 100_000})
    api.fold()
    tail = Tail(api.projector.views, api.cell.log, START)
    heard = 0
    while batch := tail.batch():
        assert sum(len(each.data["data"]["env"]["A"]) for each in batch) < 2 * module.BYTES
        assert sum(tail._held.values()) < module.BYTES + module.POLLED * 101_000
        heard += len(batch)
    assert heard == 40


def test_an_id_that_is_none_and_one_that_is_too_old(api):
    api.problem(api.client.get("/v1/events", headers={"Last-Event-ID": "yesterday"}), 400, "BAD_POSITION")
    api.problem(api.client.get("/v1/events", headers={"Last-Event-ID": "0:99"}), 410, "GONE")
    for foreign in ("0:99", "4:99", ",".join(f"{rank}:99" for rank in range(len(ALL)))):
        body = api.problem(api.client.get("/v1/events", headers={"Last-Event-ID": foreign}), 410, "GONE")
        assert "its id is of another cell or another log" in body["detail"]
    api.cell.submit("a")
    api.fold()
    api.cell.log.truncate("paceline.jobs", 1)
    api.problem(api.client.get("/v1/events", headers={"Last-Event-ID": START}), 410, "GONE")


@pytest.mark.parametrize("text", ["", "x", "0:-1", "99:1", "0", "0:1+4", "0:1+4:x", "0:1,,"])
def test_cursors_that_are_none(text):
    with pytest.raises(BadCursor):
        read_cursor(text)


@examples(8)
@given(seed=st.integers(0, 1 << 32))
def test_everything_comes_once_and_after_its_cause(tmp_path_factory, seed):
    """However often the reader breaks off, and however the views and the stream come along."""
    api = Api(tmp_path_factory.mktemp("views"))
    draw = random.Random(seed)
    api.cell.log = LogSummary(seed).cell.log
    api.projector = type(api.projector)(api.cell.log, tmp_path_factory.mktemp("views"))
    heard: list[Any] = []
    tail = Tail(api.projector.views, api.cell.log, START)
    ends = {topic.name: api.cell.log.bounds(topic.name)[1] for topic in ALL}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH", draw.choice([2, 5, 200]))
        patch.setattr(projector, "RECORDS", draw.choice([3, 50]))
        for _ in range(5000):
            if tail.positions == ends:
                break
            if draw.random() < 0.5:
                api.projector.step()
            batch = tail.batch()
            taken = draw.randrange(len(batch) + 1) if draw.random() < 0.1 else len(batch)
            heard += batch[:taken]
            if taken < len(batch) or draw.random() < 0.02:
                tail.close()
                tail = Tail(api.projector.views, api.cell.log, heard[-1].cursor if heard else START)
    assert tail.positions == ends
    places = [(told.data["position"], told.data["index"]) for told in heard]
    assert len(set(places)) == len(places)
    found = {position for position, _ in places}
    for name in ("paceline.jobs", "paceline.hosts", "paceline.lifecycle"):
        offsets = [int(position.rpartition(":")[2]) for position in found if position.startswith(name)]
        poison = sum(record.value == b"poison" for record in api.cell.log.scan(name, 0))
        claims = name == "paceline.lifecycle"
        assert len(offsets) == api.cell.log.bounds(name)[1] - poison - claims
    submitted: set[str] = set()
    count: Counter[str] = Counter()
    for told in heard:
        count[told.event] += 1
        assert min(count["GangsAdmitted"], count["TasksPlaced"]) >= count["RunsOrdered"]
        if told.event == "JobSubmitted":
            submitted.add(told.data["data"]["job_id"])
        elif told.event == "JobAccepted":
            assert told.data["data"]["job_id"] in submitted
    api.close()


def test_columns_are_shown_as_their_schemas_say():
    for folder in schemas.FOLDERS:
        for path in schemas.files(folder):
            for field in json.loads(path.read_text())["fields"]:
                if field["type"] == "bytes":
                    other = field["name"] in HASHES | PACKED
                    assert other == ("column" not in field), (path.name, field["name"])
