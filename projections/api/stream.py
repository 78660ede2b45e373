"""The event stream: server-sent events from the log. The log is the queue: a slow reader just falls behind.

A stream is counted from the moment it is accepted, in all and of each client. Streams read in a few threads of their
own, so that they don't take those of other requests.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import Annotated, Any, TypeVar

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from events.bounds import WORD_MAX
from events.log.port import LogGap
from projections.access.identity import present
from projections.access.quotas import StreamQuota, actor_key
from projections.api.context import LOOK_S, Context, client_of
from projections.api.jobs import OWNERS_MAX, job_states
from projections.api.list_requests import (
    PAIRS_MAX,
    Actors,
    States,
    must_have_host,
    must_have_job,
    must_have_pool,
    pair_of,
)
from projections.api.problems import Problem
from projections.api.request_limits import ConcurrencyLimit
from projections.api.standing import standing
from projections.asked_values import since_ms
from projections.queries.event_filter import KINDS, EventFilter
from projections.queries.follow import NOW, BadCursor, StreamedEvent, Tail

PING_S = 15.0
"""So often an idle stream says something: how far it is, where it has passed over events."""
NAMES_MAX = 100
"""Jobs, hosts and pools that a stream may be asked for by name."""
BOOKMARK, GONE = "bookmark", "gone"
NDJSON = "application/x-ndjson"
SEND_S = 30.0
"""A stream ends when its reader has taken nothing for so long."""
RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a reader that was cut off comes back."""
PAUSE_S = 0.05
"""So often a stream looks whether the views have gone on: events may come so late."""
THREADS = 4

T = TypeVar("T")


class Streams:
    """The places of open streams, and the threads that they read in."""

    def __init__(self, most: int) -> None:
        self.places = ConcurrencyLimit(most, "streams", "are open")
        self.of_actors = StreamQuota()
        self._threads: CapacityLimiter | None = None

    async def read(self, look: Callable[[], T]) -> T:
        """Reads in one of the threads."""
        if self._threads is None:
            self._threads = CapacityLimiter(THREADS)
        return await to_thread.run_sync(look, limiter=self._threads)


class EventResponse(StreamingResponse):
    """An open stream; `end` is called once, however it ends, even if nobody has read of it."""

    def __init__(
        self, content: AsyncIterator[bytes], end: Callable[[], None], media_type: str = "text/event-stream", **more: str
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **more}
        super().__init__(content, headers=headers, media_type=media_type)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response, as ASGI has it."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)

        try:
            with suppress(TimeoutError):
                await super().__call__(scope, receive, send_in_time)
        finally:
            self._end()


Names = Annotated[list[str] | None, Query(max_length=NAMES_MAX)]


async def events_filter(
    actors: Actors,
    about: Annotated[str, Query(description="jobs, pools or hosts, separated by commas: events about such only.")] = "",
    job: Names = None,
    host: Names = None,
    pool: Annotated[
        list[str] | None, Query(max_length=NAMES_MAX, description="Pools (or /POOL/*), those below, and their jobs.")
    ] = None,
    state: States = "",
    owner: Annotated[list[str] | None, Query(max_length=OWNERS_MAX, description="One of these owners.")] = None,
    label: Annotated[list[str] | None, Query(max_length=PAIRS_MAX, description="key:value; all must hold.")] = None,
    text: Annotated[str, Query(max_length=WORD_MAX, description="Part of the id or of the command of a job.")] = "",
    since: Annotated[
        datetime | None, Query(description="From this time on; without a position the stream begins there.")
    ] = None,
) -> EventFilter | None:
    """The parameters of the stream of events, those of jobs with the names that they have in the list of jobs."""
    kinds = {each for each in about.split(",") if each}
    if unknown := sorted(kinds.difference(KINDS)):
        detail = f"{unknown[0][:40]!r} is no kind of thing; there are {', '.join(KINDS)}"
        raise Problem(422, "INVALID_REQUEST", detail, [("/query/about", "no kind of thing")])
    criteria = EventFilter(
        frozenset(kinds),
        frozenset(job or ()),
        frozenset(host or ()),
        [f"/{each.removesuffix('/*').strip('/')}" for each in pool or ()],
        frozenset(job_states(state)),
        owner or (),
        [pair_of("label", each) for each in label or ()],
        text,
        since_ms(since),
        actors,
    )
    return criteria if any(criteria) else None


def routes(context: Context) -> APIRouter:
    """The route /v1/events."""
    router = APIRouter(tags=["events"])
    streams = Streams(context.streams_max)

    @router.get("/v1/events", response_class=StreamingResponse)
    async def events(
        request: Request,
        criteria: Annotated[EventFilter | None, Depends(events_filter)],
        from_: Annotated[
            str, Query(alias="from", description="The id of an event: begin after it; now; start: the oldest kept.")
        ] = NOW,
        last_event_id: Annotated[str, Header()] = "",
    ) -> StreamingResponse:
        """Every fact and every accepted decision from now on, or from after Last-Event-ID or `from`.

        It begins with an event `bookmark`, whose id is the position where it begins. While nothing comes that is asked
        for there is another one each 15 s, if the position has moved. With `Accept: application/x-ndjson` each event is
        a line of JSON with its `id`, otherwise they are server-sent events. With any filter events say in `about` which
        jobs, pools and hosts that are asked for they are about, in `text` what happened, and in `job_texts` what did to
        each of these jobs. Of jobs that are deleted before it is read, filters by
        pool, owner, label and text let nothing through.
        """
        cursor = last_event_id or ("" if from_ == "now" else from_)
        with ExitStack() as held:
            held.enter_context(streams.places.one(client_of(request)))
            key = actor_key(present(), request.scope)
            held.enter_context(streams.of_actors.one(key, context.permits.streams_max))
            try:
                if criteria and not cursor:  # who comes back may hear that a pool was removed
                    await streams.read(lambda: _must_be_there(context, criteria))
                tail = await streams.read(lambda: Tail(context.views, context.log, cursor, criteria))
                held.callback(tail.close)
                begin = tail.cursor
                first = await streams.read(tail.batch)
            except BadCursor as error:
                raise Problem(400, "BAD_POSITION", str(error)) from error
            except LogGap as error:
                raise Problem(410, "GONE", str(error)) from error
            as_lines = NDJSON in request.headers.get("accept", "")
            write = _line if as_lines else _sent
            lasts = standing(request)
            content = _follow(context, streams, tail, first, _Writer(begin, write, b"" if as_lines else RETRY), lasts)
            return EventResponse(content, held.pop_all().close, NDJSON if as_lines else "text/event-stream")

    return router


def _must_be_there(context: Context, criteria: EventFilter) -> None:
    """Raises a problem where a stream is asked for a pool, a job or a host that isn't there."""
    with context.views.read() as connection:
        for path in criteria.pools:
            must_have_pool([connection], path)
        for job_id in sorted(criteria.job_ids):
            must_have_job([connection], job_id)
        for host_id in sorted(criteria.host_ids):
            must_have_host([connection], host_id)


Write = Callable[[str, str, Any], bytes]


def _sent(cursor: str, event: str, data: Any) -> bytes:
    """A server-sent event."""
    return f"id: {cursor}\nevent: {event}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def _line(cursor: str, event: str, data: Any) -> bytes:
    """A line of JSON."""
    return orjson.dumps({"id": cursor, "event": event, **data}) + b"\n"


class _Writer:
    """Writes the events of a stream, and knows up to which cursor that was done."""

    def __init__(self, cursor: str, write: Write, head: bytes) -> None:
        self._write = write
        self._said_at = time.monotonic()
        self._cursor = cursor
        self.head = head + self._bookmark(cursor)

    def event(self, told: StreamedEvent) -> bytes:
        """An event."""
        self._cursor, self._said_at = told.cursor, time.monotonic()
        return self._write(told.cursor, told.event, told.data)

    def idle(self, cursor: str) -> bytes:
        """Tells while nothing comes how far the stream is, if that is news."""
        if time.monotonic() - self._said_at < PING_S:
            return b""
        self._said_at = time.monotonic()
        if cursor == self._cursor:
            return b": ping\n\n" if self._write is _sent else b"\n"
        self._cursor = cursor
        return self._bookmark(cursor)

    def gone(self) -> bytes:
        """That what comes next is no longer there."""
        return b"event: gone\ndata: {}\n\n" if self._write is _sent else self._write(self._cursor, GONE, {})

    def _bookmark(self, cursor: str) -> bytes:
        return self._write(cursor, BOOKMARK, {"event": BOOKMARK})


async def _follow(
    context: Context,
    streams: Streams,
    tail: Tail,
    batch: list[StreamedEvent],
    writer: _Writer,
    lasts: Callable[[], Awaitable[bool]],
) -> AsyncIterator[bytes]:
    yield writer.head
    while await lasts():
        version = context.views.version
        for event in batch:
            yield writer.event(event)
        if tail.is_idle:
            look_at = time.monotonic() + LOOK_S
            while context.views.version == version and time.monotonic() < look_at:
                await asyncio.sleep(PAUSE_S)
        if text := writer.idle(tail.cursor):
            yield text
        try:
            batch = await streams.read(tail.batch)
        except LogGap:
            yield writer.gone()
            return
