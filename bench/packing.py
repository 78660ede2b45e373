"""Packing: the fewest hosts on which a mix of tasks fits, placed as it comes, beside a bound that none can pass.

Cell compaction (Verma et al., "Large-scale cluster management at Google with Borg", EuroSys 2015, section 5.1): a mix
is placed from scratch on fewer and fewer hosts until some of it finds no room. The mixes are those of Alibaba's batch
jobs and of the CPU and memory of openb's pods, as they were submitted, on equal hosts. The bound is that of the
linear program: tasks may be cut, so it is the largest of the sums of each kind in hosts.
"""

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import Options, Result, sized
from processors.placement.engine.columns import BALANCED, PACK, SPREAD
from processors.placement.engine.compiled import compiled
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import Request, Shape

TRACES = Path(__file__).parent / "traces"
STRATEGIES = {"pack": PACK, "balanced": BALANCED, "spread": SPREAD}
ALIBABA_MEMORY_MIB = 512 * 1024
"""The trace tells memory as a part of a host's."""
MOST = sized(1_000_000, 20)
"""Rows of a trace at most."""
TARGET_PERCENT = 3.0


class Mix(NamedTuple):
    """Tasks as they come: (CPU in thousandths, memory in MiB, number), and what a host has of both."""

    tasks: Sequence[tuple[int, int, int]]
    host: tuple[int, int]

    def bound(self) -> int:
        """So many hosts are needed even if tasks could be cut."""
        return max(-(-sum(row[kind] * row[2] for row in self.tasks) // self.host[kind]) for kind in (0, 1))

    def decreasing(self) -> "Mix":
        """The same tasks, the largest first, by the kind of which they take most."""
        return self._replace(
            tasks=sorted(self.tasks, key=lambda row: max(row[kind] / self.host[kind] for kind in (0, 1)), reverse=True)
        )


def run(log: str, options: Options) -> Result:
    """Without a log: placing alone."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    best = []
    for name, mix in (("alibaba", alibaba()), ("openb", openb())):
        bound = mix.bound()
        over = {strategy: over_percent(fewest(mix, engine_with(each)), bound) for strategy, each in STRATEGIES.items()}
        figures |= {f"{name}_{strategy}_over_bound_percent": percent for strategy, percent in over.items()}
        references[f"{name}_bound_hosts"] = bound
        references[f"{name}_best_fit_decreasing_over_bound_percent"] = over_percent(
            fewest(mix.decreasing(), best_fit), bound
        )
        best.append(min(over.values()))
    figures["hosts_over_bound_percent"] = max(best)
    return Result(figures, references, {"hosts_over_bound_percent": TARGET_PERCENT})


def fewest(mix: Mix, fits: Callable[[Mix, int], bool]) -> int:
    """The fewest hosts that hold all of a mix, to one in two hundred."""
    too_few = mix.bound() - 1
    enough = 2 * too_few + 2
    while not fits(mix, enough):
        too_few, enough = enough, 2 * enough
    while enough - too_few > max(1, mix.bound() // 200):
        middle = (too_few + enough) // 2
        if fits(mix, middle):
            enough = middle
        else:
            too_few = middle
    return enough


def engine_with(strategy: int) -> Callable[[Mix, int], bool]:
    """Whether the engine finds a place for each task on so many hosts, by a strategy; each row is a job's."""

    def fits(mix: Mix, hosts: int) -> bool:
        engine = Engine(2, compiled())
        for host in range(hosts):
            engine.host(host, mix.host, mix.host, True, {})
        hosts_of = engine.place([Request(Shape((cpu, memory), strategy), number) for cpu, memory, number in mix.tasks])
        return sum(map(len, hosts_of)) == sum(number for *_, number in mix.tasks)

    return fits


def best_fit(mix: Mix, hosts: int) -> bool:
    """Whether best fit does: each task on the host, of those that hold it, with least free in parts of a host."""
    free = np.repeat(np.array(mix.host, dtype=np.int64)[:, None], hosts, axis=1)
    weight = (1 << 40) // np.array(mix.host, dtype=np.int64)
    for cpu, memory, number in mix.tasks:
        need, remaining = np.array((cpu, memory)), number
        while remaining:
            open_ = np.flatnonzero((free[0] >= cpu) & (free[1] >= memory))
            if not len(open_):
                return False
            host = int(open_[np.argmin(weight @ free[:, open_])])
            count = min(remaining, *(int(free[kind, host] // need[kind]) for kind in (0, 1) if need[kind]))
            free[:, host] -= need * count
            remaining -= count
    return True


def over_percent(hosts: int, bound: int) -> float:
    """So much more than the bound."""
    return 100.0 * (hosts - bound) / bound


def alibaba() -> Mix:
    """Every 100th task of the trace with its instances, on hosts of 64 cores."""
    rows = _rows("alibaba_batch_mix.csv.gz")
    tasks = [
        (round(1000 * float(row["cpu"])), round(ALIBABA_MEMORY_MIB * float(row["memory"])), int(row["instances_num"]))
        for row in rows
    ]
    return Mix(tasks, (64_000, ALIBABA_MEMORY_MIB))


def openb() -> Mix:
    """The pods that fit on a host of the commonest kind, 96 cores and 384 GiB."""
    host = (96_000, 393_216)
    tasks = [(int(row["cpu_milli"]), int(row["memory_mib"]), 1) for row in _rows("openb_pods_cpu.csv.gz")]
    return Mix([row for row in tasks if row[0] <= host[0] and row[1] <= host[1]], host)


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(TRACES / name, "rt", newline="") as file:
        return list(csv.DictReader(file))[:MOST]
