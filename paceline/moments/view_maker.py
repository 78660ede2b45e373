"""Has views of moments of one cell made: by a process of its own, one at a time, kept in a folder within bounds.

Who wants views asks again and again; what nobody has asked for lately is given up. Readers without the token share a
budget of time, so they can't keep a core of the machine busy.

Decision 048.
"""

import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec

from events.process.file_locks import hold
from paceline.moments.budget import ReaderBudgets
from paceline.moments.order import GONE, Progress
from projections.api.moments import Asker
from projections.api.problems import Problem

FOLDER = "moments"
LEASE_S = 10.0
"""So long views stay wanted after somebody has asked for them."""
WANTED_MAX = 16
WANTED_OF_READERS_MAX = 12
WANTED_OF_CLIENT_MAX = 3
"""Views that wait or are made at once; of readers without the token; of one address."""
FREE_MIN = 320 << 20
"""Bytes that views of moments leave free: the embedded log takes no facts below 64 MiB, and it needs room to grow."""
ERROR_S = 30.0
"""So long whoever asks hears why views could not be made; then they are made again."""
TRIES = 2
"""A process that something ended is started once more."""
PIPE_S = 1.0
"""So long what a process wrote is waited for when it has ended; others may hold its output open."""
KEPT_MAX = 32
ERROR_MAX = 300


@dataclass(frozen=True)
class MakerLimits:
    """`make_s`: how long the making of views may take; `kept_bytes`: of all that are kept."""

    make_s: float
    kept_bytes: int


@dataclass
class Wish:
    """Views that are wanted."""

    target: Path
    ends: Mapping[str, int]
    asker: Asker
    wanted_until: float
    done: int = 0
    of: int = 0
    error: str = ""
    failed: bool = False
    ended: bool = False
    last: str = ""
    """The last line that its process wrote, but for progress: when it fails, why."""


class ViewMaker:
    """Makes views of moments, one at a time. `command` starts the process that gets the order on its standard input,
    from `order(ends, target)`, and tells on its output how far it is, see `paceline.history.make_views`. Thread-safe.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        order: Callable[[Mapping[str, int], Path], bytes],
        limits: MakerLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command, self._order, self._limits, self._clock = command, order, limits, clock
        self._parent = folder
        self._folder, self._held = _own_folder(folder / FOLDER)
        self._changed = threading.Condition()
        self._wishes: dict[Path, Wish] = {}
        self._worker: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._budgets = ReaderBudgets(clock())

    def ask(self, ends: Mapping[str, int], asker: Asker) -> Path | Progress:
        """The file of the views at those ends; while they are made, how far that is. Raises a problem."""
        target = self._folder / f"{_digest(ends)}.sqlite"
        with self._changed:
            if target.exists():
                with suppress(OSError):
                    os.utime(target)
                return target
            wish = self._wishes.get(target)
            if wish is None or (wish.ended and wish.wanted_until < self._clock()):
                self._check_room(asker)
                wish = self._wishes[target] = Wish(target, ends, asker, self._clock() + LEASE_S)
                self._start()
            if wish.error:
                if wish.failed:
                    raise Problem(410, "GONE", wish.error)
                raise Problem(503, "MOMENT_FAILED", wish.error, headers={"Retry-After": "10"})
            wish.wanted_until = self._clock() + LEASE_S
            if asker.trusted:
                wish.asker = asker
            return Progress(wish.done, wish.of)

    def close(self) -> None:
        """Ends the process at work, and removes what was made."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._process is not None:
                _end(self._process)
        if self._worker is not None:
            self._worker.join()
        self._held.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _check_room(self, asker: Asker) -> None:
        self._forget()
        open_ = [wish for wish in self._wishes.values() if not wish.ended]
        if sum(wish.asker.client == asker.client for wish in open_) >= WANTED_OF_CLIENT_MAX:
            whose = f"for {asker.client or 'this client'}"
            detail = f"views of {WANTED_OF_CLIENT_MAX} moments are being made {whose}; ask again when one is there"
            raise Problem(429, "TOO_MANY_MOMENTS", detail, headers={"Retry-After": "5"})
        of_readers = sum(not wish.asker.trusted for wish in open_)
        if len(open_) >= WANTED_MAX or (not asker.trusted and of_readers >= WANTED_OF_READERS_MAX):
            detail = f"views of {len(open_)} moments are being made; ask again when one is there"
            raise Problem(503, "TOO_MANY_MOMENTS", detail, headers={"Retry-After": "5"})
        if not asker.trusted and (who := self._budgets.used_up_by(asker.client, self._clock())):
            detail = f"the time that {who} may have for making views of the past is used up; come back later"
            raise Problem(503, "TOO_MANY_MOMENTS", detail, headers={"Retry-After": "30"})
        if not self._has_room():
            raise Problem(503, "MOMENT_FAILED", self._no_room(), headers={"Retry-After": "30"})

    def _forget(self) -> None:
        """Drops what nobody wants any more."""
        now = self._clock()
        for target, wish in list(self._wishes.items()):
            if wish.wanted_until < now:
                del self._wishes[target]

    def _start(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._work, name="moments", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while (wish := self._next()) is not None:
            started = self._clock()
            try:
                self._make(wish, started)
            except Exception as error:  # whatever it is, whoever waits must hear of it
                wish.error = f"the views could not be made: {error}"
            with self._changed:
                wish.ended = True
                if not wish.asker.trusted:
                    now = self._clock()
                    self._budgets.spend(wish.asker.client, now - started, now)
                if not wish.error:  # made, or given up
                    self._wishes.pop(wish.target, None)
                wish.wanted_until = max(wish.wanted_until, self._clock() + ERROR_S)
                with suppress(OSError):
                    self._tidy(wish.target)

    def _next(self) -> Wish | None:
        """The next views to make, those for the token first, then the oldest wish; None: this maker is closed."""
        with self._changed:
            while not self._closed:
                self._forget()
                open_ = [wish for wish in self._wishes.values() if not wish.ended]
                if open_:
                    return min(open_, key=lambda wish: not wish.asker.trusted)
                self._changed.wait(None if not self._wishes else LEASE_S)
            return None

    def _make(self, wish: Wish, started: float) -> None:
        part = wish.target.with_suffix(".part")
        for _ in range(TRIES):
            code = self._run(wish, part, started)
            given_up = self._closed or (code < 0 and wish.wanted_until < self._clock())
            if code >= 0 or wish.error or given_up:
                break
        if code == 0:
            part.replace(wish.target)
        elif code == GONE:
            wish.failed, wish.error = True, wish.last[:ERROR_MAX]
        elif not wish.error and not given_up:
            wish.error = f"the views could not be made: {wish.last[:ERROR_MAX] or f'exit code {code}'}"

    def _run(self, wish: Wish, part: Path, started: float) -> int:
        """Runs the process for views; returns its exit code."""
        with self._changed:
            if self._closed:
                return -signal.SIGKILL
            self._make_folder()
            pipe = subprocess.PIPE
            self._process = process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
            )
        reading = threading.Thread(target=_read, args=(process, wish), daemon=True)
        reading.start()
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(self._order(wish.ends, part) + b"\n")
                process.stdin.flush()  # it stays open: its end tells that this process is gone
            self._watch(process, wish, started)
        finally:
            _end(process)
            code = process.wait()
            with suppress(OSError):
                process.stdin.close()
            reading.join(PIPE_S)
            self._process = None
        return code

    def _make_folder(self) -> None:
        """Makes the folder again if somebody removed it, and removes what is left of other makings."""
        if not self._folder.exists():
            self._held.close()
            self._folder.mkdir(parents=True)
            self._held = hold(self._folder / "lock")
        self._remove_parts()

    def _watch(self, process: subprocess.Popen[bytes], wish: Wish, started: float) -> None:
        """Waits for the process, and ends it when nobody wants its views any more, it takes too long, or the disk is
        nearly full.
        """
        while process.poll() is None:
            now = self._clock()
            if now - started > self._limits.make_s:
                wish.error = (
                    f"making these views took longer than {self._limits.make_s:g} s, after {wish.done} of {wish.of} "
                    "records; raise views.make_s, or keep copies of views more often with views.copy_every"
                )
                _end(process)
            elif not self._has_room():
                wish.error = self._no_room()
                _end(process)
            elif wish.wanted_until < now:
                _end(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)

    def _has_room(self) -> bool:
        """Whether the disk has room; views that are kept make it, those first that were not asked for longest."""
        files = self._files()
        while shutil.disk_usage(self._parent).free < FREE_MIN:
            if not files:
                return False
            files.pop().unlink(missing_ok=True)
        return True

    def _no_room(self) -> str:
        return f"the disk of {self._parent} has less than {FREE_MIN >> 20} MiB free: views of the past leave that alone"

    def _files(self) -> list[Path]:
        """The views that are kept, the ones asked for last first."""
        files = []
        for file in self._folder.glob("*.sqlite"):
            with suppress(OSError):
                files.append((file.stat().st_mtime, file))
        return [file for _, file in sorted(files, reverse=True)]

    def _remove_parts(self) -> None:
        for part in self._folder.glob("*.part*"):
            part.unlink(missing_ok=True)

    def _tidy(self, newest: Path) -> None:
        """Removes what is left of a making, and the views that were not asked for longest beyond the bounds."""
        self._remove_parts()
        size = 0
        for number, file in enumerate(self._files()):
            size += file.stat().st_size
            if file != newest and (number >= KEPT_MAX or size > self._limits.kept_bytes):
                file.unlink(missing_ok=True)


def _read(process: subprocess.Popen[bytes], wish: Wish) -> None:
    """Takes what a process writes, until nobody holds its output any more."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            try:
                progress = msgspec.json.decode(line, type=Progress)
            except msgspec.DecodeError:
                wish.last = line.decode(errors="replace").strip() or wish.last
            else:
                wish.done, wish.of = progress.done, progress.of


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _digest(ends: Mapping[str, int]) -> str:
    text = ",".join(f"{topic}:{ends[topic]}" for topic in sorted(ends))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _own_folder(parent: Path) -> tuple[Path, IO[str]]:
    """A folder for this process alone; those of processes that are gone are removed."""
    parent.mkdir(parents=True, exist_ok=True)
    for other in parent.iterdir():
        with suppress(OSError), hold(other / "lock"):
            shutil.rmtree(other, ignore_errors=True)
    folder = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder, hold(folder / "lock")
