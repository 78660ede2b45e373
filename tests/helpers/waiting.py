"""Waiting for a condition of something that runs beside the test."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0
"""Longer than anything takes on a loaded machine: what doesn't come in this time doesn't come."""


def until(holds: Callable[[], object], what: str = "the condition", seconds: float = PATIENCE_S) -> None:
    """Returns once it holds; fails where it doesn't come."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} didn't come in {seconds:.0f} s"
        time.sleep(0.02)
