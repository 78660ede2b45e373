"""The end of a cell's log in memory, read once for all machines of a process that follow it.

On Kafka each `scan` is a client of its own: good for a million records, dear for the three that came since.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from events.log.port import Log, LogFault, LogRecord, LogUnavailable, NewRecord, Reader, gap
from events.log.tail_cache import TailCache
from events.topics import ALL

READ_RECORDS = 2000
POLL_S = 0.2
PATIENCE_S = 30.0
"""So long a read may take in which nothing comes."""


class Tail:
    """Records that were appended to the topics of a cell since its making. Not thread-safe.

    `settled`: the ends up to which rounds may be replayed: all that they were decided on is here.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.settled = log.ends(topic.name for topic in ALL)
        self.ends = dict(self.settled)
        self._reader = log.reader(self.ends)
        self._tails = {topic: TailCache(end) for topic, end in self.ends.items()}

    def pull(self) -> None:
        """Reads what is new. Raises `LogGap` where the log ends before what was read, and `LogUnavailable`.

        Ends are asked topic by topic: a round that is there by now may have inputs that weren't yet. So rounds are
        settled up to the ends that were asked for before.
        """
        settled, ends = self._reader.ends(), self._reader.ends()
        for topic, end in ends.items():
            if end < self.ends[topic]:
                raise gap(topic, self.ends[topic], 0, end)
        waited_s = time.monotonic()
        while any(self._reader.position(topic) < end for topic, end in ends.items()):
            records = self._reader.poll(READ_RECORDS, POLL_S)
            for record in records:
                self._tails[record.topic].add(record)
            if records:
                waited_s = time.monotonic()
            elif time.monotonic() > waited_s + PATIENCE_S:
                raise LogUnavailable(f"The log says that it has records up to {ends}, and gives none of them.")
        self.settled, self.ends = settled, ends

    def scan(self, topic: str, start: int, end: int) -> Iterator[LogRecord]:
        """The records of a topic from `start` to before `end`."""
        tail, position = self._tails[topic], start
        while position < end:
            if position < tail.first:
                part: Iterable[LogRecord] = self.log.scan(topic, position)
            else:
                part = tail.take(position, READ_RECORDS)
            before = position
            for record in part:
                if record.offset >= end:
                    return
                position = record.offset + 1
                yield record
            if position == before:  # nothing but holes
                return

    def close(self) -> None:
        """Gives back the reader."""
        self._reader.close()


class TailLog:
    """The log as one machine reads it: its own rounds, in `own`, as far as they are settled."""

    def __init__(self, tail: Tail, own: str = "") -> None:
        self.cell = tail.log.cell
        self._tail = tail
        self._own = own

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Raises `LogFault`."""
        raise LogFault("This log is only followed: it takes no records.")

    def reader(self, positions: Mapping[str, int]) -> Reader:
        """Implements `Log.reader`."""
        return self._tail.log.reader(positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`. Raises `LogGap`."""
        ends = self._tail.settled if topic == self._own else self._tail.ends
        return self._tail.scan(topic, start, ends[topic])

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`; where the log begins isn't asked for."""
        return 0, self._tail.ends[topic]

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return {topic: self._tail.ends[topic] for topic in topics}

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`."""
        self._tail.log.wait(timeout)

    def close(self) -> None:
        """Nothing of its own is to be given back."""
