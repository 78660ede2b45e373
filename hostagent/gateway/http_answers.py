"""The parts that all routes of the gateway share: who may ask, how requests are read, and how they are answered."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
from fastapi import Request, Response

from events.structs import known
from events.topics import ROUND_BYTES_MAX
from events.wrong_tokens import LONGEST_S, TOO_MANY, WrongTokens
from hostagent.gateway.component import Gateway
from paceline.client.bearer import shown, shows

ANSWER_S = 10.0
"""Seconds for which a request waits for the gateway, that is for the log; then the agent tries again."""
BODY_BYTES_MAX = ROUND_BYTES_MAX
"""The bound of a request: it is written as one record, which takes no more bytes."""

T = TypeVar("T")


class Denied(Exception):
    """A request that is not taken."""

    def __init__(self, status: int, title: str, code: str = "", retry_s: float = 0) -> None:
        super().__init__(title)
        self.status = status
        self.code = code
        self.retry_s = retry_s or (1 if status == 503 else 0)


class WrongToken(Denied):
    """A request with a wrong token, or without one."""

    def __init__(self, request: Request) -> None:
        super().__init__(401, "the bearer token is missing or wrong")
        self._request = request

    async def slowed(self) -> Denied:
        """The answer, the later the more wrong tokens come from that address; who shows none isn't held up."""
        request = self._request
        if not shown(request.headers.get("authorization")):
            return self
        state = request.app.state
        if not hasattr(state, "wrong_tokens"):
            state.wrong_tokens = WrongTokens()
        if await state.wrong_tokens.delay(request.client.host if request.client else ""):
            return self
        return Denied(429, TOO_MANY, "TOO_MANY_WRONG_TOKENS", LONGEST_S)


def check_token(request: Request, token: str) -> None:
    """Raises `WrongToken` unless a request carries the token as bearer."""
    if not shows(request.headers.get("authorization"), token):
        raise WrongToken(request)


def check_serving(gateway: Gateway) -> None:
    """Raises `Denied` until the gateway has caught up with the log."""
    if not gateway.serving:
        raise Denied(503, f"this gateway has not caught up with the log: {gateway.lag()} records to go")


async def answered(post: Callable[[Callable[[T], None]], None]) -> T:
    """Posts something with a callback and waits until the gateway's thread has called it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T) -> None:
        if not future.done():
            future.set_result(value)

    post(lambda value: call(loop, settle, value))
    try:
        async with asyncio.timeout(ANSWER_S):
            return await future
    except TimeoutError as error:
        raise Denied(503, "the log can't be written now") from error


def call(loop: asyncio.AbstractEventLoop, function: Callable[[T], None], value: T) -> None:
    """Calls a function on an event loop from another thread; nothing happens where the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, value)


async def body_of(request: Request, most: int = BODY_BYTES_MAX) -> bytes:
    """The body of a request. Raises `Denied` where it has more than so many bytes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise Denied(413, f"more than {most} bytes")
    return bytes(body)


async def guarded(answer: Awaitable[Response]) -> Response:
    """The answer, or a problem document where it is denied."""
    try:
        return await answer
    except Denied as fault:
        denied = await fault.slowed() if isinstance(fault, WrongToken) else fault
        body = {"type": "about:blank", "title": str(denied), "status": denied.status}
        if denied.code:
            body["code"] = denied.code
        headers = {"Retry-After": f"{denied.retry_s:g}"} if denied.retry_s else None
        return Response(msgspec.json.encode(body), denied.status, headers, "application/problem+json")


def decoded(body: bytes, kind: type[T]) -> T:
    """The JSON of a request. Raises `Denied`."""
    try:
        return msgspec.json.decode(body, type=known(kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Denied(422, str(error)) from error
