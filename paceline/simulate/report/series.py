"""A cell over time: samples of what is used, waits and is split up, few enough to keep however long a run is."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.columns import I64
from events.pool_paths import levels_of
from events.resources import Amounts, Unit, Vector, add, is_gpu
from paceline.simulate.scenario.assertions import CellState
from processors.entitlement.queues.parts import by
from processors.entitlement.rows import ReportedRow

SAMPLES_MAX = 1000
"""With so many samples every other one is dropped, and further ones are taken half as often."""
SHAPES_MAX = 20
"""Fragmentation goes by so many of the commonest shapes of tasks."""
ABSENT = 255


class Totals(NamedTuple):
    """Totals since the beginning: jobs that ran to their end, runs that were preempted."""

    jobs: int
    preempted: int


class Sample(NamedTuple):
    """A cell at rest at a moment. `names` are its resources, in the order in which rows of pools have them."""

    at_ms: int
    names: tuple[str, ...]
    units: Mapping[str, Unit]
    used: Amounts
    capacity: Amounts
    running: int
    """Tasks that hold a host."""
    waiting: int
    """Tasks that wait for admission or for a place."""
    fragmentation: float
    """The part of the capacity that is free, but on hosts where a task doesn't fit: the mean over the tasks known."""
    pools: dict[str, ReportedRow]
    hosts: NDArray[np.uint8]
    """The percentage used of the scarcest resource of each host, by its number; ABSENT: not there."""
    totals: Totals


class PoolNeeds(NamedTuple):
    """The needs of the tasks of a pool that have places, and of all that run or wait, whether they can be admitted or
    not.
    """

    usage: Vector
    demand: Vector


def main_resource(samples: Sequence[Sample]) -> str:
    """The resource that the plots show: the kind of GPUs that was used or requested most, CPU where none ever was."""
    sums: Counter[str] = Counter()
    for each in samples:
        for at, name in enumerate(each.names):
            if is_gpu(name):
                sums[name] += each.used.get(name, 0) + sum(row.demand[at] for row in each.pools.values())
    most = max(sums, key=lambda name: (sums[name], name), default="")
    return most if sums[most] else "cpu"


class Series:
    """Takes samples of a cell; see `run.Observer`."""

    def __init__(self, cell_state: CellState, totals: Callable[[], Totals]) -> None:
        self.samples: list[Sample] = []
        self._cell_state = cell_state
        self._totals = totals
        self._step_ms = 1
        self._next_ms = 0
        self._at_ms = 0
        self._used: Amounts = {}
        self._capacity: Amounts = {}
        """The capacity since the last look, by name."""
        self._used_over_time: Counter[str] = Counter()
        self._capacity_over_time: Counter[str] = Counter()
        """Both times the milliseconds that they were."""

    def look(self, now_ms: int) -> None:
        """Implements `Observer.look`."""
        self._pass(now_ms)
        if now_ms < self._next_ms:
            return
        self.samples.append(self._sample(now_ms))
        if len(self.samples) >= SAMPLES_MAX:
            self.samples = self.samples[::2]
            self._step_ms = max(2 * self._step_ms, now_ms // (SAMPLES_MAX // 2))
        self._next_ms = now_ms + self._step_ms

    def finish(self, now_ms: int) -> None:
        """The last moment is a sample in any case."""
        self._pass(now_ms)
        if not self.samples or self.samples[-1].at_ms < now_ms:
            self.samples.append(self._sample(now_ms))

    def mean_use(self) -> dict[str, float]:
        """The part of each resource that was used over all of the time, between samples too."""
        return {
            f"mean_{name}_used_percent": 100 * self._used_over_time[name] / whole
            for name, whole in self._capacity_over_time.items()
            if whole
        }

    def _pass(self, now_ms: int) -> None:
        """Time has passed since the last look with what was used then."""
        hosts = self._cell_state.placement.hosts
        passed_ms, self._at_ms = now_ms - self._at_ms, now_ms
        if passed_ms:
            self._used_over_time.update({name: amount * passed_ms for name, amount in self._used.items()})
            self._capacity_over_time.update({name: amount * passed_ms for name, amount in self._capacity.items()})
        here, names = hosts.counts, hosts.kinds.names
        self._used = dict(zip(names, hosts.used[: len(names), here].sum(axis=1).tolist(), strict=True))
        self._capacity = dict(zip(names, hosts.capacity[: len(names), here].sum(axis=1).tolist(), strict=True))

    def host_ids(self) -> list[str]:
        """The hosts by their numbers."""
        return self._cell_state.placement.hosts.ids

    def needs(self) -> dict[str, PoolNeeds]:
        """By pool what its tasks use and request now, with those of the pools below it."""
        queues = self._cell_state.entitlement.queues
        arena = queues.arena
        needs = {path: PoolNeeds(queues.nothing, queues.nothing) for path in self.samples[-1].pools}
        open_tasks = np.flatnonzero((arena["queued"] != 0) | (arena["held"] > 0))
        for owner, slots in by(open_tasks, arena["owner"][open_tasks].astype(np.int64)):
            row = queues.jobs[queues.at[owner - 1]]
            usage = queues.total_need(row, slots[arena["placed"][slots] > 0])
            demand = queues.total_need(row, slots)
            for level in levels_of(row.pool):
                if level in needs:
                    before = needs[level]
                    needs[level] = PoolNeeds(add(before.usage, usage), add(before.demand, demand))
        return needs

    def _sample(self, now_ms: int) -> Sample:
        hosts, runs = self._cell_state.placement.hosts, self._cell_state.placement.runs
        queues = self._cell_state.entitlement.queues
        up = hosts.counts
        names = hosts.kinds.names
        capacity, used = hosts.capacity[: len(names), up], hosts.used[: len(names), up]
        running = int(np.count_nonzero(runs.arena["placed"]))
        waits = int(np.count_nonzero(runs.arena["waiting"])) + int(np.count_nonzero(queues.arena["queued"]))
        share = np.where(capacity > 0, 100 * used / np.maximum(capacity, 1), 0.0).max(axis=0, initial=0.0)
        by_host = np.full(len(up), ABSENT, dtype=np.uint8)
        by_host[up] = np.ceil(np.minimum(share, 100.0))
        pools = {path: row for path, row in self._cell_state.entitlement.shared.reported.items() if path != "/"}
        return Sample(
            at_ms=now_ms,
            names=queues.kinds.names,
            units=queues.kinds.units,
            used=self._used,
            capacity=self._capacity,
            running=running,
            waiting=waits,
            fragmentation=self._fragmentation(names, capacity, capacity - used),
            pools=pools,
            hosts=by_host,
            totals=self._totals(),
        )

    def _fragmentation(self, names: Sequence[str], capacity: I64, free: I64) -> float:
        """By the kind of GPUs that the cell has most of, by CPU where it has none."""
        totals = capacity.sum(axis=1).tolist()
        gpus = [at for at, name in enumerate(names) if is_gpu(name) and totals[at]]
        of = max(gpus, key=lambda at: (totals[at], -at), default=0)
        total = totals[of]
        shapes: dict[tuple[int, ...], int] = {}
        for row in self._cell_state.placement.runs.shapes.table.values():
            need = row.shape.need[: len(names)]
            shapes[need] = shapes.get(need, 0) + row.tasks
        common = sorted(shapes.items(), key=lambda item: (-item[1], item[0]))[:SHAPES_MAX]
        tasks = sum(count for _, count in common)
        if not total or not tasks:
            return 0.0
        lost = 0.0
        for need, count in common:
            fits = np.logical_and.reduce([free[at] >= want for at, want in enumerate(need)])
            lost += count / tasks * float(free[of][~fits].sum()) / total
        return lost
