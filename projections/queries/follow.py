"""Follows the log as events: every fact and every decision of an accepted round, in the order of cause and effect.

A cursor says how far each topic was given, so that a reader who comes back misses nothing and gets nothing twice. Only
what the views have folded is given: whoever hears of something finds it there.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from sqlalchemy import Connection, select

from events.codec import CodecError, decode
from events.log.port import Log, LogGap, LogRecord
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.signatures import decode_signed
from events.topics import ALL, BY_NAME, RANK
from paceline.client.json_type import Json
from projections.access.limits import limits
from projections.queries import event_filter
from projections.queries.event_filter import EventFilter, Subjects
from projections.queries.event_texts import texts_of
from projections.queries.own_records import own_records
from projections.queries.resources import kinds_of
from projections.queries.story_parts import text_of
from projections.record_json import at, brief
from projections.views import tables
from projections.views.reader import Views, folded

BATCH = 200
"""Records given in one batch; at most twice as many of each topic are held."""
BYTES = 512 * 1024
"""Bytes of records in one batch; as many of a topic are held, and those of one more reading of POLLED records."""
POLLED = 20
KNOWN_MAX = 10_000
"""Jobs that a filter has let through, by which they are known when they are deleted."""


NOW, START = "", "start"


class BadCursor(ValueError):
    """A cursor that can't be read."""


class StreamedEvent(NamedTuple):
    """One event: the cursor after it, its kind, its content."""

    cursor: str
    event: str
    data: Json


class _Read(NamedTuple):
    """An event that was read: of which decision of which round it is, and the cursor after it."""

    record: LogRecord
    event: Event
    of: RoundCommitted | None
    place: int
    cursor: str


class Tail:
    """Gives events from a cursor on: from NOW, what is folded now, from START, the oldest that the log holds.
    `positions`: how far they were given. With a filter, what it doesn't let through is passed over.

    Raises `BadCursor`, and `LogGap` where the log no longer holds what comes next.
    """

    def __init__(self, views: Views, log: Log, cursor: str = NOW, criteria: EventFilter | None = None) -> None:
        self._views = views
        self._log = log
        if criteria is None and limits() is not None:
            criteria = EventFilter()
        self._criteria = criteria
        self.is_idle = False
        """Whether the last batch had nothing to read, nor to give or to pass over."""
        self._passed = dict.fromkeys(criteria.job_ids if criteria and limits() is None else ())
        self._part = ("", 0)
        if cursor == START:
            self.positions = {topic.name: log.bounds(topic.name)[0] for topic in ALL}
        elif cursor != NOW:
            self.positions, self._part = read_cursor(cursor)
            _must_be_reached(views, log, self.positions)
        else:
            with views.read() as connection:
                have = folded(connection)
            self.positions = {topic.name: have.get(topic.name, 0) for topic in ALL}
        self._read = dict(self.positions)
        self._topics = tuple(self._read)
        self._reader = log.reader(self._read)
        self._waiting: dict[str, deque[LogRecord]] = {topic.name: deque() for topic in ALL}
        self._held = dict.fromkeys(self._waiting, 0)

    @property
    def cursor(self) -> str:
        """The cursor after all that was given or passed over."""
        return write_cursor(self.positions, *self._part)

    def batch(self) -> list[StreamedEvent]:
        """The next events, none where there are none yet, or where a filter passes over all that was read."""
        self.is_idle = not self._fill()
        out: list[_Read] = []
        with self._views.read() as connection:
            ends = folded(connection)
            depths = {topic: self._depths(connection, topic, ends.get(topic, 0)) for topic in self._waiting}
        count = weight = 0
        while count < BATCH and weight < BYTES:
            topic = self._next(ends, depths)
            if topic is None:
                break
            record = self._waiting[topic].popleft()
            count, weight = count + 1, weight + len(record.value)
            self._held[topic] -= len(record.value)
            if BY_NAME[topic].machine is None or record.offset in depths[topic]:
                out += self._events(record)
            self.positions[topic] = record.offset + 1
            self.is_idle = False
        if self._criteria is None:
            return [_streamed(each) for each in out]
        return list(self._filtered(self._criteria, out)) if out else []

    def _filtered(self, criteria: EventFilter, read: list[_Read]) -> Iterator[StreamedEvent]:
        """Those that a filter lets through, each with what it is about."""
        matching = set[str]()
        with self._views.read() as connection:
            kinds, own = kinds_of(connection), own_records(connection)
            if own is None:
                subjects = [event_filter.subjects(each.event, self._passed) for each in read]
            else:
                seen = [(each, about) for each in read if (about := own.subjects(each.event, self._passed))]
                read, subjects = [each for each, _ in seen], [about for _, about in seen]
            if criteria.of_jobs():
                job_ids = dict.fromkeys(job_id for each in subjects for job_id in each.jobs)
                matching, absent = event_filter.wanted_jobs(connection, criteria, job_ids)
                matching |= absent & self._passed.keys()
            for each, about in zip(read, subjects, strict=True):
                passed = event_filter.passing(criteria, each.event, about, matching)
                if passed is not None and each.record.at_ms >= criteria.since_ms:
                    self._remember(passed)
                    event = _streamed(each)
                    words = event.data["about"] = event_filter.about_json(each.event, passed)
                    if own is not None:
                        words["jobs"] = {job_id: own.names.told(detail) for job_id, detail in words["jobs"].items()}
                    event.data["text"], event.data["job_texts"] = texts_of(each.event, words["jobs"], kinds)
                    if own is not None:
                        event.data["data"] = own.data(each.event, about)
                        event.data["text"] = text_of(own.line(each.event, kinds, about))
                    yield event

    def _remember(self, passed: Subjects) -> None:
        self._passed.update(dict.fromkeys(passed.jobs))
        while len(self._passed) > KNOWN_MAX:
            del self._passed[next(iter(self._passed))]

    def _fill(self) -> bool:
        """Reads on, and says whether there was something. Where enough of a topic waits, only the others are read, so
        that little is held.
        """
        before = sum(self._read.values())
        for _ in range(-(-BATCH // POLLED)):
            topics = tuple(
                topic for topic, waiting in self._waiting.items() if len(waiting) < BATCH and self._held[topic] < BYTES
            )
            if topics != self._topics:
                self._reader.close()
                self._topics = topics
                self._reader = self._log.reader({topic: self._read[topic] for topic in topics})
            found = self._reader.poll(POLLED, 0)
            for record in found:
                self._waiting[record.topic].append(record)
                self._held[record.topic] += len(record.value)
            for topic in topics:
                self._read[topic] = self._reader.position(topic)
            if not found:
                break
        return sum(self._read.values()) > before

    def close(self) -> None:
        """Gives back the reader."""
        self._reader.close()

    def _next(self, ends: dict[str, int], depths: dict[str, dict[int, int]]) -> str | None:
        """The topic whose next record comes first; None where that can't be said before more is read."""
        best: tuple[tuple[int, int, int], str] | None = None
        for topic, waiting in self._waiting.items():
            if not waiting:
                if self._read[topic] < ends.get(topic, 0):
                    return None
                continue
            head = waiting[0]
            if head.offset < ends.get(topic, 0):
                key = (head.at_ms, depths[topic].get(head.offset, 0), RANK[topic])
                best = min(best, (key, topic)) if best else (key, topic)
        return best[1] if best else None

    def _depths(self, connection: Connection, topic: str, end: int) -> dict[int, int]:
        """The depths of the accepted rounds among those that wait."""
        machine, waiting = BY_NAME[topic].machine, self._waiting[topic]
        given = [record.offset for record in takewhile(lambda record: record.offset < end, waiting)]
        if machine is None or not given:
            return {}
        rounds = tables.rounds.c
        query = select(rounds.position, rounds.depth).where(
            rounds.machine == machine, rounds.position.between(given[0], given[-1])
        )
        return dict(map(tuple, connection.execute(query)))

    def _events(self, record: LogRecord) -> Iterator[_Read]:
        try:
            event = decode_signed(record.value, self._log.cell)
        except CodecError:
            return
        if not isinstance(event, RoundCommitted):
            if event.topic == record.topic:
                yield self._read_one(record, event, None, 0, 0)
            return
        last = len(event.decisions) - 1
        topic, given = self._part
        self._part = ("", 0) if topic == record.topic else self._part
        for place, value in enumerate(event.decisions):
            if topic != record.topic or place >= given:
                yield self._read_one(record, decode(value), event, place, 0 if place == last else place + 1)

    def _read_one(self, record: LogRecord, event: Event, of: RoundCommitted | None, place: int, after: int) -> _Read:
        positions = {**self.positions, record.topic: record.offset + (after == 0)}
        part = (record.topic, after) if after else self._part
        return _Read(record, event, of, place, write_cursor(positions, *part))


def _streamed(read: _Read) -> StreamedEvent:
    record, event, of, place, cursor = read
    data = {
        "position": f"{record.topic}:{record.offset}",
        "at": at(record.at_ms),
        "machine": of.machine if of else None,
        "round": of.round if of else None,
        "index": place if of else None,
        "event": type(event).__name__,
        "data": brief(event),
    }
    return StreamedEvent(cursor, type(event).__name__, data)


def write_cursor(positions: dict[str, int], topic: str, place: int) -> str:
    """Positions by rank of topic; with a place where a round was given in part."""
    parts = [f"{RANK[name]}:{position}" for name, position in positions.items()]
    return ",".join(parts) + (f"+{RANK[topic]}:{place}" if place else "")


def read_cursor(text: str) -> tuple[dict[str, int], tuple[str, int]]:
    """Positions, and of which topic the next round was given in part and how much of it. Raises `BadCursor`."""
    positions = {topic.name: 0 for topic in ALL}
    whole, _, part = text.partition("+")
    try:
        for each in whole.split(","):
            rank, offset = each.split(":")
            positions[ALL[_number(rank)].name] = _number(offset)
        if not part:
            return positions, ("", 0)
        rank, given = part.split(":")
        return positions, (ALL[_number(rank)].name, _number(given))
    except (ValueError, IndexError) as error:
        raise BadCursor(f"{text[:100]!r} is no id of an event") from error


def _must_be_reached(views: Views, log: Log, positions: dict[str, int]) -> None:
    """Raises `LogGap` for a position that neither the log nor the views have come to."""
    with views.read() as connection:
        have = folded(connection)
    for topic, end in log.ends(positions).items():
        if positions[topic] > max(end, have.get(topic, 0)):
            raise LogGap(
                f"the event is at {topic}:{positions[topic]}, and {topic} ends at {end}: its id is of another cell or "
                "another log; begin without one (now) or with the oldest event (start)"
            )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(text)
    return int(text)
