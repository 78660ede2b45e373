"""Records to bytes and back: Avro single-object encoding, C3 01, the schema's fingerprint, the value.

The fingerprint says which schema wrote the bytes; current ones stand in `schemas/`, those of earlier releases in
`schemas/golden/`, so every byte that a release from 0.3.0 on has written stays readable. What the next release will
write is read already and not written yet (`schemas.versions`). Whatever is wrong with bytes is a `CodecError`.

Where a schema registry is in use (`events.log.kafka.schema_registry`), records on Kafka have its id in front instead,
Confluent's wire format: 0, the id in four bytes, the value. `encode` knows nothing of it, so that what a machine keeps
and decides is the same bytes everywhere; `wire` puts the id on what is sent, `decode` reads both
(decision 009).

What is usual is done by straight Python (`events.compiled_codec`); what that doesn't take, fastavro encodes and
decodes, or says what is wrong with it.
"""

import io
import json
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import fastavro
import msgspec
from fastavro.schema import fingerprint, to_parsing_canonical_form

import schemas
from events import VERSION
from events.compiled_codec import Decoder, Encoder, decoder, encoder
from events.process.error_text import ErrorCause
from events.recent import Recent
from events.records import BY_NAME
from events.records.base import Event
from events.structs import known
from events.topics import FACTS
from schemas.versions import stages, written

E = TypeVar("E", bound=Event)

MARKER = b"\xc3\x01"
HEADER_BYTES = 10
ID_MARKER = b"\0"
ID_HEADER_BYTES = 5
REMEMBERED = 8192
REMEMBERED_BYTES_MAX = 4096
VALUE_BYTES_MAX = 16 * 1024 * 1024
"""Larger values are refused before they are decoded; a broker's limit is far below."""


class CodecError(ValueError):
    """Bytes that are no record; `code` is stable: NOT_AVRO, UNKNOWN_SCHEMA, TRUNCATED, TRAILING_BYTES, TOO_LARGE,
    BAD_VALUE. The record is named in the round that skips it; `paceline log quarantine` lists them.
    """

    cause = ErrorCause.HISTORY

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Ids(Protocol):
    """The ids of a schema registry."""

    def header(self, print_: bytes) -> bytes | None:
        """The header of values that the schema with this fingerprint wrote; None: it isn't registered."""
        ...

    def schema(self, number: int) -> Any:
        """The schema with an id. Raises `CodecError` UNKNOWN_SCHEMA where there is none, `LogUnavailable`."""
        ...


_ids: Ids | None = None


class _Writer(NamedTuple):
    header: bytes
    schema: Any
    whole: bool
    """False: the record has fields that are not written yet."""


class _Reader(NamedTuple):
    record: type[Event]
    writer_schema: Any
    reader_schema: Any
    decode: Decoder | None = None
    """The decoder of the usual encoding; None: fastavro reads all."""


_facts: Recent[bytes, Event] = Recent(REMEMBERED, REMEMBERED * 512)


def fingerprint_of(schema: Any) -> bytes:
    """CRC-64-AVRO of the parsing canonical form, as it stands on the wire: little-endian, as fastavro gives it."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def _current() -> dict[str, Any]:
    """The current schemas by record name, as they stand in the files."""
    return {path.stem: json.loads(path.read_text()) for folder in schemas.FOLDERS for path in schemas.files(folder)}


@cache
def _parsed(name: str) -> Any:
    return fastavro.parse_schema(_current()[name])


@cache
def _names_by_fingerprint() -> dict[bytes, str]:
    return {fingerprint_of(schema): name for name, schema in _current().items()}


@cache
def _released() -> dict[bytes, Any]:
    """The schemas of all releases by fingerprint, and those that this release and the next ones write."""
    loaded = [json.loads(path.read_text()) for path in sorted(schemas.GOLDEN.glob("*.avsc"))]
    staged = [stage for schema in _current().values() for stage in stages(schema)]
    return {fingerprint_of(schema): schema for schema in (*loaded, *staged)}


@cache
def _writer(record: type[Event]) -> _Writer:
    whole = _current()[record.__name__]
    schema = written(whole, VERSION)
    if schema is None:
        raise ValueError(f"{record.__name__} isn't written before {whole['written_from']}, this is {VERSION}")
    return _Writer(MARKER + fingerprint_of(schema), fastavro.parse_schema(schema), schema == whole)


@cache
def _reader(print_: bytes) -> _Reader:
    name = _names_by_fingerprint().get(print_)
    if name is not None:
        return _Reader(BY_NAME[name], _parsed(name), None, decoder(_current()[name]))
    old = _released().get(print_)
    if old is None or old["name"] not in BY_NAME:
        raise CodecError("UNKNOWN_SCHEMA", f"no schema has the fingerprint {print_.hex()}")
    return _Reader(BY_NAME[old["name"]], fastavro.parse_schema(old), _parsed(old["name"]))


@cache
def _reader_of_id(number: int) -> _Reader:
    assert _ids is not None
    schema = _ids.schema(number)
    try:
        print_ = fingerprint_of(schema)
        if print_ in _names_by_fingerprint() or print_ in _released():
            return _reader(print_)
        parsed: Any = fastavro.parse_schema(schema)
        package, _, name = parsed["name"].rpartition(".")
        if package == "paceline" and name in BY_NAME:
            return _Reader(BY_NAME[name], parsed, _parsed(name))
    except Exception as error:  # a registry keeps what anybody registers
        raise CodecError("UNKNOWN_SCHEMA", f"schema {number} can't be used: {error!r}") from error
    raise CodecError("UNKNOWN_SCHEMA", f"schema {number} is no record of Paceline")


def encode(record: Event) -> bytes:
    """The bytes of a record. Raises `ValueError` where a field doesn't fit its schema.

    Facts are remembered as `decode` remembers them: readers of this process take those that it writes as they are.
    """
    value = _encode_usual(record)
    if value is None:
        return _encode(record)
    if record.topic in FACTS and len(value) <= REMEMBERED_BYTES_MAX:
        _facts.put(value, record, len(value))
    return value


def encode_to_share(record: E) -> tuple[bytes, E]:
    """The bytes of a record, and the record as `decode` gives it: the same one, most often. Raises as `encode`."""
    value = _encode_usual(record)
    if value is None:
        record = _plain(record)
        value = _encode_usual(record)
    if value is not None:
        return value, record
    value = _encode(record)
    return value, cast(E, decode_once(value))


def _plain(record: E) -> E:
    """The same record with strings where members of enums stand that are strings, such as codes."""
    changes: dict[str, Any] = {}
    for field in record.__struct_fields__:
        value = getattr(record, field)
        if isinstance(value, StrEnum):
            changes[field] = value.value
        elif isinstance(value, dict):
            changes[field] = {key.value if isinstance(key, StrEnum) else key: one for key, one in value.items()}
    return msgspec.structs.replace(record, **changes) if changes else record


@cache
def _encoder(record: type[Event]) -> tuple[bytes, Encoder | None]:
    """The header of a kind of records, and what encodes the usual ones; None: fastavro encodes all."""
    header, _, whole = _writer(record)
    straight = whole and BY_NAME.get(record.__name__) is record
    return header, encoder(_current()[record.__name__]) if straight else None


def _encode_usual(record: Event) -> bytes | None:
    """The bytes of a record whose values are all of the types that decoding gives, and fit; else None."""
    header, add = _encoder(type(record))
    if add is None:
        return None
    out = [header]
    try:
        add(out, record)
    except Exception:  # whatever is wrong with it, fastavro finds it too and says what
        return None
    return b"".join(out)


def _encode(record: Event) -> bytes:
    header, schema, whole = _writer(type(record))
    out = io.BytesIO()
    out.write(header)
    try:
        value = msgspec.to_builtins(record, builtin_types=(bytes,))
        fastavro.schemaless_writer(out, schema, value, disable_tuple_notation=True)
    except (TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"{type(record).__name__} doesn't fit its schema: {error}") from error
    if not whole and decode_once(out.getvalue()) != record:
        raise ValueError(f"{type(record).__name__} has a value in a field that {VERSION} doesn't write yet")
    return out.getvalue()


def use_ids(ids: Ids | None) -> None:
    """From now on `wire` writes these ids and `decode` reads them; None: neither."""
    global _ids
    _ids = ids
    _reader_of_id.cache_clear()
    Recent.clear_all()


def uses_ids() -> bool:
    """Whether a schema registry is in use."""
    return _ids is not None


def wire(value: bytes) -> bytes:
    """An encoded record as it goes to Kafka: with an id of the registry where one is in use, else as it is."""
    if _ids is None or value[:2] != MARKER:
        return value
    header = _ids.header(value[2:HEADER_BYTES])
    return value if header is None else header + value[HEADER_BYTES:]


def body(data: bytes) -> bytes:
    """The value of an encoded record, without what names its schema: the same bytes with and without a registry."""
    return data[HEADER_BYTES if data[:2] == MARKER else ID_HEADER_BYTES :]


def decode(data: bytes) -> Event:
    """The record in the bytes. Raises `CodecError`, and `LogUnavailable` where a registry must be asked and is away.

    Small records are remembered for a while: the machines of a cell in one process read the same ones. They are
    frozen, so they may be shared.
    """
    event = _facts.get(data)
    if event is None:
        event = decode_once(data)
        if len(data) <= REMEMBERED_BYTES_MAX:
            _facts.put(data, event, len(data))
    return event


def check_schema(data: bytes) -> None:
    """Raises `CodecError` where this build doesn't have the schema that wrote these bytes, and as `decode`."""
    _head(data)


def writer_schema(encoded: bytes) -> Any:
    """The schema that wrote an encoded record. Raises as `decode`."""
    return _head(encoded)[1].writer_schema


def fingerprint_in(encoded: bytes) -> str:
    """The fingerprint of its schema in an encoded record, in hexadecimal."""
    return encoded[2:HEADER_BYTES].hex()


def decode_once(data: bytes) -> Event:
    """As `decode`, of bytes that nobody is about to decode again."""
    if len(data) > VALUE_BYTES_MAX:
        raise CodecError("TOO_LARGE", f"{len(data)} bytes, at most {VALUE_BYTES_MAX}")
    start, reader = _head(data)
    if reader.decode is not None:
        try:
            usual, end = reader.decode(data, start)
        except Exception:  # whatever is wrong with it, fastavro says what
            end = -1
        if end == len(data):
            return cast(Event, usual)
    return _decode(data, start, reader)


def _decode(data: bytes, start: int, reader: _Reader) -> Event:
    record, writer_schema, reader_schema, _ = reader
    stream = io.BytesIO(data)
    stream.seek(start)
    try:
        value = fastavro.schemaless_reader(stream, writer_schema, reader_schema)
    except (EOFError, IndexError) as error:
        raise CodecError("TRUNCATED", f"a value of {record.__name__} ends too early") from error
    except Exception as error:  # fastavro raises whatever its C code meets; bytes from outside must not stop a cell
        raise CodecError("BAD_VALUE", f"no value of {record.__name__}: {error!r}") from error
    if stream.tell() != len(data):
        raise CodecError("TRAILING_BYTES", f"{len(data) - stream.tell()} bytes after a value of {record.__name__}")
    try:
        return _convert(record)(value)
    except msgspec.ValidationError as error:
        raise CodecError("BAD_VALUE", f"no value of {record.__name__}: {error}") from error


def _head(data: bytes) -> tuple[int, _Reader]:
    """Where the value begins, and how it is read."""
    if data[:2] == MARKER:
        if len(data) < HEADER_BYTES:
            raise CodecError("TRUNCATED", f"{len(data)} bytes are less than the header")
        return HEADER_BYTES, _reader(data[2:HEADER_BYTES])
    if _ids is None or data[:1] != ID_MARKER:
        raise CodecError("NOT_AVRO", "the bytes don't begin with the marker of single-object encoding, C3 01")
    if len(data) < ID_HEADER_BYTES:
        raise CodecError("TRUNCATED", f"{len(data)} bytes are less than the header")
    return ID_HEADER_BYTES, _reader_of_id(int.from_bytes(data[1:ID_HEADER_BYTES], "big"))


@cache
def _convert(record: type[Event]) -> Callable[[Any], Event]:
    known(record)
    return lambda value: msgspec.convert(value, record)
