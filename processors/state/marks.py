"""Marks: which consumer must look again at which keys, since something has changed for these.

Whoever changes something touches its key, once for all consumers, and knows none of them. A consumer takes its marks
when it has looked, all at once or one by one. A consumer whose answer depends on other places (the levels above a pool)
watches them: what happens there touches the key, once.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar


class Ordered(Protocol):
    """A key that can be sorted."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


C = TypeVar("C", bound=Enum)
K = TypeVar("K", bound=Ordered)


class Marks(Generic[C, K]):
    """The marks of some consumers, in memory only: a machine that was restored marks all keys.

    Invariant: a key that changed since a consumer looked at it is marked for that consumer. The order in which keys
    were marked means nothing: consumers sort them, so that a restored machine decides as one that has run on.
    """

    def __init__(self, consumers: type[C], touched: Iterable[C]) -> None:
        self._of: dict[C, dict[K, None]] = {consumer: {} for consumer in consumers}
        self._touched = tuple(self._of[consumer] for consumer in touched)
        """The marks of those consumers that look at each change."""
        self._watches: dict[K, dict[K, None]] = {}
        self._watches_of: dict[K, dict[tuple[C, K], None]] = {}

    def clear(self) -> None:
        """Forgets all marks and watches."""
        for marks in self._of.values():
            marks.clear()
        self._watches.clear()
        self._watches_of.clear()

    def touch(self, key: K) -> None:
        """Something has changed for a key: it is marked for all consumers that look at each change."""
        for marks in self._touched:
            marks[key] = None

    def of(self, consumer: C) -> dict[K, None]:
        """The keys that are marked for a consumer. It is the same dictionary for good: a consumer keeps it, marks keys
        for itself there and removes them one by one.
        """
        return self._of[consumer]

    def mark(self, consumer: C, keys: Iterable[K]) -> None:
        """Marks keys for one consumer."""
        self._of[consumer].update(dict.fromkeys(keys))

    def take(self, consumer: C) -> list[K]:
        """The keys that are marked for a consumer, in their order; they are marked no more."""
        marks = self._of[consumer]
        keys = sorted(marks)
        marks.clear()
        return keys

    # What depends on other places.

    def watch(self, key: K, places: Iterable[K], consumer: C | None = None) -> None:
        """The next thing that happens at one of these places touches a key, or marks it for one consumer."""
        for place in places:
            if consumer is None:
                self._watches.setdefault(place, {})[key] = None
            else:
                self._watches_of.setdefault(place, {})[consumer, key] = None

    def happen(self, places: Iterable[K]) -> None:
        """Something happened at these places."""
        if not self._watches and not self._watches_of:
            return
        for place in places:
            for consumer, key in self._watches_of.pop(place, ()):
                self._of[consumer][key] = None
            for key in self._watches.pop(place, ()):
                self.touch(key)
