"""Calls that are due at a time."""

import heapq
import time
from collections.abc import Callable

from hostagent.keeper import system

KEPT_MIN = 64


class Timer:
    """One call."""

    __slots__ = ("at_s", "call", "number")

    def __init__(self, at_s: float, number: int, call: Callable[[], None]) -> None:
        self.at_s, self.number = at_s, number
        self.call: Callable[[], None] | None = call

    def __lt__(self, other: "Timer") -> bool:
        return (self.at_s, self.number) < (other.at_s, other.number)

    def cancel(self) -> None:
        """It isn't called any more."""
        self.call = None


class Timers:
    """All calls, the next one first."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._number = 0
        self._kept_max = KEPT_MIN

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls once so much later, unless it is cancelled."""
        if len(self._heap) > self._kept_max:  # of those that were cancelled, some are due in hours
            self._heap = [timer for timer in self._heap if timer.call is not None]
            heapq.heapify(self._heap)
            self._kept_max = 2 * len(self._heap) + KEPT_MIN
        self._number += 1
        timer = Timer(time.monotonic() + seconds, self._number, call)
        heapq.heappush(self._heap, timer)
        return timer

    def wait_s(self) -> float | None:
        """Seconds until the next call is due; None: there is none."""
        while self._heap and self._heap[0].call is None:
            heapq.heappop(self._heap)
        return max(0.0, self._heap[0].at_s - time.monotonic()) if self._heap else None

    def run(self) -> None:
        """Calls all that are due. One that fails is told, and keeps no other from its time."""
        if not self._heap:
            return
        now_s = time.monotonic()
        while self._heap and self._heap[0].at_s <= now_s:
            if (call := heapq.heappop(self._heap).call) is not None:
                try:
                    call()
                except Exception:
                    system.say_trouble()
