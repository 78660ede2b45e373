"""Commands that users run inside the runs of a host, on the agent's side.

Each is a session of three tasks on the agent's loop: one sends what the command writes, one hands on what its user
types, one waits for its end. The command ends with its run, with the connection to the gateway, and when nothing was
typed or written for long (`IDLE_S`).
"""

import asyncio
import fcntl
import json
import os
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from hostagent import private_files
from hostagent.messages import ExecEnd, ExecLine
from hostagent.run_record import RunKey
from hostagent.runs import Runs
from paceline.client.exec_frames import SIZE, FrameFault, FrameReader, Kind, pack

PROGRAM = Path(__file__).with_name("exec_session.py")
READ_BYTES = 16_384
"""More at once would keep Ctrl-C waiting behind what a command has written."""
CHUNKS_MAX = 16
PING_S = 5.0
"""So often each side is heard, whatever the command does."""
LOST_S = 20.0
"""After so long without a word of its user a session ends: the connection is gone, and nobody said so."""
IDLE_S = 900.0
"""After so long without anything typed or written it ends too."""
UNKNOWN_CODE = 255
"""Exit code where nobody knows how a command ended."""
LOOK_S = 0.5
"""So often it is looked whether the run goes on."""


class ExecFault(Exception):
    """A command can't be started; the message says why."""


class Execs:
    """All sessions of one agent. `url`: that of a path of this agent at its gateway."""

    def __init__(
        self, runs: Runs, client: httpx2.AsyncClient, url: Callable[[str], str], changed: Callable[[], None]
    ) -> None:
        self.untold: list[ExecEnd] = []
        """The sessions whose end no gateway has taken: the next is told with the reports."""
        self._changed = changed
        self._runs = runs
        self._client = client
        self._url = url
        self._sessions: set[asyncio.Task[None]] = set()

    def open(self, ask: ExecLine) -> None:
        """Begins a session; whatever becomes of it is told to the gateway."""
        session = asyncio.create_task(self._serve(ask))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)

    def told(self, ends: Iterable[ExecEnd]) -> None:
        """A gateway has taken these ends."""
        for end in ends:
            self.untold.remove(end)

    async def _serve(self, ask: ExecLine) -> None:
        end = await _Session(self._runs, ask).serve(self._client, self._url(f"execs/{ask.request}"))
        if end is not None:
            self.untold.append(end)
            self._changed()

    async def __aenter__(self) -> "Execs":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends them all."""
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)


class _Session:
    """One command."""

    def __init__(self, runs: Runs, ask: ExecLine) -> None:
        self._runs = runs
        self._ask = ask
        self._key = RunKey(ask.job_id, ask.instance, ask.run)
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS_MAX)
        self._control = -1
        """Closed, it ends the command."""
        self._terminal = -1
        self._process: asyncio.subprocess.Process | None = None
        self._input: asyncio.StreamWriter | None = None
        self._active_s = 0.0

    async def serve(self, client: httpx2.AsyncClient, url: str) -> ExecEnd | None:
        """Carries it from its start to its end; that, where the gateway hasn't taken it."""
        ending = asyncio.create_task(self._run(client, url))
        timeout = httpx2.Timeout(None, connect=LOST_S)
        try:
            response = await client.post(f"{url}/up", content=self._upwards(ending), timeout=timeout)
        except httpx2.HTTPError as error:
            reason = f"the connection to the gateway was lost: {str(error) or type(error).__name__}"
            return ExecEnd(self._ask.request, self._ask.job_id, UNKNOWN_CODE, reason)
        else:
            if response.status_code == httpx2.codes.NO_CONTENT:
                return None
            return ExecEnd(self._ask.request, self._ask.job_id, UNKNOWN_CODE, f"the gateway said {response.text[:200]}")
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            await self._end()

    async def _run(self, client: httpx2.AsyncClient, url: str) -> bytes:
        """Starts the command; the last frame, once it has ended."""
        try:
            result, outputs = await self._start()
        except (ExecFault, OSError) as fault:
            return pack(Kind.FAULT, str(fault).encode())
        reading = [asyncio.create_task(self._read(*output)) for output in outputs]
        typing = asyncio.create_task(self._type(client, url))
        ended = asyncio.create_task(self._wait(result))
        over = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((ended, typing, over), return_when=asyncio.FIRST_COMPLETED)
            reason = next((task.result() for task in (typing, over) if task.done()), "")
            if not ended.done():
                self._end_command()
            code = await ended
            await asyncio.gather(*reading)
        finally:
            for task in (*reading, typing, ended, over):
                task.cancel()
        return pack(Kind.FAULT, reason.encode()) if reason else pack(Kind.CODE, str(code).encode())

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

    async def _start(self) -> tuple[asyncio.StreamReader, list[tuple[asyncio.StreamReader, Kind]]]:
        """Starts the command inside its run: where its end is told, and what it writes. Raises `ExecFault`,
        `OSError`.
        """
        run = self._runs.get(self._key)
        if run is None or not run.alive:
            raise ExecFault(f"run {self._key.run} of {self._key.job_id}/{self._key.instance} has ended")
        order = self._order(run.folder)
        control, self._control = os.pipe()
        result, result_end = os.pipe()
        files: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        ends = [control, result_end]
        if self._ask.terminal:
            self._terminal, end = os.openpty()
            self._resize(self._ask.rows, self._ask.columns)
            files = dict.fromkeys(files, end)
            ends.append(end)
        words = (sys.executable, "-I", "-S", str(PROGRAM), str(control), str(result_end))
        try:
            self._process = await asyncio.create_subprocess_exec(*words, **files, pass_fds=(control, result_end))
        finally:
            for end in ends:
                os.close(end)
        os.write(self._control, msgspec.json.encode(order) + b"\n")
        if self._ask.terminal:
            streams = [(await _reader(os.dup(self._terminal)), Kind.DATA)]
            self._input = await _writer(os.dup(self._terminal))
        else:
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            streams = [(self._process.stdout, Kind.DATA), (self._process.stderr, Kind.ERRORS)]
            self._input = self._process.stdin
        return await _reader(result), streams

    def _order(self, folder: Path) -> dict[str, Any]:
        """What the parent of the command is told: it runs where, as whom and with what its run does."""
        run: dict[str, Any] = json.loads(private_files.read_file(folder / "order.json"))
        terminal = {"TERM": "xterm-256color"} if self._ask.terminal else {}
        return {
            "argv": self._ask.command,
            "env": {"PATH": os.defpath, **terminal, **run["env"]},
            "cwd": run["work"],
            "user": run.get("user"),
            "terminal": self._ask.terminal,
            "groups": [],
        }

    async def _wait(self, result: asyncio.StreamReader) -> int:
        """The exit code of the command. Raises `ExecFault` where it couldn't be started."""
        async for line in result:
            told = json.loads(line)
            if "fault" in told:
                await self._frames.put(pack(Kind.ERRORS, f"{told['fault']}\n".encode()))
                return 127 if "No such file" in told["fault"] else 126
            if "code" in told:
                return int(told["code"])
        return 255

    async def _read(self, source: asyncio.StreamReader, kind: Kind) -> None:
        """Sends what the command writes."""
        with suppress(OSError):  # a terminal that nobody has open any more
            while data := await source.read(READ_BYTES):
                self._note_activity()
                await self._frames.put(pack(kind, data))

    async def _type(self, client: httpx2.AsyncClient, url: str) -> str:
        """Hands on what the user types, until the connection ends; why it ended."""
        reader = FrameReader()
        try:
            timeout = httpx2.Timeout(LOST_S, connect=LOST_S)
            async with client.stream("GET", f"{url}/down", timeout=timeout) as response:
                if response.status_code != httpx2.codes.OK:
                    return "its user did not come"
                async for chunk in response.aiter_bytes():
                    for frame in reader.feed(chunk):
                        await self._obey(frame.kind, frame.data)
        except (httpx2.HTTPError, FrameFault) as error:
            return f"the connection was lost: {str(error) or type(error).__name__}"
        return "the connection to its user ended"

    async def _obey(self, kind: int, data: bytes) -> None:
        if kind != Kind.PING:
            self._note_activity()
        match kind:
            case Kind.DATA if self._input is not None:
                with suppress(OSError):
                    self._input.write(data)
                    await self._input.drain()
            case Kind.END_OF_INPUT if self._input is not None:
                if self._ask.terminal:
                    self._input.write(b"\x04")
                else:
                    self._input.close()
            case Kind.SIZE if len(data) == SIZE.size:
                self._resize(*SIZE.unpack(data))

    async def _watch(self) -> str:
        """Why the command must end, though its user goes on."""
        self._note_activity()
        while True:
            await asyncio.sleep(LOOK_S)
            run = self._runs.get(self._key)
            if run is None or not run.alive:
                return f"run {self._key.run} has ended"
            if asyncio.get_running_loop().time() - self._active_s > IDLE_S:
                return f"nothing was typed or written for {IDLE_S / 60:.0f} minutes"

    def _resize(self, rows: int, columns: int) -> None:
        if self._terminal >= 0 and rows and columns:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _note_activity(self) -> None:
        self._active_s = asyncio.get_running_loop().time()

    def _end_command(self) -> None:
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def _end(self) -> None:
        """Gives all of it back; the command and what it has started are gone then."""
        self._end_command()
        if self._process is not None:
            await self._process.wait()
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        if self._input is not None:
            self._input.close()


async def _reader(file: int) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(READ_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(file, "rb", 0))
    return reader


async def _writer(file: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(file, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
