"""Has placements of one cell derived again, each in a process of its own: one at a time, bounded in time."""

import subprocess
import sys
import threading
from collections.abc import Sequence

import msgspec

from paceline.moments.order import LogAddress, PlacementOrder, PlacementResult
from projections.api.problems import Problem

COMMAND = [sys.executable, "-m", "paceline.plans.place_again"]


class CellPlacements:
    """Implements `projections.api.context.Placements`. `make_s`: how long one may take."""

    def __init__(self, address: LogAddress, snapshots: str, make_s: float, command: Sequence[str] = COMMAND) -> None:
        self._address, self._snapshots, self._make_s, self._command = address, snapshots, make_s, list(command)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def derive(self, round_: int, index: int, job_id: str, instance: int) -> PlacementResult:
        """Implements `Placements.derive`."""
        if not self._lock.acquire(blocking=False):
            detail = "another placement is being derived; ask when that is done"
            raise Problem(503, "REPLAY_RUNS", detail, headers={"Retry-After": "1"})
        try:
            return self._derive(PlacementOrder(self._address, round_, index, job_id, instance, self._snapshots))
        finally:
            self._lock.release()

    def close(self) -> None:
        """Ends the process at work."""
        process = self._process
        if process is not None:
            process.kill()

    def _derive(self, order: PlacementOrder) -> PlacementResult:
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
        self._process = process
        late = threading.Timer(self._make_s, process.kill)
        late.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()  # it stays open: its end tells that this process is gone
            text = process.stdout.read().strip()
        except BrokenPipeError:
            text = process.stdout.read().strip()
        finally:
            late.cancel()
            process.kill()
            process.wait()
            self._process = None
        last = text.splitlines()[-1] if text else b""
        try:
            return msgspec.json.decode(last, type=PlacementResult)
        except msgspec.DecodeError:
            took = f"it took longer than {self._make_s:g} s; raise views.make_s, or keep snapshots"
            return PlacementResult(why=last.decode(errors="replace")[:300] or took)
