"""An index that finds the slots of each host in a column over tasks without a scan (decision 030).

The column is the truth and this is an index of it: entries (host, slot) are added when slots get a host and are checked
against the column when they are looked up, so nothing is to be done when a run ends. They stand in a few sorted levels,
each at least twice as long as the next, merged as entries come: adding costs a few nanoseconds per entry and level,
looking up a host costs what it has. What is found depends on the column alone.
"""

from collections.abc import Callable

import numpy as np

from events.columns import I32, I64, distinct, once, spread

UNSORTED_MAX = 1 << 16
"""Entries that are collected before they are sorted, unless somebody looks up."""
SLOT_BITS = 32
SLOT = (1 << SLOT_BITS) - 1


class RunsByHost:
    """The index of slots by host. `host_of` gives the numbers of the hosts of slots, from 0; below 0: none."""

    def __init__(self, host_of: Callable[[I64], I64 | I32]) -> None:
        self._host_of = host_of
        self._unsorted: list[I64] = []
        self._count = 0
        self._levels: list[I64] = []

    def restored(self, slots: I64) -> None:
        """Starts over with all slots that have a host."""
        self._levels, self._unsorted, self._count = [], [], 0
        self.add(slots)

    def add(self, slots: I64) -> None:
        """These slots have another host now."""
        self._unsorted.append(slots)
        self._count += len(slots)
        if self._count > UNSORTED_MAX:
            self._sort()

    def of(self, hosts: I64) -> I64:
        """The slots of these hosts, ascending."""
        self._sort()
        entries = [_between(level, hosts << SLOT_BITS, (hosts + 1) << SLOT_BITS) for level in self._levels]
        return distinct(self._current(np.concatenate(entries)) & SLOT) if entries else np.zeros(0, dtype=np.int64)

    def _sort(self) -> None:
        if not self._count:
            return
        slots = np.concatenate(self._unsorted)
        self._unsorted, self._count = [], 0
        hosts = self._host_of(slots).astype(np.int64)
        keys = distinct(((hosts << SLOT_BITS) | slots)[hosts >= 0])
        while self._levels and len(self._levels[-1]) < 2 * len(keys):
            both = np.concatenate((self._current(self._levels.pop()), keys))
            keys = once(np.sort(both, kind="stable"))  # which merges what is sorted in two parts
        if len(keys):
            self._levels.append(keys)

    def _current(self, keys: I64) -> I64:
        """The entries that still hold."""
        current: I64 = keys[self._host_of(keys & SLOT) == keys >> SLOT_BITS]
        return current


def _between(level: I64, low: I64, high: I64) -> I64:
    """The entries of a level that are within any of some ranges."""
    first, end = level.searchsorted(low), level.searchsorted(high)
    if len(low) == 1:
        return level[int(first[0]) : int(end[0])]
    between: I64 = level[spread(first, end - first)]
    return between
