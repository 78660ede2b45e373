"""The file of a stretch of history: an Avro object container, written and read as a stream.

First one `Head`, then what the stretch starts from (rows and progress of each machine, the views in pieces), then the
records of each topic, then one `End` with a hash over all records before it. Without it the file isn't whole.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

import fastavro

from events.log.port import LogRecord
from paceline.client.errors import PacelineError
from paceline.client.json_type import Json

FORMAT = 1
_LONG, _TEXT, _BYTES = "long", "string", "bytes"


def _record(name: str, doc: str, **fields: Any) -> Json:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "paceline.history", "doc": doc, "fields": listed}


_SPAN = {
    "type": "record",
    "name": "Span",
    "fields": [
        {"name": "topic", "type": _TEXT},
        {"name": "start", "type": _LONG},
        {"name": "end", "type": _LONG},
    ],
}
SCHEMA = fastavro.parse_schema(
    [
        _record(
            "Head",
            "What the file holds: records appended from `from_ms` to `to_ms`, and those before that they need.",
            format=_LONG,
            cell=_LONG,
            from_ms=_LONG,
            to_ms=_LONG,
            build=_TEXT,
            topics={"type": "array", "items": _SPAN},
        ),
        _record("Row", "A row of a machine's state at the start.", machine=_TEXT, table=_TEXT, key=_BYTES, row=_BYTES),
        _record("Progress", "How far a machine was at the start.", machine=_TEXT, progress=_BYTES),
        _record("Views", "A chunk of the views at the start, an SQLite file.", chunk=_BYTES),
        _record("Record", "A record of a topic.", topic=_TEXT, offset=_LONG, at_ms=_LONG, key=_BYTES, value=_BYTES),
        _record("End", "The last one: how many records of topics there are, and a hash.", records=_LONG, hash=_BYTES),
    ]
)


class FileRecord(NamedTuple):
    """One record of the file: its kind and its fields."""

    kind: str
    fields: Json


class Hasher:
    """The hash over what stands in a file."""

    def __init__(self) -> None:
        self._hasher = blake2b(digest_size=32)
        self.records = 0

    def add(self, part: FileRecord) -> None:
        """Takes the next record."""
        values = part.fields.values()
        for value in values:
            data = value if isinstance(value, bytes) else repr(value).encode()
            self._hasher.update(len(data).to_bytes(8, "little") + data)
        self.records += part.kind == "Record"

    def end(self) -> FileRecord:
        """The record that ends the file."""
        return FileRecord("End", {"records": self.records, "hash": self._hasher.digest()})


def write(file: IO[bytes], parts: Iterable[FileRecord]) -> int:
    """Writes a file and its end; returns how many records of topics are in it."""
    hasher = Hasher()

    def rows() -> Iterator[tuple[str, Json]]:
        for part in parts:
            hasher.add(part)
            yield f"paceline.history.{part.kind}", part.fields
        yield "paceline.history.End", hasher.end().fields

    fastavro.writer(file, SCHEMA, rows(), codec="deflate")
    return hasher.records


def read(path: Path) -> Iterator[FileRecord]:
    """The records of a file up to its end, the head first. Raises `PacelineError` where it isn't whole; what was read
    before is then not to be used.
    """
    hasher = Hasher()
    try:
        with path.open("rb") as file:
            rows: Any = fastavro.reader(file, return_record_name=True)
            for name, fields in rows:
                part = FileRecord(name.rpartition(".")[2], fields)
                if part.kind == "End":
                    if part != hasher.end():
                        raise _damaged(path, "its hash is another")
                    return
                if hasher.records == 0 and part.kind == "Head" and fields["format"] > FORMAT:
                    raise PacelineError(f"{path} has format {fields['format']}, which a newer Paceline reads.")
                hasher.add(part)
                yield part
    except OSError as error:
        raise PacelineError(f"{path} can't be read: {error.strerror}.") from error
    except PacelineError:
        raise
    except EOFError as error:
        raise _damaged(path, "it is cut off") from error
    except Exception as error:  # fastavro raises whatever its C code meets
        raise _damaged(path, "its bytes can't be decoded") from error
    raise _damaged(path, "it has no end")


def of_record(record: LogRecord) -> FileRecord:
    """A record of a topic as the file has it."""
    return FileRecord("Record", record._asdict())


def _damaged(path: Path, why: str) -> PacelineError:
    return PacelineError(f"{path} is no whole file of history: {why}. Write it again with `paceline log export`.")
