"""Numbers of rows in the order in which they came."""

from collections.abc import Callable, Iterable


class SequenceNumbers:
    """Gives each new row the number after the highest in use. The number depends only on the rows that exist, so a
    restored machine continues alike: when the row with the highest number is removed, its number is used again.
    """

    def __init__(self, used: Callable[[], Iterable[int]]) -> None:
        self._used = used
        self._next: int | None = None
        """None: not known yet."""

    def restored(self) -> None:
        """The rows were loaded."""
        self._next = None

    def take(self) -> int:
        """The number of the next row; add that row before taking another number."""
        if self._next is None:
            self._next = max(self._used(), default=0) + 1
        self._next += 1
        return self._next - 1

    def give_back(self, number: int) -> None:
        """A row was removed."""
        if self._next is not None and number == self._next - 1:
            self._next = None
