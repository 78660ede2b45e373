"""Work that waits for the disk and that nobody waits for, in a thread of its own."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]
Later = Callable[[Work], None]
"""Does a piece of work, now or later, each after those before it."""

log = logging.getLogger("paceline.agent")


def at_once(work: Work) -> None:
    """Does it before it returns."""
    work()


class Aside:
    """A `Later` with a thread. What is still to be done when the process ends isn't done."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, work: Work) -> None:
        """Takes a piece of work, from one thread. What it raises is logged."""
        self._queue.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="aside", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            try:
                self._queue.get()()
            except Exception:
                log.exception("can't note what became of runs")
