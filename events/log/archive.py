"""The archive of a log: stretches of topics as Avro object container files, so that the log may begin later.

A stretch is a file `cell-N/TOPIC/stretch-START-END.avro` and, written last, a JSON file beside it that says what must
be in it: without that it doesn't count. Stretches of a topic follow one another without a gap. Nothing is removed from
a log before it was read back from the archive and compared.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import pairwise, takewhile, zip_longest
from typing import Any, NamedTuple, Protocol

import fastavro
import msgspec

from events.log.object_store import Files
from events.log.port import Log, LogError, LogRecord
from events.structs import known

FORMAT = 1
STRETCH_RECORDS = 50_000
STRETCH_BYTES = 32 * 1024 * 1024
"""A stretch ends after so many records or bytes of them: it is written and read whole."""
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "ArchivedRecord",
        "namespace": "paceline",
        "doc": "A record of a topic as it stood in the log.",
        "fields": [
            {"name": "offset", "type": "long", "doc": "Its offset in the topic."},
            {"name": "at_ms", "type": "long", "doc": "Milliseconds since 1970 of its append."},
            {"name": "key", "type": "bytes", "doc": "Its key."},
            {"name": "value", "type": "bytes", "doc": "Its value, as it was on the wire."},
        ],
    }
)
_NAME = re.compile(r"stretch-(\d{20})-(\d{20})\.json")


class ArchiveFault(LogError):
    """The archive lacks something, or holds what the log doesn't; the message says what. Nothing was removed."""


class Stretch(NamedTuple):
    """Offsets from `start` to before `end` of a topic, all in one file."""

    topic: str
    start: int
    end: int


class Contents(msgspec.Struct, frozen=True):
    """The contents of the JSON file beside a stretch. `hash`: BLAKE2b-256 of the file, in hexadecimal."""

    format: int
    cell: int
    topic: str
    start: int
    end: int
    records: int
    bytes: int
    hash: str


class NeededFrom(NamedTuple):
    """The first offset of a topic that somebody still reads from the log, and who that is."""

    position: int
    by: str


class TruncatableLog(Log, Protocol):
    """A log whose beginning can be removed."""

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records of a topic before an offset."""
        ...


class Archive:
    """The archive of one cell under a URL of fsspec. Raises what `Files` raises, and `ArchiveFault`."""

    def __init__(self, url: str, cell: int) -> None:
        self.cell = cell
        self._files = Files(url)

    def stretches(self, topic: str) -> list[Stretch]:
        """The archived stretches of a topic, in order, without gaps; they may overlap."""
        matches = [_NAME.fullmatch(name) for name in self._files.names(self._folder(topic))]
        spans = sorted((int(each[1]), -int(each[2])) for each in matches if each)
        out: list[Stretch] = []
        for start, end in ((start, -end) for start, end in spans):
            if out and start > out[-1].end:
                raise ArchiveFault(
                    f"The archive of {topic} in {self._files.url} lacks offsets {out[-1].end} to {start}: bring the "
                    "files of that stretch back."
                )
            if not out or end > out[-1].end:
                out.append(Stretch(topic, start, end))
        return out

    def read(self, stretch: Stretch) -> list[LogRecord]:
        """The records of a stretch, once they are what the file beside it says."""
        name = self._name(stretch)
        try:
            contents = msgspec.json.decode(self._files.read(f"{name}.json"), type=known(Contents))
            data = self._files.read(f"{name}.avro")
        except (FileNotFoundError, msgspec.DecodeError) as error:
            raise self._damaged(stretch, str(error)) from error
        if contents.format > FORMAT:
            raise self._damaged(stretch, f"it has format {contents.format}, which a newer Paceline reads")
        if contents != self._contents(stretch, contents.records, data):
            raise self._damaged(stretch, "it isn't what the file beside it says")
        records = _unpack(stretch.topic, data)
        offsets = [stretch.start - 1, *(record.offset for record in records), stretch.end]
        if len(records) != contents.records or any(a >= b for a, b in pairwise(offsets)):
            raise self._damaged(stretch, "its offsets are not those of the stretch")
        return records

    def records(self, topic: str, start: int, end: int) -> Iterator[LogRecord]:
        """The archived records of a topic from `start` to before `end`, which must be covered by the archive."""
        position = start
        for stretch in self.stretches(topic):
            if not stretch.start <= position < min(stretch.end, end):
                continue
            yield from (record for record in self.read(stretch) if position <= record.offset < end)
            position = stretch.end
        if position < end:
            raise ArchiveFault(
                f"Offsets {position} to {end} of {topic} are not in the archive at {self._files.url}. Archive them "
                "first: `paceline log archive`."
            )

    def write(self, stretch: Stretch, records: list[LogRecord]) -> Contents:
        """Writes a stretch, reads it back and only then makes it count."""
        name, data = self._name(stretch), _pack(records)
        contents = self._contents(stretch, len(records), data)
        self._files.write(f"{name}.avro", data)
        back = self._files.read(f"{name}.avro")
        if back != data or _unpack(stretch.topic, back) != records:
            raise self._damaged(stretch, "it could not be read back as it was written")
        self._files.write(f"{name}.json", msgspec.json.format(msgspec.json.encode(contents)))
        return contents

    def _folder(self, topic: str) -> str:
        return f"cell-{self.cell}/{topic}"

    def _name(self, stretch: Stretch) -> str:
        return f"{self._folder(stretch.topic)}/stretch-{stretch.start:020d}-{stretch.end:020d}"

    def _contents(self, stretch: Stretch, records: int, data: bytes) -> Contents:
        digest = blake2b(data, digest_size=32).hexdigest()
        return Contents(FORMAT, self.cell, *stretch, records, len(data), digest)

    def _damaged(self, stretch: Stretch, why: str) -> ArchiveFault:
        return ArchiveFault(
            f"{self._files.url}/{self._name(stretch)}.avro can't be used: {why}. Bring its two files back from a copy."
        )


def archive(log: Log, url: str, topic: str, upto: int) -> list[Contents]:
    """Appends what a topic holds after its last archived stretch, up to before `upto`; returns what was written.

    Raises `ArchiveFault` where the log starts after the end of the archive, or ends before it or before `upto`.
    """
    destination = Archive(url, log.cell)
    start, end = log.bounds(topic)
    there = destination.stretches(topic)
    position = there[-1].end if there else start
    if not start <= position <= end or upto > end:
        raise ArchiveFault(
            f"The log has {topic} from {start} to {end}, its archive at {url} ends at {position}, and it was to go up "
            f"to {upto}: that doesn't fit. Look whether the archive is that of this log."
        )
    return [destination.write(stretch, records) for stretch, records in _cut(log, topic, position, upto)]


def remove(log: TruncatableLog, url: str, topic: str, before: int) -> int:
    """Removes the records of a topic before an offset from the log; returns how many.

    Every one of them is read from the archive and compared first: `ArchiveFault` where one differs or isn't there.
    """
    start, end = log.bounds(topic)
    if before <= start:
        return 0
    if before > end:
        raise ArchiveFault(f"{topic} ends at {end}: there is nothing before {before} to remove")
    removed = 0
    live = takewhile(lambda record: record.offset < before, log.scan(topic, start))
    for record, archived in zip_longest(live, Archive(url, log.cell).records(topic, start, before)):
        if record != archived:
            offset = (record or archived).offset
            raise ArchiveFault(
                f"Offset {offset} of {topic} is not the same in the log and in the archive at {url}: nothing was "
                "removed. Look whether the archive is that of this log."
            )
        removed += 1
    log.truncate(topic, before)
    return removed


def oldest_needed(needs: Mapping[str, Mapping[str, int]]) -> dict[str, NeededFrom]:
    """Per topic the first offset that must stay in the log. `needs`: who reads it -> topic -> its position there."""
    out: dict[str, NeededFrom] = {}
    for reader, positions in needs.items():
        for topic, position in positions.items():
            if topic not in out or position < out[topic].position:
                out[topic] = NeededFrom(position, reader)
    return out


def _cut(log: Log, topic: str, start: int, end: int) -> Iterator[tuple[Stretch, list[LogRecord]]]:
    """The records of a topic from `start` to before `end`, in stretches of a bounded size."""
    if start >= end:
        return
    records: list[LogRecord] = []
    size = 0
    for record in takewhile(lambda each: each.offset < end, log.scan(topic, start)):
        if len(records) >= STRETCH_RECORDS or size >= STRETCH_BYTES:
            yield Stretch(topic, start, record.offset), records
            start, records, size = record.offset, [], 0
        records.append(record)
        size += len(record.key) + len(record.value)
    yield Stretch(topic, start, end), records


def _pack(records: Iterable[LogRecord]) -> bytes:
    out = io.BytesIO()
    rows = ({"offset": each.offset, "at_ms": each.at_ms, "key": each.key, "value": each.value} for each in records)
    fastavro.writer(out, SCHEMA, rows, codec="deflate")
    return out.getvalue()


def _unpack(topic: str, data: bytes) -> list[LogRecord]:
    rows: Iterable[Any] = fastavro.reader(io.BytesIO(data))
    return [LogRecord(topic, row["offset"], row["at_ms"], row["key"], row["value"]) for row in rows]
