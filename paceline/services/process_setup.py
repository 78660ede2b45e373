"""The signals by which a process is told to end, and the interpreter of one that keeps the state of a cell."""

import gc
import os
import signal
import sys
from collections.abc import Callable

GC_THRESHOLDS = (50_000, 20, 100)
"""State is rows that live long: looking through all of them for cycles every few rounds shows in the latency."""


def end_at_once() -> None:
    """From now on SIGTERM ends the process with 0, for one that holds nothing yet. Who serves takes the signal over."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def on_end(stop: Callable[[], object]) -> None:
    """From now on SIGINT and SIGTERM call `stop`, in the main thread."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop())


def tune(switch_interval_s: float) -> None:
    """Sets how often threads give way, in seconds, and how often the collector looks for cycles."""
    sys.setswitchinterval(switch_interval_s)
    gc.set_threshold(*GC_THRESHOLDS)
