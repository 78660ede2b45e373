"""The log on Kafka: one partition of every topic (decisions 011 and 015), by confluent-kafka.

A broker that is away is waited for, and said so once through `on_trouble`; work goes on by itself when it is back.
Readers read committed records only, from positions that they are given; the group's offsets are not used. The time of
a record is the broker's append time, which never decreases as long as the broker's clock doesn't.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from events.log.kafka.append import PATIENCE_SECONDS, Appender
from events.log.kafka.connection import Link, Options, say_on_stderr
from events.log.kafka.offsets import Offsets
from events.log.kafka.reader import KafkaReader
from events.log.kafka.shared_reader import SharedReader, SharedTail
from events.log.port import LogRecord, NewRecord, Reader, gap

SCAN_RECORDS = 10_000
SCAN_WAIT_SECONDS = 0.02
IDLE_SECONDS = 0.005


class KafkaLog:
    """One cell's partition of every topic. `extra` are settings for librdkafka (security, timeouts); `patience`: the
    seconds that appends and `bounds` wait for a broker; `shared`: its readers, once they have caught up, share one
    client, for a process that has many of them.

    Thread-safe; a reader belongs to one thread. Nothing is sent before it is asked for, so a broker may come later.
    """

    def __init__(
        self,
        bootstrap: str,
        cell: int = 0,
        extra: Options | None = None,
        on_trouble: Callable[[str], None] = say_on_stderr,
        patience: float = PATIENCE_SECONDS,
        shared: bool = False,
    ) -> None:
        self.cell = cell
        self.link = Link(bootstrap, on_trouble, extra)
        self._appender = Appender(self.link, cell, patience)
        self._patience = patience
        self._offsets = Offsets(self.link, cell, patience)
        self._shared = SharedTail() if shared else None
        self._seen = threading.local()

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`. Waits for a broker that is away or lacks copies, then `LogUnavailable`. `LogFault`:
        no such topic, or security is in the way.
        """
        placed = self._appender.append(records)
        if self._shared is not None:
            self._shared.append(placed)
        return [record.offset for record in placed]

    def reader(self, positions: Mapping[str, int]) -> Reader:
        """Implements `Log.reader`."""
        if self._shared is None:
            return KafkaReader(self._offsets, positions)
        return SharedReader(self._offsets, self._shared, positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        first, end = self.bounds(topic)
        if not first <= start <= end:
            raise gap(topic, start, first, end)
        reader = KafkaReader(self._offsets, {topic: start})
        try:
            while reader.position(topic) < end:
                for record in reader.poll(SCAN_RECORDS, SCAN_WAIT_SECONDS):
                    if record.offset >= end:
                        return
                    yield record
        finally:
            reader.close()

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`. Raises `LogUnavailable`; `LogFault`: no such topic."""
        return self._offsets.bounds(topic)

    def ends(self, topics: Iterable[str], patience: float | None = None) -> dict[str, int]:
        """Implements `Log.ends`. Raises `LogUnavailable`, after `patience` seconds if given; `LogFault`: no such
        topic.
        """
        return self._offsets.ends(topics, patience)

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records of a topic before an offset, once they are archived; readers there meet a `LogGap`."""
        admin = self.link.client(AdminClient, {})
        futures = admin.delete_records([TopicPartition(topic, self.cell, start)], request_timeout=self._patience)
        try:
            for each in futures.values():  # the client looks its futures up in this very dict
                each.result()
        except KafkaException as error:
            raise self.link.error(error.args[0], self.cell, [topic], "Delete") from error

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`; what came is remembered for each thread that waits. Kafka can't tell without being
        read: where no shared reader has caught up this is a short pause.
        """
        if self._shared is None or self._shared.empty():
            time.sleep(min(timeout, IDLE_SECONDS))
        else:
            self._seen.version = self._shared.wait_past(getattr(self._seen, "version", 0), timeout)

    def close(self) -> None:
        """Drops the connections. An append that waits ends as `AppendUnknown`, readers as `LogUnavailable`."""
        self.link.closing = True
        self._appender.close()
