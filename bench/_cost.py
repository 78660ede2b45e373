"""Measures the cost of jobs of one task, in counts that no noise touches: `python -m bench._cost` prints one JSON
object.

A whole cell runs in one thread under a virtual clock: embedded log, machines, gateway, 1,000 simulated hosts and views.
While 1,000 jobs of one task go through it at once (`batch`), and 100 one after the other (`lone`), the interpreter's
profile hook counts, by the component that steps and for each job: calls of Paceline's own functions, calls from them
into C, and the bytes that the codec was asked to encode and decode; and the bytes that were written.

`python -m bench._cost lone` counts nothing and prints the CPU time of a job that comes alone.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from bench import sized

ROOT = Path(__file__).parents[1]
BATCH = 1000
LONE = 100
WARM = 50
HOSTS = 1000
TIMED, TIMED_WARM = sized(1000, 20), sized(200, 5)
TICK_MS = 10
TURNS_MAX = 100_000

_now_ms = 1_000_000


def _stand_still() -> None:
    """Gives the process a clock that moves only when `_pass` moves it."""
    for name, per_ms in (("time", 1e-3), ("monotonic", 1e-3), ("perf_counter", 1e-3)):
        setattr(time, name, lambda per_ms=per_ms: _now_ms * per_ms)
        setattr(time, f"{name}_ns", lambda: _now_ms * 1_000_000)


def _pass(ms: int) -> None:
    global _now_ms
    _now_ms += ms


class Counts:
    """Counts what the functions of the checkout do, by component, while it is the profile hook."""

    def __init__(self, encode: tuple[CodeType, ...], decode: CodeType) -> None:
        self.component = "client"
        self.found: Counter[tuple[str, str]] = Counter()
        self._codec = (encode, decode)
        self._own: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """The profile function of `sys.setprofile`."""
        code = frame.f_code
        own = self._own.get(code)
        if own is None:
            own = self._own[code] = self._is_own(code)
        if not own:
            return
        if event == "call":
            self.found[self.component, "own_calls"] += 1
            if code is self._codec[1]:
                self.found[self.component, "decoded_bytes"] += len(frame.f_locals[code.co_varnames[0]])
        elif event == "c_call":
            self.found[self.component, "c_calls"] += 1
        elif event == "return" and code in self._codec[0] and arg is not None:
            self.found[self.component, "encoded_bytes"] += len(arg)

    def _is_own(self, code: CodeType) -> bool:
        return code.co_filename.startswith(str(ROOT)) and "/.venv/" not in code.co_filename and code not in _HARNESS


class Cell:
    """`paceline up` on an embedded log, stepped by hand."""

    def __init__(self, folder: Path) -> None:
        from bench._shapes import append, job
        from events import codec
        from events.records.pools import PoolDefined
        from paceline.services.settings import UpSettings
        from paceline.services.up import Up

        settings = UpSettings(data=folder, listen="127.0.0.1:0", sim_hosts=HOSTS, kafka="", agent=False, cell=0)
        self._up, self._folder, self._job, self._append = Up(settings), folder, job, append
        self.counts = Counts((codec._encode_usual.__code__, codec._encode.__code__), codec.decode_once.__code__)
        up = self._up
        for_hosts = up._components[-1]
        gateway, fleet = for_hosts._parts
        self._parts: list[tuple[str, Callable[[], bool]]] = [
            *((each.name, each.step) for each in up._processors),
            ("gateway", gateway.step),
            ("fleet", fleet.step),
            ("projector", up.projector.step),
        ]
        append(up.log, PoolDefined(path="/bench", command_id="bench"))
        while self._select("select count(*) from hosts where reconciled_session > 0") < HOSTS:
            self.settle()
            _pass(TICK_MS)

    def submit(self, *names: str) -> None:
        """Appends jobs of one task of a second each."""
        self.counts.component = "client"
        self._append(self._up.log, *(self._job(name, 1) for name in names))

    def settle(self) -> None:
        """Steps every part until none has work at this time."""
        for _ in range(TURNS_MAX):
            busy = False
            for name, step in self._parts:
                self.counts.component = name
                if name == "gateway":  # as the host of a cell does
                    self._up.settle(not busy)
                busy = step() or busy
            if not busy:
                return
        raise RuntimeError("the cell never comes to rest")

    def until_done(self, jobs: int) -> None:
        """Lets time pass until so many jobs have succeeded in the views."""
        while True:
            self.settle()
            if self._select("select count(*) from jobs where state = 'SUCCEEDED'") >= jobs:
                return
            _pass(100)

    def written_bytes(self) -> dict[str, int]:
        """Bytes of all records by the log, of the stores' write-ahead logs, and of the views."""
        from events.topics import ALL

        log = sum(len(record.value) for topic in ALL for record in self._up.log.scan(topic.name, 0))
        stores = sum(path.stat().st_size for path in (self._folder / "store").rglob("*.log"))
        views = self._select("select page_count * page_size from pragma_page_count, pragma_page_size")
        return {"log": log, "stores": stores, "views": views}

    def _select(self, query: str) -> int:
        from sqlalchemy import text

        hook = sys.getprofile()
        sys.setprofile(None)
        try:
            with self._up.projector.views.engine.connect() as connection:
                return int(connection.execute(text(query)).scalar() or 0)
        finally:
            sys.setprofile(hook)


_HARNESS = {
    function.__code__
    for function in (Cell.submit, Cell.settle, Cell.until_done, Cell._select, Cell.written_bytes, _pass)
}


def measured(cell: Cell, jobs: int, work: Callable[[], None]) -> dict[str, dict[str, float]]:
    """The counts of some work, a job; the row `all` is their sum."""
    before = cell.written_bytes()
    cell.counts.found.clear()
    sys.setprofile(cell.counts)
    try:
        work()
    finally:
        sys.setprofile(None)
    rows: dict[str, dict[str, float]] = {"all": {}}
    for (component, name), count in sorted(cell.counts.found.items()):
        rows.setdefault(component, {})[name] = round(count / jobs, 1)
        rows["all"][name] = round(rows["all"].get(name, 0.0) + count / jobs, 1)
    after = cell.written_bytes()
    rows["all"] |= {f"{name}_written_bytes": round((after[name] - before[name]) / jobs, 1) for name in before}
    return rows


def alone(cell: Cell) -> dict[str, dict[str, float]]:
    """CPU of this thread for each of so many jobs, one every ten milliseconds of the cell's time, each let through to
    where the cell rests; beside it that of the same loop of plain Python.
    """
    for number in range(TIMED_WARM):
        cell.submit(f"early-{number}")
        cell.settle()
        _pass(TICK_MS)
    spent_ns = 0
    for number in range(TIMED):
        cell.submit(f"timed-{number}")
        begin = time.thread_time_ns()
        cell.settle()
        spent_ns += time.thread_time_ns() - begin
        _pass(TICK_MS)
    begin = time.thread_time_ns()
    names = {f"job-{number}": number for number in range(20_000)}
    assert sum(names[name] for name in names) > 0
    plain_ns = time.thread_time_ns() - begin
    return {
        "figures": {"lone_cpu_ms_per_job": spent_ns / TIMED / 1e6},
        "references": {"raw_plain_loop_cpu_ms": plain_ns / 1e6},
    }


def counted(cell: Cell) -> dict[str, dict[str, dict[str, float]]]:
    """The counts of both shapes."""
    cell.submit(*(f"warm-{number}" for number in range(WARM)))
    cell.until_done(WARM)

    def batch() -> None:
        cell.submit(*(f"batch-{number}" for number in range(BATCH)))
        cell.until_done(WARM + BATCH)

    def lone() -> None:
        for number in range(LONE):
            cell.submit(f"lone-{number}")
            cell.until_done(WARM + BATCH + number + 1)

    return {"batch": measured(cell, BATCH, batch), "lone": measured(cell, LONE, lone)}


def main(what: str = "") -> None:
    """Runs jobs through a cell in a folder of its own."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # what is counted must not depend on the order of sets
        command = [sys.executable, "-m", "bench._cost", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    _stand_still()
    folder = Path(tempfile.mkdtemp(prefix="paceline-cost-"))
    try:
        cell = Cell(folder)
        print(json.dumps(alone(cell) if what == "lone" else counted(cell)), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # the log's and the stores' threads end with the process


if __name__ == "__main__":
    main(*sys.argv[1:])
