"""Connects the terminal of a user, or pipes, with a command inside a run."""

import os
import queue
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.client.errors import PacelineError
from paceline.client.exec_frames import PING_S, SIZE, UNKNOWN_CODE, Frame, Kind, code_of, pack
from paceline.output import note

if TYPE_CHECKING:
    from paceline.client.client import Client

READ_BYTES = 16_384


def enter(client: "Client", job_id: str, instance: int, command: Sequence[str], terminal: bool, typing: bool) -> int:
    """Runs a command inside a run, with this process's standard input and outputs; its exit code. `typing`: whether
    standard input goes to it.
    """
    columns, rows = shutil.get_terminal_size()
    size = (rows, columns) if terminal else (0, 0)
    if terminal:
        note(f"entering task {instance} of {job_id}")
    entered = client.enter(job_id, instance, command, terminal, *size)
    with ExitStack() as restoring:
        if terminal:
            restoring.enter_context(_raw())
        typed = Typed(typing)
        if terminal:
            restoring.enter_context(_resizing(typed))
        send_beside(client, job_id, instance, entered["exec"], typed)
        try:
            return _show(client.written(job_id, instance, entered["exec"]))
        finally:
            typed.close()


def copy(client: "Client", job_id: str, instance: int, path: str, target: Path) -> int:
    """Copies a file out of a run, which is there whole or not at all; 0, or the exit code of what failed."""
    entered = client.enter(job_id, instance, ("cat", "--", path))
    typed = Typed(typing=False)
    send_beside(client, job_id, instance, entered["exec"], typed)
    half = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(half, "wb") as file:
            code = _show(client.written(job_id, instance, entered["exec"]), file.fileno())
        if not code:
            half.replace(target)
        return code
    finally:
        typed.close()
        half.unlink(missing_ok=True)


class Typed:
    """Frames of what is typed, and of what else the command is to hear, for one sender."""

    def __init__(self, typing: bool) -> None:
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(4)
        """Pasting much waits for what is sent."""
        if typing:
            threading.Thread(target=self._read, daemon=True).start()
        else:
            self._frames.put(pack(Kind.END_OF_INPUT))

    def resize(self) -> None:
        """The terminal has another size."""
        columns, rows = shutil.get_terminal_size()
        self._frames.put(pack(Kind.SIZE, SIZE.pack(rows, columns)))

    def close(self) -> None:
        """Nothing more is typed."""
        self._frames.put(None)

    def __iter__(self) -> Iterator[bytes]:
        """The frames, a ping where there is nothing else."""
        while True:
            try:
                frame = self._frames.get(timeout=PING_S)
            except queue.Empty:
                yield pack(Kind.PING)
                continue
            if frame is None:
                return
            self._room.release()
            yield frame

    def _read(self) -> None:
        source = sys.stdin.fileno()
        while True:
            self._room.acquire()
            try:
                data = os.read(source, READ_BYTES)
            except OSError:
                data = b""
            self._frames.put(pack(Kind.DATA, data) if data else pack(Kind.END_OF_INPUT))
            if not data:
                return


def send_beside(client: "Client", job_id: str, instance: int, exec_id: str, typed: Iterable[bytes]) -> None:
    """Sends frames into a run from a thread of their own, until either side ends."""

    def send() -> None:
        with suppress(PacelineError):  # the other direction says what became of the connection
            client.send_typed(job_id, instance, exec_id, typed)

    threading.Thread(target=send, daemon=True).start()


def _show(frames: Iterator[Frame], out: int = 1) -> int:
    """Writes what the command writes, its output to the file `out`; its exit code."""
    why = "connection lost"
    try:
        for frame in frames:
            match frame.kind:
                case Kind.DATA:
                    _write(out, frame.data)
                case Kind.ERRORS:
                    _write(2, frame.data)
                case Kind.CODE:
                    return code_of(frame.data)
                case Kind.FAULT:
                    why = frame.data.decode(errors="replace")
    except PacelineError as error:
        why = f"connection lost: {error}"
    note(f"paceline: {why}")
    return UNKNOWN_CODE


def _write(file: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(file, data) :]
        except BlockingIOError:  # somebody who shares the terminal has set it so
            select.select((), (file,), ())


@contextmanager
def _raw() -> Iterator[None]:
    """The terminal hands on each key as it is pressed; afterwards it is what it was."""
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    try:
        tty.setraw(source, termios.TCSADRAIN)  # what was typed ahead is for the command
        yield
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


@contextmanager
def _resizing(typed: Typed) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda *_: typed.resize())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
