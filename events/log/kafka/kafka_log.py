"""The log on Kafka: one partition of every topic (design §5, §6), by confluent-kafka.

A broker that is away is waited for, and said so once through `on_trouble`; work goes on by itself when it is back.
Readers read committed records only, from positions that they are given; the group's offsets are not used. The time of
a record is the broker's append time, which never decreases as long as the broker's clock doesn't.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from events.log.kafka.append import PATIENCE_SECONDS, Appender
from events.log.kafka.connection import ASK_SECONDS, CONSUMER, NO_TOPIC, PASSING, Link, Options, say_on_stderr
from events.log.kafka.reader import KafkaReader
from events.log.kafka.shared_reader import Shared, SharedReader
from events.log.port import LogRecord, NewRecord, Reader, gap

ANSWER_SECONDS = 0.5
ANSWER_SECONDS_MAX = 2.0
"""How long the first answer may take, each further one twice as long, and how long any: a slow broker answers too, in
the end.
"""
SCAN_RECORDS = 10_000
SCAN_WAIT_SECONDS = 0.02
RETRY_SECONDS = 0.05
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
        self._met = False
        self._asker = self.link.client(Consumer, CONSUMER)
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
        start = self._offsets([topic], OFFSET_BEGINNING, self._patience)[topic]
        return start, self._offsets([topic], OFFSET_END, self._patience)[topic]

    def ends(self, topics: Iterable[str], patience: float | None = None) -> dict[str, int]:
        """See `Log.ends`. Raises `LogUnavailable`, after `patience` seconds if given; `LogFault`: no such topic."""
        return self._offsets(list(topics), OFFSET_END, self._patience if patience is None else patience)

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records of a topic before an offset, once they are archived; readers there meet a `LogGap`."""
        admin = self.link.client(AdminClient, {})
        asked = admin.delete_records([TopicPartition(topic, self.cell, start)], request_timeout=self._patience)
        try:
            for each in asked.values():  # the client looks its futures up in this very dict
                each.result()
        except KafkaException as error:
            raise self.link.error(error.args[0], self.cell, [topic]) from error

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
            return error.code() in PASSING or error.retriable()
        try:
            found = self._asker.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException:
            return True
        return all(topic in found and self.cell in found[topic].partitions for topic in topics)

    def _offsets(self, topics: Sequence[str], which: int, patience: float) -> dict[str, int]:
        """An offset per topic, asked on a connection where no fetch is in the way; `which`: OFFSET_BEGINNING or
        OFFSET_END. Not by an `AdminClient`, which spoils the memory of its process when an answer about offsets is late
        (seen in librdkafka 2.16.1).
        """
        began, answer_s = time.monotonic(), ANSWER_SECONDS
        while True:
            asker = self._asker  # another thread may make it anew: one that is gone would answer nobody
            if self.link.closing:
                self.link.look()  # which says so
            try:
                if not self._met:  # the first question of a client that knows no broker yet is sometimes lost
                    asker.list_topics(timeout=answer_s)
                    self._met = True
                found = asker.offsets_for_times([TopicPartition(topic, self.cell, which) for topic in topics], answer_s)
                error = next((each.error for each in found if each.error), None)
                if error is None:
                    self.link.answered(topics)
                    return {each.topic: each.offset for each in found}
            except KafkaException as raised:
                error = raised.args[0]
            self._met = False  # it goes on asking leaders of old until it is asked for all topics
            asker.poll(0)  # what it has to say of the cause
            self.link.look()
            if not self.passes(error, topics):
                raise self.link.error(error, self.cell, topics)
            left = (min(patience, ASK_SECONDS) if self.link.away else patience) - (time.monotonic() - began)
            if left <= 0:
                self._asker = self.link.client(Consumer, CONSUMER)  # see `events.log.kafka.connection`
                raise self.link.unavailable(error, topics)
            answer_s = max(ANSWER_SECONDS, min(2 * answer_s, left, ANSWER_SECONDS_MAX))
            time.sleep(RETRY_SECONDS)
