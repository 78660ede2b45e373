"""Reading from Kafka by a client of one's own: committed records only, from positions that are given."""

import time
from collections.abc import Mapping, Sequence
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from events.acceptance import parse
from events.codec import ID_MARKER, uses_ids
from events.log.kafka.connection import ASK_SECONDS, CONSUMER
from events.log.kafka.offsets import Offsets
from events.log.port import LogFault, LogGap, LogRecord, LogUnavailable, gap

SILENCE_SECONDS = 5.0
"""A reader that hears nothing for so long asks whether the log is still there and as long as it was."""
_CUT = (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION)
"""The log has not what a reader asks for, or has other records there than it had."""


class KafkaReader:
    """Implements `Reader`. For one thread."""

    def __init__(self, offsets: Offsets, positions: Mapping[str, int]) -> None:
        self._offsets = offsets
        self._gap: LogGap | None = None
        self._last_record_at = time.monotonic()
        self._truncated_topic = ""
        self._stalled = False
        self._suspected_holes: dict[str, tuple[int, int]] = {}
        """Where a topic seemed to have a hole: the offset that was missing, and the one that came."""
        self._holes: set[str] = set()
        """Topics that have holes."""
        self._open(positions)

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`. While the broker is away there is nothing to read. `LogFault`: no such topic."""
        if self._gap:
            raise self._gap
        self._offsets.link.look()
        messages: list[Message] = []
        if timeout > 0:
            first = self._consumer.poll(timeout)
            messages += [] if first is None else [first]
        if messages or timeout <= 0:
            messages += self._consumer.consume(limit - len(messages), 0)
        records = self._records(messages)
        if records:
            self._last_record_at, self._truncated_topic, self._stalled = time.monotonic(), "", False
        elif time.monotonic() > self._last_record_at + SILENCE_SECONDS:
            self._check_log()
            self._last_record_at = time.monotonic()
        return records

    def news(self) -> bool:
        """Implements `Reader.news`: the broker would have to be asked."""
        return True

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`. Raises `LogUnavailable` after a short wait: then nobody knows whether he is
        caught up.
        """
        return self._offsets.ends(self._starts, ASK_SECONDS)

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        expected = self._next[topic]
        if topic in self._suspected_holes and self._suspected_holes[topic][0] == expected:
            return expected  # asked for again: for a while the client still tells a position past it
        offset: int = self._consumer.position([TopicPartition(topic, self._offsets.cell)])[0].offset
        return offset if offset >= 0 else self._starts[topic]

    def close(self) -> None:
        """Drops the connection."""
        self._consumer.close()

    def assign(self, positions: Mapping[str, int]) -> None:
        """Goes on with these topics, from there."""
        self._starts, self._next = dict(positions), dict(positions)
        cell = self._offsets.cell
        self._consumer.assign([TopicPartition(topic, cell, start) for topic, start in positions.items()])

    def _open(self, positions: Mapping[str, int]) -> None:
        self._consumer = self._offsets.link.client(Consumer, CONSUMER)
        self.assign(positions)

    def _check_log(self) -> None:
        """Looks whether the log is there. Raises `LogFault` where a topic is gone, `LogGap` where the log ends before
        what was read: the client itself doesn't tell in every case. One answer may come from a leader of old. A client
        that misses records that are there, twice, is replaced: see `events.log.kafka.connection`.
        """
        try:
            ends = self._offsets.ends(self._starts, 0)
        except LogUnavailable:
            return
        positions = {topic: self.position(topic) for topic in ends}
        short = next((topic for topic, end in ends.items() if end < positions[topic]), "")
        if short and short == self._truncated_topic:
            self._gap = gap(short, positions[short], 0, ends[short])
            raise self._gap
        self._truncated_topic = short
        behind = any(end > positions[topic] for topic, end in ends.items())
        if behind and self._stalled:
            self._consumer.close()
            self._open(positions)
        self._stalled = behind and not self._stalled

    def _records(self, messages: Sequence[Message]) -> list[LogRecord]:
        out = []
        jumped: set[str] = set()
        for message in messages:
            error = message.error()
            if error is None:
                record = _record(message)
                if record.topic in jumped or self._skips(record.topic, record.offset):
                    jumped.add(record.topic)
                    continue
                self._next[record.topic] = record.offset + 1
                out.append(record)
            elif error.code() in _CUT:
                self._gap = self._gap_of(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                topic = message.topic()
                topics = [topic] if topic else list(self._starts)
                if not self._offsets.is_transient(error, topics):
                    raise self._offsets.link.error(error, self._offsets.cell, topics, "Read")
        if jumped:
            self.assign(self._next)
        if out:
            self._offsets.link.found()
        elif self._gap:
            raise self._gap
        return out

    def _skips(self, topic: str, offset: int) -> bool:
        """Whether records before this one are to be asked for again. Holes are legal, but when leaders were lost a
        client has been seen to pass over a record that was there: the first hole of a topic is believed when it is met
        again, and from then on each of that topic, to which somebody writes in transactions.
        """
        expected = self._next[topic]
        if offset <= expected or topic in self._holes:
            return False
        if self._suspected_holes.get(topic) == (expected, offset):
            self._holes.add(topic)
            return False
        self._suspected_holes[topic] = expected, offset
        return True

    def _gap_of(self, message: Message) -> LogGap:
        topic = cast(str, message.topic())
        position = self.position(topic)
        try:
            start, end = self._offsets.bounds(topic)
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
    if value[:1] == ID_MARKER and not uses_ids() and parse(key) is not None:
        raise LogFault(f"{topic} holds records with ids of a schema registry. Name it with schema_registry_url.")
    return LogRecord(topic, offset, message.timestamp()[1], key, value)
