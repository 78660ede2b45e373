"""openb, the GPU cluster of the published experiments: its hosts, workloads, orders of arrival, published figures
(`bench/traces/openb/README.md`).
"""

import csv
import gzip
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from processors.placement.devices.mix import Mix, MixRow, TaskShape
from processors.placement.devices.strategies import GpuBoard
from processors.runtime import kernel_cache

TRACES = Path(__file__).parent / "traces" / "openb"
NAMED = "default", "cpu250", "gpushare100", "multigpu50", "gpuspec33"
"""The five workloads of which the paper tells most."""
WORKLOADS = (
    *NAMED,
    *("cpu050", "cpu100", "cpu200", "gpushare40", "gpushare60", "gpushare80"),
    *("multigpu20", "multigpu30", "multigpu40", "gpuspec10", "gpuspec20", "gpuspec25"),
)
SEEDS = tuple(map(str, range(42, 52)))


class OpenbHost(NamedTuple):
    """CPU in thousandths, memory in MiB, cards and their model."""

    cpu: int
    memory: int
    cards: int
    model: str


class Arrivals(NamedTuple):
    """Pods in the order in which they come, and hosts in the order that breaks ties."""

    tasks: list[TaskShape]
    hosts: list[OpenbHost]


@cache
def hosts() -> tuple[OpenbHost, ...]:
    """The 1,213 hosts."""
    rows = _rows("openb_node_list_gpu_node.csv.gz")
    return tuple(
        OpenbHost(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"]) for row in rows
    )


def cards() -> int:
    """The cards of all hosts."""
    return sum(host.cards for host in hosts())


@cache
def pods(workload: str) -> tuple[TaskShape, ...]:
    """The pods of a workload in the order of its file."""
    return tuple(map(_shape, _rows(f"pods/openb_pod_list_{workload}.csv.gz")))


def pods_with_seconds() -> list[tuple[TaskShape, int]]:
    """The pods of `default` that have run, and for how long."""
    return [
        (_shape(row), int(row["deletion_time"]) - int(row["scheduled_time"]))
        for row in _rows("pods/openb_pod_list_default.csv.gz")
        if row["scheduled_time"] and row["deletion_time"]
    ]


def arrivals(workload: str, seed: str) -> Arrivals:
    """The pods and hosts of a published run."""
    name = "default" if workload.startswith("gpuspec") else workload
    with gzip.open(TRACES / f"arrivals/{name}.json.gz", "rt") as file:
        orders = json.load(file)["seeds"][seed]
    return Arrivals([pods(workload)[row] for row in orders["arrival"]], [hosts()[row] for row in orders["node_order"]])


@cache
def published(policy: str) -> dict[str, float]:
    """The published GPU allocation of a policy at 100 % arrived, in percent, by workload."""
    return {
        row["workload"]: float(row["alloc_mean"])
        for row in _rows("summary.csv.gz")
        if row["policy"] == policy and row["arrived_pct"] == "100"
    }


@cache
def bounds() -> dict[str, float]:
    """The allocation that no scheduler exceeds there, where it is known."""
    with (TRACES / "upper_bound.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    return {row["workload"]: float(row["bound_mean"]) for row in rows if row["arrived_prefix_pct"] == "100"}


class Cluster:
    """Hosts of openb on a board, where tasks are placed by a rule, and the mix of those that have come."""

    def __init__(self, some: list[OpenbHost], rule: int) -> None:
        self.board = GpuBoard(len(some), kernel_cache.load_of_cards())
        self._rule = rule
        self._mix = Mix(MixRow())
        self._open = np.ones(len(some), dtype=np.bool_)
        for number, host in enumerate(some):
            self.board.set_host(number, host.cpu, host.memory, [1000] * host.cards, host.model)
        self.board.weigh(*(max(host[:2][kind] for host in some) for kind in (0, 1)), 1000 * max(h.cards for h in some))

    def arrive(self, task: TaskShape) -> None:
        """A task comes; what is learned of it counts for the next."""
        if self._mix.is_due:
            self.board.refresh(self._mix)
        self._mix.seen(task)

    def place(self, task: TaskShape) -> tuple[int, list[int]] | None:
        """Places a task: its host and cards, None where it finds none."""
        choice = self.board.best(task, self._rule, self._open)
        if choice is None:
            return None
        on_cards = self.board.cards(task, choice)
        self.board.put(task, choice.host, on_cards)
        return choice.host, on_cards

    def place_all(self, tasks: Iterable[TaskShape]) -> Iterator[bool]:
        """Places tasks as they come, for good; whether each found a host."""
        for task in tasks:
            self.arrive(task)
            yield self.place(task) is not None

    def fits(self, task: TaskShape, host: int) -> bool:
        """Whether a host has room for a task of any model."""
        h = self.board.hosts
        if h.cpu[host] < task.cpu or h.memory[host] < task.memory:
            return False
        return not task.number or int((h.cards[host] >= task.milli).sum()) >= task.number


def allocation_percent(arrivals_: Arrivals, placed: Iterator[bool]) -> float:
    """The mean GPU allocation over the arrivals at which the requests so far round to 100 % of the cluster."""
    whole = 1000 * sum(host.cards for host in arrivals_.hosts)
    arrived = used = 0
    values = []
    for task, is_placed in zip(arrivals_.tasks, placed, strict=True):
        milli = task.number * task.milli
        arrived += milli
        used += milli if is_placed else 0
        if round(100 * arrived / whole) == 100:
            values.append(round(100 * used / whole, 2))
    return sum(values) / len(values)


def _shape(row: dict[str, str]) -> TaskShape:
    number = int(row["num_gpu"])
    models = {model for model in (row.get("gpu_spec") or "").split("|") if model}
    milli = int(row["gpu_milli"]) if number else 0
    return TaskShape(
        int(row["cpu_milli"]), int(row["memory_mib"]), number, milli, tuple(sorted(models)) if number else ()
    )


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(TRACES / name, "rt", newline="") as file:
        return list(csv.DictReader(file))
