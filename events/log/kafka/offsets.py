"""Asks the broker for first and end offsets of a cell's topics, again and again while the broker is unreachable.

Decision 015.
"""

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from events.log.kafka.connection import ASK_SECONDS, CONSUMER, NO_TOPIC, PASSING, Link

ANSWER_SECONDS = 0.5
ANSWER_SECONDS_MAX = 2.0
"""Timeout of the first request; each retry doubles it, up to the maximum, so that even a slow broker gets to answer.
"""
RETRY_SECONDS = 0.05


class Offsets:
    """First and end offsets of one cell's partitions. `patience`: the seconds to wait for a broker. Thread-safe."""

    def __init__(self, link: Link, cell: int, patience: float) -> None:
        self.link = link
        self.cell = cell
        self._patience = patience
        self._metadata_known = False
        self._client = link.client(Consumer, CONSUMER)

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`. Raises `LogUnavailable`; `LogFault`: no such topic."""
        start = self._offsets([topic], OFFSET_BEGINNING, self._patience)[topic]
        return start, self._offsets([topic], OFFSET_END, self._patience)[topic]

    def ends(self, topics: Iterable[str], patience: float | None = None) -> dict[str, int]:
        """Implements `Log.ends`. Raises `LogUnavailable`, after `patience` seconds if given; `LogFault`: no such
        topic.
        """
        return self._offsets(list(topics), OFFSET_END, self._patience if patience is None else patience)

    def is_transient(self, error: KafkaError, topics: Sequence[str]) -> bool:
        """Whether an error may pass by itself: the broker returns, or an announced topic becomes ready."""
        if error.code() not in NO_TOPIC:
            return error.code() in PASSING or error.retriable()
        try:
            topics_there = self._client.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException:
            return True
        return all(topic in topics_there and self.cell in topics_there[topic].partitions for topic in topics)

    def _offsets(self, topics: Sequence[str], which: int, patience: float) -> dict[str, int]:
        """Return an offset per topic, requested on a connection of its own so that no fetch delays it. `which`:
        OFFSET_BEGINNING or OFFSET_END. An `AdminClient` corrupts the memory of its process when a reply about offsets
        is late (seen in librdkafka 2.16.1).
        """
        began, answer_s = time.monotonic(), ANSWER_SECONDS
        while True:
            client = self._client  # another thread may replace it: a closed one never answers
            if self.link.closing:
                self.link.look()  # raises
            try:
                if not self._metadata_known:  # the first request of a client that knows no broker is sometimes lost
                    client.list_topics(timeout=answer_s)
                    self._metadata_known = True
                answers = client.offsets_for_times(
                    [TopicPartition(topic, self.cell, which) for topic in topics], answer_s
                )
                error = next((each.error for each in answers if each.error), None)
                if error is None:
                    self.link.answered(topics)
                    return {each.topic: each.offset for each in answers}
            except KafkaException as raised:
                error = raised.args[0]
            self._metadata_known = False  # it keeps asking former leaders until its metadata of all topics is refreshed
            client.poll(0)  # serves its error callback
            self.link.look()
            if not self.is_transient(error, topics):
                raise self.link.error(error, self.cell, topics, "Read")
            left_s = (min(patience, ASK_SECONDS) if self.link.away else patience) - (time.monotonic() - began)
            if left_s <= 0:
                self._client = self.link.client(Consumer, CONSUMER)  # see `events.log.kafka.connection`
                raise self.link.unavailable(error, topics)
            answer_s = max(ANSWER_SECONDS, min(2 * answer_s, left_s, ANSWER_SECONDS_MAX))
            time.sleep(RETRY_SECONDS)
