"""The log on Kafka: one partition of every topic (design §5, §6), by confluent-kafka.

A broker that is away is waited for, and said so once through `on_trouble`; work goes on by itself when it is back.
Readers read committed records only, from positions that they are given; the group's offsets are not used. The time of
a record is the broker's append time, which never decreases as long as the broker's clock doesn't.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from events.codec import ID_MARKER, uses_ids
from events.kafka_append import PATIENCE_SECONDS, Appender
from events.kafka_link import AWAY, CONSUMER, MOVING, NO_TOPIC, Link, Options, say_on_stderr
from events.log import LogFault, LogGap, LogRecord, LogUnavailable, NewRecord, gap
from events.topics import rounds_of

ASK_SECONDS = 2.0
"""How long a question about the ends of topics is asked again."""
ANSWER_SECONDS = 0.5
SILENCE_SECONDS = 5.0
"""A reader that hears nothing for so long asks whether the log is still there and as long as it was."""
SCAN_RECORDS = 10_000
SCAN_WAIT_SECONDS = 0.02
RETRY_SECONDS = 0.05
IDLE_SECONDS_MIN = 0.001
IDLE_SECONDS_MAX = 0.01

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_CUT = (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION)
"""The log has not what a reader asks for, or has other records there than it had."""


class KafkaLog:
    """One cell's partition of every topic. `extra` are settings for librdkafka (security, timeouts).

    Thread-safe; a reader belongs to one thread. Nothing is sent before it is asked for, so a broker may come later.
    """

    def __init__(
        self,
        bootstrap: str,
        cell: int = 0,
        extra: Options | None = None,
        on_trouble: Callable[[str], None] = say_on_stderr,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.cell = cell
        self.link = Link(bootstrap, on_trouble, extra)
        self._appender = Appender(self.link, cell, patience)
        self._met = False
        self._admin = self.link.client(AdminClient, {})
        self._came = threading.Event()
        self._idle = IDLE_SECONDS_MIN

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """See `Log.append`. Waits for a broker that is away or lacks copies, then `LogUnavailable`. `LogFault`: no such
        topic, or security is in the way.
        """
        offsets = self._appender.append(records)
        self.stir()
        return offsets

    def reader(self, positions: Mapping[str, int]) -> "KafkaReader":
        """See `Log.reader`."""
        return KafkaReader(self, self.link.client(Consumer, CONSUMER), positions)

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

    def close(self) -> None:
        """Drops the connections; readers have their own. An append that waits ends as `AppendUnknown`."""
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


class KafkaReader:
    """See `Reader`. For one thread."""

    def __init__(self, log: KafkaLog, consumer: Consumer, positions: Mapping[str, int]) -> None:
        self._log = log
        self._consumer = consumer
        self._starts = dict(positions)
        self._gap: LogGap | None = None
        self._heard = time.monotonic()
        self._short = ""
        self._deaf = False
        self._assign()

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """See `Reader.poll`. While the broker is away there is nothing to read. `LogFault`: no such topic."""
        if self._gap:
            raise self._gap
        self._log.link.look()
        messages: list[Message] = []
        if timeout > 0:
            first = self._consumer.poll(timeout)
            messages += [] if first is None else [first]
        if messages or timeout <= 0:
            messages += self._consumer.consume(limit - len(messages), 0)
        records = self._records(messages)
        if records:
            self._heard, self._short, self._deaf = time.monotonic(), "", False
        elif time.monotonic() > self._heard + SILENCE_SECONDS:
            self._ask()
            self._heard = time.monotonic()
        return records

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

    def _assign(self) -> None:
        cell = self._log.cell
        self._consumer.assign([TopicPartition(topic, cell, start) for topic, start in self._starts.items()])

    def _ask(self) -> None:
        """Looks whether the log is there. Raises `LogFault` where a topic is gone, `LogGap` where the log ends before
        what was read: the client itself doesn't tell in every case. One answer may come from a leader of old. A client
        that hears nothing of what is there, twice, is made anew: see `events.kafka_link`.
        """
        try:
            ends = self._log.offsets(list(self._starts), LATEST, 0)
        except LogUnavailable:
            return
        positions = {topic: self.position(topic) for topic in ends}
        short = next((topic for topic, end in ends.items() if end < positions[topic]), "")
        if short and short == self._short:
            self._gap = gap(short, positions[short], 0, ends[short])
            raise self._gap
        self._short = short
        behind = any(end > positions[topic] for topic, end in ends.items())
        if behind and self._deaf:
            self._consumer.close()
            self._consumer, self._starts = self._log.link.client(Consumer, CONSUMER), positions
            self._assign()
        self._deaf = behind and not self._deaf

    def _records(self, messages: Sequence[Message]) -> list[LogRecord]:
        out = []
        for message in messages:
            error = message.error()
            if error is None:
                out.append(_record(message))
            elif error.code() in _CUT:
                self._gap = self._gap_of(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                topic = message.topic()
                topics = [topic] if topic else list(self._starts)
                if not self._log.passes(error, topics):
                    raise self._log.link.error(error, self._log.cell, topics)
        if out:
            self._log.link.found()
            self._log.stir()
        elif self._gap:
            raise self._gap
        return out

    def _gap_of(self, message: Message) -> LogGap:
        topic = cast(str, message.topic())
        position = self.position(topic)
        try:
            start, end = self._log.bounds(topic)
        except LogUnavailable:
            return LogGap(f"{topic} has no offset {position}: records are missing. Restore the log from its archive.")
        if start <= position <= end:
            return LogGap(
                f"{topic} lost records at offset {position} and has others since. Restore the log from its archive."
            )
        return gap(topic, position, start, end)


def _record(message: Message) -> LogRecord:
    """A message without an error as the port has it; what Kafka calls null is empty. Raises `LogFault` for a machine's
    record that only a schema registry tells how to read: passed over, it would be missing from the history.
    """
    topic, offset = cast(str, message.topic()), cast(int, message.offset())
    key, value = message.key() or b"", message.value() or b""
    if value[:1] == ID_MARKER and not uses_ids() and topic == rounds_of(key.decode(errors="replace")):
        raise LogFault(f"{topic} holds records with ids of a schema registry. Name it with schema_registry_url.")
    return LogRecord(topic, offset, message.timestamp()[1], key, value)
