"""Decides rounds of one cell again, each in a process of its own: one at a time, bounded in time. Who asks has the
token; the last results are kept.
"""

import subprocess
import sys
import threading
from contextlib import suppress

import msgspec

from paceline.moments.order import LogAddress, Progress, RoundOrder, RoundResult
from projections.api.context import RoundReplay
from projections.api.problems import Problem

COMMAND = [sys.executable, "-m", "paceline.history.decide_again"]
KEPT_MAX = 64
"""Results that are kept."""


class CellReplays:
    """Implements `projections.api.context.Replays`. `make_s`: how long one may take."""

    def __init__(self, address: LogAddress, snapshots: str, make_s: float, command: list[str] = COMMAND) -> None:
        self._address, self._snapshots, self._make_s, self._command = address, snapshots, make_s, command
        self._lock = threading.Lock()
        self._found: dict[tuple[str, int], RoundReplay] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._running: tuple[str, int] | None = None

    def start(self, machine: str, number: int) -> RoundReplay:
        """Implements `Replays.start`."""
        key = machine, number
        with self._lock:
            if self._running is not None and self._running != key:
                detail = f"round {self._running[1]} of {self._running[0]} is being decided again; ask when that is done"
                raise Problem(503, "REPLAY_RUNS", detail, headers={"Retry-After": "1"})
            if self._running is None:
                self._running = key
                self._keep(key, RoundReplay())
                threading.Thread(target=self._run, args=key, name="replay", daemon=True).start()
            return self._found[key]

    def last(self, machine: str, number: int) -> RoundReplay | None:
        """Implements `Replays.last`."""
        return self._found.get((machine, number))

    def at_work(self) -> tuple[str, int] | None:
        """Implements `Replays.at_work`."""
        return self._running

    def close(self) -> None:
        """Ends the process at work."""
        process = self._process
        if process is not None:
            process.kill()

    def _keep(self, key: tuple[str, int], result: RoundReplay) -> None:
        self._found.pop(key, None)
        self._found[key] = result
        while len(self._found) > KEPT_MAX:
            del self._found[next(iter(self._found))]

    def _run(self, machine: str, number: int) -> None:
        key = machine, number
        try:
            result = self._replay(machine, number)
        except Exception as error:  # whatever it is, whoever waits must hear of it
            result = RoundReplay(error=f"the round could not be decided again: {error}")
        with self._lock:
            self._keep(key, result)
            self._running = None

    def _replay(self, machine: str, number: int) -> RoundReplay:
        order = RoundOrder(self._address, machine, number, self._snapshots)
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
        self._process = process
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        over = threading.Timer(self._make_s, end)
        over.start()
        last, result = b"", None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(order) + b"\n")
                process.stdin.flush()  # it stays open: its end tells that this process is gone
            for line in process.stdout:
                last = line.strip() or last
                with suppress(msgspec.DecodeError):
                    result = msgspec.json.decode(line, type=RoundResult)
                with suppress(msgspec.DecodeError):
                    progress = msgspec.json.decode(line, type=Progress)
                    self._keep((machine, number), RoundReplay(progress.done, progress.of))
        finally:
            over.cancel()
            process.kill()
            process.wait()
            with suppress(OSError):
                process.stdin.close()
            process.stdout.close()
            self._process = None
        if result is not None:
            return RoundReplay(result=msgspec.to_builtins(result))
        if late.is_set():
            return RoundReplay(error=f"it took longer than {self._make_s:g} s; raise views.make_s, or keep snapshots")
        return RoundReplay(error=f"the round could not be decided again: {last.decode(errors='replace')[:300]}")
