"""Appends records to the log on Kafka: sends them, and waits until the broker has confirmed each (decision 011)."""

import threading
import time
from collections.abc import Mapping, Sequence, Set
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import TopicMetadata  # type: ignore[attr-defined]

from events.codec import wire
from events.log.kafka.connection import DENIED, PRODUCER, Link
from events.log.port import AppendUnknown, LogRecord, LogUnavailable, NewRecord
from events.topics import in_sync_min

PATIENCE_SECONDS = 10.0
"""Seconds for which an append waits for an unreachable broker before it says that nothing was sent."""
STALL_SECONDS = 2.0
"""An append that is not confirmed for so long is said."""
RETRY_SECONDS = 0.05
Confirmed = dict[str, list[tuple[int, int]]]
"""Per topic the offsets and times that the broker gave to what was sent."""


class Appender:
    """Appends to one cell's partition of any topic, one append at a time. Thread-safe."""

    def __init__(self, link: Link, cell: int, patience: float) -> None:
        self._link = link
        self._cell = cell
        self._patience = patience
        self._producer: Producer | None = None
        self._writable: set[str] = set()
        self._appending = threading.Lock()

    def append(self, records: Sequence[NewRecord]) -> list[LogRecord]:
        """Implements `Log.append`; returns the records as they stand in the log. Waits for a broker that is away or
        lacks copies, then `LogUnavailable`. `LogFault`: no such topic, or security is in the way.
        """
        if not records:
            return []
        if not self._appending.acquire(timeout=self._patience):
            raise LogUnavailable(f"An earlier append to Kafka at {self._link.bootstrap} still waits. Try again.")
        try:
            wire_records = [record._replace(value=wire(record.value)) for record in records]
            confirmed: Confirmed = {record.topic: [] for record in records}
            failed = self._try(wire_records, confirmed)
            if failed is not None:
                self._drop()
                if failed.code() in DENIED:
                    raise self._link.denied(failed, "Write", confirmed)
                raise AppendUnknown(f"An append to Kafka at {self._link.bootstrap} failed: {failed.str()}.")
        finally:
            self._appending.release()
        self._link.flows()
        placed = {topic: iter(places) for topic, places in confirmed.items()}
        return [LogRecord(topic, *next(placed[topic]), key, value) for topic, key, value in wire_records]

    def close(self) -> None:
        """Drops the connection. An append that waits ends as `AppendUnknown`."""
        with self._appending:
            self._drop()

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.purge()
        self._producer, self._writable = None, set()

    def _try(self, records: Sequence[NewRecord], confirmed: Confirmed) -> KafkaError | None:
        """The first error, if any."""
        try:
            return self._send(self._reach(confirmed.keys()), records, confirmed)
        except KafkaException as error:  # the producer as a whole can't go on
            return self._cause(error.args[0])

    def _cause(self, error: KafkaError) -> KafkaError:
        """The error that made a producer give up, where the error says only that it did."""
        if error.code() == KafkaError._FATAL and self._producer is not None:
            try:
                self._producer.poll(0)
            except KafkaException as fatal:
                return cast(KafkaError, fatal.args[0])
        return error

    def _reach(self, topics: Set[str]) -> Producer:
        """The producer, once the broker is known to answer: what can't be sent now is not given to it."""
        if self._producer is None:
            self._producer = self._link.client(Producer, PRODUCER)
        self._producer.poll(0)
        last = time.monotonic() + self._patience
        while self._link.away or not topics <= self._writable:
            expired = time.monotonic() >= last
            try:
                metadata = self._producer.list_topics(timeout=max(0.1, min(1.0, last - time.monotonic()))).topics
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                self._producer.poll(0)  # what it has to say of the cause
                self._link.lost()
                if expired or self._link.refused or self._link.closing:
                    self._drop()  # nothing is on its way; the next is a new one: see `events.log.kafka.connection`
                    raise self._link.failure() from error
                continue
            self._link.found()
            self._check(metadata, topics, expired or self._link.closing)
        return self._producer

    def _check(self, metadata: Mapping[str, TopicMetadata], topics: Set[str], expired: bool) -> None:
        """Notes which topics take appends. Raises `LogFault` where one isn't there, and when the time has `expired`
        `LogUnavailable` where one can't take any.
        """
        self._writable -= topics
        for name in sorted(topics):
            topic = metadata.get(name)
            if topic is not None and topic.error is not None and topic.error.code() in DENIED:
                raise self._link.denied(topic.error, "Write", [name])
            partition = topic.partitions.get(self._cell) if topic is not None else None
            if partition is None:
                raise self._link.no_topic(self._cell, [name])
            needed = in_sync_min(len(partition.replicas))
            if partition.leader >= 0 and len(partition.isrs) >= needed:
                self._writable.add(name)
        if topics <= self._writable:
            return
        names = ", ".join(sorted(topics - self._writable))
        sentence = (
            f"Kafka at {self._link.bootstrap} takes no appends to {names} of cell {self._cell}: too few of its brokers "
            "are there. Start them; it is tried again."
        )
        self._link.stalled(sentence)
        if expired:
            raise LogUnavailable(sentence)
        time.sleep(RETRY_SECONDS)

    def _send(self, producer: Producer, records: Sequence[NewRecord], confirmed: Confirmed) -> KafkaError | None:
        """Sends and waits for every report; the first error, if any."""
        reports = 0
        failed: list[KafkaError] = []

        def reported(error: KafkaError | None, message: Message) -> None:
            nonlocal reports
            reports += 1
            if error is not None:
                failed.append(error)
            else:
                confirmed[cast(str, message.topic())].append((cast(int, message.offset()), message.timestamp()[1]))

        count = 0
        for topic, key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, self._cell, on_delivery=reported)
                    break
                except BufferError:
                    producer.poll(0.05)
            count += 1
        last = time.monotonic() + STALL_SECONDS
        while reports < count:
            producer.poll(0.1)
            if time.monotonic() > last:
                self._link.stalled(
                    f"Kafka at {self._link.bootstrap} has not confirmed an append for {STALL_SECONDS:g} s: "
                    "waiting. Its leader may be changing, or too few copies in sync."
                )
            if self._link.closing and reports < count:
                producer.purge()
        return failed[0] if failed else None
