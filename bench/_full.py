"""Placement of a full cell: 1,000,000 tasks on 50,000 hosts.

`python -m bench._full FOLDER write` fills the cell, has a hundred tasks of as many jobs end and as many come, again and
again, and prints what a round of placement costs then; in the end tasks come while placement is away. `python -m
bench._full FOLDER start` starts placement from the store that this has left, until it has placed those.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import msgspec
import psutil

from bench import sized
from bench._plan import append, pass_minute, stored_cell
from events.log.embedded import EmbeddedLog
from events.process.clock import SystemClock
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.records.pools import PoolDefined
from hostagent.fleet import SimHost
from paceline.services.process_setup import GC_THRESHOLDS
from paceline.simulate.world.cell import MachineProcess
from processors.placement.engine.compiled import use
from processors.placement.machine import Placement
from processors.runtime import kernel_cache
from processors.runtime.driver import Driver
from processors.runtime.store import RocksStore

HOSTS, TASKS, JOBS = sized(50_000, 40), sized(1_000_000, 800), sized(1_000, 10)
ENDED, BATCHES = sized(100, 5), sized(9, 2)
HOST = {"cpu": 32_000, "memory": 131_072}
NEED = {"cpu": 1_500, "memory": 4_096}
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def figures(folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Figures and references, each measured in a process of its own."""
    written, started = (_measured(folder, step) for step in ("write", "start"))
    return written["figures"] | started["figures"], written["references"] | started["references"]


def _measured(folder: Path, step: str) -> Mapping[str, dict[str, float]]:
    command = [sys.executable, "-m", "bench._full", str(folder), step]
    printed: Mapping[str, dict[str, float]] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return printed


class Stopwatch(MachineProcess):
    """A machine's process that notes the CPU ms of each of its steps."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, None)
        self.steps_ms: list[float] = []

    def step(self) -> bool:
        """Implements `Component.step`."""
        began = time.process_time()
        more = super().step()
        self.steps_ms.append((time.process_time() - began) * 1000)
        return more


def write(folder: Path) -> dict[str, dict[str, float]]:
    """Fills a cell, and measures rounds in which tasks end and others take their places."""
    use(kernel_cache.load())
    cell, clock, log = stored_cell(folder, SimHost(HOSTS, HOST))
    append(log, [PoolDefined(path="/full", command_id="full")])
    pass_minute(cell, clock)
    append(log, [_job(number) for number in range(JOBS)])
    pass_minute(cell, clock)
    if cell.running() != TASKS:
        raise SystemExit(f"only {cell.running()} tasks run")
    process = cell.parts["placement"].component
    assert isinstance(process, MachineProcess)
    watch = cell.parts["placement"].component = Stopwatch(process.driver)
    gc.freeze()  # the other machines and the hosts are here too
    rounds_ms, together_ms = [], []
    began_ms = clock.ms
    for number in range(BATCHES):
        clock.ms = began_ms + (number + 1) * HOUR_MS - 150_000
        pass_minute(cell, clock)
        watch.steps_ms.clear()
        append(log, [_late_job(f"more-{number}")])
        for _ in range(2):
            pass_minute(cell, clock)
        rounds_ms.append(sorted(watch.steps_ms)[-2:])
        together_ms.append(sum(watch.steps_ms))
    if cell.running() != TASKS:
        raise SystemExit(f"{cell.running()} tasks run at last")
    cell.lose("placement")
    process.driver.close()
    append(log, [_late_job("last")])
    pass_minute(cell, clock)
    cell.close()
    return {
        "figures": {"full_round_ms": median(most for _, most in rounds_ms)},
        "references": {
            "full_next_round_ms": median(next_ms for next_ms, _ in rounds_ms),
            "full_rounds_together_ms": median(together_ms),
            "full_write_cpu_s": time.process_time(),
        },
    }


def start(folder: Path) -> dict[str, dict[str, float]]:
    """Starts placement until it has placed what waits, and reads the same rows beside."""
    gc.set_threshold(*GC_THRESHOLDS)
    use(kernel_cache.load())
    log = EmbeddedLog(folder / "log")
    before = psutil.Process().memory_info().rss
    began, cpu = time.perf_counter(), time.process_time()
    store = RocksStore(folder / "store" / "placement")
    machine = Placement()
    driver = Driver(machine, log, store, SystemClock(), "bench")
    for _ in driver.recover():
        pass
    while not _is_placed(machine, "last"):
        driver.run()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    memory = psutil.Process().memory_info().rss / 2**20
    began = time.perf_counter()
    size = sum(len(row or b"") for _, _, row in store.rows())
    return {
        "figures": {"full_start_s": seconds, "full_memory_mib": memory},
        "references": {
            "full_start_cpu_s": cpu_s,
            "full_memory_before_mib": before / 2**20,
            "raw_full_store_read_s": time.perf_counter() - began,
            "raw_full_store_mib": size / 2**20,
        },
    }


def _is_placed(machine: Placement, job_id: str) -> bool:
    row = machine.runs.jobs.get(job_id)
    return row is not None and bool(machine.runs.arena["host"][row.base : row.base + row.instances].all())


def _job(number: int) -> JobSubmitted:
    """One of the jobs that fill the cell. The first tasks of `ENDED` of them end hour by hour."""
    tasks, batch = TASKS // JOBS, number // (JOBS // BATCHES)
    first = (batch + 1) * HOUR_MS if number % (JOBS // BATCHES) < ENDED else 10 * DAY_MS
    simulated = Simulated(durations_ms=(first, *[10 * DAY_MS] * (tasks - 1)))
    return msgspec.structs.replace(_late_job(f"job-{number}"), instances=tasks, simulated=simulated)


def _late_job(job_id: str) -> JobSubmitted:
    return JobSubmitted(
        job_id=job_id,
        pool="/full",
        instances=ENDED,
        command=("x",),
        resources=NEED,
        simulated=Simulated(duration_ms=10 * DAY_MS),
    )


if __name__ == "__main__":
    print(json.dumps({"write": write, "start": start}[sys.argv[2]](Path(sys.argv[1]))))
