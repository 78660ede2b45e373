"""Lists who wrote which fact, allowed by what: those of users and operators, the newest first, out of the log itself.

Each page reads a bounded part of the log, as `log_records` does. `paceline audit --verify` shares no code with this.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from events.access import covers
from events.codec import HEADER_BYTES, ID_HEADER_BYTES, MARKER, CodecError, decode, writer_schema
from events.log.lookup import records
from events.log.port import Log, LogRecord
from events.records.base import Event
from events.records.parts import Actor
from events.records.pools import RoleBound
from events.resources import Kinds
from events.signatures import decode_signed
from events.topics import FACTS, POOLS
from projections.queries import story
from projections.queries.log_records import Ends, back
from projections.queries.resources import kinds_of
from projections.queries.story_parts import Line
from projections.views import tables
from projections.views.reader import folded

TOPICS = tuple(sorted(FACTS))
LOOKED_AT_MAX = 20_000
DECODED_MAX = 2_000
"""Records that are passed, and those that are read, for a page."""
_POOL_FIELDS, _JOB_FIELDS, _HOST_FIELDS = ("pool", "path"), ("job_id", "job_ids"), ("host_id", "host_ids", "hosts")
"""The fields of facts that name what they are about."""


class AuditFilter(NamedTuple):
    """A filter of facts; an empty field lets all through. `pool`: with all below it."""

    actors: Sequence[str] = ()
    kind: str = ""
    pool: str = ""
    job: str = ""
    host: str = ""
    since_ms: int = 0
    until_ms: int = 0
    tops: tuple[str, ...] | None = None
    """The topmost pools whose facts may be seen; None: all."""


class Deed(NamedTuple):
    """A fact that somebody wrote. `role`: the binding that it names, as it stands in the log; None: it names none, or
    the log doesn't reach back to it.
    """

    topic: str
    offset: int
    at_ms: int
    kind: str
    actor: Actor
    line: Line
    pools: tuple[str, ...]
    role: RoleBound | None


class AuditPage(NamedTuple):
    """Some facts, the newest first; `ends`: where the next page begins, None: there is nothing before; `back_to_ms`:
    the time of the oldest record that was looked at.
    """

    deeds: list[Deed]
    ends: Ends | None
    back_to_ms: int | None


def page(connection: Connection, log: Log, criteria: AuditFilter, size: int, ends: Ends | None = None) -> AuditPage:
    """The newest facts before `ends`, of those in the views. Raises `LogGap`, `LogUnavailable`."""
    ends_left = dict(ends if ends is not None else folded(connection))
    starts = {topic: log.bounds(topic)[0] for topic in TOPICS}
    kinds, deeds = kinds_of(connection), list[Deed]()
    decoded, at_ms = 0, None
    for looked, record in enumerate(back(log, TOPICS, ends_left, starts), 1):
        if record.at_ms < criteria.since_ms:
            # Times of one topic never fall, and the newest of all topics comes first.
            return AuditPage(deeds, None, at_ms)
        at_ms = record.at_ms
        ends_left[record.topic] = record.offset
        if (not criteria.until_ms or record.at_ms < criteria.until_ms) and _names_actor(record.value):
            decoded += 1
            deeds += _deed(connection, log, record, criteria, kinds)
        if len(deeds) == size or looked == LOOKED_AT_MAX or decoded == DECODED_MAX:
            more = any(ends_left.get(topic, 0) > start for topic, start in starts.items())
            return AuditPage(deeds, ends_left if more else None, at_ms)
    return AuditPage(deeds, None, at_ms)


def _names_actor(value: bytes) -> bool:
    """Whether a record is of a kind that names its actor, found without reading it."""
    try:
        return _has_actor(value[: HEADER_BYTES if value[:2] == MARKER else ID_HEADER_BYTES])
    except CodecError:
        return False


@lru_cache(maxsize=1024)
def _has_actor(head: bytes) -> bool:
    return bool(writer_schema(head)["fields"][-1]["name"] == "actor")


def _deed(connection: Connection, log: Log, record: LogRecord, criteria: AuditFilter, kinds: Kinds) -> Iterator[Deed]:
    """The fact, if it is asked for and may be seen."""
    try:
        fact: Any = decode_signed(record.value, log.cell)
    except CodecError:
        return
    actor, kind = fact.actor, type(fact).__name__
    if (
        actor is None
        or (criteria.actors and actor.subject not in criteria.actors)
        or (criteria.kind and kind != criteria.kind)
    ):
        return
    jobs, hosts = _named(fact, _JOB_FIELDS), _named(fact, _HOST_FIELDS)
    if (criteria.job and criteria.job not in jobs) or (criteria.host and criteria.host not in hosts):
        return
    pools = _named(fact, _POOL_FIELDS) or _pools_of(connection, jobs, record.at_ms)
    if criteria.pool and not any(covers(criteria.pool, pool) for pool in pools):
        return
    tops = criteria.tops
    if tops is not None and not (pools and all(any(covers(top, pool) for top in tops) for pool in pools)):
        return
    role = _role(log, actor.binding)
    yield Deed(record.topic, record.offset, record.at_ms, kind, actor, story.line_of(fact, kinds, ""), pools, role)


def _named(fact: Event, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The names that stand in these fields."""
    for field in fields:
        value = getattr(fact, field, None)
        if isinstance(value, str) and value:
            return (value,)
        if isinstance(value, tuple) and value and isinstance(value[0], str):
            return value
    return ()


def _pools_of(connection: Connection, jobs: tuple[str, ...], at_ms: int) -> tuple[str, ...]:
    """The pools of jobs that are known, each once; a job that was submitted later has the id of another one."""
    if not jobs:
        return ()
    of = tables.jobs.c
    query = select(of.pool).where(of.job_id.in_(jobs), of.submitted_ms <= at_ms).distinct()
    return tuple(sorted(connection.execute(query).scalars()))


def _role(log: Log, offset: int | None) -> RoleBound | None:
    """The binding at an offset of paceline.pools."""
    start, end = log.bounds(POOLS.name) if offset is not None else (0, 0)
    if offset is None or not start <= offset < end:
        return None
    for record in records(log, POOLS.name, offset, offset + 1):
        try:
            fact = decode(record.value)
        except CodecError:
            return None
        return fact if isinstance(fact, RoleBound) else None
    return None
