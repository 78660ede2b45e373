"""An embedded log for those of its process who go on before the disk has what they wrote (decision 075).

What they append and read may be lost with the machine, so they let nothing out of the process: no order to a host, no
answer, no row in a store that may be ahead of the log. Whoever lets something out reads the log itself, which gives
nothing that isn't synced. A loss of power takes an end of the log, the same for all topics, and nobody has heard of it.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from events.log.port import LogRecord, NewRecord, Reader

if TYPE_CHECKING:
    from events.log.embedded import EmbeddedLog

BEHIND_S = 0.05
"""So long, in seconds, the disk may be behind while there is always more to do."""


class AheadLog:
    """Implements `Log`, but that an append returns before it is durable: see `settle`. For one thread."""

    def __init__(self, log: "EmbeddedLog") -> None:
        self.cell = log.cell
        self._log = log
        self._since_s: float | None = None
        """Since when something may be written that isn't synced."""

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Writes the records; they are durable after `settle`. Raises what `EmbeddedLog.append` does."""
        if self._since_s is None:
            self._since_s = time.monotonic()
        return self._log.write(records)

    def settle(self, idle: bool) -> bool:
        """Makes durable what was written, once nothing else is to be done (`idle`) or the disk is too far behind;
        returns whether it did. Raises `AppendUnknown`.
        """
        if self._since_s is None or not (idle or time.monotonic() - self._since_s >= BEHIND_S):
            return False
        self._since_s = None
        self.sync()
        return True

    def sync(self) -> None:
        """Returns when all that was written is durable. Raises `AppendUnknown`."""
        self._log.sync()

    def mark(self) -> int:
        """Marks what was written so far, for `is_durable`."""
        return self._log.written

    def is_durable(self, mark: int) -> bool:
        """Whether all that was written before a mark is on the disk."""
        return self._log.synced >= mark

    def reader(self, positions: Mapping[str, int]) -> Reader:
        """Implements `Log.reader`: it reads what isn't durable too."""
        return self._log.reader(positions, ahead=True)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`, of what is durable then."""
        self.sync()
        return self._log.scan(topic, start)

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`, of what is durable then."""
        self.sync()
        return self._log.bounds(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return self._log.ends(topics, ahead=True)

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`."""
        self._log.wait(timeout)

    def close(self) -> None:
        """Implements `Log.close`: the log is its maker's."""
