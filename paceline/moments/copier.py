"""Has copies of views made while they are kept: by a process of its own, beside the projector.

The copies take a share of the time of one core, and at most twice the room of the records that were folded.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from paceline.moments.copies import FOLDER

COMMAND = [sys.executable, "-m", "paceline.moments.copy_views"]
WORK_BYTES = 100
"""Bytes of a record that take as long to fold as a record by itself."""
REST = 3
"""After a copy there is none for so many times as long as it took."""
RETRY_S = 60.0
LOG_TIMES = 2
"""The most that all copies may take, as a multiple of the size of the log."""


class CopyOrder(msgspec.Struct, frozen=True):
    """The order to the process that copies: the views, the folder of copies, what was folded since the last copy in
    units of work and in bytes, and how many times the size of the log all copies may have.
    """

    views: str
    folder: str
    work: int
    log_bytes: int
    log_times: int = LOG_TIMES


class Copier:
    """Starts a copy after every `every` units of work on the views in a folder. `on_trouble` is told why one failed.
    For one thread.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        on_trouble: Callable[[str], None],
        command: list[str] = COMMAND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._views, self._folder = folder / "views.sqlite", folder / FOLDER
        self._every, self._on_trouble, self._command, self._clock = every, on_trouble, command, clock
        self._work = self._bytes = 0
        self._given = (0, 0)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._not_before = 0.0

    def folded(self, records: int, size: int) -> None:
        """So many records with so many bytes were folded."""
        self._work += records + size // WORK_BYTES
        self._bytes += size
        if self._process is not None:
            self._look_after(self._process)
        elif self._work >= self._every and self._clock() >= self._not_before:
            self._start()

    def close(self) -> None:
        """Ends a copy that is being made."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._started, self._given = self._clock(), (self._work, self._bytes)
        self._work = self._bytes = 0
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe)
        assert self._process.stdin is not None
        order = CopyOrder(str(self._views), str(self._folder), *self._given)
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")  # short enough for the pipe
        self._process.stdin.flush()  # it stays open: its end tells that this process is gone

    def _look_after(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            return
        self._process = None
        now = self._clock()
        self._not_before = now + REST * (now - self._started)
        output = process.communicate()[1].decode(errors="replace").strip()
        if process.returncode:
            self._work, self._bytes = self._work + self._given[0], self._bytes + self._given[1]
            self._not_before = now + RETRY_S
            why = output.splitlines()[-1] if output else f"exit code {process.returncode}"
            self._on_trouble(f"the views in {self._views} were not copied: {why}; it is tried again")
