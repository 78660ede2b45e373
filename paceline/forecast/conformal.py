"""Quantiles that are right as often as they say: widened by how far earlier ones were missed (decision 128)."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from events.forecasts import LEVELS

SPREAD_MIN_MS = 1000.0
"""A side of an interval counts as at least so wide."""


class Quantiles(NamedTuple):
    """Quantiles of a wait in milliseconds, at `LEVELS`."""

    low: float
    median: float
    high: float


class Window:
    """The last numbers of a row, sorted."""

    def __init__(self, size: int, values: Sequence[float] = ()) -> None:
        self._size = size
        self._order: deque[float] = deque(values)
        self._sorted: list[float] = sorted(values)

    def __len__(self) -> int:
        return len(self._order)

    def add(self, value: float) -> None:
        """Takes the next one; the oldest leaves."""
        if len(self._order) == self._size:
            old = self._order.popleft()
            del self._sorted[bisect_left(self._sorted, old)]
        self._order.append(value)
        insort(self._sorted, value)

    def dump(self) -> list[float]:
        """The numbers, the oldest first."""
        return list(self._order)

    def quantile(self, level: float) -> float:
        """A quantile of them, between two of them by their distance. Raises `IndexError` where there are none."""
        return quantile(self._sorted, level)


def quantile(values: Sequence[float], level: float) -> float:
    """The quantile of sorted numbers of which `level` (n + 1) are smaller, between two of them by the distance."""
    at = min(max(level * (len(values) + 1) - 1, 0.0), len(values) - 1.0)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def quantiles(values: Sequence[float]) -> Quantiles:
    """The three quantiles of some numbers."""
    ordered = sorted(values)
    return Quantiles(*(quantile(ordered, level) for level in LEVELS))


def missed(raw: Quantiles, actual: float) -> float:
    """The distance of a wait from the middle, in widths of that side of the interval: 1 is its edge."""
    below = (raw.median - actual) / max(SPREAD_MIN_MS, raw.median - raw.low)
    above = (actual - raw.median) / max(SPREAD_MIN_MS, raw.high - raw.median)
    return max(below, above)


def widened(raw: Quantiles, factor: float) -> Quantiles:
    """The interval so many times as wide, on both sides of its middle; no wait is shorter than none."""
    return Quantiles(
        max(0.0, raw.median - factor * max(SPREAD_MIN_MS, raw.median - raw.low)),
        max(0.0, raw.median),
        max(0.0, raw.median + factor * max(SPREAD_MIN_MS, raw.high - raw.median)),
    )


def mean(first: Quantiles, second: Quantiles) -> Quantiles:
    """The mean of two forecasts, quantile by quantile."""
    return Quantiles(*((one + other) / 2 for one, other in zip(first, second, strict=True)))
