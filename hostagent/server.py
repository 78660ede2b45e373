"""The HTTP server of every process: uvicorn with limits, so that no peer takes what the log and the stores need.

A peer has so long for the head of a request, for its body, between requests, and to take what is sent to it. Half of
the descriptors of the process are for connections. When they are all open, or one address has half of them, a new one
takes the place of the one that has waited longest without asking anything; where all are being answered it is refused.
Answers that their readers leave unread are bounded in all: past that the connection that has left one unread longest is
cut. With TLS all this holds from the first byte of the handshake on, which is part of the first head.
"""

import asyncio
import logging
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Literal

import uvicorn
from prometheus_client import Counter as Count
from prometheus_client import Gauge
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from events.bounds import SPEC_BYTES_MAX
from hostagent.listen_address import BACKLOG
from hostagent.open_files import raised
from hostagent.tls import ServerContext, last_sixth
from paceline.client.tls import CERTIFICATE

HEAD_S = 10.0
"""From the first byte of a request, or from the connection on, to the end of its head."""
BODY_S = 60.0
"""From there to the end of its body."""
IDLE_S = 20
"""Between an answer and the next request on the same connection."""
UNREAD_S = 30.0
"""So long a reader may take nothing of an answer that is over 64 KiB ahead of it."""
WRITE_BYTES = 64 * 1024
"""The bound above which the reader of an encrypted connection counts as behind, as of a plain one."""
HEAD_BYTES_MAX = 64 * 1024
REQUEST_BYTES_MAX = SPEC_BYTES_MAX + 1024 * 1024
"""The bound of a whole request as it comes, with its head, the sizes of its chunks and trailers; the routes bound
bodies more closely.
"""
LINGER_S = 5.0
"""So long what comes after a request that is too large is dropped, so that its sender can read the answer."""
STREAMED = re.compile(r"/v1/(agents/[^/]+/execs/[^/]+/(up|down)|(execs|jobs/[^/]+/tasks/\d+/execs)/[^/]+/(in|out))")
"""Paths of what a user types into a command, and of what it writes: who sends may pause, and so may who reads."""
UNREAD_BYTES_MAX = 64 * 1024 * 1024
"""The bound of unread bytes of all connections together."""
CONNECTIONS_MAX = 32_768
log = logging.getLogger("paceline.tls")

OPEN = Gauge("paceline_http_connections", "Connections that are open.")
ENDED = Count("paceline_http_connections_ended_total", "Connections that were refused or cut, by reason.", ("reason",))


def _refusal(status: str, why: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(why)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + why


_FULL = _refusal("503 Service Unavailable\r\nretry-after: 1", b"all connections are in use; try again")
_TOO_LARGE = _refusal(
    "431 Request Header Fields Too Large", b"the head of the request is over %d bytes" % HEAD_BYTES_MAX
)
_BODY_TOO_LARGE = _refusal("413 Content Too Large", b"the body of the request is over %d bytes" % SPEC_BYTES_MAX)


class Connections:
    """All connections of a server: which are open, which ask nothing now, which leave an answer unread. Each in the
    order in which they came to be so.
    """

    def __init__(self, most: int, most_of_address: int) -> None:
        self.most = most
        self.most_of_address = most_of_address
        self._open: set[Connection] = set()
        self._of: Counter[str] = Counter()
        self._idle: dict[Connection, None] = {}
        self._idle_of: dict[str, dict[Connection, None]] = {}
        self._unread: dict[Connection, None] = {}

    def enter(self, connection: "Connection") -> bool:
        """Takes a new connection, where need be in the place of an idle one; False: there is no room for it."""
        address = connection.address
        if self._of[address] >= self.most_of_address:
            place = next(iter(self._idle_of.get(address, ())), None)
        elif len(self._open) >= self.most:
            place = next(iter(self._idle), None)
        else:
            place = connection
        if place is None:
            return False
        if place is not connection:
            place.cut("replaced")
        self._open.add(connection)
        self._of[address] += 1
        self.idle(connection)
        OPEN.inc()
        return True

    def leave(self, connection: "Connection") -> None:
        """A connection has ended, or ends."""
        if connection not in self._open:
            return
        self.busy(connection)
        self.read(connection)
        self._open.discard(connection)
        self._of[connection.address] -= 1
        if not self._of[connection.address]:
            del self._of[connection.address]
            self._idle_of.pop(connection.address, None)
        OPEN.dec()

    def idle(self, connection: "Connection") -> None:
        """A connection waits for a request, or for the rest of its head."""
        self._idle[connection] = None
        self._idle_of.setdefault(connection.address, {})[connection] = None

    def busy(self, connection: "Connection") -> None:
        """A connection has asked something."""
        self._idle.pop(connection, None)
        self._idle_of.get(connection.address, {}).pop(connection, None)

    def unread(self, connection: "Connection") -> None:
        """The reader of a connection is behind."""
        self._unread[connection] = None
        while sum(each.unread_bytes() for each in self._unread) > UNREAD_BYTES_MAX:
            next(iter(self._unread)).cut("unread")

    def read(self, connection: "Connection") -> None:
        """It has caught up."""
        self._unread.pop(connection, None)


class Connection(HttpToolsProtocol):
    """One connection: its time-outs, and how much it may send."""

    limits: ClassVar[Connections]
    tls: ClassVar[ServerContext | None] = None
    _handshake: asyncio.Task[None] | None = None
    """While it is encrypted."""
    _early = b""
    """Bytes of the peer that came before the handshake was begun, or when it had just ended."""
    _certificate: bytes | None = None
    _ends_s = float("inf")
    """From when on each answer is the last, in seconds since 1970: the peer is to show its renewed certificate."""
    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _part: Literal["head", "body", ""] = ""
    """The part of a request that is awaited."""
    _timed: Literal["head", "body", ""] = ""
    """The part that `_timer` measures."""
    _bytes = 0
    _is_dropping = False
    address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Implements `asyncio.Protocol`."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.limits.enter(self):
            ENDED.labels("full").inc()
            if self.tls is None:
                transport.write(_FULL)
            transport.close()
            return
        self._part = "head"
        self._time()
        if self.tls is not None:
            self._handshake = self.loop.create_task(self._encrypt(transport, self.tls))

    async def _encrypt(self, plain: asyncio.Transport, tls: ServerContext) -> None:
        """Takes the handshake of a new connection, for which it has as long as for its first head."""
        tls.coming.append(self)
        transport = None
        with suppress(OSError):
            transport = await self.loop.start_tls(
                plain, self, tls, server_side=True, ssl_handshake_timeout=HEAD_S, ssl_shutdown_timeout=LINGER_S
            )
        self._handshake = None
        if self.parser is None:  # lost in between
            return
        secured = None if transport is None else transport.get_extra_info("ssl_object")
        if transport is None or secured is None:
            self.connection_lost(ConnectionResetError())
            return
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WRITE_BYTES)
        self._certificate = secured.getpeercert(binary_form=True)
        if self._certificate is not None:
            self._ends_s = last_sixth(secured.getpeercert())
        if early := self.take_early():
            self.data_received(early)

    def take_early(self) -> bytes:
        """Implements `Encrypted`."""
        early, self._early = self._early, b""
        return early

    def not_encrypted(self, why: str) -> None:
        """Implements `Encrypted`. The peer hears of it too, and has the rest of its time to hang up."""
        ENDED.labels("tls").inc()
        log.warning("%s was refused: %s", self.address, why)

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`."""
        if self._handshake is not None:
            self._early += data
            return
        if self.transport.is_closing() or self._is_dropping:
            return
        self._part = self._part or "head"
        self._bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._part == "head" and self._bytes > HEAD_BYTES_MAX:
            ENDED.labels("too large").inc()
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._part and self._bytes > REQUEST_BYTES_MAX and not self._goes_on():
            self._refuse_body()
        elif self._part != self._timed:
            self._time()

    def send_400_response(self, msg: str) -> None:
        """See uvicorn. Its parser takes no path of over 64 KiB."""
        if self._part == "head" and self._bytes > HEAD_BYTES_MAX:
            ENDED.labels("too large").inc()
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """A request begins, maybe right behind the end of another in the same packet."""
        self._part = "head"
        super().on_message_begin()
        if self._certificate is not None:
            self.scope[CERTIFICATE] = self._certificate  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        """The head of a request is there."""
        super().on_headers_complete()
        if time.time() >= self._ends_s:
            self.cycle.keep_alive = False
        self._part = "body"
        self.limits.busy(self)

    def on_message_complete(self) -> None:
        """A request is there to its end."""
        self._part = ""
        self._bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer was given to the transport."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.limits.idle(self)

    def pause_writing(self) -> None:
        """Implements `asyncio.BaseProtocol`: the reader is behind."""
        super().pause_writing()
        if not self._goes_on():
            self._stalled = self.loop.call_later(UNREAD_S, self.cut, "unread")
        self.limits.unread(self)

    def resume_writing(self) -> None:
        """Implements `asyncio.BaseProtocol`."""
        if self._stalled is not None:
            self._stalled.cancel()
        self.limits.read(self)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Implements `asyncio.Protocol`."""
        self._leave()
        super().connection_lost(exc)

    def unread_bytes(self) -> int:
        """The bytes of its answers that the reader has not taken."""
        return self.transport.get_write_buffer_size()

    def cut(self, reason: str) -> None:
        """Ends the connection at once."""
        ENDED.labels(reason).inc()
        self._leave()
        self.transport.abort()

    def _refuse_body(self) -> None:
        """Answers a request that is too large, unless it is being answered, and hears no more of it."""
        cycle = self.cycle
        if self.pipeline or (cycle.response_started and not cycle.response_complete):
            self.cut("too large")
            return
        ENDED.labels("too large").inc()
        self._is_dropping = True
        if not cycle.response_complete:
            self.transport.write(_BODY_TOO_LARGE)
            cycle.disconnected = True
            cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def _leave(self) -> None:
        self.limits.leave(self)
        self._part = ""
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()

    def _goes_on(self) -> bool:
        """Whether its request and the answer may take as long as they like: the route looks who asks, and never holds
        much of either.
        """
        return STREAMED.fullmatch(self.scope["path"]) is not None

    def _time(self) -> None:
        """Begins to measure the part of a request that is awaited now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._part and not (self._part == "body" and self._goes_on()):
            self._timer = self.loop.call_later(HEAD_S if self._part == "head" else BODY_S, self.cut, "slow")
        self._timed = self._part


class Server(uvicorn.Server):
    """Uvicorn with these limits, without its handlers of signals, which would take the place of ours. `grace_s`: so
    long requests may go on when it ends; `tls`: the context of connections, None: they are plain.
    """

    def __init__(self, app: ASGIApp, grace_s: int, connections_max: int = 0, tls: ServerContext | None = None) -> None:
        most = connections_max or max(16, min(CONNECTIONS_MAX, raised() // 2))

        class Limited(Connection):
            limits = Connections(most, max(8, most // 2))

        Limited.tls = tls
        super().__init__(
            uvicorn.Config(
                app,
                http=Limited,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[("server", "paceline")],
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_S,
                timeout_graceful_shutdown=grace_s,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Overrides uvicorn's: the process handles signals itself."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn. Streams that are cut off at the end are no errors."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)
