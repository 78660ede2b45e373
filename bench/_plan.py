"""Plans of jobs on a cell of 5,000 hosts and 100,000 tasks: the time until the first answer, and until later ones."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench import sized
from events.codec import encode
from events.log.embedded import EmbeddedLog
from events.log.port import NewRecord
from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.records.pools import PoolDefined
from events.topics import MACHINES
from hostagent.fleet import Fleet, SimHost
from paceline.client.plan_models import JobPlan
from paceline.services.past import plans_of
from paceline.services.settings import load
from paceline.simulate.world.cell import Cell, SimLog, VirtualClock
from processors.runtime.store import RocksStore
from projections.views.projector import Projector

HOSTS, JOBS, TASKS = sized(5_000, 20), sized(10_000, 20), sized(100_000, 200)
PLANS = sized(9, 1)
HOST = {"cpu": 32_000, "memory": 131_072, "disk": 1_000_000}
NEED = {"cpu": 1_500, "memory": 4_096}
POOLS = 20
DAY_MS = 86_400_000


def run(folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Figures and references of a cell whose log, stores and views are written to a folder, while it stands still."""
    write_cell(folder)
    plans = plans_of(load(None, data=folder), 0, folder)
    try:
        begin = time.perf_counter()
        first: JobPlan = plans.plan({"plan-first": [job("plan-first", 100)]})[0]
        first_s = time.perf_counter() - begin
        seconds = []
        for number in range(PLANS):
            begin = time.perf_counter()
            [plan] = plans.plan({f"plan-{number}": [job(f"plan-{number}", 100)]})
            seconds.append(time.perf_counter() - begin)
            assert plan["placed"] == first["placed"] == 100, plan
    finally:
        plans.close()
    return {"plan_s": max(seconds)}, {"plan_median_s": median(seconds), "plan_first_s": first_s}


def stored_cell(folder: Path, hosts: SimHost) -> tuple[Cell, VirtualClock, EmbeddedLog]:
    """A cell of simulated hosts with its log and the stores of its machines in a folder, a day ago."""
    clock = VirtualClock(time.time_ns() // 1_000_000 - DAY_MS)
    log = EmbeddedLog(folder / "log", now_ms=clock.monotonic_ms)
    stores = {name: RocksStore(folder / "store" / name) for name in MACHINES}
    cell = Cell(SimLog(log, clock), clock, {name: partial(same, store) for name, store in stores.items()})
    cell.add_fleet("hosts", lambda gateway: Fleet(gateway, [hosts], clock, 1, heartbeat_ms=None))
    return cell, clock, log


def write_cell(folder: Path) -> None:
    """A cell whose tasks all run: its log, the stores of its machines, its views."""
    cell, clock, log = stored_cell(folder, SimHost(HOSTS, HOST))
    append(log, [PoolDefined(path=path, command_id=path, reservation=NEED) for path in paths()])
    pass_minute(cell, clock)
    each = TASKS // JOBS
    append(log, [job(f"job-{number}", each, paths()[number % POOLS]) for number in range(JOBS)])
    pass_minute(cell, clock)
    assert cell.running() == TASKS, cell.running()
    cell.close()
    view_log = EmbeddedLog(folder / "log")
    projector = Projector(view_log, folder)
    projector.fold_whole()
    projector.close()
    view_log.close()


def paths() -> list[str]:
    """The pools."""
    return [f"/pool-{number}" for number in range(POOLS)]


def job(job_id: str, instances: int, pool: str = "/pool-0") -> JobSubmitted:
    """A job whose tasks run for long."""
    simulated = Simulated(duration_ms=10 * DAY_MS)
    return JobSubmitted(
        job_id=job_id, pool=pool, instances=instances, command=("x",), resources=NEED, simulated=simulated
    )


def same(store: RocksStore) -> RocksStore:
    """A disk that every process of a machine opens."""
    return store


def append(log: EmbeddedLog, facts: Sequence[Event]) -> None:
    """Facts by users."""
    log.append([NewRecord(fact.topic, b"bench", encode(fact)) for fact in facts])


def pass_minute(cell: Cell, clock: VirtualClock) -> None:
    """A minute of virtual time."""
    for part in cell.parts.values():
        part.runnable = True
    end = clock.ms + 60_000
    while True:
        cell.run_until_quiet()
        at_ms = cell.next_ms()
        if at_ms is None or at_ms > end:
            return
        clock.ms = max(clock.ms, at_ms)
