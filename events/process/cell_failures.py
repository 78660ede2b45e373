"""A cell of a process that fails: why, since when, when it is tried again; said, counted and shown in one way.

Decision 024.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import Gauge

from events.process.error_text import ErrorCause, cause_of, sentence

RETRY_S, RETRY_MAX_S = 1.0, 60.0
"""The first pause before it is tried again, and the longest; each is twice the last."""
SHORTAGE_S = 30.0
"""So long a process that lacks something waits for it before it asks whether another process could go on."""
FAILED = Gauge("paceline_cell_failed", "1 while a cell of this process has stopped with a fault.", ("cell", "part"))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a cell has stopped. `since` and `next_at` are moments of the monotonic clock; `next_at` is None where it is
    not tried again.
    """

    text: str
    cause: ErrorCause
    since: float
    tries: int
    next_at: float | None

    @property
    def hands_over_at(self) -> float | None:
        """From when on another process should have the cell; None: no other would fare better."""
        waits = {ErrorCause.LOCAL: 0.0, ErrorCause.SHORTAGE: SHORTAGE_S}.get(self.cause)
        return None if waits is None else self.since + waits


class Failures:
    """The failures of a cell. `current` is None while there is none."""

    def __init__(self, cell: int, part: str, now: Callable[[], float] = time.monotonic) -> None:
        self.current: Failure | None = None
        self._now = now
        self._gauge = FAILED.labels(str(cell), part)
        self._gauge.set(0)
        self._tries = 0
        self._recovered_at = 0.0

    @property
    def text(self) -> str:
        """Why it has stopped, in a sentence; empty: it hasn't."""
        return self.current.text if self.current is not None else ""

    def failed(self, error: BaseException) -> bool:
        """The cell stopped with an error; returns whether the reason is new."""
        now, before = self._now(), self.current
        if before is None and now - self._recovered_at > RETRY_MAX_S:
            self._tries = 0
        self._tries += 1
        text, cause = sentence(error), cause_of(error)
        next_at = (
            None if cause is ErrorCause.HISTORY else now + min(RETRY_MAX_S, RETRY_S * 2 ** min(self._tries - 1, 16))
        )
        self.current = Failure(text, cause, before.since if before else now, self._tries, next_at)
        self._gauge.set(1)
        return before is None or before.text != text

    def recovered(self) -> bool:
        """The cell does its work; returns whether it had stopped."""
        had_failed = self.current is not None
        if had_failed:
            self.current = None
            self._recovered_at = self._now()
            self._gauge.set(0)
        return had_failed

    def pause_s(self) -> float | None:
        """Seconds until it is tried again; None: it isn't."""
        at = self.current.next_at if self.current is not None else None
        return None if at is None else max(0.0, at - self._now())

    def body(self) -> dict[str, Any]:
        """For the health pages; empty while nothing keeps it from its work."""
        failure = self.current
        if failure is None:
            return {}
        return {
            "failed": failure.text,
            "since": self._clock(failure.since),
            "tries": failure.tries,
            "next_try": None if failure.next_at is None else self._clock(failure.next_at),
        }

    def _clock(self, moment: float) -> str:
        at = datetime.now(UTC) + timedelta(seconds=moment - self._now())
        return at.isoformat(timespec="seconds").replace("+00:00", "Z")
