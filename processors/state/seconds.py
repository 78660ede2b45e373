"""Deadlines as columns: whole seconds, so that they fit an int32."""

from typing import NamedTuple, TypeVar

import numpy as np

from events.bounds import INT_MAX
from events.columns import I64

Seconds = TypeVar("Seconds", int, I64)
EPOCH_S = 1_577_836_800
"""2020-01-01: seconds are counted from here, until 2088; what is later is then."""


def seconds(at_ms: I64) -> I64:
    """The first whole second not before each time, at least 1: 0 stands for no deadline."""
    rounded: I64 = np.minimum(np.maximum(-(-at_ms // 1000) - EPOCH_S, 1), INT_MAX)
    return rounded


def second(at_ms: int) -> int:
    """The same for one time."""
    return min(max(-(-at_ms // 1000) - EPOCH_S, 1), INT_MAX)


def milliseconds(at: Seconds) -> Seconds:
    """The time of a second, or of each."""
    return (at + EPOCH_S) * 1000


def elapsed(at_ms: Seconds) -> Seconds:
    """The last second that isn't after a time, or each of them."""
    return at_ms // 1000 - EPOCH_S


class Wait(NamedTuple):
    """The time that waits last which began at seconds of a column, in milliseconds. When they end is known here alone,
    for a deadline (`over_ms`) and for whether it has come (`since_s`).
    """

    ms: int

    def over_ms(self, since_s: int) -> int:
        """When a wait is over that began at a second."""
        return milliseconds(since_s) + self.ms

    def since_s(self, now: int) -> int:
        """The last second at which a wait began that is over by now."""
        return elapsed(now - self.ms)
