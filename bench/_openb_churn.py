"""A day of openb in which tasks end: what waits, and how much of the GPUs is in use, by strategy.

Tasks are drawn from the pods of `default` that have run, with the times that they ran (a day at most), and come at
random at a rate by which they ask for a part of all GPUs on average. The cluster begins with tasks that run already,
each with some of its time behind it. A task that finds no host waits. When a task ends, those that wait are tried in
the order in which they came, and one that doesn't fit holds up none behind it.
"""

import heapq
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench import sized
from bench._openb import Cluster, cards, hosts, pods_with_seconds
from processors.placement.devices.mix import TaskShape

DAY_S = sized(86_400, 1_200)


class Arrival(NamedTuple):
    """A task that comes at a second and runs for so many."""

    at_s: float
    task: TaskShape
    run_s: float


def day(load_percent: int, seed: int) -> Iterator[Arrival]:
    """The tasks of a day, in the order in which they come; those at second 0 run already."""
    draw = random.Random(seed)
    pods = [(task, min(run_s, 86_400)) for task, run_s in pods_with_seconds() if run_s > 0]
    gpu_s = [task.number * task.milli / 1000 * run_s for task, run_s in pods]
    rate = load_percent / 100 * cards() * len(pods) / sum(gpu_s)
    running = round(rate * sum(run_s for _, run_s in pods) / len(pods))
    for task, run_s in draw.choices(pods, weights=[run_s for _, run_s in pods], k=running):
        yield Arrival(0, task, run_s * draw.random())
    at_s = draw.expovariate(rate)
    while at_s < DAY_S:
        task, run_s = draw.choice(pods)
        yield Arrival(at_s, task, run_s)
        at_s += draw.expovariate(rate)


class Day:
    """A day by a strategy."""

    def __init__(self, rule: int) -> None:
        self._cluster = Cluster([*hosts()], rule)
        self._waiting: dict[TaskShape, list[Arrival]] = {}
        """By shape, in the order in which they came; shapes in the order of the first that waits."""
        self._ends: list[tuple[float, int, TaskShape, int, list[int]]] = []
        self._starts = 0
        self.waited_gpu_s = 0.0
        self.used_gpu_s = 0.0
        self.asked_gpu_s = 0.0
        """Those in use if nothing had waited."""

    def play(self, arrivals: Iterable[Arrival]) -> None:
        """All of it."""
        for arrival in arrivals:
            self._end_until(arrival.at_s)
            self._cluster.arrive(arrival.task)
            self.asked_gpu_s += gpus(arrival.task) * (min(arrival.at_s + arrival.run_s, DAY_S) - arrival.at_s)
            if arrival.task in self._waiting or not self._start(arrival, arrival.at_s):
                self._waiting.setdefault(arrival.task, []).append(arrival)
        self._end_until(DAY_S)
        for some in self._waiting.values():
            self.waited_gpu_s += sum(gpus(each.task) * (DAY_S - each.at_s) for each in some)

    def _start(self, arrival: Arrival, at_s: float) -> bool:
        """Places a task; whether it has found a host."""
        place = self._cluster.place(arrival.task)
        if place is None:
            return False
        self._starts += 1
        self.waited_gpu_s += gpus(arrival.task) * (at_s - arrival.at_s)
        self.used_gpu_s += gpus(arrival.task) * (min(at_s + arrival.run_s, DAY_S) - at_s)
        heapq.heappush(self._ends, (at_s + arrival.run_s, self._starts, arrival.task, *place))
        return True

    def _end_until(self, until_s: float) -> None:
        """Ends tasks; those that wait may have the room."""
        while self._ends and self._ends[0][0] <= until_s:
            at_s, _, task, host, on_cards = heapq.heappop(self._ends)
            self._cluster.board.put(task, host, on_cards, -1)
            while next_ := self._first_that_fits(host):
                self._start(next_, at_s)

    def _first_that_fits(self, host: int) -> Arrival | None:
        """The first of those that wait for which a host has room: no other has more than before."""
        fitting = [task for task in self._waiting if self._cluster.fits(task, host)]
        if not fitting:
            return None
        task = min(fitting, key=lambda each: self._waiting[each][0].at_s)
        first = self._waiting[task].pop(0)
        if not self._waiting[task]:
            del self._waiting[task]
        return first


def gpus(task: TaskShape) -> float:
    """The GPUs that a task takes."""
    return task.number * task.milli / 1000


def figures(rule: int, load_percent: int, seed: int) -> dict[str, float]:
    """The GPU-hours waited for, and the GPUs in use in percent of all, on average; and what was asked for."""
    one = Day(rule)
    one.play(day(load_percent, seed))
    whole = cards() * DAY_S / 100
    return {
        "waiting_gpu_h": one.waited_gpu_s / 3600,
        "allocation_percent": one.used_gpu_s / whole,
        "asked_percent": one.asked_gpu_s / whole,
    }
