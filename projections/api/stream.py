"""The event stream: server-sent events from the log. The log is the queue: a slow reader just falls behind.

A stream is counted from the moment it is accepted, in all and of each client. Streams read in a few threads of their
own, so that they don't take those of other requests.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from typing import Annotated, TypeVar

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from events.log.port import LogGap
from projections.api.context import LOOK_S, Context, client_of
from projections.api.problems import Problem
from projections.api.request_limits import ConcurrencyLimit
from projections.queries.follow import BadCursor, StreamedEvent, Tail

PING_S = 15.0
SEND_S = 30.0
"""A stream ends when its reader has taken nothing for so long."""
RETRY_MS = 1000
PAUSE_S = 0.05
"""So often a stream looks whether the views have gone on: events may come so late."""
THREADS = 4

T = TypeVar("T")


class Streams:
    """The places of open streams, and the threads that they read in."""

    def __init__(self, most: int) -> None:
        self.places = ConcurrencyLimit(most, "streams", "are open")
        self._threads: CapacityLimiter | None = None

    async def read(self, look: Callable[[], T]) -> T:
        """Reads in one of the threads."""
        if self._threads is None:
            self._threads = CapacityLimiter(THREADS)
        return await to_thread.run_sync(look, limiter=self._threads)


class EventResponse(StreamingResponse):
    """An open stream; `end` is called once, however it ends, even if nobody has read of it."""

    def __init__(self, content: AsyncIterator[bytes], end: Callable[[], None], **more: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **more}
        super().__init__(content, headers=headers, media_type="text/event-stream")
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


def routes(context: Context) -> APIRouter:
    """The route /v1/events."""
    router = APIRouter(tags=["events"])
    streams = Streams(context.streams_max)

    @router.get("/v1/events", response_class=StreamingResponse)
    async def events(request: Request, last_event_id: Annotated[str, Header()] = "") -> StreamingResponse:
        """Every fact and every accepted decision from now on, or from after Last-Event-ID."""
        with ExitStack() as held:
            held.enter_context(streams.places.one(client_of(request)))
            try:
                tail = await streams.read(lambda: Tail(context.views, context.log, last_event_id))
                held.callback(tail.close)
                first = await streams.read(tail.batch)
            except BadCursor as error:
                raise Problem(400, "BAD_POSITION", str(error)) from error
            except LogGap as error:
                raise Problem(410, "GONE", str(error)) from error
            return EventResponse(_follow(context, streams, tail, first), held.pop_all().close)

    return router


async def _follow(context: Context, streams: Streams, tail: Tail, batch: list[StreamedEvent]) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n\n".encode()
    said_at = time.monotonic()
    while True:
        version = context.views.version
        for told in batch:
            yield f"id: {told.cursor}\nevent: {told.event}\ndata: ".encode() + orjson.dumps(told.data) + b"\n\n"
            said_at = time.monotonic()
        if not batch:
            look_at = time.monotonic() + LOOK_S
            while context.views.version == version and time.monotonic() < look_at:
                await asyncio.sleep(PAUSE_S)
        if time.monotonic() - said_at >= PING_S:
            said_at = time.monotonic()
            yield b": ping\n\n"
        try:
            batch = await streams.read(tail.batch)
        except LogGap:
            yield b"event: gone\ndata: {}\n\n"
            return
