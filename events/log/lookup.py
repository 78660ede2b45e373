"""Single records of a log, read without those after them."""

from contextlib import closing

from events.log.port import Log, LogRecord

WAIT_S = 1.0
"""How long a read that brings nothing waits before it is tried again."""


def records(log: Log, topic: str, start: int, limit: int) -> list[LogRecord]:
    """Up to `limit` records of a topic from an offset on. Raises `LogGap`, `LogUnavailable`."""
    found: list[LogRecord] = []
    end = log.bounds(topic)[1]
    with closing(log.reader({topic: start})) as reader:
        while len(found) < limit and reader.position(topic) < end:
            found += reader.poll(limit - len(found), WAIT_S)
    return found


def record_at(log: Log, topic: str, offset: int) -> LogRecord | None:
    """The record at an offset; None where there is none. Raises `LogGap`, `LogUnavailable`."""
    found = records(log, topic, offset, 1) if offset < log.bounds(topic)[1] else []
    return found[0] if found and found[0].offset == offset else None
