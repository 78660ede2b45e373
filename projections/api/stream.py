"""The event stream: server-sent events from the log. The log is the queue: a slow reader just falls behind."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from events.log import LogGap
from projections.api.context import LOOK_S, NEWS_S, Context
from projections.api.problems import Problem
from projections.tail import BadCursor, Tail, Told

PING_S = 15.0
RETRY_MS = 1000


def routes(context: Context) -> APIRouter:
    """The route /v1/events."""
    router = APIRouter(tags=["events"])
    streams = 0

    @router.get("/v1/events", response_class=StreamingResponse)
    async def events(last_event_id: Annotated[str, Header()] = "") -> StreamingResponse:
        """Every fact and every accepted decision from now on, or from after Last-Event-ID."""
        nonlocal streams
        if streams >= context.streams_max:
            detail = f"{streams} streams are open, no more are allowed"
            raise Problem(503, "TOO_MANY_STREAMS", detail, headers={"Retry-After": "5"})
        try:
            tail = await run_in_threadpool(Tail, context.views, context.log, last_event_id)
            first = await run_in_threadpool(tail.batch)
        except BadCursor as error:
            raise Problem(400, "BAD_POSITION", str(error)) from error
        except LogGap as error:
            raise Problem(410, "GONE", str(error)) from error

        async def follow() -> AsyncIterator[bytes]:
            nonlocal streams
            streams += 1
            try:
                yield f"retry: {RETRY_MS}\n\n".encode()
                async for text in _follow(context, tail, first):
                    yield text
            finally:
                streams -= 1
                tail.close()

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(follow(), headers=headers, media_type="text/event-stream")

    return router


async def _follow(context: Context, tail: Tail, batch: list[Told]) -> AsyncIterator[bytes]:
    said_at = time.monotonic()
    while True:
        version = context.views.version
        for told in batch:
            yield f"id: {told.cursor}\nevent: {told.event}\ndata: ".encode() + orjson.dumps(told.data) + b"\n\n"
            said_at = time.monotonic()
        if not batch:
            look_at = time.monotonic() + LOOK_S
            while context.views.version == version and time.monotonic() < look_at:
                await asyncio.sleep(NEWS_S)
        if time.monotonic() - said_at >= PING_S:
            said_at = time.monotonic()
            yield b": ping\n\n"
        try:
            batch = await run_in_threadpool(tail.batch)
        except LogGap:
            yield b"event: gone\ndata: {}\n\n"
            return
