"""Since when tasks are what they are, in whole seconds (see `seconds.py`): for how long, and who is the next."""

from bisect import bisect_right, insort
from collections.abc import Callable

import numpy as np

from events.columns import I64, distinct
from processors.placement.packing import Mask
from processors.state.arena import Arena

SWEPT_FROM = 4096
"""Fewer are not worth looking for those that are it no more."""


class Calendar:
    """The tasks that are something, by the second in a column; `still` says which of those at slots are. Kept up with
    what begins to be; what is it no more is dropped when it is met.
    """

    def __init__(self, arena: Arena, column: str, still: Callable[[I64], Mask]) -> None:
        self._arena = arena
        self._column = column
        self._still = still
        self._times: list[int] = []
        self._slots: dict[int, list[I64]] = {}
        self._noted = 0
        self._left = 0

    def clear(self) -> None:
        """Nothing is it."""
        self._times.clear()
        self._slots.clear()
        self._noted = self._left = 0

    def note(self, slots: I64) -> None:
        """Tasks are it; their columns are set."""
        since = self._arena[self._column][slots]
        for at in distinct(since).tolist():
            if at not in self._slots:
                insort(self._times, at)
            self._slots.setdefault(at, []).append(slots[since == at])
        self._noted += len(slots)
        if self._noted > 2 * self._left + SWEPT_FROM:
            self._sweep()

    def until(self, second: int) -> I64:
        """The slots of those that are it since that second or longer, ascending."""
        times = self._times[: bisect_right(self._times, second)]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *map(self._current, times)]))

    def after(self, second: int = 0) -> int | None:
        """The first later second since when some are it."""
        at = bisect_right(self._times, second)
        while at < len(self._times):
            if len(self._current(self._times[at])):
                return self._times[at]
            del self._slots[self._times.pop(at)]
        return None

    def _sweep(self) -> None:
        """Drops what is it no more, when that may be the larger part."""
        for at in [at for at in self._times if not len(self._current(at))]:
            self._times.remove(at)
            del self._slots[at]
        self._noted = self._left = sum(len(parts[0]) for parts in self._slots.values())

    def _current(self, at: int) -> I64:
        slots = distinct(np.concatenate(self._slots[at]))
        self._slots[at] = [slots[self._still(slots) & (self._arena[self._column][slots] == at)]]
        return self._slots[at][0]
