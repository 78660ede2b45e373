"""The mix of tasks that is expected, learned from those that have come (decision 106).

The last GPU tasks, in windows, are what may be offered to a host next; how often each shape has come says how much a
card is worth on which it could go. Both are refreshed at fixed numbers of arrivals, and stand in a row in between, so
that a replay has them at the same place.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from events.columns import I32, I64
from processors.placement.devices.columns import MIX_MAX, WHOLE, WINDOW, WINDOWS

RECENT = WINDOWS * WINDOW
"""The GPU tasks that are remembered one by one."""
STRIDE, TURN = 7919, 13
"""By which they are dealt into windows: a prime, so that each window has tasks of all times."""
FIRST = (0, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
EVERY = 512
"""The mix is refreshed at these numbers of arrivals, then whenever so many more have come."""
COUNTED = 1 << 14
"""When so many were counted all counts are halved: what comes no more is forgotten."""
GANGS = (2, 4, 8)
"""Whole cards of any model that are expected from the first."""
EXCESS_BITS, EXCESS_MAX = 16, 1000
TOLERANCE = (1 << EXCESS_BITS) // 5
"""A fifth: the cards for a shape of one card aren't scarce while they are that much fewer at most."""
WEIGHT_BITS = 20
TYPICAL_PERCENT = 95
"""The commonest shapes that make up so much are typical."""


class TaskShape(NamedTuple):
    """CPU in thousandths, memory in MiB, cards, thousandths of each, and the models that they may be of; none: any."""

    cpu: int
    memory: int
    number: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()


class MixRow(msgspec.Struct, array_like=True):
    """The mix as it was learned. Shapes have numbers, their places."""

    shapes: list[TaskShape] = []
    counts: list[int] = []
    total: int = 0
    """The tasks counted, those without GPU too."""
    arrived: int = 0
    refreshed_at: int = -1
    """The arrivals at the last refresh; -1: there was none."""
    recent: bytes = b""
    """The numbers of the shapes of the last GPU tasks, four bytes each."""
    offers: bytes = b""
    """The same as of the last refresh."""
    weights: list[int] = []
    """The worth of a usable thousandth since then, by shape; shapes that came later have none yet."""
    expected: list[tuple[TaskShape, int]] = []
    """The same for shapes that are expected from the first."""
    typical: list[int] = []
    """The counts of the typical shapes at the last refresh, 0 for the others."""
    typical_total: int = 0
    """The tasks of typical shapes, with those without GPU."""


class Mix:
    """A row with what is derived from it."""

    def __init__(self, row: MixRow) -> None:
        self.row = row
        self._numbers = {shape: number for number, shape in enumerate(row.shapes)}

    def seen(self, shape: TaskShape, tasks: int = 1) -> None:
        """So many tasks of a shape have arrived."""
        row = self.row
        row.arrived += tasks
        row.total += tasks
        if shape.number:
            number = self._numbers.get(shape)
            if number is None:
                number = self._numbers[shape] = len(row.shapes)
                row.shapes.append(shape)
                row.counts.append(0)
            row.counts[number] += tasks
            row.recent = (row.recent + number.to_bytes(4, "little") * min(tasks, RECENT))[-4 * RECENT :]
        while row.total >= COUNTED:
            self._forget()

    def _forget(self) -> None:
        """Halves the counts; shapes that are named nowhere any more go, and the others have other numbers."""
        row = self.row
        halved = [count // 2 for count in row.counts]
        recent, offers = _numbers_in(row.recent), _numbers_in(row.offers)
        in_use = {*recent.tolist(), *offers.tolist()}
        keep = [number for number, count in enumerate(halved) if count or number in in_use]
        renumbered = np.zeros(max(len(halved), 1), dtype="<i4")
        renumbered[keep] = np.arange(len(keep))
        row.recent, row.offers = renumbered[recent].tobytes(), renumbered[offers].tobytes()
        row.weights = [row.weights[number] for number in keep if number < len(row.weights)]
        row.typical = [row.typical[number] for number in keep if number < len(row.typical)]
        row.shapes = [row.shapes[number] for number in keep]
        row.counts = [halved[number] for number in keep]
        row.total //= 2
        self._numbers = {shape: number for number, shape in enumerate(row.shapes)}

    @property
    def is_due(self) -> bool:
        """Whether the mix is to be refreshed before the next task is placed."""
        last = self.row.refreshed_at
        return self.row.arrived >= next((mark for mark in FIRST if mark > last), (last // EVERY + 1) * EVERY)

    def refresh(self, models: Sequence[str], usable: Callable[[Sequence[TaskShape]], Sequence[int]]) -> None:
        """Refreshes the mix. `models`: those of the cell's cards; `usable`: the thousandths that are free in the cell
        where a task of each shape could go.
        """
        row = self.row
        row.refreshed_at = row.arrived
        row.offers = row.recent
        expected = [TaskShape(0, 0, 1, WHOLE, (model,)) for model in models]
        expected += [TaskShape(0, 0, number, WHOLE) for number in GANGS]
        room = MIX_MAX - len(expected)
        commonest = sorted(range(len(row.shapes)), key=lambda number: (-row.counts[number], number))[:room]
        shapes = [*expected, *(row.shapes[number] for number in commonest)]
        counts = [1] * len(expected) + [row.counts[number] for number in commonest]
        sums = usable(shapes)
        most = max(sums, default=0)
        weights = [self._weight(*each, most) for each in zip(shapes, counts, sums, strict=True)]
        row.expected = list(zip(expected, weights, strict=False))
        row.weights = [0] * len(row.shapes)
        for number, weight in zip(commonest, weights[len(expected) :], strict=True):
            row.weights[number] = weight
        self._choose_typical(commonest)

    def _weight(self, shape: TaskShape, count: int, room: int, most: int) -> int:
        """The share of a shape in the mix, times how much scarcer than others the cards are where it could go. Where no
        host has room now, the next one that comes free is kept for it.
        """
        tolerance = TOLERANCE if shape.number == 1 else 0
        scarcer = min(EXCESS_MAX << EXCESS_BITS, (most << EXCESS_BITS) // max(room, 1))
        excess = max(0, scarcer - (1 << EXCESS_BITS) - tolerance)
        return ((count * excess) << (WEIGHT_BITS - EXCESS_BITS)) // (self.row.total + 1)

    def _choose_typical(self, commonest: Sequence[int]) -> None:
        row = self.row
        with_gpu = sum(row.counts)
        row.typical = [0] * len(row.shapes)
        typical_tasks = 0
        for number in commonest:
            if 100 * typical_tasks >= TYPICAL_PERCENT * with_gpu:
                break
            row.typical[number] = row.counts[number]
            typical_tasks += row.counts[number]
        row.typical_total = typical_tasks + row.total - with_gpu

    def offers(self) -> list[TaskShape]:
        """The tasks of the windows, those of one after another."""
        recent = _numbers_in(self.row.offers)
        if not len(recent):
            return []
        return [self.row.shapes[number] for number in recent[_dealt(len(recent))].tolist()]

    def scarce(self) -> list[tuple[TaskShape, int]]:
        """The shapes whose cards are scarce, and the weights of a usable thousandth, in 2^-20."""
        row = self.row
        seen = zip(row.shapes, row.weights, strict=False)
        return [(shape, weight) for shape, weight in (*row.expected, *seen) if weight]

    def typical(self) -> list[tuple[TaskShape, int]]:
        """The typical shapes and how often they have come."""
        return [(shape, count) for shape, count in zip(self.row.shapes, self.row.typical, strict=False) if count]


def _numbers_in(numbers: bytes) -> I32:
    return np.frombuffer(numbers, dtype="<i4")


def _dealt(seen: int) -> I64:
    """The places of the offers in the last tasks, window after window."""
    order = np.arange(RECENT)
    return (STRIDE * order + TURN * (order // seen)) % seen
