"""FGD as it was published, in floats and with the mix known beforehand: what the strategies are compared with.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC
2023, and its artefact. Sums are added up by category, as there: the score has 101 steps, and the last digit of a sum
decides between two of them. The score of a host is kept until the host changes.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np

from bench._openb import Arrivals
from events.columns import I64
from processors.placement.devices.mix import TaskShape

TYPICAL = 0.95
njit: Any = numba.njit


def typical(pods: tuple[TaskShape, ...]) -> list[tuple[TaskShape, float]]:
    """The commonest pods, whatever memory they ask for, that make up 95 % of all, and their parts of those."""
    counts = Counter(pod._replace(memory=0) for pod in pods)
    ordered = sorted(counts, key=lambda pod: (counts[pod], pod.cpu, pod.milli, pod.number, pod.models), reverse=True)
    commonest, total = [], 0
    for pod in ordered:
        if total >= TYPICAL * len(pods):
            break
        commonest.append(pod)
        total += counts[pod]
    return [(pod, counts[pod] / total) for pod in commonest]


class Fgd:
    """A cluster on which pods are placed."""

    def __init__(self, arrivals: Arrivals, pods: tuple[TaskShape, ...]) -> None:
        hosts = arrivals.hosts
        self._models = {model: number for number, model in enumerate(sorted({host.model for host in hosts}))}
        self._cpu = np.array([host.cpu for host in hosts])
        self._memory = np.array([host.memory for host in hosts])
        self._cards = np.array([[1000 * (card < host.cards) for card in range(8)] for host in hosts])
        self._model = np.array([1 << self._models[host.model] for host in hosts])
        self._version = np.zeros(len(hosts), dtype=np.int64)
        mix = typical(pods)
        self._mix = np.array([self._row(pod) for pod, _ in mix])
        self._parts = np.array([part for _, part in mix])
        self._fragments = np.zeros(len(hosts))
        for host in range(len(hosts)):
            self._fragments[host] = _fragments(self._cpu[host], self._cards[host], self._model[host], *self._of_mix)
        self._scores: dict[TaskShape, tuple[I64, I64]] = {}
        self._clock = 0

    def place_all(self, tasks: list[TaskShape]) -> Iterator[bool]:
        """Places pods; whether each found a host."""
        for task in tasks:
            yield self._place(task)

    @property
    def _of_mix(self) -> tuple[I64, Any]:
        return self._mix, self._parts

    def _place(self, task: TaskShape) -> bool:
        row = np.array(self._row(task))
        scores, seen = self._scores.setdefault(task, (np.zeros(len(self._cpu), dtype=np.int64), np.full(1, -1)))
        columns = self._cpu, self._memory, self._cards, self._model
        host = _best(*columns, self._version, self._fragments, *self._of_mix, row, scores, seen, self._clock)
        if host < 0:
            return False
        card = _score(*(column[host] for column in columns), self._fragments[host], *self._of_mix, row)[1]
        self._cpu[host] -= task.cpu
        self._memory[host] -= task.memory
        idle = np.flatnonzero(self._cards[host] == 1000)[: task.number]
        self._cards[host, idle if task.milli == 1000 else [card] * task.number] -= task.milli
        self._fragments[host] = _fragments(self._cpu[host], self._cards[host], self._model[host], *self._of_mix)
        self._clock += 1
        self._version[host] = self._clock
        return True

    def _row(self, pod: TaskShape) -> list[int]:
        models = sum(1 << self._models[model] for model in pod.models if model in self._models)
        return [pod.cpu, pod.memory, pod.number, pod.milli, models if pod.models else (1 << 62) - 1]


@njit(cache=False)
def _fragments(cpu: int, cards: I64, model: int, mix: I64, parts: Any) -> float:
    """The free thousandths of a host that the mix can't use, weighed by its parts. Categories: what lacks both, lacks
    GPU, (is usable,) lacks CPU, is of no use for pods without GPU that fit or don't, is of the wrong model.
    """
    sums = np.zeros(7)
    free = cards.sum()
    for m in range(len(mix)):
        need, number, milli = mix[m, 0], mix[m, 2], mix[m, 3]
        if number == 0:
            sums[4 if cpu >= need else 5] += parts[m] * free
        elif (mix[m, 4] & model) == 0:
            sums[6] += parts[m] * free
        else:
            fits, small = 0, 0
            for card in range(len(cards)):
                if cards[card] >= milli:
                    fits += 1
                else:
                    small += cards[card]
            if fits < number:
                sums[1 if cpu >= need else 0] += parts[m] * free
            elif cpu < need:
                sums[3] += parts[m] * free
            else:
                sums[1] += parts[m] * small
    return sums[0] + sums[1] + sums[3] + sums[4] + sums[5] + sums[6]


@njit(cache=False)
def _score(
    cpu: int, memory: int, cards: I64, model: int, before: float, mix: I64, parts: Any, row: I64
) -> tuple[int, int]:
    """The score of a host, 0 to 100, and the card; -1: it has no room."""
    if cpu < row[0] or memory < row[1] or (row[2] and (row[4] & model) == 0):
        return -1, -1
    after = cards.copy()
    if row[2] == 0 or row[3] == 1000:
        more = row[2]
        for card in range(len(cards)):
            if more and cards[card] == 1000:
                after[card] = 0
                more -= 1
        if more:
            return -1, -1
        return _steps(before - _fragments(cpu - row[0], after, model, mix, parts)), -1
    best, where = -1, -1
    for card in range(len(cards)):
        if cards[card] >= row[3]:
            after[card] -= row[3]
            score = _steps(before - _fragments(cpu - row[0], after, model, mix, parts))
            after[card] += row[3]
            if score > best:
                best, where = score, card
    return best, where


@njit(cache=False)
def _steps(gain: float) -> int:
    return int(100.0 / (1.0 + math.exp(-gain / 1000.0)))


@njit(cache=False)
def _best(
    cpu: I64,
    memory: I64,
    cards: I64,
    model: I64,
    version: I64,
    fragments: Any,
    mix: I64,
    parts: Any,
    row: I64,
    scores: I64,
    seen: I64,
    clock: int,
) -> int:
    best, host = -1, -1
    for h in range(len(cpu)):
        if version[h] > seen[0]:
            scores[h] = _score(cpu[h], memory[h], cards[h], model[h], fragments[h], mix, parts, row)[0]
        if scores[h] > best:
            best, host = scores[h], h
    seen[0] = clock
    return host
