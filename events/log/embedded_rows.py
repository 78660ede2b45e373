"""The rows of an embedded log in RocksDB, and the state of its topics."""

from collections.abc import Iterator
from typing import cast

from rocksdict import Rdict

from events.log.tail_cache import TailCache


class TopicState:
    """A topic as its log knows it, guarded by the log's `_news`. `end` is the offset after the last record that is
    synced; `newest` holds what was written since, too.
    """

    __slots__ = ("end", "last_ms", "newest", "start")

    def __init__(self, start: int = 0, end: int = 0, last_ms: int = 0) -> None:
        self.start, self.end, self.last_ms = start, end, last_ms
        self.newest = TailCache(end)


def record_key(topic: str, offset: int) -> bytes:
    """The key of a record."""
    return topic.encode() + b"\0" + offset.to_bytes(8, "big")


def items(db: Rdict, first: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All entries from a key on; an open database in raw mode holds bytes only."""
    return cast(Iterator[tuple[bytes, bytes]], db.items(from_key=first))
