"""The event stream with filters: what is asked for, each once, and a position that goes on whatever passes."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from events.codes import Outcome
from events.records.hosts import HostSilent
from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from projections.api import stream
from projections.queries import follow
from projections.queries.event_filter import EventFilter
from projections.queries.follow import StreamedEvent, Tail
from tests.helpers.written_cell import ended
from tests.projections.api.test_stream import START, Stream, opened
from tests.projections.conftest import Api

QUERIES = (
    "", "about=jobs", "about=pools", "about=hosts", "pool=/maps", "pool=/p", "owner=ann", "owner=ann&owner=bob",
    "label=team:geo", "text=TILE", "state=RUNNING,SUCCEEDED", "job=a&job=tiles", "host=h2", "host=h2&owner=ann",
    "about=pools&pool=/maps", "since=2023-11-14T22:13:25Z", "owner=nobody", "actor=ann", "actor=ann&job=a",
)  # fmt: skip


@pytest.fixture
def told(api: Api) -> Api:
    """Two jobs of two owners in two pools, on two hosts."""
    cell = api.cell
    api.pool("/p")
    api.pool("/maps")
    cell.host("h1")
    cell.host("h2")
    cell.accept("a", owner="bob")
    cell.ms += 5_000
    cell.accept("tiles", pool="/maps", owner="ann", labels={"team": "geo"})
    cell.run("a")
    cell.run("tiles", host_id="h2")
    cell.changed("RUNNING", "a")
    cell.changed("RUNNING", "tiles")
    cell.decide("lifecycle", ended("tiles", (0,), Outcome.SUCCEEDED))
    cell.changed("SUCCEEDED", "tiles")
    cell.fact(HostSilent(host_id="h2", session=1))
    for actor in (Actor("ann", "header"), Actor("ben", "header")):
        cell.fact(JobStopRequested(job_id="a", command_id=actor.subject, actor=actor))
    api.fold()
    return api


def wanted(query: str) -> EventFilter | None:
    """The filter that a query means."""
    pairs = [each.split("=", 1) for each in query.split("&") if each]
    many: dict[str, list[str]] = {}
    for name, value in pairs:
        many.setdefault(name, []).append(value)
    values: dict[str, Any] = {
        name: found if name in ("job", "host", "pool", "owner", "label") else found[0] for name, found in many.items()
    }
    if "since" in values:
        values["since"] = datetime.fromisoformat(values["since"])
    actor = values.pop("actor", None)
    defaults: dict[str, Any] = {"about": "", "state": "", "text": ""}
    lists = dict.fromkeys(("job", "host", "pool", "owner", "label", "since")) | {"actors": (actor,) if actor else ()}
    return asyncio.run(stream.events_filter(**{**defaults, **lists, **values}))


def heard(api: Api, query: str = "", cursor: str = START) -> list[StreamedEvent]:
    return list(read_on(Tail(api.projector.views, api.cell.log, cursor, wanted(query))))


def read_on(tail: Tail) -> Iterator[StreamedEvent]:
    """To the end."""
    yield from tail.batch()
    while not tail.is_idle:
        yield from tail.batch()


def named(events: list[StreamedEvent], kind: str = "jobs") -> set[str]:
    return {name for each in events for name in each.data["about"][kind]}


def kinds(events: list[StreamedEvent]) -> list[str]:
    return [each.event for each in events]


@pytest.mark.parametrize("query", QUERIES)
def test_a_filtered_stream_is_part_of_the_whole_in_its_order_wherever_it_is_cut(told, query, monkeypatch):
    whole = [(each.data["position"], each.data["index"]) for each in heard(told)]
    events = heard(told, query)
    places = [(each.data["position"], each.data["index"]) for each in events]
    assert [place for place in whole if place in places] == places
    assert bool(places) == (query != "owner=nobody")
    monkeypatch.setattr(follow, "BATCH", 3)
    for cut, each in enumerate(events):
        rest = heard(told, query, each.cursor)
        assert [(one.data["position"], one.data["index"]) for one in rest] == places[cut + 1 :]


def test_jobs_are_found_by_pool_owner_label_text_and_name(told):
    for query in ("pool=/maps&about=jobs", "owner=ann", "label=team:geo", "text=TILE", "job=tiles"):
        events = heard(told, query)
        assert named(events) == {"tiles"}, query
        assert kinds(events)[0] == "JobSubmitted"
        assert kinds(events)[-1] == "JobChanged"
    assert named(heard(told, "pool=/")) == {"a", "tiles"}
    assert named(heard(told, "owner=ann&owner=bob")) == {"a", "tiles"}
    assert heard(told, "owner=ann&owner=bob&pool=/maps&label=team:other") == []


def test_a_state_is_told_when_a_job_comes_into_it(told):
    events = heard(told, "state=running,SUCCEEDED")
    assert [(each.data["data"]["job_id"], each.data["data"]["state"]) for each in events] == [
        ("a", "RUNNING"), ("tiles", "RUNNING"), ("tiles", "SUCCEEDED"),
    ]  # fmt: skip
    assert kinds(heard(told, "state=PENDING")) == ["JobAccepted"] * 2
    assert kinds(heard(told, "state=SUBMITTED&pool=/p")) == ["JobSubmitted"]


def test_what_is_about_pools_and_about_hosts(told):
    assert kinds(heard(told, "about=pools&pool=/maps")) == [
        "PoolDefined", "PoolAnswered", "JobSubmitted", "JobAccepted",
    ]  # fmt: skip
    events = heard(told, "about=hosts&host=h2")
    assert kinds(events)[:3] == ["HostConnected", "HostOffered", "HostReconciled"]
    assert {"HostSilent", "TasksPlaced", "RunsOrdered"} <= set(kinds(events))
    assert named(events, "hosts") == {"h2"}


def test_an_event_says_of_each_job_what_its_history_says(told):
    [placed] = [each for each in heard(told, "owner=ann") if each.event == "TasksPlaced"]
    assert placed.data["about"] == {
        "jobs": {"tiles": {"hosts": ["h2"], "instance": 0, "run": 1, "tasks": 1}}, "pools": [], "hosts": ["h2"],
    }  # fmt: skip


def test_what_one_user_wrote(told):
    events = heard(told, "actor=ann")
    assert [(each.event, each.data["data"]["command_id"]) for each in events] == [("JobStopRequested", "ann")]
    assert heard(told, "actor=ann&job=tiles") == []


def test_events_since_a_time(told):
    events = heard(told, "since=2023-11-14T22:13:25Z")
    assert kinds(events)[0] == "JobSubmitted"
    assert named(events) == {"a", "tiles"}
    assert {each.data["at"] for each in events} == {"2023-11-14T22:13:25.000Z"}


def test_that_a_job_is_deleted_is_told_by_its_name_and_to_who_heard_of_it(told):
    """Its row is gone then."""
    queries = "job=tiles", "owner=ann", "about=jobs"
    tails = [Tail(told.projector.views, told.cell.log, START, wanted(query)) for query in queries]
    for tail in tails:
        assert "tiles" in named(list(read_on(tail)))
    told.cell.forget("tiles")
    told.fold()
    for tail in tails:
        assert [(each.event, [*each.data["about"]["jobs"]]) for each in read_on(tail)] == [("JobsForgotten", ["tiles"])]
    assert kinds(heard(told, "job=tiles"))[-1] == "JobsForgotten"


def test_a_stream_from_now_has_a_position_at_once_and_nothing_old(told):
    async def play(query: str) -> None:
        async with opened(told, query=query) as events:
            cursor, data = await events.told()
            assert data == {"event": "bookmark"}
            assert cursor == Tail(told.projector.views, told.cell.log).cursor
            told.cell.submit(f"new-{len(query)}", owner="ann")
            told.fold()
            _, data = await events.told()
            assert data["event"] == "JobSubmitted"
        async with opened(told, query=f"{query}&from={cursor.replace('+', '%2B')}".lstrip("&")) as again:
            assert await again.told() == (cursor, {"event": "bookmark"})
            assert (await again.told())[1]["data"]["job_id"].startswith("new-")

    for query in ("", "owner=ann"):
        asyncio.run(play(query))


def test_a_stream_that_passes_over_everything_says_how_far_it_is(told, monkeypatch):
    monkeypatch.setattr(stream, "PING_S", 0.0)

    async def play() -> None:
        async with opened(told, query="owner=nobody&from=start") as events:
            at = [(await events.told())[0] for _ in range(2)]
            end = Tail(told.projector.views, told.cell.log).cursor
            assert at[0] != at[1] == end
            assert await events.piece() == b": ping"
            told.cell.submit("of-nobody")
            told.fold()
            cursor, data = await events.told()
            assert (data, cursor == end) == ({"event": "bookmark"}, False)
        async with opened(told, cursor, "owner=nobody") as again:
            assert (await again.told())[0] == cursor

    asyncio.run(play())


def test_events_as_lines_of_json(told):
    async def play() -> list[Any]:
        asked = Stream(told, "", "from=start&owner=ann", "application/x-ndjson")
        task = asyncio.create_task(told.app(asked.scope, asked.receive, asked.messages.put))
        head = await asked.messages.get()
        assert (b"content-type", b"application/x-ndjson") in head["headers"]
        text = b""
        while text.count(b"\n") < 4:
            text += (await asked.messages.get())["body"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [json.loads(line) for line in text.splitlines()]

    lines = asyncio.run(play())
    assert [each["event"] for each in lines[:3]] == ["bookmark", "JobSubmitted", "JobAccepted"]
    assert [each["id"] for each in lines[1:4]] == [each.cursor for each in heard(told, "owner=ann")[:3]]


@pytest.mark.parametrize("query", ["about=tasks", "state=GONE", "label=team", "since=yesterday", "from=yesterday"])
def test_filters_that_are_none(api, query):
    status, code = (400, "BAD_POSITION") if query.startswith("from") else (422, "INVALID_REQUEST")
    api.problem(api.client.get(f"/v1/events?{query}"), status, code)


def test_a_pool_that_isn_t_there_is_no_filter_of_what_comes(told):
    """Who comes back with a position is told of its removal instead."""
    body = told.problem(told.client.get("/v1/events?pool=/map"), 422, "NO_SUCH_POOL")
    assert "/maps" in body["detail"]
    assert heard(told, "pool=/gone") == []

    async def play() -> None:
        async with opened(told, query="pool=/gone&from=0:0") as events:
            assert (await events.told())[1] == {"event": "bookmark"}

    asyncio.run(play())


def test_a_job_and_a_host_that_aren_t_there_are_no_filters_of_what_comes(told):
    for query in ("job=nope", "host=h3", "host=h3&from=now"):
        told.problem(told.client.get(f"/v1/events?{query}"), 422, "NOT_FOUND")
    assert heard(told, "job=nope") == []
    body = told.problem(told.client.get("/v1/events?job=tile"), 422, "NOT_FOUND")
    assert body["detail"] == "there is no job tile; did you mean tiles?"


def test_an_unfiltered_stream_asks_for_no_rows_of_jobs(told, monkeypatch):
    def no_rows(*_: object) -> Any:
        raise AssertionError("rows of jobs are read")

    monkeypatch.setattr(follow.event_filter, "wanted_jobs", no_rows)
    monkeypatch.setattr(follow.event_filter, "subjects", no_rows)
    assert len(heard(told)) > 20
    assert all("about" not in each.data for each in heard(told))
