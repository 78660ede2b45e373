"""The log backwards: facts and decisions, the newest first, of some topics and kinds, about a job, a pool or a host.

A page reads a bounded part of the log. Where that holds fewer records than a page has, the page says how far it has
looked back. What names a job is found by the history of that job in the views.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from sqlalchemy import Connection

from events.actors import writer_of
from events.codec import CodecError, decode
from events.log.lookup import records, stretches
from events.log.port import Log, LogRecord
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.resources import Kinds
from events.signatures import decode_signed
from events.topics import ALL, RANK
from projections.queries import story
from projections.queries.job_entries import newest_first
from projections.queries.resources import kinds_of
from projections.queries.story_parts import Line
from projections.views.reader import folded

TOPICS = tuple(topic.name for topic in ALL)
CHUNK = 50
"""Records of a topic read at once."""
LOOKED_AT_MAX = 2000
BYTES_MAX = 8 * 1024 * 1024
"""Records and bytes that are looked at for a page."""
DECISIONS_MAX = 10
"""Decisions of one round that are told."""
_NAMES = {
    "job": ("job_id", "job_ids", "for_job", "victim_job_id"),
    "pool": ("path", "pool", "pools", "at", "for_pool", "from_pools", "givers"),
    "host": ("host_id", "host_ids"),
}
"""The fields of records that name entities."""

Ends = Mapping[str, int]
"""Per topic the offset after the last record that is looked at."""


class LogFilter(NamedTuple):
    """A filter of records; an empty text lets all through."""

    topics: tuple[str, ...] = TOPICS
    kind: str = ""
    job: str = ""
    pool: str = ""
    host: str = ""
    actors: Sequence[str] = ()
    """Facts that one of these has written."""

    @property
    def asks(self) -> bool:
        """Whether single decisions are asked for."""
        return any(self[1:])

    def takes(self, event: Event) -> bool:
        """Whether a fact or a decision is asked for."""
        if self.kind and type(event).__name__ != self.kind:
            return False
        if self.actors and writer_of(event) not in self.actors:
            return False
        names = zip(_NAMES.values(), (self.job, self.pool, self.host), strict=True)
        return all(not name or _names(event, fields, name) for fields, name in names)


class Told(NamedTuple):
    """A fact or a decision in words; `place`: the index in its round, -1: a fact, a claim, or a round as a whole."""

    place: int
    kind: str
    line: Line


class LogEntry(NamedTuple):
    """A record of the log. `told`: the fact, or the first of the decisions; `more`: how many others there are."""

    topic: str
    offset: int
    at_ms: int
    machine: str
    round: int
    told: list[Told]
    more: int


class LogPage(NamedTuple):
    """Some records, the newest first; `ends`: where the next page begins, None: there is nothing before; `back_to_ms`:
    the time of the oldest record that was looked at.
    """

    entries: list[LogEntry]
    ends: Ends | None
    back_to_ms: int | None


def page(connection: Connection, log: Log, log_filter: LogFilter, size: int, ends: Ends | None = None) -> LogPage:
    """The newest records before `ends`, of those in the views. Raises `LogGap`, `LogUnavailable`."""
    ends_left = dict(ends if ends is not None else folded(connection))
    starts = {topic: log.bounds(topic)[0] for topic in log_filter.topics}
    kinds, entries = kinds_of(connection), list[LogEntry]()
    looked = weight = 0
    at_ms = None
    source = (
        _of_job(connection, log, log_filter, ends_left, starts)
        if log_filter.job
        else back(log, log_filter.topics, ends_left, starts)
    )
    for record in source:
        looked, weight, at_ms = looked + 1, weight + len(record.value), record.at_ms
        ends_left[record.topic] = record.offset
        entry = _entry(record, log.cell, log_filter, kinds)
        entries += [entry] if entry else []
        if len(entries) == size or looked == LOOKED_AT_MAX or weight > BYTES_MAX:
            more = any(ends_left.get(topic, 0) > start for topic, start in starts.items())
            return LogPage(entries, ends_left if more else None, at_ms)
    return LogPage(entries, None, at_ms)


def back(log: Log, topics: Sequence[str], ends: Ends, starts: Ends) -> Iterator[LogRecord]:
    """The records of some topics, the newest first."""
    left = {topic: ends.get(topic, 0) for topic in topics}
    held: dict[str, list[LogRecord]] = {}
    while True:
        empty = {
            topic: (max(starts[topic], left[topic] - CHUNK), left[topic])
            for topic in topics
            if not held.get(topic) and left[topic] > starts[topic]
        }
        if empty:
            held |= stretches(log, empty)
            left |= {topic: start for topic, (start, _) in empty.items()}
            continue
        newest = [each[-1] for each in held.values() if each]
        if not newest:
            return
        yield held[max(newest, key=lambda each: (each.at_ms, RANK[each.topic])).topic].pop()


def _of_job(connection: Connection, log: Log, log_filter: LogFilter, ends: Ends, starts: Ends) -> Iterator[LogRecord]:
    """The records that tell a job something, the newest first."""
    topics = {RANK[topic]: topic for topic in log_filter.topics}
    entries = (
        entry for entry in newest_first(connection, log_filter.job) if entry.said is not None and entry.topic in topics
    )
    before = (entry for entry in entries if entry.offset < ends.get(topics[entry.topic], 0))
    by_time = groupby(before, lambda entry: entry.at_ms)
    places = (place for _, some in by_time for place in sorted({each[2:4] for each in some}, reverse=True))
    for rank, offset in islice(places, LOOKED_AT_MAX):
        if offset >= starts[topics[rank]]:
            yield from records(log, topics[rank], offset, offset + 1)


def _entry(record: LogRecord, cell: int, log_filter: LogFilter, kinds: Kinds) -> LogEntry | None:
    """The record as it is shown; None: it isn't asked for."""
    try:
        event = decode_signed(record.value, cell)
    except CodecError:
        text = f"{len(record.value)} bytes that can't be read"
        return None if log_filter.asks else _made(record, [Told(-1, "unreadable", (text,))])
    if not isinstance(event, RoundCommitted):
        return _made(record, [_told(-1, event, kinds, log_filter)]) if log_filter.takes(event) else None
    decisions = [
        (place, decision) for place, value in enumerate(event.decisions) if log_filter.takes(decision := decode(value))
    ]
    if not decisions and (log_filter.asks or event.decisions):
        return None
    told = [_told(place, decision, kinds, log_filter) for place, decision in decisions[:DECISIONS_MAX]]
    nothing = [Told(-1, "RoundCommitted", ("nothing decided",))]
    return _made(record, told or nothing, event, len(decisions) - len(told))


def _made(record: LogRecord, told: list[Told], round_: RoundCommitted | None = None, more: int = 0) -> LogEntry:
    machine, number = (round_.machine, round_.round) if round_ else ("", 0)
    return LogEntry(record.topic, record.offset, record.at_ms, machine, number, told, more)


def _told(place: int, event: Event, kinds: Kinds, log_filter: LogFilter) -> Told:
    return Told(place, type(event).__name__, story.line_of(event, kinds, log_filter.job))


def _names(event: Any, fields: Sequence[str], name: str) -> bool:
    """Whether one of these fields names something."""
    values = (getattr(event, field, None) for field in fields)
    return any(value == name or (isinstance(value, tuple) and name in value) for value in values)
