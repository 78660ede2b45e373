"""Lets a machine rest: where nothing was to be decided, nothing is before something is applied or a time comes."""

from collections.abc import Callable

from events.records.base import Event


class Rest:
    """Only saves work. `find`: looks for the next time at which something is to be decided; None: there is none."""

    def __init__(self, find: Callable[[], int | None]) -> None:
        self._find = find
        self._rests = False
        self._next: tuple[int | None] | None = None
        """The next time, where it was looked for since something was last applied or decided."""

    def disturb(self) -> None:
        """Something was applied that the machine goes by."""
        self._rests, self._next = False, None

    def next_ms(self) -> int | None:
        """The next time at which something is to be decided."""
        if self._next is None:
            self._next = (self._find(),)
        return self._next[0]

    def lasts(self, now: int) -> bool:
        """Whether nothing is to be decided now."""
        if not self._rests:
            return False
        at = self.next_ms()
        return at is None or at > now

    def decided(self, out: list[Event], whole: bool) -> list[Event]:
        """What was decided, once all was looked at; `whole`: with all that there is and the time."""
        self._rests, self._next = whole and not out, None
        return out
