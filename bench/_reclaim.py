"""A pool takes back what others borrowed, in a large cell: `python -m bench._reclaim [HOSTS]` prints what it costs.

Hosts are full of equal borrowed tasks, eight on each. A pool within its reservation claims almost half of them, one
for each of its equal tasks. Counted is the CPU time of the four machines from `preemption_delay` after the claims came
until each has an order: on a log in memory, under virtual time, without gateway, hosts and observers. Cycles are looked
for as seldom as in the processes of machines.
"""

import gc
import json
import sys
import time

from bench import sized
from events.topics import MACHINES
from paceline.services.process_setup import GC_THRESHOLDS
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, of_scenario
from paceline.simulate.world.cell import MachineProcess
from paceline.simulate.world.run import Run
from processors.entitlement.machine import Entitlement
from processors.runtime.driver import Driver

HOSTS, FEW_HOSTS = sized(10_000, 40), sized(1_000, 20)
CLAIMED_MS, DELAY_MS, END_MS = 300_000, 120_000, 900_000


class _AllOrderedError(Exception):
    pass


class Stopwatch(MachineProcess):
    """A machine's process that counts the CPU seconds of its steps."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, None)
        self.cpu_s = 0.0

    def step(self) -> bool:
        """Implements `Component.step`."""
        began = time.process_time()
        more = super().step()
        self.cpu_s += time.process_time() - began
        return more


def figures() -> dict[str, float]:
    """The CPU seconds on `HOSTS`, and what a victim costs there over what it costs on `FEW_HOSTS`."""
    few, many = (sum(cpu_s(hosts).values()) for hosts in (FEW_HOSTS, HOSTS))
    return {"reclaim_39000_cpu_s": many, "reclaim_slope": many / claims(HOSTS) / (few / claims(FEW_HOSTS))}


def claims(hosts: int) -> int:
    """The number of tasks that claim a place on so many hosts."""
    return hosts * 39 // 10


def cpu_s(hosts: int) -> dict[str, float]:
    """The CPU seconds of each machine until all claims on so many hosts have orders."""
    gc.set_threshold(*GC_THRESHOLDS)
    run = of_scenario(scenario(hosts), "", RunOptions()).run
    watches: dict[str, Stopwatch] = {}
    entitlement = run.cell.machines["entitlement"]
    assert isinstance(entitlement, Entitlement)

    def look(run: Run) -> None:
        if not watches and run.now_ms >= CLAIMED_MS + DELAY_MS - 1_000:
            for name in MACHINES:
                process = run.cell.parts[name].component
                assert isinstance(process, MachineProcess)
                run.cell.parts[name].component = watches[name] = Stopwatch(process.driver)
        if entitlement.cell.orders >= claims(hosts):
            raise _AllOrderedError

    try:
        run.run_to_end(look)
    except _AllOrderedError:
        return {name: watch.cpu_s for name, watch in watches.items()}
    raise SystemExit(f"only {entitlement.cell.orders} of {claims(hosts)} claims have orders")


def scenario(hosts: int) -> Scenario:
    """The cell, its pools and its two jobs."""
    need = {"cpu": 1, "memory": "1GiB"}
    fill = {"job_id": "fill", "pool": "/a", "instances": hosts * 8, "stop_grace": "10s", "sim": {"duration": "2h"}}
    claim = {"job_id": "claim", "pool": "/b", "instances": claims(hosts), "at": "5m", "sim": {"duration": "1h"}}
    return Scenario.model_validate(
        {
            "name": "reclaim",
            "end": "15m",
            "hosts": [{"name": "h", "count": hosts, "resources": {"cpu": 8, "memory": "32GiB"}}],
            "pools": [{"path": "/a", "share": 1}, {"path": "/b", "share": 1, "reservation": {"cpu": hosts * 4}}],
            "jobs": [{**fill, "resources": need}, {**claim, "resources": need}],
        }
    )


if __name__ == "__main__":
    print(json.dumps(cpu_s(int(sys.argv[1])) if len(sys.argv) > 1 else figures()))
