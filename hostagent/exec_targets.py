"""The ends of what users do inside runs: a command, or a connection to a port."""

import asyncio
import errno
import fcntl
import json
import os
import struct
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec

from events.bounds import EXIT_CODE_MAX
from events.codes import Code
from hostagent import private_files
from hostagent.container_exec import ENVIRONMENT, entering
from hostagent.messages import ExecLine
from hostagent.run import Run
from hostagent.run_sockets import has_own_network, listeners, sockets_of
from hostagent.usage import session_of
from paceline.client.exec_frames import UNKNOWN_CODE, Kind

PROGRAM = Path(__file__).with_name("exec_session.py")
READ_BYTES = 16_384
"""More at once would keep Ctrl-C waiting behind what a command has written."""
CONNECT_S = 5.0
NO_SUCH_PROGRAM, NOT_STARTED = 127, 126
"""Exit codes of shells for a command that isn't there, and for one that can't be run."""

Output = tuple[asyncio.StreamReader, Kind]
Send = Callable[[Kind, bytes], Awaitable[None]]


class ExecFault(Exception):
    """A command can't be started, or a port not be reached; the message says why, `code` is its code."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class News(msgspec.Struct):
    """A line of `exec_session.py`."""

    fault: str = ""
    code: Annotated[int, msgspec.Meta(ge=0, le=EXIT_CODE_MAX)] | None = None


class Target(Protocol):
    """One of them."""

    async def start(self) -> list[Output]:
        """Begins, and returns what it writes. Raises `ExecFault`, `OSError`."""
        ...

    async def wait(self, send: Send) -> int:
        """Its exit code, once it has ended by itself; `send` tells its user more."""
        ...

    async def type(self, data: bytes) -> None:
        """Takes what its user types. Raises `OSError`."""
        ...

    def end_input(self) -> None:
        """Nothing more is typed."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Its user's terminal has another size."""
        ...

    def end(self) -> None:
        """Ends it."""
        ...

    async def close(self) -> None:
        """Gives back all that it has; nothing of it goes on then."""
        ...


class Command:
    """A command of the user's in the folder of the run, as its user, with its environment."""

    def __init__(self, ask: ExecLine, folder: Path) -> None:
        self._ask = ask
        self._folder = folder
        """The record of the run."""
        self._file = f"exec-{ask.request}.json"
        """There, what crun is told of a command in a container."""
        self._control = self._result = self._terminal = -1
        """`_control`: closed, it ends the command."""
        self._process: asyncio.subprocess.Process | None = None
        self._input: asyncio.StreamWriter | None = None

    async def start(self) -> list[Output]:
        """Implements `Target`."""
        order = self._order()
        files: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        ends: list[int] = []
        try:
            control, self._control = os.pipe()
            ends.append(control)
            self._result, result = os.pipe()
            ends.append(result)
            if self._ask.terminal:
                self._terminal, end = os.openpty()
                ends.append(end)
                self.resize(self._ask.rows, self._ask.columns)
                files = dict.fromkeys(files, end)
            words = (sys.executable, "-I", "-S", str(PROGRAM), str(control), str(result))
            self._process = await asyncio.create_subprocess_exec(*words, **files, pass_fds=(control, result))
        finally:
            for end in ends:
                os.close(end)
        os.write(self._control, msgspec.json.encode(order) + b"\n")
        if self._ask.terminal:
            self._input = await _writer(os.dup(self._terminal))
            return [(await _reader(os.dup(self._terminal)), Kind.DATA)]
        self._input = self._process.stdin
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        return [(self._process.stdout, Kind.DATA), (self._process.stderr, Kind.ERRORS)]

    def _order(self) -> dict[str, Any]:
        """The order for the parent of the command."""
        run: dict[str, Any] = json.loads(private_files.read_file(self._folder / "order.json"))
        groups = [f"{folder}/cgroup.procs" for folder in dict.fromkeys(run.get("groups", {}).values())]
        if "container" in run:
            size = self._ask.rows, self._ask.columns
            words = entering(self._folder, self._file, self._ask.command, self._ask.terminal, size)
            own = {"argv": words, "env": ENVIRONMENT, "cwd": "/", "user": None}
            return own | {"terminal": self._ask.terminal, "groups": groups}
        terminal = {"TERM": "xterm-256color"} if self._ask.terminal else {}
        return {
            "argv": self._ask.command,
            "env": {"PATH": os.defpath, **terminal, **run["env"]},
            "cwd": run["work"],
            "user": run.get("user"),
            "umask": run.get("umask", 0o022),
            "terminal": self._ask.terminal,
            "groups": groups,
        }

    async def wait(self, send: Send) -> int:
        """Implements `Target`."""
        file, self._result = self._result, -1
        result = await _reader(file)
        try:
            async for line in result:
                news = msgspec.json.decode(line, type=News)
                if news.fault:
                    await send(Kind.ERRORS, f"{news.fault}\n".encode())
                    return NO_SUCH_PROGRAM if "No such file" in news.fault else NOT_STARTED
                if news.code is not None:
                    return news.code
        except (msgspec.DecodeError, ValueError):  # a line that is too long is one too
            return UNKNOWN_CODE
        return UNKNOWN_CODE

    async def type(self, data: bytes) -> None:
        """Implements `Target`."""
        assert self._input is not None
        self._input.write(data)
        await self._input.drain()

    def end_input(self) -> None:
        """Implements `Target`."""
        assert self._input is not None
        if self._ask.terminal:
            self._input.write(b"\x04")
        else:
            self._input.close()

    def resize(self, rows: int, columns: int) -> None:
        """Implements `Target`."""
        if self._terminal >= 0 and rows and columns:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> None:
        """Implements `Target`."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def close(self) -> None:
        """Implements `Target`."""
        self.end()
        if self._process is not None:
            await self._process.wait()
        if self._result >= 0:
            os.close(self._result)
            self._result = -1
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        if self._input is not None:
            self._input.close()
        (self._folder / self._file).unlink(missing_ok=True)


class Connection:
    """A connection to a port that the run listens on, by the loopback address of the host."""

    def __init__(self, port: int, run: Run) -> None:
        self._port = port
        self._run = run
        self._over = asyncio.Event()
        self._input: asyncio.StreamWriter | None = None

    async def start(self) -> list[Output]:
        """Implements `Target`."""
        await asyncio.to_thread(self._check)
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, self._input = await asyncio.open_connection("127.0.0.1", self._port, limit=READ_BYTES)
        except OSError as error:  # a timeout is one too
            why = os.strerror(error.errno) if error.errno else "it takes no connections"
            raise self._closed(why) from error
        return [(reader, Kind.DATA)]

    def _check(self) -> None:
        """Raises `ExecFault` unless the port was handed to the run, or the run alone listens on it."""
        order: dict[str, Any] = json.loads(private_files.read_file(self._run.folder / "order.json"))
        if "container" in order and has_own_network(self._run.folder):
            raise self._closed("its container has no network (isolation: network: none)")
        if self._port in self._run.ports:
            return
        if not (there := listeners(self._port)):
            raise self._closed(os.strerror(errno.ECONNREFUSED))
        groups = [Path(each) for each in dict.fromkeys(order.get("groups", {}).values())]
        if not there <= set(sockets_of(session_of(self._run), groups)):
            raise self._closed("something else on its host listens there, not the run")

    def _closed(self, why: str) -> ExecFault:
        return ExecFault(Code.PORT_CLOSED, f"port {self._port} of the run: {why}")

    async def wait(self, send: Send) -> int:
        """Implements `Target`: it ends with what the other side sends."""
        await self._over.wait()
        return 0

    async def type(self, data: bytes) -> None:
        """Implements `Target`."""
        assert self._input is not None
        self._input.write(data)
        await self._input.drain()

    def end_input(self) -> None:
        """Implements `Target`."""
        assert self._input is not None
        with suppress(OSError):
            self._input.write_eof()

    def resize(self, rows: int, columns: int) -> None:
        """Implements `Target`."""

    def end(self) -> None:
        """Implements `Target`."""
        self._over.set()
        if self._input is not None:
            self._input.close()

    async def close(self) -> None:
        """Implements `Target`."""
        self.end()


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
