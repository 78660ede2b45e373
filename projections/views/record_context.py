"""Where and when something was said: what every fold is told beside the record."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from events.log.port import LogRecord
from events.records.base import Event
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
    """The position up to which the writer of a round had read the topic of lifecycle."""

    @property
    def rank(self) -> int:
        """The number of the topic in the rows."""
        return RANK[self.topic]


def of_fact(record: LogRecord) -> RecordContext:
    """The moment of a fact."""
    return RecordContext(record.topic, record.offset, record.at_ms, record.at_ms)


Fold = Callable[[RecordContext, Any], None]
Folds = Mapping[type[Event], Fold]
"""Folds of decisions, by their kind: a fold gets no decision of another kind."""
