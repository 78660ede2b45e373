"""Answers of a gateway that wait until its facts are in the log."""

from collections import deque
from collections.abc import Callable

from events.log.ahead import AheadLog

Call = Callable[[], None]


class Answers:
    """Called in their order. `ahead`: facts are written there; None: to a log where they are durable at once."""

    def __init__(self, ahead: AheadLog | None) -> None:
        self._ahead = ahead
        self.waiting = False
        """Whether there are any."""
        self._next: list[Call] = []
        self._settling: deque[tuple[int, list[Call]]] = deque()
        """Those that wait until a mark of the log is durable."""

    def add(self, call: Call) -> None:
        """Takes an answer to facts that are still to be written."""
        self._next.append(call)
        self.waiting = True

    def give(self) -> bool:
        """Calls all whose facts are durable, once all facts so far are written; returns whether there was one."""
        if self._next:
            self._settling.append((self._ahead.mark() if self._ahead is not None else 0, self._next))
            self._next = []
        some = False
        while self._settling and (self._ahead is None or self._ahead.is_durable(self._settling[0][0])):
            for call in self._settling.popleft()[1]:
                call()
            some = True
        self.waiting = bool(self._settling)
        return some
