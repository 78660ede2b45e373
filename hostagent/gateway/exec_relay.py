"""Commands inside runs on their way through a gateway: what their users type, and what they write.

Each goes over four requests that go on as long as it does: `in` and `out` of the user's side, `down` and `up` of the
host's. Whoever is slow holds the other back; whoever is lost ends both.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Annotated

import msgspec

from events.bounds import STRINGS_MAX
from events.codes import Code
from events.records.parts import Actor
from events.records.tasks import ExecClosed
from hostagent.gateway.component import Gateway
from hostagent.gateway.connections import AskExec, CloseExec, LogMissing
from hostagent.messages import EXECS_MAX, REASON_CHARS_MAX, Cells, Count, ExecLine, JobId, Name, Port
from hostagent.run_record import RunKey
from paceline.client.exec_frames import UNKNOWN_CODE, FrameFault, FrameReader, Kind, code_of, fault

CHUNKS_MAX = 16
"""Pieces in flight each way: enough to keep a fast link busy, few enough that a terminal obeys Ctrl-C at once."""
JOIN_S = 10.0
"""So long after it was asked for both sides may take to come."""
RUN_MAX, GATEWAY_MAX = 32, 1000
"""Sessions at once, of one run and of all: a browser opens several connections through a forwarded port."""


class ExecRefused(Exception):
    """A command can't be started; the message says why. `full`: too many go on."""

    def __init__(self, message: str, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class ExecAsk(msgspec.Struct, frozen=True):
    """A command for a run. `host_id` empty: wherever the run was ordered."""

    job_id: JobId
    instance: Count
    run: Count
    host_id: Name
    command: Annotated[tuple[str, ...], msgspec.Meta(max_length=STRINGS_MAX)]
    terminal: bool
    rows: Cells
    columns: Cells
    port: Port
    actor: Actor | None

    @property
    def key(self) -> RunKey:
        """The run."""
        return RunKey(self.job_id, self.instance, self.run)


class Channel:
    """Chunks one way, few at a time: who puts more waits for who takes. For one event loop."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._closed = False
        self._changed = asyncio.Event()

    async def put(self, chunk: bytes) -> None:
        """Adds a chunk as soon as there is room; drops it once the channel is closed."""
        while len(self._chunks) >= CHUNKS_MAX and not self._closed:
            await self._wait()
        if not self._closed:
            self._chunks.append(chunk)
            self._changed.set()

    async def take(self) -> AsyncIterator[bytes]:
        """The chunks until the channel is closed, those that it still holds then included."""
        while True:
            while self._chunks:
                yield self._chunks.popleft()
                self._changed.set()
            if self._closed:
                return
            await self._wait()

    def close(self, last: bytes = b"") -> None:
        """Takes no more after a last chunk."""
        if last:
            self._chunks.append(last)
        self._closed = True
        self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class ExecSession:
    """One command. For one event loop."""

    def __init__(self, exec_id: str, ask: ExecAsk) -> None:
        self.exec_id = exec_id
        self.ask = ask
        self.host: Future[str] = Future()
        """Its host, before that hears of it."""
        self.closed = False
        self.joined: set[str] = set()
        """The requests that have come, each once."""
        self.bytes_in = self.bytes_out = 0
        self.exit_code = UNKNOWN_CODE
        self.reason = ""
        self.for_host = Channel()
        self.for_user = Channel()

    @property
    def host_id(self) -> str:
        """Its host; empty: it isn't known yet."""
        is_known = self.host.done() and not self.host.cancelled() and self.host.exception() is None
        return self.host.result() if is_known else ""

    async def typed(self, chunks: AsyncIterator[bytes]) -> None:
        """Takes what the user sends, to its end."""
        async for chunk in chunks:
            self.bytes_in += len(chunk)
            await self.for_host.put(chunk)

    async def written(self, chunks: AsyncIterator[bytes]) -> None:
        """Takes what the host sends, to its end, which is the end of the command. Raises `FrameFault`."""
        reader = FrameReader()
        async for chunk in chunks:
            for frame in reader.feed(chunk):
                if frame.kind == Kind.CODE:
                    self.exit_code, self.reason = code_of(frame.data), ""
                elif frame.kind == Kind.FAULT:
                    self.reason = frame.data.decode(errors="replace")[:REASON_CHARS_MAX]
            self.bytes_out += len(chunk)
            await self.for_user.put(chunk)

    def end(self, reason: str) -> None:
        """Ends it for both sides. `reason`: why, where the command hasn't said how it ended."""
        if self.closed:
            return
        self.closed = True
        last = b""
        if self.exit_code == UNKNOWN_CODE and not self.reason:
            last = fault(Code.CONNECTION_LOST, reason)
            self.reason = f"{Code.CONNECTION_LOST}: {reason}"
        self.for_user.close(last)
        self.for_host.close()


class ExecRelay:
    """All commands that go through a gateway. For its HTTP server's event loop."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._sessions: dict[str, ExecSession] = {}

    async def open(self, ask: ExecAsk) -> str:
        """Has a command started; its id. It is in the log before the host hears of it. Raises `ExecRefused`."""
        going_on = [each for each in self._sessions.values() if not each.closed]
        of_run = sum(each.ask.key == ask.key for each in going_on)
        of_host = sum(ask.host_id in (each.ask.host_id, each.host_id) for each in going_on) if ask.host_id else 0
        counts = ("inside this run", of_run, RUN_MAX), (f"on host {ask.host_id}", of_host, EXECS_MAX)
        for where, count, most in (*counts, ("through this gateway", len(going_on), GATEWAY_MAX)):
            if count >= most:
                why = f"{count} commands and connections go on {where}, at most {most} may at once"
                raise ExecRefused(why, full=True)
        exec_id = secrets.token_hex(16)
        session = self._sessions[exec_id] = ExecSession(exec_id, ask)
        line = ExecLine(
            exec_id, ask.job_id, ask.instance, ask.run, ask.command, ask.terminal, ask.rows, ask.columns, ask.port
        )
        self.gateway.post(AskExec(ask.host_id or None, line, ask.actor, session.host))
        try:
            async with asyncio.timeout(JOIN_S):
                await asyncio.wrap_future(session.host)
        except LogMissing as missing:
            del self._sessions[exec_id]
            raise ExecRefused(str(missing)) from missing
        except TimeoutError as error:
            self.end(session, "the log couldn't be written")
            del self._sessions[exec_id]
            raise ExecRefused("the log can't be written now") from error
        asyncio.get_running_loop().call_later(JOIN_S, self._expire, session)
        return exec_id

    def join(self, exec_id: str, side: str, host_id: str | None = None) -> ExecSession | None:
        """The session of a request that is one side of it, of a host by its id; None: there is none, on that host, or
        that side was taken.
        """
        session = self._sessions.get(exec_id)
        if session is None or side in session.joined or host_id not in (None, session.host_id):
            return None
        session.joined.add(side)
        return session

    async def typed(self, session: ExecSession, chunks: AsyncIterator[bytes]) -> None:
        """Takes what the user sends; its end is not that of the command, unless the user is lost."""
        try:
            await session.typed(chunks)
        except Exception:  # the server's way to say that a peer is gone
            self.end(session, "the connection to its user was lost")

    async def written(self, session: ExecSession, chunks: AsyncIterator[bytes]) -> None:
        """Takes what the host sends; its end is that of the command."""
        reason = "the connection to the host was lost"
        try:
            await session.written(chunks)
        except FrameFault as fault:
            reason = f"the host sent no frames: {fault}"
        except Exception:
            self.end(session, reason)
            raise
        self.end(session, reason)

    async def read(self, session: ExecSession, side: str) -> AsyncIterator[bytes]:
        """The frames for one side, until the session ends. A user who reads no more ends it; a host that reads no more
        ends its command and says so by `up`.
        """
        channel = session.for_user if side == "out" else session.for_host
        try:
            async for chunk in channel.take():
                yield chunk
        finally:
            channel.close()
            if side == "out":
                self.end(session, "the connection to its user was lost")
                self._sessions.pop(session.exec_id, None)

    def end(self, session: ExecSession, reason: str) -> None:
        """Ends a session, and has that written. Its user may still come to read how it ended."""
        if session.closed:
            return
        session.end(reason)
        event = ExecClosed(
            exec_id=session.exec_id,
            job_id=session.ask.job_id,
            exit_code=session.exit_code,
            reason=session.reason,
            bytes_in=session.bytes_in,
            bytes_out=session.bytes_out,
        )
        self.gateway.post(CloseExec(event))

    def _expire(self, session: ExecSession) -> None:
        missing = {"in", "out", "down", "up"} - session.joined
        if missing:
            self.end(session, "the host did not answer" if missing & {"down", "up"} else "its user did not come")
        if session.closed and "out" not in session.joined:
            self._sessions.pop(session.exec_id, None)
