"""Time as it passes; a simulator gives its own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Time as it passes; says nothing about what time it is."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, never going back."""
        ...


class SystemClock:
    """The time of this machine."""

    def monotonic_ms(self) -> int:
        """Implements `Clock`."""
        return time.monotonic_ns() // 1_000_000


class SimulatedClock:
    """Time that passes when somebody sets it: `ms`, in milliseconds since 1970."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def monotonic_ms(self) -> int:
        """Implements `Clock`."""
        return self.ms
