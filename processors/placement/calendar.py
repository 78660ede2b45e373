"""Since when tasks wait, in whole seconds (see `seconds.py`): who has waited for how long, and when the next will."""

from bisect import bisect_right, insort

import numpy as np

from events.columns import I64, distinct
from processors.state.arena import Arena

SWEPT_FROM = 4096
"""Fewer are not worth looking for those that wait no more."""


class Calendar:
    """The tasks that wait at one rank, by the second in the column `since`. Kept up with what begins to wait; what
    waits no more is dropped when it is met.
    """

    def __init__(self, arena: Arena, rank: int) -> None:
        self._arena = arena
        self._rank = rank
        self._times: list[int] = []
        self._slots: dict[int, list[I64]] = {}
        self._noted = 0
        self._left = 0

    def clear(self) -> None:
        """Nothing waits."""
        self._times.clear()
        self._slots.clear()
        self._noted = self._left = 0

    def note(self, slots: I64) -> None:
        """Tasks of this rank wait; their columns are set."""
        since = self._arena["since"][slots]
        for at in distinct(since).tolist():
            if at not in self._slots:
                insort(self._times, at)
            self._slots.setdefault(at, []).append(slots[since == at])
        self._noted += len(slots)
        if self._noted > 2 * self._left + SWEPT_FROM:
            self._sweep()

    def until(self, second: int) -> I64:
        """The slots of those that wait since that second or longer, ascending."""
        times = self._times[: bisect_right(self._times, second)]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *map(self._waiting, times)]))

    def after(self, second: int = 0) -> int | None:
        """The first later second since when some wait."""
        at = bisect_right(self._times, second)
        while at < len(self._times):
            if len(self._waiting(self._times[at])):
                return self._times[at]
            del self._slots[self._times.pop(at)]
        return None

    def _sweep(self) -> None:
        """Drops what waits no more, when that may be the larger part."""
        for at in [at for at in self._times if not len(self._waiting(at))]:
            self._times.remove(at)
            del self._slots[at]
        self._noted = self._left = sum(len(parts[0]) for parts in self._slots.values())

    def _waiting(self, at: int) -> I64:
        slots, arena = distinct(np.concatenate(self._slots[at])), self._arena
        still = (arena["waiting"][slots] > 0) & (arena["since"][slots] == at) & (arena["entitled"][slots] == self._rank)
        self._slots[at] = [slots[still]]
        return self._slots[at][0]
