"""Where the topics of a reader end, as far as it was asked not long ago."""

from collections.abc import Mapping

from events.log.port import LogUnavailable, Reader


class Ends:
    """The ends of the topics of a reader, asked for again once they are old."""

    def __init__(self, reader: Reader) -> None:
        self.known: dict[str, int] = {}
        """The offset after the last record of each topic, as it was told last."""
        self._reader = reader
        self._asked_ms: int | None = None

    def look(self, age_ms: int, at: int) -> bool:
        """Asks where what is known is as old as that at a time of the clock; False where nobody answers."""
        if self._asked_ms is None or at - self._asked_ms >= age_ms:
            try:
                self.known = self._reader.ends()
            except LogUnavailable:
                return False
            self._asked_ms = at
        return True

    def reached(self, positions: Mapping[str, int]) -> bool:
        """Whether the reader has read as far as is known. `positions`: up to where all it has read was delivered."""
        for topic, end in self.known.items():
            if positions[topic] < end and self._reader.position(topic) < end:  # holes are passed and not delivered
                return False
        return True
