"""Cuts of a log: where its topics were at a time or at a position, and the log as it was then."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile

from events.codec import CodecError, decode
from events.log.port import Log, LogFault, LogRecord, NewRecord, Reader, gap
from events.records.rounds import RoundCommitted
from events.rounds import key_of
from events.topics import MACHINES, VIEWED, rounds_of
from paceline.client.errors import PacelineError

ROUNDS_BACK = (100, 10_000)
"""So far before an end the last rounds are looked for, first near, then further."""


class CutLog:
    """A log as it was: topics end where `ends` says, those that it doesn't name where they end now."""

    def __init__(self, log: Log, ends: Mapping[str, int]) -> None:
        self.cell = log.cell
        self._log = log
        self._ends = ends

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Raises `LogFault`."""
        raise LogFault("This is history: it takes no records.")

    def reader(self, positions: Mapping[str, int]) -> "CutReader":
        """Implements `Log.reader`."""
        return CutReader(self._log.reader(positions), self)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        first, end = self.bounds(topic)
        if start > end:
            raise gap(topic, start, first, end)
        return takewhile(lambda record: record.offset < end, self._log.scan(topic, start))

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        start, end = self._log.bounds(topic)
        return start, max(start, min(end, self._ends.get(topic, end)))

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return {topic: self.bounds(topic)[1] for topic in topics}

    def wait(self, timeout: float) -> None:
        """Nothing comes."""

    def close(self) -> None:
        """Implements `Log.close`."""
        self._log.close()


class CutReader:
    """Implements `Reader`."""

    def __init__(self, reader: Reader, log: CutLog) -> None:
        self._reader = reader
        self._log = log
        self._ends = log.ends(reader.ends())

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`."""
        if all(self._reader.position(topic) >= end for topic, end in self._ends.items()):
            return []
        return [record for record in self._reader.poll(limit, timeout) if record.offset < self._ends[record.topic]]

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return self._reader.news()

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        return dict(self._ends)

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        return min(self._reader.position(topic), self._ends[topic])

    def close(self) -> None:
        """Implements `Reader.close`."""
        self._reader.close()


def first_at(log: Log, topic: str, ms: int) -> int:
    """The first offset of a topic whose record was appended at a time or later; its end where there is none."""
    low, high = log.bounds(topic)
    while low < high:
        middle = (low + high) // 2
        record = next(log.scan(topic, middle), None)
        if record is not None and record.at_ms < ms:
            low = record.offset + 1
        else:
            high = middle
    return low


def before(log: Log, ms: int) -> dict[str, int]:
    """Where each topic ended before a time, in milliseconds since 1970."""
    return {topic.name: first_at(log, topic.name, ms) for topic in VIEWED}


def up_to(log: Log, record: LogRecord) -> dict[str, int]:
    """Where each topic ended when a record was appended, that record and what came in the same millisecond included; of
    its own topic nothing that came after.
    """
    return {**before(log, record.at_ms + 1), record.topic: record.offset + 1}


def closed(log: Log, ends: Mapping[str, int]) -> dict[str, int]:
    """Those ends, moved on until whatever the rounds before them were decided on, or had seen, is before them too.
    Clocks of brokers differ; on one clock nothing moves.
    """
    out = dict(ends)
    while True:
        needed = dict(out)
        for machine in MACHINES:
            for round_ in _last_rounds(log, rounds_of(machine), out[rounds_of(machine)]):
                for segment in round_.inputs:
                    needed[segment.topic] = max(needed[segment.topic], segment.end)
                for seen in round_.seen:
                    if seen.topic in needed:
                        needed[seen.topic] = max(needed[seen.topic], seen.position)
        if needed == out:
            return out
        out = needed


def _last_rounds(log: Log, topic: str, end: int) -> list[RoundCommitted]:
    """The rounds among the last records in a topic before an offset, at least one if there is any. Some may be late
    ones of an old epoch; those are decided on less. What can't be read is left out, as the views leave it out.
    """
    start = log.bounds(topic)[0]
    for back in ROUNDS_BACK:
        rounds = []
        for record in takewhile(lambda each: each.offset < end, log.scan(topic, max(start, end - back))):
            try:
                event = decode(record.value) if key_of(record) is not None else None
            except CodecError:
                continue
            if isinstance(event, RoundCommitted):
                rounds.append(event)
        if rounds:
            return rounds
    return []


def read_time(text: str) -> int:
    """Milliseconds since 1970 of a time such as 2026-08-21T10:44:07Z; without an offset it is local time. Raises
    `PacelineError`.
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise PacelineError(f"{text!r} is no time; one looks like 2026-08-21T10:44:07Z.") from error


def write_time(ms: int) -> str:
    """A time in UTC, to the millisecond."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
