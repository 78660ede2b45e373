"""The newest records of a cell's topics on Kafka, for all readers of a process: one client reads them for all.

What the process itself appends is there as soon as the broker has confirmed it right behind what was read: then nobody
else's record stands between, and reading it tells nothing new.

Decision 011.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from events.log.kafka.connection import ASK_SECONDS
from events.log.kafka.offsets import Offsets
from events.log.kafka.reader import KafkaReader
from events.log.port import LogError, LogRecord
from events.log.tail_cache import TailCache, in_shares

READ_RECORDS = 2000
JOIN_SECONDS = 0.02
"""Seconds for which a reader that would join waits for another that reads."""
LOOK_SECONDS = 0.05
"""Seconds between two looks of a waiting reader whether the one that reads has stopped."""
HOLES_SECONDS = 0.1
"""Seconds between two questions for the holes that were passed."""


class SharedTail:
    """The records that readers share. Thread-safe: who uses the client holds `_reading`; `_news` guards the records.

    When the client meets an error all readers are let go, and meet it by clients of their own.
    """

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._news = threading.Condition()
        self._reader: KafkaReader | None = None
        self._topics: dict[str, TailCache] = {}
        self._passed: dict[str, int] = {}
        self._passed_at = 0.0
        self._members: set[SharedReader] = set()
        self._version = 0

    def append(self, records: Sequence[LogRecord]) -> None:
        """Takes what this process has appended, as far as it is what comes next."""
        with self._news:
            for record in records:
                topic = self._topics.get(record.topic)
                if topic is not None and topic.end == record.offset:
                    self._add(topic, record)

    def join(self, member: "SharedReader", own: KafkaReader) -> bool:
        """Lets a reader in where all that comes next to it is known here. The first one's client reads for all, that of
        another is closed.
        """
        positions = {topic: own.position(topic) for topic in member.positions}
        if not self._reading.acquire(timeout=JOIN_SECONDS):
            return False
        try:
            with self._news:
                if any(not self._joins(topic, position) for topic, position in positions.items()):
                    return False
                fresh = {
                    topic: TailCache(position) for topic, position in positions.items() if topic not in self._topics
                }
                self._topics |= fresh
                self._members.add(member)
                member.positions = positions
            if self._reader is None:
                self._reader = own
                return True
            if fresh:
                self._reader.assign({topic: self._end(topic) for topic in self._topics})
        finally:
            self._reading.release()
        own.close()
        return True

    def leave(self, member: "SharedReader") -> None:
        """Lets a reader go; the client goes with the last."""
        with self._news:
            self._members.discard(member)
        if not self._members:
            with self._reading:
                if not self._members:
                    self._disband()

    def has(self, member: "SharedReader") -> bool:
        """Whether a reader is in."""
        return member in self._members

    def empty(self) -> bool:
        """Whether no reader is in."""
        return not self._members

    def behind(self, member: "SharedReader") -> bool:
        """Whether there is something for a reader."""
        topics = self._topics
        return any(topic in topics and position < topics[topic].end for topic, position in member.positions.items())

    def position(self, member: "SharedReader", topic: str) -> int:
        """The next offset that a reader gets, holes passed."""
        with self._news:
            position, shared = member.positions[topic], self._topics.get(topic)
            return position if shared is None or position < shared.end else max(position, self._end(topic))

    def take(self, member: "SharedReader", limit: int) -> list[LogRecord]:
        """The next records of a reader that is in. One that has fallen behind what is kept is let go."""
        with self._news:
            if member not in self._members:
                return []
            if any(position < self._topics[topic].first for topic, position in member.positions.items()):
                self._members.discard(member)
                return []
            ends = {topic: self._topics[topic].end for topic in member.positions}
            news = {topic: end for topic, end in ends.items() if member.positions[topic] != end}
            return in_shares(
                member.positions,
                news,
                limit,
                lambda topic, position, limit: self._topics[topic].take(position, limit),
            )

    def wait(self, come: Callable[[], bool], timeout: float) -> None:
        """Reads until `come` holds, at most `timeout` seconds; or waits where another reads."""
        last = time.monotonic() + timeout
        rest_s = timeout
        while self._members and not come():
            if self._reading.acquire(blocking=False):
                try:
                    self._read(rest_s)
                finally:
                    self._reading.release()
            else:
                with self._news:
                    self._news.wait_for(come, min(rest_s, LOOK_SECONDS))
            rest_s = last - time.monotonic()
            if rest_s <= 0:
                return

    def wait_past(self, version: int, timeout: float) -> int:
        """Waits for a record after the one that was the newest when this was returned; returns the newest one now."""
        self.wait(lambda: self._version != version, timeout)
        return self._version

    def _end(self, topic: str) -> int:
        return max(self._topics[topic].end, self._passed.get(topic, 0))

    def _joins(self, topic: str, position: int) -> bool:
        shared = self._topics.get(topic)
        return shared is None or shared.first <= position <= self._end(topic)

    def _read(self, timeout: float) -> None:
        reader = self._reader
        if reader is None:
            return
        try:
            records = reader.poll(READ_RECORDS, timeout)
        except LogError:
            self._disband()
            return
        with self._news:
            for record in records:
                topic = self._topics[record.topic]
                if topic.end <= record.offset:
                    self._add(topic, record)
            if not records and time.monotonic() >= self._passed_at:
                self._passed = {topic: reader.position(topic) for topic in self._topics}
                self._passed_at = time.monotonic() + HOLES_SECONDS

    def _add(self, topic: TailCache, record: LogRecord) -> None:
        topic.add(record)
        self._version += 1
        self._news.notify_all()

    def _disband(self) -> None:
        with self._news:
            reader, self._reader = self._reader, None
            self._members.clear()
            self._topics, self._passed = {}, {}
            self._news.notify_all()
        if reader is not None:
            reader.close()


class SharedReader:
    """Implements `Reader`: by a client of its own until it has caught up with what is shared. For one thread."""

    def __init__(self, offsets: Offsets, shared: SharedTail, positions: Mapping[str, int]) -> None:
        self.positions = dict(positions)
        self._offsets = offsets
        self._shared = shared
        self._own: KafkaReader | None = KafkaReader(offsets, positions)

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`. While the broker is away there is nothing to read. `LogFault`: no such topic."""
        if self._shared.has(self):
            self._shared.wait(lambda: self._shared.behind(self), timeout)
            records = self._shared.take(self, limit)
            if records or self._shared.has(self):
                return records
        if self._own is None:
            self._shared.leave(self)
            self._own = KafkaReader(self._offsets, self.positions)
        records = self._own.poll(limit, timeout)
        for record in records:
            self.positions[record.topic] = record.offset + 1
        if not records and self._shared.join(self, self._own):
            self._own = None
        return records

    def news(self) -> bool:
        """Implements `Reader.news`: the broker would have to be asked."""
        return True

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`. Raises `LogUnavailable` after a short wait: then nobody knows whether he is
        caught up.
        """
        return self._offsets.ends(self.positions, ASK_SECONDS)

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        if self._own is not None:
            return self._own.position(topic)
        return self._shared.position(self, topic)

    def close(self) -> None:
        """Drops the connection."""
        if self._own is not None:
            self._own.close()
        self._shared.leave(self)
