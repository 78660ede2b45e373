"""Deadlines of single tasks: a column of whole seconds (`seconds.py`), and which of its slots are next.

No object stands for a task: the slots of one second are an array, and the column stays the truth. An entry whose slot
has another second by then, or doesn't count any more, is dropped when it is met.
"""

from bisect import bisect_right, insort
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from events.columns import I64, distinct
from processors.state.arena import Arena

SWEPT_FROM = 4096
"""Fewer entries are not worth looking for those that don't count any more."""
NOBODY: I64 = np.zeros(0, dtype=np.int64)


class Calendar:
    """The slots by the second in a column; `counts` tells of slots which ones count now. A slot that counts again after
    it didn't is to be noted again.
    """

    def __init__(self, arena: Arena, column: str, counts: Callable[[I64], NDArray[np.bool_]]) -> None:
        self._arena = arena
        self._column = column
        self._counts = counts
        self._times: list[int] = []
        self._slots: dict[int, list[I64]] = {}
        self._noted = 0
        self._remaining = 0

    def clear(self) -> None:
        """Forgets all slots."""
        self._times.clear()
        self._slots.clear()
        self._noted = self._remaining = 0

    def note(self, slots: I64) -> None:
        """Takes slots whose column was set."""
        if self._noted > 2 * self._remaining + SWEPT_FROM:
            self._sweep()  # before they are taken: they count
        seconds = self._arena[self._column][slots]
        for at in distinct(seconds).tolist():
            if at not in self._slots:
                insort(self._times, at)
                self._slots[at] = []
            self._slots[at].append(slots[seconds == at])
        self._noted += len(slots)

    def due(self, second: int) -> I64:
        """The slots of that second and of those before it, ordered by second."""
        if not self._times or self._times[0] > second:
            return NOBODY
        end = bisect_right(self._times, second)
        slots = {at: self._current(at) for at in self._times[:end]}
        self._times[:end] = [at for at in slots if len(slots[at])]
        for at in slots:
            if not len(slots[at]):  # a replay, which doesn't ask what is later, meets it here alone
                del self._slots[at]
        return np.concatenate([NOBODY, *slots.values()])

    def until(self, second: int) -> I64:
        """The same slots, ascending."""
        return np.sort(self.due(second))

    def after(self, second: int = 0) -> int | None:
        """The first later second of a slot that counts."""
        at = bisect_right(self._times, second)
        while at < len(self._times):
            if self._any_counts(self._times[at]):
                return self._times[at]
            del self._slots[self._times.pop(at)]
        return None

    def _any_counts(self, at: int) -> bool:
        """Looks at the latest first, at more and more of them, and drops those that it meets before one that counts: a
        slot is seldom looked at again, however many share the second.
        """
        parts, column = self._slots[at], self._arena[self._column]
        while parts:
            slots, size = parts.pop(), 1
            while len(slots):
                latest = slots[-size:]
                if ((column[latest] == at) & self._counts(latest)).any():
                    parts.append(slots)
                    return True
                slots, size = slots[:-size], 2 * size
        return False

    def _sweep(self) -> None:
        """Drops entries that don't count, when they may be the larger part."""
        for at in [at for at in self._times if not len(self._current(at))]:
            self._times.remove(at)
            del self._slots[at]
        self._noted = self._remaining = sum(len(parts[0]) for parts in self._slots.values())

    def _current(self, at: int) -> I64:
        slots = distinct(np.concatenate(self._slots[at]))
        self._slots[at] = [slots[self._counts(slots) & (self._arena[self._column][slots] == at)]]
        return self._slots[at][0]
