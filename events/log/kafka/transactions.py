"""Transactions that nobody ends: what comes after the beginning of one is read by nobody.

Paceline writes without transactions; a foreign producer may use them. Readers are told the end of what is committed, so
to them such a topic looks as if nothing came any more.
"""

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
from prometheus_client import Gauge

from events.log.kafka.connection import ASK_SECONDS, CONSUMER
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import LogError

LOOK_S = 10.0
OPEN = Gauge(
    "paceline_transaction_open_seconds", "So long an open transaction has held back a topic.", ("cell", "topic")
)


class Transactions:
    """Looks now and then which topics of a cell are held back; see `processors.runtime.in_process.Component`."""

    def __init__(self, log: KafkaLog, topics: Iterable[str]) -> None:
        self._log = log
        self._topics = list(topics)
        self._client: Consumer | None = None
        self._held: dict[str, tuple[int, float]] = {}
        self._next = 0.0

    def step(self) -> bool:
        """Looks, where it is time to."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + LOOK_S
        try:
            self._note(self._written(), self._log.ends(self._topics, ASK_SECONDS), now)
        except (KafkaException, LogError):  # whoever reads says so
            self._client = None
        return False

    def wait_ms(self) -> int:
        """Milliseconds until it looks again."""
        return max(0, int(1000 * (self._next - time.monotonic())))

    def close(self) -> None:
        """Nothing is held."""

    def _written(self) -> dict[str, int]:
        """Where each topic ends, with what is not committed."""
        if self._client is None:
            self._client = self._log.link.client(Consumer, {**CONSUMER, "isolation.level": "read_uncommitted"})
            self._client.list_topics(timeout=ASK_SECONDS)
        partitions = [TopicPartition(topic, self._log.cell, OFFSET_END) for topic in self._topics]
        return {
            each.topic: each.offset
            for each in self._client.offsets_for_times(partitions, ASK_SECONDS)
            if not each.error
        }

    def _note(self, written: dict[str, int], committed: dict[str, int], now: float) -> None:
        """One that goes on to commit holds back for a moment only; one at the same place as before is not ended."""
        for topic, end in written.items():
            stood = committed[topic]
            at, since = self._held.get(topic, (stood, now))
            if end <= stood or at != stood:
                since = now
            self._held[topic] = stood, since
            OPEN.labels(self._log.cell, topic).set(now - since)
