"""Deadlines: the times at which something is to be decided though nothing is heard.

A machine wakes at the first of its deadlines. Each kind of them is an index by key, kept up with the rows that it is
derived from, or a function that finds the next one. Kinds of single tasks are columns (`processors/state/calendar.py`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from sortedcontainers import SortedList

K = TypeVar("K", bound=Hashable)


class Deadline(NamedTuple):
    """One kind of deadlines of a machine."""

    name: str
    next_ms: Callable[[], int | None]
    """The next time of this kind, in logical milliseconds; None: there is none."""


def earliest(*times: int | None) -> int | None:
    """The first of some times; None: there is none."""
    first = None
    for at in times:
        if at is not None and (first is None or at < first):
            first = at
    return first


class Deadlines(Generic[K]):
    """The deadlines of one kind: a time for each key that has one, in logical milliseconds. Those of one time stand in
    the order of their keys, so that a restored machine sees them as one that has run on.
    """

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._order: SortedList[Any] = SortedList()

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._at)

    def __iter__(self) -> Iterator[K]:
        """The keys, in no order that means anything."""
        return iter(self._at)

    def get(self, key: K) -> int | None:
        """The time of a key."""
        return self._at.get(key)

    def set(self, key: K, at: int | None) -> None:
        """Gives a key another time; None: no time any more."""
        before = self._at.get(key)
        if before == at:
            return
        if before is not None:
            self._order.remove((before, key))
        if at is None:
            del self._at[key]
        else:
            self._at[key] = at
            self._order.add((at, key))

    def clear(self, key: K) -> None:
        """Takes the time from a key, if it has one."""
        before = self._at.pop(key, None)
        if before is not None:
            self._order.remove((before, key))

    def restore(self, times: Iterable[tuple[K, int]]) -> None:
        """Sets the times of these keys, and of no others."""
        self._at = dict(times)
        self._order = SortedList((at, key) for key, at in self._at.items())

    def due(self, until: int, after: int = -1) -> list[K]:
        """The keys whose times are later than one and not later than another, in their order."""
        return [key for _, key in self._order.irange((after + 1,), (until + 1,))] if self._order else []

    def upcoming(self, after: int) -> Iterator[tuple[int, K]]:
        """The times later than one with their keys, in their order."""
        return iter(self._order.irange((after + 1,)))

    def first(self, after: int = -1) -> int | None:
        """The first time later than one; None: there is none."""
        if not self._order or self._order[-1][0] <= after:
            return None
        at: int = next(self._order.irange((after + 1,)))[0]
        return at
