"""Where and when something was said: what every fold is told beside the record."""

from typing import NamedTuple

from events.log.port import LogRecord
from events.topics import RANK


class RecordContext(NamedTuple):
    """The place of a fact or a decision. `now` is the logical time of its round, for facts the time of the log."""

    topic: str
    offset: int
    at_ms: int
    now: int
    depth: int = 0
    machine: str = ""
    round: int = 0
    place: int = 0
    """Index of a decision in its round."""
    seen: int = 0
    """How far the writer of a round had read the topic of lifecycle."""

    @property
    def rank(self) -> int:
        """The number of the topic in the rows."""
        return RANK[self.topic]


def of_fact(record: LogRecord) -> RecordContext:
    """The moment of a fact."""
    return RecordContext(record.topic, record.offset, record.at_ms, record.at_ms)
