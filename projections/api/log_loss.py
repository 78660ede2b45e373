"""Whether the log has all that the views have of it. To one that lost acknowledged records nothing more is written: its
machines have stopped, and what it is told would be lost with it.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from events.log.port import Log, LogUnavailable, NewRecord, gap
from events.topics import ALL
from projections.api.problems import Problem
from projections.views.reader import Views, folded

LOOK_S = 1.0
"""Writes ask where the log ends at most so often."""


class Appends(Protocol):
    """Where facts of a cell are written: its log, or a `WholeLog`."""

    cell: int

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`."""
        ...


class LossCheckedLog:
    """Appends to the log of a cell as long as that is whole."""

    def __init__(self, views: Views, log: Log) -> None:
        self.cell = log.cell
        self._views = views
        self._log = log
        self._have: Mapping[str, int] = {}
        self._look_at = 0.0

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`. Raises a problem where the log has lost records."""
        if time.monotonic() >= self._look_at:
            with self._views.read() as connection:
                self._have = folded(connection)
            with suppress(LogUnavailable):  # an append waits longer for a broker, and its place tells as well
                must_be_whole(self._have, self._log.ends(topic.name for topic in ALL))
            self._look_at = time.monotonic() + LOOK_S
        offsets = self._log.append(records)
        # an append waits for a broker that is away, and that may come back with less than it had
        must_be_whole(self._have, {record.topic: at for record, at in zip(records, offsets, strict=True)})
        return offsets


def must_be_whole(have: Mapping[str, int], ends: Mapping[str, int]) -> None:
    """Raises a problem where a topic ends before what the views have of it."""
    for topic, end in ends.items():
        if end < have.get(topic, 0):
            detail = f"{gap(topic, have[topic], 0, end)} No write is taken until then."
            raise Problem(503, "RECORDS_MISSING", detail, headers={"Retry-After": "1"})
