"""The log on Kafka: one partition of every topic (design §5, §6), by confluent-kafka.

A broker that is away is waited for, and said so once through `on_trouble`; work goes on by itself when it is back.
Readers read committed records only, from positions that they are given; the group's offsets are not used. The time of
a record is the broker's append time, which never decreases as long as the broker's clock doesn't.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from events.kafka_link import Link, say_on_stderr
from events.log import AppendUnknown, LogError, LogFault, LogGap, LogRecord, LogUnavailable, NewRecord, gap
from events.topics import RECORD_BYTES_MAX

PATIENCE_SECONDS = 10.0
"""How long an append waits for a broker that is away before it says that nothing was sent."""
ASK_SECONDS = 2.0
"""How long a question about the ends of topics is asked again."""
ANSWER_SECONDS = 0.5
SCAN_RECORDS = 10_000
SCAN_WAIT_SECONDS = 0.02
RETRY_SECONDS = 0.05
IDLE_SECONDS_MIN = 0.001
IDLE_SECONDS_MAX = 0.01

COMMON: dict[str, Any] = {
    "log_level": 0,  # what matters comes through `error_cb`
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 100,
}
PRODUCER: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "lz4",
    "message.max.bytes": RECORD_BYTES_MAX,
    "linger.ms": 0,
    "message.timeout.ms": 30_000,
}
CONSUMER: dict[str, Any] = {
    "group.id": "paceline-readers",  # the client wants one; nothing is committed and no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.wait.max.ms": 500,  # a record that comes ends the wait
    "fetch.queue.backoff.ms": 10,
    "fetch.error.backoff.ms": 50,
    "fetch.message.max.bytes": RECORD_BYTES_MAX,
}
EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_AWAY = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT)
_NO_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
)


_MOVING = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REQUEST_TIMED_OUT,
)
"""A partition's leader changes, or is only just chosen: soon it answers."""


class KafkaLog:
    """One cell's partition of every topic. `extra` are settings for librdkafka (security, timeouts).

    Thread-safe; a reader belongs to one thread. Nothing is sent before it is asked for, so a broker may come later.
    """

    def __init__(
        self,
        bootstrap: str,
        cell: int = 0,
        extra: Mapping[str, str | int | bool] | None = None,
        on_trouble: Callable[[str], None] = say_on_stderr,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.cell = cell
        self.link = Link(bootstrap, on_trouble)
        self._patience = patience
        self._common: dict[str, Any] = {
            **COMMON,
            "bootstrap.servers": bootstrap,
            "error_cb": self.link.on_error,
        }
        self._extra = dict(extra or {})
        self._producer: Producer | None = None
        self._there: set[str] = set()
        self._appending = threading.Lock()
        self._met = False
        self._admin = AdminClient({**self._common, **self._extra})
        self._came = threading.Event()
        self._idle = IDLE_SECONDS_MIN

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """See `Log.append`. Waits for a broker that is away, then `LogUnavailable`. `LogFault`: no such topic."""
        if not records:
            return []
        if not self._appending.acquire(timeout=self._patience):
            raise self._unavailable()
        try:
            offsets: dict[str, list[int]] = {record.topic: [] for record in records}
            producer = self._reach(offsets.keys())
            failed = self._send(producer, records, offsets)
            if failed is not None:
                producer.purge()
                self._producer = None
                raise AppendUnknown(f"An append to Kafka at {self.link.bootstrap} failed: {failed.str()}.")
        finally:
            self._appending.release()
        self.stir()
        return [offsets[record.topic].pop() for record in reversed(records)][::-1]

    def reader(self, positions: Mapping[str, int]) -> "KafkaReader":
        """See `Log.reader`."""
        return KafkaReader(self, Consumer({**self._common, **CONSUMER, **self._extra}), positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """See `Log.scan`."""
        first, end = self.bounds(topic)
        if not first <= start <= end:
            raise gap(topic, start, first, end)
        reader = self.reader({topic: start})
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
        return self.offsets([topic], EARLIEST)[topic], self.offsets([topic], LATEST)[topic]

    def offsets(self, topics: Sequence[str], which: OffsetSpec) -> dict[str, int]:
        """An offset per topic, asked from the broker on a connection where no fetch is in the way."""
        asked = {TopicPartition(topic, self.cell): which for topic in topics}
        last = time.monotonic() + ASK_SECONDS
        while True:
            try:
                if not self._met:  # the first question of a client that knows no broker yet is sometimes lost
                    self._admin.list_topics(timeout=ASK_SECONDS)
                    self._met = True
                futures = self._admin.list_offsets(
                    asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS
                )
                found = {partition.topic: future.result().offset for partition, future in futures.items()}
                self.link.found()
                return found
            except KafkaException as error:
                self._met = False
                if time.monotonic() >= last or not self._passes(error.args[0], topics):
                    raise self.error(error.args[0], topics) from error
                time.sleep(RETRY_SECONDS)

    def wait(self, timeout: float) -> None:
        """See `Log.wait`. Kafka can't tell without being read, so this is a short pause that ends with an append of
        this process; it grows while nothing comes.
        """
        if self._came.wait(min(timeout, self._idle)):
            self._came.clear()
            self._idle = IDLE_SECONDS_MIN
        else:
            self._idle = min(2 * self._idle, IDLE_SECONDS_MAX)

    def stir(self) -> None:
        """Something came: the next `wait` is short."""
        self._came.set()

    def error(self, error: KafkaError, topics: Sequence[str]) -> LogError:
        """What a client's error means for a caller."""
        if error.code() in _AWAY:
            self.link.lost()
            return self._unavailable()
        if error.code() in _NO_TOPIC:
            return self._no_topic(topics)
        if error.code() in _MOVING or error.retriable():
            return LogUnavailable(f"Kafka at {self.link.bootstrap} can't answer now: {error.str()}.")
        return LogFault(f"Kafka at {self.link.bootstrap} refuses: {error.str()}.")

    def close(self) -> None:
        """Drops the connections; readers have their own."""
        with self._appending:
            if self._producer is not None:
                self._producer.purge()
            self._producer = None

    def _passes(self, error: KafkaError, topics: Sequence[str]) -> bool:
        """Whether an error may pass by itself: the broker comes back, or makes ready what the cluster has announced."""
        if error.code() not in _NO_TOPIC:
            return error.code() in (*_AWAY, *_MOVING)
        try:
            found = self._admin.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException:
            return True
        return all(topic in found and self.cell in found[topic].partitions for topic in topics)

    def _unavailable(self) -> LogUnavailable:
        return LogUnavailable(f"Kafka at {self.link.bootstrap} can't be reached. Start it; it is tried again.")

    def _no_topic(self, topics: Sequence[str]) -> LogFault:
        names = " or ".join(topics)
        return LogFault(
            f"Kafka at {self.link.bootstrap} has no partition {self.cell} of {names}. "
            "Run `paceline log topics --create`."
        )

    def _reach(self, topics: Set[str]) -> Producer:
        """The producer, once the broker is known to answer: what can't be sent now is not given to it."""
        if self._producer is None:
            self._producer = Producer({**self._common, **PRODUCER, **self._extra})
        self._producer.poll(0)
        last = time.monotonic() + self._patience
        while self.link.away or not topics <= self._there:
            try:
                found = self._producer.list_topics(timeout=max(0.1, min(1.0, last - time.monotonic()))).topics
            except KafkaException as error:
                self.link.lost()
                if time.monotonic() >= last:
                    raise self._unavailable() from error
                continue
            self.link.found()
            self._there = {name for name, topic in found.items() if self.cell in topic.partitions}
            if not topics <= self._there:
                raise self._no_topic(sorted(topics - self._there))
        return self._producer

    def _send(
        self, producer: Producer, records: Sequence[NewRecord], offsets: dict[str, list[int]]
    ) -> KafkaError | None:
        """Sends and waits for every report; the first error, if any."""
        reports = 0
        failed: list[KafkaError] = []

        def reported(error: KafkaError | None, message: Message) -> None:
            nonlocal reports
            reports += 1
            if error is not None:
                failed.append(error)
            else:
                offsets[cast(str, message.topic())].append(cast(int, message.offset()))

        sent = 0
        try:
            for topic, key, value in records:
                while True:
                    try:
                        producer.produce(topic, value, key, self.cell, on_delivery=reported)
                        break
                    except BufferError:
                        producer.poll(0.05)
                sent += 1
        except KafkaException as error:
            failed.append(error.args[0])
        while reports < sent:
            producer.poll(0.1)
        return failed[0] if failed else None


class KafkaReader:
    """See `Reader`. For one thread."""

    def __init__(self, log: KafkaLog, consumer: Consumer, positions: Mapping[str, int]) -> None:
        self._log = log
        self._consumer = consumer
        self._starts = dict(positions)
        self._gap: LogGap | None = None
        consumer.assign([TopicPartition(topic, log.cell, position) for topic, position in positions.items()])

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """See `Reader.poll`. While the broker is away there is nothing to read. `LogFault`: no such topic."""
        if self._gap:
            raise self._gap
        self._log.link.look()
        messages: list[Message] = []
        if timeout > 0:
            first = self._consumer.poll(timeout)
            if first is None:
                return []
            messages.append(first)
        if limit > len(messages):
            messages += self._consumer.consume(limit - len(messages), 0)
        if not messages:
            return []
        return self._records(messages)

    def ends(self) -> dict[str, int]:
        """See `Reader.ends`. Raises `LogUnavailable` after a short wait: then nobody knows whether he is caught up."""
        return self._log.offsets(list(self._starts), LATEST)

    def position(self, topic: str) -> int:
        """See `Reader.position`."""
        found: int = self._consumer.position([TopicPartition(topic, self._log.cell)])[0].offset
        return found if found >= 0 else self._starts[topic]

    def close(self) -> None:
        """Drops the connection."""
        self._consumer.close()

    def _records(self, messages: Sequence[Message]) -> list[LogRecord]:
        out = []
        for message in messages:
            error = message.error()
            if error is None:
                out.append(_record(message))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._gap = self._gap_of(message)
            elif error.code() != KafkaError._PARTITION_EOF and not self._passes(error):
                raise self._log.error(error, [message.topic() or ""])
        if out:
            self._log.link.found()
            self._log.stir()
        elif self._gap:
            raise self._gap
        return out

    def _passes(self, error: KafkaError) -> bool:
        """Whether librdkafka goes on by itself after this error."""
        return error.code() in (*_AWAY, *_MOVING) or (error.retriable() and error.code() not in _NO_TOPIC)

    def _gap_of(self, message: Message) -> LogGap:
        topic, position = cast(str, message.topic()), cast(int, message.offset())
        try:
            start, end = self._log.bounds(topic)
        except LogUnavailable:
            return LogGap(f"{topic} has no offset {position}: records are missing. Restore the log from its archive.")
        return gap(topic, position, start, end)


def _record(message: Message) -> LogRecord:
    """A message without an error as the port has it; what Kafka calls null is empty."""
    topic, offset = cast(str, message.topic()), cast(int, message.offset())
    return LogRecord(topic, offset, message.timestamp()[1], message.key() or b"", message.value() or b"")
