"""Commands and connections of users inside the runs of a host, on the agent's side.

Each is a session of tasks on the agent's loop: one sends what comes from inside, one hands on what the user types, one
waits for its end. It ends with its run, with the connection to the gateway, and when nothing was typed or written for
long (`IDLE_S`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress

import httpx2

from events.codes import Code
from hostagent.exec_targets import READ_BYTES, Command, Connection, ExecFault, Target
from hostagent.messages import EXECS_MAX, REASON_CHARS_MAX, ExecEnd, ExecLine
from hostagent.run_record import RunKey
from hostagent.runs import Runs
from paceline.client.exec_frames import PING_S, SIZE, UNKNOWN_CODE, FrameFault, FrameReader, Kind, fault, pack

CHUNKS_MAX = 16
LOST_S = 20.0
"""After so long without a word of its user a session ends: the connection is gone, and nobody said so."""
IDLE_S = 900.0
"""After so long without anything typed or written it ends too."""
LOOK_S = 0.5
"""So often it is looked whether the run goes on."""


class Execs:
    """All sessions of one agent. `url`: that of a path of this agent at its gateway; `changed`: called when there is
    something in `untold`.
    """

    def __init__(
        self, runs: Runs, client: httpx2.AsyncClient, url: Callable[[str], str], changed: Callable[[], None]
    ) -> None:
        self.untold: list[ExecEnd] = []
        """The sessions whose end no gateway has taken: the next is told with the reports."""
        self._runs = runs
        self._client = client
        self._url = url
        self._changed = changed
        self._sessions: set[asyncio.Task[None]] = set()

    def open(self, ask: ExecLine) -> None:
        """Begins a session; whatever becomes of it is told to the gateway."""
        session = asyncio.create_task(self._serve(ask, full=len(self._sessions) >= EXECS_MAX))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)

    def told(self, ends: Iterable[ExecEnd]) -> None:
        """A gateway has taken these ends."""
        for end in ends:
            self.untold.remove(end)

    async def _serve(self, ask: ExecLine, full: bool) -> None:
        lost = await Session(self._runs, ask, full).serve(self._client, self._url(f"execs/{ask.request}"))
        if lost:
            reason = f"{Code.CONNECTION_LOST}: {lost}"
            end = ExecEnd(ask.request, ask.job_id, UNKNOWN_CODE, reason[:REASON_CHARS_MAX], ask.instance, ask.run)
            self.untold.append(end)
            self._changed()

    async def __aenter__(self) -> "Execs":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends them all."""
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)


class Session:
    """One of them, from its start to its end. `full`: so many go on that it may not begin."""

    def __init__(self, runs: Runs, ask: ExecLine, full: bool = False) -> None:
        self._full = full
        self._runs = runs
        self._ask = ask
        self._key = RunKey(ask.job_id, ask.instance, ask.run)
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS_MAX)
        self._active_s = 0.0

    async def serve(self, client: httpx2.AsyncClient, url: str) -> str:
        """Carries it out. Why the gateway hasn't taken its end; empty: it has."""
        ending = asyncio.create_task(self._run(client, url))
        timeout = httpx2.Timeout(None, connect=LOST_S)
        try:
            response = await client.post(f"{url}/up", content=self._upwards(ending), timeout=timeout)
        except httpx2.HTTPError as error:
            return f"the connection to the gateway was lost: {str(error) or type(error).__name__}"
        else:
            status = response.status_code
            return "" if status == httpx2.codes.NO_CONTENT else f"the gateway answered {status}"
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _run(self, client: httpx2.AsyncClient, url: str) -> bytes:
        """Begins, waits for the end and clears up; the last frame."""
        if self._full:
            why = f"{EXECS_MAX} commands and connections go on on this host, no more may"
            return fault(Code.TOO_MANY_SESSIONS, why)
        run = self._runs.get(self._key)
        if run is None or not run.alive:
            return fault(Code.RUN_ENDED, f"run {self._key.run} has ended")
        target: Target = Connection(self._ask.port, run) if self._ask.port else Command(self._ask, run.folder)
        try:
            outputs = await target.start()
            return await self._carry(
                target, [asyncio.create_task(self._read(*output)) for output in outputs], client, url
            )
        except ExecFault as why:
            return fault(why.code, str(why))
        except (OSError, ValueError) as error:  # a record of the run that can't be read is a `ValueError`
            return fault(Code.EXEC_FAILED, str(error))
        finally:
            await target.close()

    async def _carry(
        self, target: Target, reading: "list[asyncio.Task[None]]", client: httpx2.AsyncClient, url: str
    ) -> bytes:
        """The last frame, once what is inside has ended, or its user or its run is gone."""
        typing = asyncio.create_task(self._type(target, client, url))
        ended = asyncio.create_task(target.wait(self._send))
        over = asyncio.create_task(self._watch())
        ends = [ended, typing, over]
        if self._ask.port:  # it is over with what it sends
            ends += reading
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            why = next((task.result() for task in (typing, over) if task.done()), None)
            if not ended.done():
                target.end()
            code = await ended
            await asyncio.gather(*reading)
        finally:
            for task in (*reading, typing, ended, over):
                task.cancel()
        return fault(*why) if why else pack(Kind.CODE, str(code).encode())

    async def _upwards(self, ending: "asyncio.Task[bytes]") -> AsyncIterator[bytes]:
        """The frames for the user, to the last."""
        while not (ending.done() and self._frames.empty()):
            taking = asyncio.create_task(self._frames.get())
            await asyncio.wait((taking, ending), timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                yield taking.result()
                continue
            taking.cancel()
            if not ending.done():
                yield pack(Kind.PING)
        yield ending.result()

    async def _send(self, kind: Kind, data: bytes) -> None:
        await self._frames.put(pack(kind, data))

    async def _read(self, source: asyncio.StreamReader, kind: Kind) -> None:
        """Sends what comes from inside."""
        with suppress(OSError):  # a terminal that nobody has open any more, or a connection that was reset
            while data := await source.read(READ_BYTES):
                self._note_activity()
                await self._send(kind, data)

    async def _type(self, target: Target, client: httpx2.AsyncClient, url: str) -> tuple[Code, str]:
        """Hands on what the user types, until the connection ends; why it ended."""
        reader = FrameReader()
        try:
            timeout = httpx2.Timeout(LOST_S, connect=LOST_S)
            async with client.stream("GET", f"{url}/down", timeout=timeout) as response:
                if response.status_code != httpx2.codes.OK:
                    return Code.CONNECTION_LOST, "its user did not come"
                async for chunk in response.aiter_bytes():
                    for frame in reader.feed(chunk):
                        await self._obey(target, frame.kind, frame.data)
        except (httpx2.HTTPError, FrameFault) as error:
            return Code.CONNECTION_LOST, f"the connection was lost: {str(error) or type(error).__name__}"
        return Code.CONNECTION_LOST, "the connection to its user ended"

    async def _obey(self, target: Target, kind: int, data: bytes) -> None:
        if kind != Kind.PING:
            self._note_activity()
        match kind:
            case Kind.DATA:
                with suppress(OSError):
                    await target.type(data)
            case Kind.END_OF_INPUT:
                target.end_input()
            case Kind.SIZE if len(data) == SIZE.size:
                target.resize(*SIZE.unpack(data))

    async def _watch(self) -> tuple[Code, str]:
        """Why it must end, though its user goes on."""
        self._note_activity()
        while True:
            await asyncio.sleep(LOOK_S)
            run = self._runs.get(self._key)
            if run is None or not run.alive:
                return Code.RUN_ENDED, f"run {self._key.run} has ended"
            if asyncio.get_running_loop().time() - self._active_s > IDLE_S:
                return Code.SESSION_IDLE, f"nothing was typed or written for {IDLE_S / 60:.0f} minutes"

    def _note_activity(self) -> None:
        self._active_s = asyncio.get_running_loop().time()
