"""The gateway's face to agents and API servers: routes that hand what they get to its thread and wait for answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from events.bounds import NAME
from events.host_offers import offer_fault
from events.log.port import LogUnavailable
from hostagent.gateway.agents import Agents
from hostagent.gateway.component import Gateway
from hostagent.gateway.connections import Attach, Connect, Detach, LogMissing, NotHere, Report
from hostagent.gateway.exec_relay import ExecAsk, ExecRefused, ExecRelay, ExecSession
from hostagent.gateway.facts import columns_of, offered
from hostagent.gateway.http_answers import (
    Denied,
    answered,
    body_of,
    call,
    check_serving,
    check_token,
    decoded,
    guarded,
)
from hostagent.gateway.usage_requests import in_time
from hostagent.messages import (
    LOG_BYTES_MAX,
    PING_S,
    Acknowledged,
    Asked,
    Hello,
    Line,
    LogPage,
    Orders,
    PingLine,
    ReportBatch,
    SessionRefused,
    Welcome,
    line,
    page_headers,
    page_of,
)
from paceline.client.lines import ascii_json
from paceline.client.output_ask import WAIT_MAX_MS, OutputAsk

LOG_S = 10.0
"""Seconds for which a reader of output waits for the host."""
LINES_MAX = 1000
"""An agent that leaves so many lines unread is cut off; it gets the whole wanted set when it connects again."""

ANEW = (
    "To begin anew, end its tasks: `paceline down --stop-runs --agent-folder DIR`, then remove the folder of its agent."
)


class LogLate(LogMissing):
    """The host did not answer in time."""


class StreamLink:
    """A `Link` to one agent: lines for its stream, put from the gateway's thread, taken on the event loop, as long as
    it `may_hear` them.
    """

    heard_ms = 0

    def __init__(self, may_hear: Callable[[], bool]) -> None:
        self._may_hear = may_hear
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Orders | Line | None] = asyncio.Queue()
        self._cut = False

    def deliver(self, orders: Orders) -> None:
        """Implements `Link`."""
        self._enqueue(orders)

    def ask(self, host_id: str, line: Asked) -> None:
        """Implements `Link`."""
        self._enqueue(line)

    def cut(self, host_id: str) -> None:
        """Implements `Link`."""
        self._enqueue(None)

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of the stream, a ping where there is nothing else, until it is closed."""
        while not self._cut:
            item: Orders | Line | None = PingLine()
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    item = await self._queue.get()
            if item is None or not self._may_hear():
                return
            yield ascii_json(line(item) if isinstance(item, Orders) else item) + b"\n"

    def _enqueue(self, item: Orders | Line | None) -> None:
        call(self._loop, self._offer, item)

    def _offer(self, item: Orders | Line | None) -> None:
        self._cut |= self._queue.qsize() >= LINES_MAX
        if not self._cut:
            self._queue.put_nowait(item)


def routes(agents: Agents) -> APIRouter:
    """The routes under `/v1/agents`. While the gateway has not caught up it denies with 503: the agent tries another
    gateway.
    """
    router = APIRouter(prefix="/v1/agents", include_in_schema=False)
    gateway = agents.gateway
    gateway.polled = True

    async def taken(request: Request, host_id: str) -> bytes:
        agents.check(request, host_id)
        if not NAME.fullmatch(host_id):
            raise Denied(422, "no id of a host")
        check_serving(gateway)
        return await body_of(request)

    @router.post("/{host_id}/sessions")
    async def connect(host_id: str, request: Request) -> Response:
        async def answer() -> Response:
            hello = decoded(await taken(request, host_id), Hello)
            if hello.cell not in (None, gateway.cell):
                raise Denied(421, f"this gateway serves cell {gateway.cell}, the host is of cell {hello.cell}")
            await _check_log(gateway, hello)
            _check_offer(host_id, hello)
            got: Welcome | SessionRefused = await answered(lambda done: gateway.post(Connect(host_id, hello, done)))
            return _json(got, 200 if isinstance(got, Welcome) else 409)

        return await guarded(answer())

    @router.get("/{host_id}/orders")
    async def orders(host_id: str, session: int, request: Request) -> Response:
        async def answer() -> Response:
            await taken(request, host_id)
            link = StreamLink(agents.still(request, host_id))
            gateway.post(Attach({host_id: session}, link))
            return StreamingResponse(_following(gateway, link), media_type="application/x-ndjson")

        return await guarded(answer())

    @router.post("/{host_id}/reports")
    async def report(host_id: str, request: Request) -> Response:
        async def answer() -> Response:
            batch = decoded(await taken(request, host_id), ReportBatch)
            if batch.offer is not None:
                _check_offer(host_id, batch.offer)
                batch.offer.session = batch.session
            post = _report_of(host_id, batch)
            current: bool = await answered(lambda done: gateway.post(post(done=done)))
            if not current:
                raise Denied(409, "not the current session of this host")
            return _json(Acknowledged(batch.number))

        return await guarded(answer())

    @router.post("/{host_id}/logs/{ask}")
    async def output(host_id: str, ask: str, request: Request) -> Response:
        async def answer() -> Response:
            body = await taken(request, host_id)
            gateway.answer(host_id, ask, _page(request, body[:LOG_BYTES_MAX]))
            return Response(status_code=204)

        return await guarded(answer())

    _take_usage(router, gateway, taken)
    return router


def _report_of(host_id: str, batch: ReportBatch) -> Callable[..., Report]:
    """Makes the report of an agent, which lacks only `done`."""
    return partial(
        Report,
        (batch.session,),
        columns_of(host_id, batch.runs),
        volumes=batch.volumes,
        held_images=batch.held_images,
        execs=batch.execs,
        loads=[(0, batch.load)] if batch.load is not None else [],
        images=[(0, image) for image in batch.images],
        conditions=[(0, state) for state in batch.conditions],
        offer=batch.offer,
    )


def _check_offer(host_id: str, hello: Hello) -> None:
    """Raises `Denied` where a host offers nonsense."""
    if fault := offer_fault(offered(host_id, hello)):
        raise Denied(422, f"what the host offers is refused: {fault}")


def _take_usage(router: APIRouter, gateway: Gateway, body_of: Callable[[Request, str], Awaitable[bytes]]) -> None:
    @router.post("/{host_id}/usage/{ask}")
    async def usage(host_id: str, ask: str, request: Request) -> Response:
        async def answer() -> Response:
            gateway.answer_usage(host_id, ask, await body_of(request, host_id))
            return Response(status_code=204)

        return await guarded(answer())


def exec_routes(relay: ExecRelay, token: str, agents: Agents) -> APIRouter:
    """Commands inside runs: `/v1/execs` for API servers, who ask for one and join its sides `in` and `out`; and for
    agents the sides `down` and `up`. 404: there is no such session, or that side was taken; 503: the host of the run is
    not connected to this gateway.
    """
    router = APIRouter(include_in_schema=False)

    @router.post("/v1/execs", status_code=201)
    async def begin(request: Request) -> Response:
        async def answer() -> Response:
            check_token(request, token)
            check_serving(relay.gateway)
            ask = decoded(await body_of(request), ExecAsk)
            try:
                exec_id = await relay.open(ask)
            except ExecRefused as refused:
                raise Denied(429 if refused.full else 503, str(refused)) from refused
            return Response(msgspec.json.encode({"exec": exec_id}), 201, media_type="application/json")

        return await guarded(answer())

    def joined(exec_id: str, request: Request, side: str) -> ExecSession:
        host_id = request.path_params.get("host_id")
        if host_id is None:
            check_token(request, token)
        else:
            agents.check(request, host_id)
        session = relay.join(exec_id, side, host_id)
        if session is None:
            raise Denied(404, "there is no such command, or it has ended")
        return session

    def sent(path: str, side: str) -> None:
        @router.post(path, name=side)
        async def send(exec_id: str, request: Request) -> Response:
            async def answer() -> Response:
                session = joined(exec_id, request, side)
                if side == "up":
                    await relay.written(session, request.stream())
                else:
                    await relay.typed(session, request.stream())
                return Response(status_code=204)

            return await guarded(answer())

    def read(path: str, side: str) -> None:
        @router.get(path, name=side)
        async def receive(exec_id: str, request: Request) -> Response:
            async def answer() -> Response:
                chunks = relay.read(joined(exec_id, request, side), side)
                return StreamingResponse(chunks, media_type="application/octet-stream")

            return await guarded(answer())

    sent("/v1/execs/{exec_id}/in", "in")
    read("/v1/execs/{exec_id}/out", "out")
    sent("/v1/agents/{host_id}/execs/{exec_id}/up", "up")
    read("/v1/agents/{host_id}/execs/{exec_id}/down", "down")
    return router


def output_routes(gateway: Gateway, token: str) -> APIRouter:
    """`/v1/output`: a piece of a run's output for API servers, as an agent answers it. 404: there is none; 421: the
    cell is another; 503: the host is not connected to this gateway, or it has not caught up; 504: the host did not
    answer.
    """
    router = APIRouter(prefix="/v1/output", include_in_schema=False)

    @router.get("/{job_id}/{instance}")
    async def output(
        job_id: str,
        instance: int,
        request: Request,
        run: int,
        stream: str = "stdout",
        offset: int = 0,
        limit: Annotated[int, Query(ge=1)] = LOG_BYTES_MAX,
        wait_ms: Annotated[int, Query(ge=0, le=WAIT_MAX_MS)] = 0,
        other_offset: int = -1,
        host: str | None = None,
        cell: int | None = None,
    ) -> Response:
        async def answer() -> Response:
            check_token(request, token)
            if cell not in (None, gateway.cell):
                raise Denied(421, f"this gateway serves cell {gateway.cell}")
            check_serving(gateway)
            try:
                ask = OutputAsk(job_id, instance, run, stream, offset, limit, wait_ms, other_offset)
                page = await read_output(gateway, ask, host)
            except LogMissing as missing:
                status = 503 if isinstance(missing, NotHere) else 504 if isinstance(missing, LogLate) else 404
                raise Denied(status, str(missing)) from missing
            return Response(page.data, headers=page_headers(page), media_type="application/octet-stream")

        return await guarded(answer())

    return router


def usage_routes(gateway: Gateway, token: str) -> APIRouter:
    """`/v1/host-usage/HOST`: the use of a host by its runs, for API servers; refused as output is."""
    router = APIRouter(prefix="/v1/host-usage", include_in_schema=False)

    @router.get("/{host_id}")
    async def usage(host_id: str, request: Request, job: str = "", cell: int | None = None) -> Response:
        async def answer() -> Response:
            check_token(request, token)
            if cell not in (None, gateway.cell):
                raise Denied(421, f"this gateway serves cell {gateway.cell}")
            check_serving(gateway)
            try:
                body = await in_time(gateway.usage_of(host_id, job), host_id)
            except LogMissing as missing:
                raise Denied(503 if isinstance(missing, NotHere) else 404, str(missing)) from missing
            return Response(body, media_type="application/json")

        return await guarded(answer())

    return router


async def read_output(gateway: Gateway, ask: OutputAsk, host_id: str | None = None) -> LogPage:
    """`Gateway.log_of` for an event loop. Raises `LogMissing`, also where the host doesn't answer in time."""
    answer = gateway.log_of(ask._replace(limit=min(ask.limit, LOG_BYTES_MAX)), host_id)
    try:
        async with asyncio.timeout(LOG_S + ask.wait_ms / 1000):
            return await asyncio.wrap_future(answer)
    except TimeoutError as error:
        raise LogLate("the host did not answer in time") from error


async def _check_log(gateway: Gateway, hello: Hello) -> None:
    """Whether the agent's position is one of this log."""
    if not gateway.log_id:
        raise Denied(503, f"cell {gateway.cell} has no history yet: is `paceline processor lifecycle` up?")
    if hello.log not in ("", gateway.log_id):
        raise Denied(421, f"the host has followed another log of cell {gateway.cell} than this one. {ANEW}")
    try:
        end = await asyncio.to_thread(gateway.beyond, hello.position)
    except LogUnavailable as away:
        raise Denied(503, str(away)) from away
    if end is not None:
        text = f"the host has followed orders up to {hello.position}, but the log of cell {gateway.cell} ends at {end}"
        raise Denied(421, f"{text}: records are missing. {ANEW}")


async def _following(gateway: Gateway, link: StreamLink) -> AsyncIterator[bytes]:
    try:
        async for text in link.lines():
            yield text
    finally:
        gateway.post(Detach(link))


def _json(value: Welcome | SessionRefused | Acknowledged, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _page(request: Request, body: bytes) -> LogPage | None:
    try:
        return page_of(request.headers, body)
    except (KeyError, ValueError) as error:
        raise Denied(422, "Log-Offset and Log-Next-Offset are missing or no numbers") from error
