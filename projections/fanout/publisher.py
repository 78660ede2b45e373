"""Sends the messages of a round and waits until all of them are in the log."""

import threading
import time
from collections import Counter as Counts
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from prometheus_client import Counter

from events.codec import encode, wire
from events.log.kafka.append import PATIENCE_SECONDS
from events.log.kafka.connection import PRODUCER, Link
from events.log.port import AppendUnknown
from projections.fanout.unfold import OutputMessage

ID_HEADER = "paceline-event-id"
POLL_S = 0.1
ASK_S = 2.0
SENT = Counter("paceline_fanout_messages_total", "Messages published.", ("cell", "topic"))


class Publisher:
    """To the partition of one cell. For one thread at a time; `stopping` ends what waits.

    A message that doesn't stand right behind the last one tells that another process publishes too: one of the two
    was frozen, or cut off, and hasn't heard yet that the cell is no longer its own.
    """

    def __init__(self, link: Link, cell: int, stopping: threading.Event) -> None:
        self._link = link
        self._cell = cell
        self._stopping = stopping
        self._producer: Producer | None = None
        self._waiting = 0
        self._failed = ""
        self._ends: dict[str, int] = {}

    def begin(self, ends: Mapping[str, int]) -> None:
        """Where the topics of the fan-out end, before it is read what stands there."""
        self._ends = dict(ends)

    def publish(self, messages: Iterable[OutputMessage]) -> None:
        """Returns once all are in the log. Raises `LogUnavailable` where nothing was sent,
        `AppendUnknown` where it isn't known what was, `LogFault`.
        """
        counts: Counts[str] = Counts()
        for out in messages:
            self._send(out)
            counts[out.topic] += 1
        while self._waiting and not self._stopping.is_set():
            self._poll(POLL_S)
        if self._waiting:
            raise self._lost("the process stops")
        for topic, count in counts.items():
            SENT.labels(self._cell, topic).inc(count)

    def close(self) -> None:
        """Drops the connection, and what was not sent."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.poll(0)
        self._producer, self._waiting, self._failed = None, 0, ""
        self._ends = {}

    def _send(self, out: OutputMessage) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(ID_HEADER, out.event_id.encode())]
        value = wire(encode(out.event))
        producer = self._reach()
        while not self._stopping.is_set():
            try:
                producer.produce(
                    out.topic, value, out.key.encode(), self._cell, on_delivery=self._reported, headers=headers
                )
            except BufferError:
                self._poll(POLL_S)
            except KafkaException as error:
                raise self._lost(error.args[0].str()) from error
            else:
                self._waiting += 1
                return
        raise self._lost("the process stops")

    def _reach(self) -> Producer:
        """The producer, once a broker is known to answer: what can't be sent now is not given to it."""
        if self._producer is None:
            self._producer = self._link.client(Producer, PRODUCER)
            self._link.look()
            self._ask(self._producer)
        return self._producer

    def _ask(self, producer: Producer) -> None:
        """Returns once a broker has answered. One that answers others is only slow, and is asked again for a while."""
        patient_until = time.monotonic() + PATIENCE_SECONDS
        while not self._stopping.is_set():
            try:
                producer.list_topics(timeout=ASK_S)
            except KafkaException as error:
                if self._link.away or time.monotonic() > patient_until:
                    self.close()
                    self._link.lost()
                    raise self._link.failure() from error
            else:
                return
        raise self._lost("the process stops")

    def _poll(self, seconds: float) -> None:
        assert self._producer is not None
        self._producer.poll(seconds)
        if self._failed:
            raise self._lost(self._failed)

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        self._waiting -= 1
        topic, offset = str(message.topic()), message.offset()
        if error is not None:
            self._failed = self._failed or error.str()
        elif offset is None or offset < 0:  # what was sent twice is confirmed without it
            self._ends.pop(topic, None)
        else:
            if self._ends.get(topic, offset) != offset:
                self._failed = self._failed or "another process publishes too"
            self._ends[topic] = offset + 1

    def _lost(self, why: str) -> AppendUnknown:
        self.close()
        return AppendUnknown(f"Messages of the fan-out of cell {self._cell} may not have been written: {why}.")
