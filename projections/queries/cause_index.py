"""The index of causes in the views of a cell, beside its log (`causes.Index`) (decision 050)."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from sqlalchemy import Connection

from events.codec import CodecError, decode
from events.log.lookup import record_at
from events.log.port import Log, LogGap
from events.records.base import Event
from events.records.parts import Cause
from events.records.rounds import RoundCommitted
from events.resources import LONG_MAX
from events.signatures import decode_signed
from events.topics import BY_NAME, RANK
from projections.queries.causes import RoundPlace
from projections.views.cause_ties import BITS, FACT, Location
from projections.views.job_records import JobEntry, entries_in
from projections.views.mentions import Window
from projections.views.reader import rows_as_text

_ROWS = (
    "SELECT number, entries FROM history WHERE job_id = ? AND kinds & ? AND first <= ? AND last >= ? "
    "AND first_run <= ? AND last_run >= ? ORDER BY number DESC"
)
_ROUND = "SELECT position, ends FROM rounds WHERE machine = ? AND number = ?"


class ViewIndex:
    """An `Index`. Reads the views through one connection, and of the log only the records that are asked for, each
    once. What the log has no more isn't there.
    """

    def __init__(self, connection: Connection, log: Log) -> None:
        self._connection = connection
        self._log = log
        self._records: dict[tuple[str, int], tuple[int, Event | None]] = {}
        self._decisions: dict[Location, Event] = {}
        self._rounds: dict[tuple[str, int], RoundPlace | None] = {}
        self._rows: dict[tuple[str, int], list[JobEntry]] = {}

    def round(self, machine: str, number: int) -> RoundPlace | None:
        """Implements `Index`."""
        key = machine, number
        if key not in self._rounds:
            row = self._connection.exec_driver_sql(_ROUND, key).first()
            self._rounds[key] = RoundPlace(row[0], msgspec.json.decode(row[1])) if row else None
        return self._rounds[key]

    def event(self, location: Location) -> Event | None:
        """Implements `Index`."""
        topic, offset, index = location
        event = self.record(topic, offset)[1]
        if index == FACT or not isinstance(event, RoundCommitted):
            return event if index == FACT else None
        if location not in self._decisions and index < len(event.decisions):
            self._decisions[location] = decode(event.decisions[index])
        return self._decisions.get(location)

    def record(self, topic: str, offset: int) -> tuple[int, Event | None]:
        """When a record was appended, and what it says; 0 and None where there is none that can be read."""
        key = topic, offset
        if key not in self._records:
            self._records[key] = self._read(topic, offset)
        return self._records[key]

    def cause_at(self, location: Location) -> Cause:
        """Implements `Index`."""
        topic, offset, index = location
        if index == FACT:
            return Cause(topic=topic, offset=offset)
        round_ = self.record(topic, offset)[1]
        assert isinstance(round_, RoundCommitted)
        return Cause(machine=round_.machine, round=round_.round, index=index)

    def mentions(
        self, job_id: str, kinds: Sequence[type[Event]], window: Window, ends: Mapping[str, int] | None = None
    ) -> Iterator[Location]:
        """Implements `Index`."""
        topics: dict[str, list[str]] = {}
        for kind in kinds:
            topics.setdefault(kind.topic, []).append(kind.__name__)
        for topic in sorted(topics, key=RANK.__getitem__, reverse=True):
            end, rank, fact = LONG_MAX if ends is None else ends.get(topic, 0), RANK[topic], not BY_NAME[topic].machine
            for entry in self._entries(job_id, frozenset(topics[topic]), window):
                if entry.topic == rank and entry.offset < end:
                    yield topic, entry.offset, FACT if fact else entry.place

    def _entries(self, job_id: str, names: frozenset[str], window: Window) -> Iterator[JobEntry]:
        """The entries of some kinds that may name one of these runs; those of one topic from the last on."""
        kinds = sum(BITS[name] for name in names)
        runs = (window.last, window.first, window.last_run, window.first_run)
        for number, data in rows_as_text(self._connection, _ROWS, (job_id, kinds, *runs)):
            for entry in reversed(self._row(job_id, number, data)):
                if entry.event in names and _may_name(entry, window):
                    yield entry

    def _row(self, job_id: str, number: int, data: bytes) -> list[JobEntry]:
        """The entries of a row: one search after another looks at the same ones."""
        key = job_id, number
        if key not in self._rows:
            self._rows[key] = list(entries_in(data))
        return self._rows[key]

    def _read(self, topic: str, offset: int) -> tuple[int, Event | None]:
        try:
            record = record_at(self._log, topic, offset)
            return (record.at_ms, decode_signed(record.value, self._log.cell)) if record else (0, None)
        except (LogGap, CodecError):
            return 0, None


def _may_name(entry: JobEntry, window: Window) -> bool:
    """Whether an entry is of a record that may name one of these runs."""
    instances = entry.first <= window.last and entry.last >= window.first
    return instances and entry.first_run <= window.last_run and entry.last_run >= window.first_run
