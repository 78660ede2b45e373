"""Numbers of rows in the order in which they came."""

from collections.abc import Callable, Iterable


class SequenceNumbers:
    """Gives each new row a number above those that are there. Which one it is depends on nothing but what is there, so
    a restored machine goes on alike: when the newest has gone its number is given again.
    """

    def __init__(self, there: Callable[[], Iterable[int]]) -> None:
        self._there = there
        self._next: int | None = None
        """None: to be found out."""

    def restored(self) -> None:
        """What is there was loaded."""
        self._next = None

    def take(self) -> int:
        """The number of the next row, which is to be put before another is asked for."""
        if self._next is None:
            self._next = max(self._there(), default=0) + 1
        self._next += 1
        return self._next - 1

    def give_back(self, number: int) -> None:
        """A row has gone."""
        if self._next is not None and number == self._next - 1:
            self._next = None
