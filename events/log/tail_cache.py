"""The newest records of a topic in memory, for all readers that keep up."""

from bisect import bisect_left
from collections.abc import Callable, Mapping

from events.log.port import LogError, LogRecord

KEPT_BYTES = 8 * 1024 * 1024
"""So much of each topic is kept, at least; at most twice as much and a record."""


class TailCache:
    """All records of a topic from offset `first` to `end`. Not thread-safe: its log guards it."""

    __slots__ = ("_bytes", "_records", "end", "first")

    def __init__(self, end: int = 0) -> None:
        self.first = self.end = end
        self._records: list[LogRecord] = []
        self._bytes = 0

    def add(self, record: LogRecord) -> None:
        """Takes the next record of the topic."""
        self._records.append(record)
        self._bytes += _size(record)
        self.end = record.offset + 1
        if self._bytes > 2 * KEPT_BYTES:
            self._shorten()

    def take(self, position: int, limit: int) -> list[LogRecord]:
        """Up to `limit` records from a position on that is not before `first`."""
        index = self._index(position)
        return self._records[index : index + limit]

    def drop_before(self, start: int) -> None:
        """Forgets the records before an offset."""
        if start > self.first:
            self._records = self._records[self._index(start) :]
            self.first = start
            self._bytes = sum(map(_size, self._records))

    def _index(self, position: int) -> int:
        records = self._records
        index = position - self.first
        if 0 <= index < len(records) and records[index].offset == position:  # most logs have no holes
            return index
        return bisect_left(records, position, key=_offset)

    def _shorten(self) -> None:
        """Forgets the older records; rarely, so that each is moved about once."""
        total_bytes, index = 0, len(self._records)
        while total_bytes < KEPT_BYTES:
            index -= 1
            total_bytes += _size(self._records[index])
        self._records = self._records[index:]
        self.first = self._records[0].offset
        self._bytes = total_bytes


def in_shares(
    positions: dict[str, int],
    news: Mapping[str, int],
    limit: int,
    take: Callable[[str, int, int], list[LogRecord]],
) -> list[LogRecord]:
    """Up to `limit` records of several topics, and moves the positions past them. `news`: the ends of those that have
    any. Each topic has its share of the limit, so that none keeps another waiting. Where `take` fails after others have
    given records, those are returned: the error comes again.
    """
    out: list[LogRecord] = []
    for share in (limit,) if len(news) == 1 else (max(1, limit // max(1, len(positions))), limit):
        for topic, end in news.items():
            position = positions[topic]
            if position != end and len(out) < limit:
                try:
                    part = take(topic, position, min(share, limit - len(out)))
                except LogError:
                    if out:
                        return out
                    raise
                if part:
                    positions[topic] = part[-1].offset + 1
                    out += part
    return out


def _offset(record: LogRecord) -> int:
    return record.offset


def _size(record: LogRecord) -> int:
    return len(record.key) + len(record.value) + 100
