"""Has what-if questions about one cell answered, each by a process of its own: one at a time, bounded in time and
memory, ended when nobody looks at it any more. The last answers are kept.

Decision 132.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import msgspec

from paceline.moments.order import LogAddress, WhatIfOrder, WhatIfProgress, WhatIfResult
from projections.api.problems import Problem
from projections.api.what_if_questions import AskedWhatIf, Question

COMMAND = [sys.executable, "-m", "paceline.whatif.answer"]
LEASE_S = 30.0
"""So long an answer stays wanted after somebody has looked at it."""
KEPT_MAX = 8
"""Answers that are kept."""
WATCH_S = 0.2
ERROR_MAX = 1000
CLOSE_S = 5.0
"""So long the end of a process is waited for when the server ends."""
PIPE_S = 1.0
"""So long what a process wrote is waited for when it has ended."""


@dataclass(frozen=True)
class WhatIfLimits:
    """The bounds of a process: seconds, and MiB of memory."""

    run_s: float
    memory_mib: int


class CellWhatIfs:
    """Implements `projections.api.what_if_questions.WhatIfs`. `command` starts the process that gets a `WhatIfOrder` on
    its standard input, see `paceline.whatif.answer`.
    """

    def __init__(
        self,
        address: LogAddress,
        limits: WhatIfLimits,
        command: list[str] = COMMAND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._limits, self._command, self._clock = address, limits, command, clock
        self._lock = threading.Lock()
        self._what_ifs: dict[str, AskedWhatIf] = {}
        """By id, those that somebody looked at last at the end."""
        self._running = ""
        self._wanted_until = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, question: Question) -> AskedWhatIf:
        """Implements `WhatIfs.ask`."""
        with self._lock:
            before = self._what_ifs.get(question.id)
            if before is not None and not before.error:
                self._wanted(question.id)
                return before
            if self._running:
                detail = f"what-if {self._running} is at work, one at a time; ask when that is over, or look at it"
                raise Problem(409, "WHAT_IF_RUNS", detail, headers={"Retry-After": "5"})
            now = self._clock()
            self._running, self._wanted_until = question.id, now + LEASE_S
            what_if = AskedWhatIf(question)
            self._keep(what_if)
            self._thread = threading.Thread(target=self._work, args=(question, now), name="what-if", daemon=True)
            self._thread.start()
            return what_if

    def look(self, what_if_id: str) -> AskedWhatIf | None:
        """Implements `WhatIfs.look`."""
        with self._lock:
            what_if = self._what_ifs.get(what_if_id)
            if what_if is not None:
                self._wanted(what_if_id)
            return what_if

    def at_work(self) -> AskedWhatIf | None:
        """Implements `WhatIfs.at_work`."""
        with self._lock:
            return self._what_ifs.get(self._running)

    def close(self) -> None:
        """Ends the process at work."""
        self._closed = True
        if (process := self._process) is not None:
            _end(process)
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _wanted(self, what_if_id: str) -> None:
        self._what_ifs[what_if_id] = self._what_ifs.pop(what_if_id)
        if what_if_id == self._running:
            self._wanted_until = self._clock() + LEASE_S

    def _keep(self, what_if: AskedWhatIf) -> None:
        self._what_ifs.pop(what_if.question.id, None)
        self._what_ifs[what_if.question.id] = what_if
        while len(self._what_ifs) > KEPT_MAX:
            del self._what_ifs[next(each for each in self._what_ifs if each != self._running)]

    def _work(self, question: Question, started: float) -> None:
        try:
            done = self._run(question, started)
        except Exception as error:  # whatever it is, whoever waits must hear of it
            done = AskedWhatIf(question, error=f"it could not be answered: {error}")
        with self._lock:
            self._running = ""
            self._keep(done)

    def _run(self, question: Question, started: float) -> AskedWhatIf:
        with TemporaryDirectory(prefix="paceline-what-if-") as folder:  # a process that is ended leaves its own
            return self._run_in(folder, question, started)

    def _run_in(self, folder: str, question: Question, started: float) -> AskedWhatIf:
        order = WhatIfOrder(self._address, *question, memory_mib=self._limits.memory_mib)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": folder},
        )
        self._process = process
        reader = _Reader(process, self._progress)
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(order) + b"\n")
                process.stdin.flush()  # it stays open: its end tells that this process is gone
            why = self._watch(process, started)
        finally:
            _end(process)
            process.wait()
            reader.thread.join(PIPE_S)
            with suppress(OSError):
                process.stdin.close()
            self._process = None
        result = reader.result
        if result is not None and not result.error:
            return AskedWhatIf(question, 1.0, bytes(result.summary), bytes(result.page))
        error = result.error if result is not None else why or self._failed(process.returncode, reader.last)
        return AskedWhatIf(question, error=error[:ERROR_MAX])

    def _failed(self, code: int, last: str) -> str:
        if code < 0:  # parts in C end the process where they get no memory
            why = last or f"signal {-code}"
            wish = "if that is too little, choose a shorter stretch, or raise what_if.memory_mib"
            return f"its process was ended ({why}); it may take {self._limits.memory_mib} MiB of memory: {wish}"
        return f"it could not be answered: {last}"

    def _watch(self, process: subprocess.Popen[bytes], started: float) -> str:
        """Waits until a process ends, or is to be ended; returns why."""
        while process.poll() is None:
            now = self._clock()
            if self._closed:
                return "the server ended"
            if now - started > self._limits.run_s:
                wish = "choose a shorter stretch or fewer runs, or raise what_if.run_s"
                return f"it took longer than {self._limits.run_s:g} s: {wish}"
            if now > self._wanted_until:
                return f"nobody looked at it for {LEASE_S:g} s, so it was ended: ask the question again"
            with suppress(subprocess.TimeoutExpired):
                process.wait(WATCH_S)
        return ""

    def _progress(self, done: float) -> None:
        with self._lock:
            what_if = self._what_ifs.get(self._running)
            if what_if is not None:
                self._what_ifs[self._running] = what_if._replace(done=done)


class _Reader:
    """Takes the lines of a process, in a thread, until nobody holds its output any more."""

    def __init__(self, process: subprocess.Popen[bytes], on_progress: Callable[[float], None]) -> None:
        self.result: WhatIfResult | None = None
        self.last = ""
        """The last line that is none of these: when it fails, why."""
        self._on_progress = on_progress
        self.thread = threading.Thread(target=self._read, args=(process,), daemon=True)
        self.thread.start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                try:
                    message = msgspec.json.decode(line, type=WhatIfProgress | WhatIfResult)
                except msgspec.DecodeError:
                    self.last = line.decode(errors="replace").strip() or self.last
                    continue
                if isinstance(message, WhatIfResult):
                    self.result = message
                else:
                    self._on_progress(message.done)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
