"""Some records of a log, read without those after them."""

from collections.abc import Mapping
from contextlib import closing

from events.log.port import Log, LogRecord

WAIT_S = 1.0
"""Seconds that a read without a result waits before it is tried again."""


def stretches(log: Log, bounds: Mapping[str, tuple[int, int]]) -> dict[str, list[LogRecord]]:
    """The records of several topics from one offset up to another, read together. Raises `LogGap`, `LogUnavailable`."""
    records: dict[str, list[LogRecord]] = {topic: [] for topic in bounds}
    starts = {topic: start for topic, (start, end) in bounds.items() if start < end}
    limit = sum(bounds[topic][1] - start for topic, start in starts.items())
    with closing(log.reader(starts)) as reader:
        while any(reader.position(topic) < bounds[topic][1] for topic in starts):
            for record in reader.poll(limit, WAIT_S):
                if record.offset < bounds[record.topic][1]:
                    records[record.topic].append(record)
    return records


def records(log: Log, topic: str, start: int, end: int) -> list[LogRecord]:
    """The records of a topic from one offset up to another, or to its end. Raises as `stretches`."""
    return stretches(log, {topic: (start, min(end, log.bounds(topic)[1]))})[topic]


def record_at(log: Log, topic: str, offset: int) -> LogRecord | None:
    """The record at an offset; None where there is none. Raises as `stretches`."""
    return next(iter(records(log, topic, offset, offset + 1)), None)
