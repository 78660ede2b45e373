"""The log port: what Paceline asks of a message log, for one cell (one partition of every topic).

Adapters: `events.log.memory` (tests, simulation), `events.log.embedded` (RocksDB in a folder),
`events.log.kafka.kafka_log`. One contract suite, `tests/events/log/contract.py`, runs on all of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from events.process.error_text import ErrorCause


class NewRecord(NamedTuple):
    """A record to append."""

    topic: str
    key: bytes
    value: bytes


class LogRecord(NamedTuple):
    """A record in the log; `at_ms` is the log's own time of the append, never decreasing within a topic."""

    topic: str
    offset: int
    at_ms: int
    key: bytes
    value: bytes


class LogError(Exception):
    """Anything the log could not do; the message says what an operator does."""

    cause = ErrorCause.LOG


class LogGap(LogError):
    """The log starts after the position asked for, or ends before it: records are missing. Restore the log from its
    archive, or the reader's store from a snapshot; nothing is skipped. Another reader may be further on.
    """

    cause = ErrorCause.LOCAL


class LogUnavailable(LogError):
    """The log can't be reached now. It is tried again."""


class AppendUnknown(LogError):
    """An append was sent and its outcome is not known: stop, read the log, recover. Nothing is guessed."""


class LogFault(LogError):
    """The log can't be used: the folder is in use, not writable, full, from a newer version; the message says which."""


class Reader(Protocol):
    """Reads some topics forward from given positions."""

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Up to `limit` next records, each topic in the order of its offsets; waits up to `timeout` seconds for the
        first. Raises `LogGap`, `LogUnavailable`.
        """
        ...

    def news(self) -> bool:
        """Whether a poll may give something now; asks nobody, so True where that can't be known."""
        ...

    def ends(self) -> dict[str, int]:
        """Per topic the offset after its last record, as the log has it now. Other threads may ask."""
        ...

    def position(self, topic: str) -> int:
        """The next offset that `poll` would read, holes passed."""
        ...

    def close(self) -> None:
        """Gives back what the reader holds."""
        ...


class Log(Protocol):
    """The topics of one cell."""

    cell: int

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Appends the records, each topic in the order given, and returns their offsets when they are durable. Raises
        `LogUnavailable` (nothing was written) or `AppendUnknown`.
        """
        ...

    def reader(self, positions: Mapping[str, int]) -> Reader:
        """A reader of those topics from those positions."""
        ...

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """The records of one topic from `start` to its present end. Raises `LogGap`."""
        ...

    def bounds(self, topic: str) -> tuple[int, int]:
        """First offset that is there, and the offset after the last."""
        ...

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Per topic the offset after its last record: one question for all."""
        ...

    def wait(self, timeout: float) -> None:
        """Returns when something may have been appended since the last call, at the latest after `timeout` seconds."""
        ...

    def close(self) -> None:
        """Gives back what the log holds."""
        ...


def gap(topic: str, position: int, start: int, end: int) -> LogGap:
    """The error for a position outside the log."""
    side = f"starts at {start}" if position < start else f"ends at {end}"
    return LogGap(
        f"{topic} {side}, but offset {position} is needed: records are missing. Restore the log from its archive, "
        "or this reader's store from a snapshot."
    )


def identity(first: LogRecord) -> str:
    """Names a log by a record that every reader takes for the first of its kind, and by the time of its append."""
    return blake2b(first.value + first.at_ms.to_bytes(8, "big"), digest_size=16).hexdigest()
