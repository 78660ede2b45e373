"""Where the topics of a reader end, as far as it was asked not long ago."""

from events.clock import Clock
from events.log.port import LogUnavailable, Reader


class Ends:
    """The ends of the topics of a reader, asked for again once they are old."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.known: dict[str, int] = {}
        """The offset after the last record of each topic, as it was told last."""
        self._reader = reader
        self._clock = clock
        self._asked_ms: int | None = None

    def look(self, age_ms: int) -> bool:
        """Asks where what is known is as old as that; False where nobody answers."""
        at = self._clock.monotonic_ms()
        if self._asked_ms is None or at - self._asked_ms >= age_ms:
            try:
                self.known = self._reader.ends()
            except LogUnavailable:
                return False
            self._asked_ms = at
        return True

    def reached(self) -> bool:
        """Whether the reader has read as far as is known."""
        return all(self._reader.position(topic) >= end for topic, end in self.known.items())
