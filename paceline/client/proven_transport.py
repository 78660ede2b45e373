"""HTTP over connections on which the server has proved first that it has the token (`paceline.client.proof`).

A connection over TLS is taken as it is: there the certificate says who the server is.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

import httpx2

from paceline.client.json_type import Json
from paceline.client.proof import (
    PROOF_S,
    READ_BYTES,
    Challenge,
    NotProven,
    OtherToken,
    Unproven,
    UnprovenOther,
    why_unproven,
)

CONNECTED = "connection.connect_tcp.complete"


class UnprovenServer(Unproven, httpx2.ConnectError):
    """The server at an address doesn't prove that it has the token, which was not sent to it."""


class OtherTokenServer(UnprovenOther, UnprovenServer):
    """The server at an address has another token."""


class ProvenTransport(httpx2.HTTPTransport):
    """For a `httpx2.Client`. Requests fail with `UnprovenServer` where the server proves nothing; `token` None: it
    needn't. `tls`: the context of https.
    """

    def __init__(self, token: str | None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(verify=tls or True, trust_env=False)
        self._token = token

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Implements httpx2's transport."""
        if request.url.scheme == "http" and self._token is not None:
            request.extensions = {**request.extensions, "trace": self._trace(request, self._token)}
        return super().handle_request(request)

    def _trace(self, request: httpx2.Request, token: str) -> Callable[[str, Json], None]:
        def trace(event: str, info: Json) -> None:
            if event != CONNECTED:
                return
            stream, end = info["return_value"], monotonic() + PROOF_S
            try:
                challenge = _challenge(stream, token)
                stream.write(challenge.request, PROOF_S)
                while not challenge.feed(stream.read(READ_BYTES, _remaining_s(end))):
                    pass
            except BaseException as error:
                stream.close()
                if isinstance(error, NotProven) or not _remaining_s(end):
                    raise _stranger(request, error) from error
                raise

        return trace


class AsyncProvenTransport(httpx2.AsyncHTTPTransport):
    """The same for a `httpx2.AsyncClient`. `connections_max` None: as many as there are requests at once."""

    def __init__(self, token: str | None, connections_max: int | None = 100, tls: ssl.SSLContext | None = None) -> None:
        limits = httpx2.Limits(max_connections=connections_max, max_keepalive_connections=20)
        super().__init__(verify=tls or True, trust_env=False, limits=limits)
        self._token = token

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Implements httpx2's transport."""
        if request.url.scheme == "http" and self._token is not None:
            request.extensions = {**request.extensions, "trace": self._trace(request, self._token)}
        return await super().handle_async_request(request)

    def _trace(self, request: httpx2.Request, token: str) -> Callable[[str, Json], Coroutine[Any, Any, None]]:
        async def trace(event: str, info: Json) -> None:
            if event != CONNECTED:
                return
            stream = info["return_value"]
            try:
                challenge = _challenge(stream, token)
                async with asyncio.timeout(PROOF_S):
                    await stream.write(challenge.request)
                    while not challenge.feed(await stream.read(READ_BYTES)):
                        pass
            except BaseException as error:
                await stream.aclose()
                if isinstance(error, NotProven | TimeoutError):
                    raise _stranger(request, error) from error
                raise

        return trace


def _remaining_s(end: float) -> float:
    return max(0.0, end - monotonic())


def _challenge(stream: Any, token: str) -> Challenge:
    host, port = stream.get_extra_info("server_addr")[:2]
    return Challenge(token, host, port)


def _stranger(request: httpx2.Request, error: BaseException) -> UnprovenServer:
    kind = OtherTokenServer if isinstance(error, OtherToken) else UnprovenServer
    return kind(why_unproven(request.url.netloc.decode(), error, PROOF_S))
