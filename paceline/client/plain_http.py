"""Single requests over HTTP by the standard library: a command that asks one thing is done before httpx2 is imported.

Streams go through httpx2 (`Requests._http`). A server that is to prove that it has the token does so on each new
connection (`paceline.client.proof`), before anything else is sent on it; over TLS the certificate says who it is.
"""

import json
import select
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, RawIOBase
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from paceline.client.proof import PROOF_S, READ_BYTES, Challenge, NotProven, Unproven, stranger

if TYPE_CHECKING:
    import ssl

FAULTS = (OSError, HTTPException, Unproven)
"""The exceptions of a request that is not answered."""
ANSWER_BYTES_MAX = 256 << 20
"""A longer answer is not read to its end."""
PIECE_BYTES = 1 << 20
IDLE_MAX = 8
"""Connections that are kept for the next request."""


class TooLong(HTTPException):
    """An answer is longer than `ANSWER_BYTES_MAX`."""

    def __init__(self) -> None:
        super().__init__(f"its answer is longer than {ANSWER_BYTES_MAX >> 20} MiB")


class PlainResponse(NamedTuple):
    """An answer, as httpx2 has it."""

    url: str
    status_code: int
    reason_phrase: str
    headers: HTTPMessage
    content: bytes

    @property
    def is_error(self) -> bool:
        """Whether its status says so."""
        return self.status_code >= 400

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON. Raises `ValueError`."""
        return json.loads(self.content)


class PlainHttp:
    """Requests to one server, each with `params` and `headers`. `token`: the server proves first that it has it; None:
    it needn't. `tls`: makes the context of https. Threads may share it.
    """

    def __init__(
        self,
        url: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str],
        token: str | None,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
    ) -> None:
        self._url = urlsplit(url)
        self._tls = tls
        self._params, self._headers, self._token = params, headers, token
        self._context: ssl.SSLContext | None = None
        self._idle: list[HTTPConnection] = []

    def close(self) -> None:
        """Gives back the connections."""
        while self._idle:
            self._idle.pop().close()

    def request(
        self,
        method: str,
        path: str,
        timeout: float,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> PlainResponse:
        """The answer to a request; `timeout`: seconds until all of it is there. Raises one of `FAULTS`."""
        query = urlencode([*_pairs(self._params), *_pairs(params or {})])
        target = self._url.path.rstrip("/") + path + (f"?{query}" if query else "")
        end = monotonic() + timeout
        connection = self._connection(timeout)
        try:
            connection.sock.settimeout(_rest_s(end))
            vars(connection)["response_class"] = partial(_TimedAnswer, end=end)
            connection.request(method, target, content, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            body = _bounded(answer)
        except BaseException:
            connection.close()
            raise
        if answer.will_close or len(self._idle) >= IDLE_MAX:
            connection.close()
        else:
            self._idle.append(connection)
        url = f"{self._url.scheme}://{self._url.netloc}{target}"
        return PlainResponse(url, answer.status, answer.reason, answer.headers, body)

    def _connection(self, timeout: float) -> HTTPConnection:
        """A connection on which a request may be sent: one that was kept and that the server has not closed, or a new
        one.
        """
        while self._idle:
            with suppress(IndexError):  # another thread took it
                idle = self._idle.pop()
                if idle.sock is not None and not select.select([idle.sock], [], [], 0)[0]:
                    idle.sock.settimeout(timeout)
                    return idle
                idle.close()
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            if self._context is None:
                from paceline.client.tls import client_context

                self._context = self._tls() if self._tls else client_context()
            secure = HTTPSConnection(host, port, timeout=timeout, context=self._context)
            secure.connect()
            return secure
        plain = HTTPConnection(host, port, timeout=timeout)
        plain.connect()
        if self._token is not None:
            self._prove(plain.sock, self._token)
            plain.sock.settimeout(timeout)
        return plain

    def _prove(self, sock: socket.socket, token: str) -> None:
        """Has the server prove that it has the token. Raises `Unproven`, and closes the connection."""
        end = monotonic() + PROOF_S
        try:
            sock.settimeout(PROOF_S)
            challenge = Challenge(token, *sock.getpeername()[:2])
            sock.sendall(challenge.request)
            while not challenge.feed(sock.recv(READ_BYTES)):
                sock.settimeout(max(0.001, end - monotonic()))
        except BaseException as error:
            sock.close()
            if isinstance(error, NotProven) or monotonic() >= end:
                raise stranger(self._url.netloc, error, PROOF_S) from error
            raise


class _TimedAnswer(HTTPResponse):
    """An answer that is whole at a time of the monotonic clock, or fails."""

    def __init__(self, sock: socket.socket, *args: Any, end: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = BufferedReader(_TimedBytes(sock, self.fp.detach(), end))


class _TimedBytes(RawIOBase):
    """Bytes of a socket until then: each read has only as long as is left."""

    def __init__(self, sock: socket.socket, raw: RawIOBase, end: float) -> None:
        self._sock, self._raw, self._end = sock, raw, end

    def readable(self) -> bool:
        """Implements the raw stream."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Implements the raw stream. Raises `TimeoutError`."""
        self._sock.settimeout(_rest_s(self._end))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Implements the raw stream."""
        self._raw.close()
        super().close()


def _rest_s(end: float) -> float:
    rest = end - monotonic()
    if rest <= 0:
        raise TimeoutError("timed out")
    return rest


def _bounded(answer: HTTPResponse) -> bytes:
    """The body of an answer. Raises `HTTPException` where it is too long, or not whole."""
    if (answer.length or 0) > ANSWER_BYTES_MAX:
        raise TooLong
    pieces, size = list[bytes](), 0
    while piece := answer.read(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise TooLong
    body = b"".join(pieces)
    if answer.length:
        raise IncompleteRead(body, answer.length)
    return body


def _pairs(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parameters one by one, lists taken apart."""
    pairs = []
    for name, value in params.items():
        for each in value if isinstance(value, list | tuple) else (value,):
            pairs.append((name, str(each).lower() if isinstance(each, bool) else str(each)))
    return pairs
