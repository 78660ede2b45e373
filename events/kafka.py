"""The log on Kafka: one partition of every topic (design §5, §6), by confluent-kafka.

A broker that is away is waited for, and said so once through `on_trouble`; work goes on by itself when it is back.
Readers read committed records only, from positions that they are given; the group's offsets are not used. The time of
a record is the broker's append time, which never decreases as long as the broker's clock doesn't.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from events.kafka_append import PATIENCE_SECONDS, Appender
from events.kafka_link import AWAY, MOVING, NO_TOPIC, Link, Options, say_on_stderr
from events.kafka_reader import KafkaReader
from events.kafka_shared import Shared, SharedReader
from events.log import LogRecord, NewRecord, Reader, gap

ASK_SECONDS = 2.0
"""How long a question about the ends of topics is asked again."""
ANSWER_SECONDS = 0.5
SCAN_RECORDS = 10_000
SCAN_WAIT_SECONDS = 0.02
RETRY_SECONDS = 0.05
IDLE_SECONDS = 0.005

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class KafkaLog:
    """One cell's partition of every topic. `extra` are settings for librdkafka (security, timeouts); `shared`: its
    readers, once they have caught up, share one client, for a process that has many of them.

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
        self._met = False
        self._admin = self.link.client(AdminClient, {})
        self._shared = Shared() if shared else None
        self._seen = threading.local()

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """See `Log.append`. Waits for a broker that is away or lacks copies, then `LogUnavailable`. `LogFault`: no such
        topic, or security is in the way.
        """
        placed = self._appender.append(records)
        if self._shared is not None:
            self._shared.append(placed)
        return [record.offset for record in placed]

    def reader(self, positions: Mapping[str, int]) -> Reader:
        """See `Log.reader`."""
        return KafkaReader(self, positions) if self._shared is None else SharedReader(self, self._shared, positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """See `Log.scan`."""
        first, end = self.bounds(topic)
        if not first <= start <= end:
            raise gap(topic, start, first, end)
        reader = KafkaReader(self, {topic: start})
        try:
            while reader.position(topic) < end:
                for record in reader.poll(SCAN_RECORDS, SCAN_WAIT_SECONDS):
                    if record.offset >= end:
                        return
                    yield record
        finally:
            reader.close()

    def bounds(self, topic: str) -> tuple[int, int]:
        """See `Log.bounds`. Raises `LogUnavailable`; `LogFault`: no such topic."""
        return self.offsets([topic], EARLIEST)[topic], self.ends([topic])[topic]

    def ends(self, topics: Sequence[str], patience: float | None = None) -> dict[str, int]:
        """Per topic the offset after its last record. Raises `LogUnavailable`; `LogFault`: no such topic."""
        return self.offsets(topics, LATEST, patience)

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records of a topic before an offset, once they are archived; readers there meet a `LogGap`."""
        asked = self._admin.delete_records([TopicPartition(topic, self.cell, start)], request_timeout=ASK_SECONDS)
        try:
            for each in asked.values():  # the client looks its futures up in this very dict
                each.result()
        except KafkaException as error:
            raise self.link.error(error.args[0], self.cell, [topic]) from error

    def offsets(self, topics: Sequence[str], which: OffsetSpec, patience: float | None = None) -> dict[str, int]:
        """An offset per topic, asked from the broker on a connection where no fetch is in the way."""
        asked = {TopicPartition(topic, self.cell): which for topic in topics}
        last = time.monotonic() + (ASK_SECONDS if patience is None else patience)
        while True:
            admin = self._admin  # another thread may make it anew: one that is gone would answer nobody
            try:
                if not self._met:  # the first question of a client that knows no broker yet is sometimes lost
                    admin.list_topics(timeout=max(ANSWER_SECONDS, last - time.monotonic()))
                    self._met = True
                futures = admin.list_offsets(
                    asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS
                )
                found = {partition.topic: future.result().offset for partition, future in futures.items()}
                if min(found.values()) >= 0:
                    self.link.answered(topics)
                    return found
                error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)  # the client says nothing of it
            except KafkaException as raised:
                error = raised.args[0]
            self._met = False  # it goes on asking leaders of old until it is asked for all topics
            admin.poll(0)  # what it has to say of the cause
            if self.link.refused:
                raise self.link.failure()
            if not self.passes(error, topics):
                raise self.link.error(error, self.cell, topics)
            if time.monotonic() >= last:
                self._admin = self.link.client(AdminClient, {})  # see `events.kafka_link`
                raise self.link.unavailable(error, topics)
            time.sleep(RETRY_SECONDS)

    def wait(self, timeout: float) -> None:
        """See `Log.wait`; what came is remembered for each thread that waits. Kafka can't tell without being read:
        where no shared reader has caught up this is a short pause.
        """
        if self._shared is None or self._shared.empty():
            time.sleep(min(timeout, IDLE_SECONDS))
        else:
            self._seen.version = self._shared.wait_past(getattr(self._seen, "version", 0), timeout)

    def close(self) -> None:
        """Drops the connections. An append that waits ends as `AppendUnknown`, readers as `LogUnavailable`."""
        self.link.closing = True
        self._appender.close()

    def passes(self, error: KafkaError, topics: Sequence[str]) -> bool:
        """Whether an error may pass by itself: the broker comes back, or makes ready what the cluster has announced."""
        if error.code() not in NO_TOPIC:
            return error.code() in (*AWAY, *MOVING) or error.retriable()
        try:
            found = self._admin.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException:
            return True
        return all(topic in found and self.cell in found[topic].partitions for topic in topics)
