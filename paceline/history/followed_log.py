"""A log that is read while it grows: a topic goes on where it was read last, by the same reader."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from events.log.port import Log, LogFault, LogRecord, NewRecord, Reader, gap

BATCH = 500
WAIT_S = 0.5


class FollowedLog:
    """A log for one thread that reads each topic forward. A scan that goes on where the last one of its topic ended
    costs no reader of its own, which on Kafka is a fetch from the start of a batch.
    """

    def __init__(self, log: Log) -> None:
        self.cell = log.cell
        self._log = log
        self._readers: dict[str, Reader] = {}
        self._read: dict[str, deque[LogRecord]] = {}

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Raises `LogFault`."""
        raise LogFault("This log is only followed: it takes no records.")

    def reader(self, positions: Mapping[str, int]) -> Reader:
        """Implements `Log.reader`."""
        return self._log.reader(positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        first, end = self._log.bounds(topic)
        if start > end:
            raise gap(topic, start, first, end)
        waiting = self._read.setdefault(topic, deque())
        while waiting and waiting[0].offset < start:
            waiting.popleft()
        reader = self._readers.get(topic)
        if reader is None or (waiting[0].offset if waiting else reader.position(topic)) > start:
            reader = self._begin(topic, start)
        position = start
        while position < end:
            if not waiting:
                if reader.position(topic) >= end:
                    return
                waiting.extend(reader.poll(BATCH, WAIT_S))
                continue
            record = waiting.popleft()
            if record.offset < start:
                continue
            if record.offset >= end:
                waiting.appendleft(record)
                return
            position = record.offset + 1
            yield record

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        return self._log.bounds(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return self._log.ends(topics)

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`."""
        self._log.wait(timeout)

    def close(self) -> None:
        """Gives back the readers; the log stays open."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _begin(self, topic: str, start: int) -> Reader:
        if topic in self._readers:
            self._readers[topic].close()
        self._readers[topic] = self._log.reader({topic: start})
        self._read[topic].clear()
        return self._readers[topic]
