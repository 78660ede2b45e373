"""Has facts planned for one cell, by a process of its own that follows the log: one plan at a time, bounded in time."""

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from events.codec import encode
from events.records.base import Event
from paceline.moments.order import PlanOrder, PlanResult, PlanStart
from projections.api.problems import Problem

COMMAND = [sys.executable, "-m", "paceline.plans.serve"]
WAITING_MAX = 8
"""Plans that are asked for at once; they are made one after the other."""
LIMIT_S = 15.0
"""Seconds that one plan may take, once its process is there."""
END_S = 2.0
"""Seconds that the process has to end once nobody asks any more."""
ERROR_MAX = 300
_STATUS = {"PLAN_FAILED": 500}


class CellPlans:
    """Implements `projections.api.context.Plans`. `start_s`: how long its process may take to come up and read what
    the machines have stored.
    """

    def __init__(self, start: PlanStart, start_s: float, command: Sequence[str] = COMMAND) -> None:
        self._start, self._start_s, self._command = start, start_s, list(command)
        self._turn = threading.Lock()
        self._count = threading.Lock()
        self.asked = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def plan(self, jobs: Mapping[str, Sequence[Event]]) -> Any:
        """Implements `Plans.plan`."""
        return self._plan(PlanOrder(LIMIT_S, {job_id: _records(facts) for job_id, facts in jobs.items()}))

    def plan_pools(self, facts: Sequence[Event]) -> Any:
        """Implements `Plans.plan_pools`."""
        return self._plan(PlanOrder(LIMIT_S, pools=_records(facts)))

    def plan_drain(self, fact: Event) -> Any:
        """Implements `Plans.plan_drain`."""
        return self._plan(PlanOrder(LIMIT_S, drain=encode(fact)))

    def prepare(self) -> None:
        """Implements `Plans.prepare`."""
        if self._turn.acquire(blocking=False):  # otherwise it is there
            try:
                self._running()
            finally:
                self._turn.release()

    def _plan(self, order: PlanOrder) -> Any:
        with self._one_of_few(), self._turn:
            return self._ask(msgspec.json.encode(order))

    def close(self) -> None:
        """Ends the process, if one is there."""
        self._closed = True
        self._end()

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        with self._count:
            if self.asked >= WAITING_MAX:
                detail = f"{self.asked} plans are asked for already; ask again in a second"
                raise Problem(503, "TOO_MANY_PLANS", detail, headers={"Retry-After": "1"})
            self.asked += 1
        try:
            yield
        finally:
            with self._count:
                self.asked -= 1

    def _ask(self, order: bytes) -> Any:
        process, is_new = self._running()
        limit_s = LIMIT_S + self._start_s
        line = _answer(process, order, limit_s)
        if line is None and not is_new:  # it ended since nobody had asked for long, just now
            self._end()
            process, _ = self._running()
            line = _answer(process, order, limit_s)
        try:
            result = msgspec.json.decode(line or b"", type=PlanResult)
        except msgspec.DecodeError:
            self._end()
            last = (line or b"").decode(errors="replace").strip()[-ERROR_MAX:]
            why = last or f"it took longer than {limit_s:g} s; keep snapshots, or raise views.make_s"
            raise Problem(503, "PLAN_FAILED", f"there is no plan now: {why}", headers={"Retry-After": "5"}) from None
        if result.error:
            raise Problem(_STATUS.get(result.code, 503), result.code, result.error, headers={"Retry-After": "5"})
        return msgspec.json.decode(result.plan)

    def _running(self) -> tuple[subprocess.Popen[bytes], bool]:
        """The process, and whether it was started just now."""
        if self._process is not None and self._process.poll() is None:
            return self._process, False
        self._end()
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True, bufsize=0
        )
        if self._closed:
            self._end()
        _write(process, msgspec.json.encode(self._start))
        return process, True

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()  # it ends by that, and removes what it has on the disk
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _records(facts: Sequence[Event]) -> list[bytes]:
    return [encode(fact) for fact in facts]


def _write(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # its output tells why it has gone
        process.stdin.write(line + b"\n")


def _answer(process: subprocess.Popen[bytes], order: bytes, limit_s: float) -> bytes | None:
    """The answer of the process to a line; what it wrote last where it has gone or is late; None: nothing."""
    assert process.stdout is not None
    _write(process, order)
    descriptor, until_s, text = process.stdout.fileno(), time.monotonic() + limit_s, b""
    while not text.endswith(b"}\n") and (rest_s := until_s - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], rest_s)[0]:
            break
        part = os.read(descriptor, 1 << 20)
        if not part:
            break
        text += part
    lines = text.strip().splitlines()
    return lines[-1] if lines else None
