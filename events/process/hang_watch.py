"""Threads that hang: noticed by who looks again and again, and named by the place."""

import sys
import threading
import traceback

HANG_S = 120.0
"""A step that takes longer hangs: what waits for the log gives up after a tenth of that."""


class HangDetector:
    """Measures for how long a counter of steps has stood still, in time in which this process could work: a frozen
    process hangs nowhere.
    """

    def __init__(self) -> None:
        self._last_steps = -1
        self._unchanged_s = 0.0

    def hangs(self, steps: int, passed_s: float, most_s: float) -> bool:
        """Whether it has stood still for longer than `most_s`; `passed_s`: since it was asked last, at most the pause
        between two looks.
        """
        self._unchanged_s = self._unchanged_s + passed_s if steps == self._last_steps else 0.0
        self._last_steps = steps
        return self._unchanged_s > most_s


def place(thread: threading.Thread) -> str:
    """Where a thread is now: file, line and function; empty where it has ended."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - it is documented
    if frame is None:
        return ""
    last = traceback.extract_stack(frame)[-1]
    return f"{last.filename}:{last.lineno} in {last.name}"
