"""The compiled codec: the same bytes and the same records as fastavro, or nothing."""

import json
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schemas
from events import codec
from events.codec import CodecError, decode_once, encode, encode_to_share
from events.compiled_codec import decoder, encoder
from events.records import BY_NAME
from events.records.base import Event
from events.records.entitlement import PreemptionRefused
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.pools import PoolRemoved
from tools.release import sample

SCHEMAS = [json.loads(path.read_text()) for folder in schemas.FOLDERS for path in schemas.files(folder)]
GOLDEN = sorted(schemas.GOLDEN.glob("*.bin"))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
PLAIN = {
    "string": texts,
    "bytes": st.binary(max_size=1100),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 1100),
    "null": st.none(),
}


def values(avro: Any, named: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a type as msgspec converts them."""
    if isinstance(avro, list):
        return st.one_of(*(values(branch, named) for branch in avro))
    if not isinstance(avro, dict):
        return PLAIN[avro] if avro in PLAIN else values(named[avro.removeprefix("paceline.")], named)
    if avro["type"] == "array":
        return st.lists(values(avro["items"], named), max_size=3)
    if avro["type"] == "map":
        return st.dictionaries(texts, values(avro["values"], named), max_size=3)
    named[avro["name"]] = avro
    return st.fixed_dictionaries({field["name"]: values(field["type"], named) for field in avro["fields"]})


def by_fastavro(data: bytes) -> Event | str:
    """What fastavro makes of bytes: a record, or the code of what is wrong with them."""
    try:
        return codec._decode(data, *codec._head(data))
    except CodecError as error:
        return str(error)


def as_read(data: bytes) -> Event | str:
    """What the codec makes of them."""
    try:
        return decode_once(data)
    except CodecError as error:
        return str(error)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["name"])
def test_every_schema_has_a_codec_of_its_own(schema: Any) -> None:
    encoder(schema)
    decoder(schema)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["name"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_records_are_the_bytes_that_fastavro_makes_of_them(schema: Any, data: st.DataObject) -> None:
    record = msgspec.convert(data.draw(values(schema, {})), BY_NAME[schema["name"]])
    plain = codec._encode(record)
    assert codec._encode_usual(record) in (plain, None)
    assert encode_to_share(record) == (plain, record)
    assert as_read(plain) == by_fastavro(plain) == record
    raw = bytearray(plain)
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(10, max(10, len(raw) - 1))) % len(raw)] = data.draw(st.integers(0, 255))
    for damaged in (bytes(raw), plain[: data.draw(st.integers(10, len(plain)))], bytes(raw) + b"\0"):
        assert as_read(damaged) == by_fastavro(damaged)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["name"])
def test_what_is_usual_needs_no_fastavro(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    record = msgspec.convert(sample(schema), BY_NAME[schema["name"]])
    for name in ("_encode", "_decode"):
        monkeypatch.setattr(codec, name, None)
    value, shared = encode_to_share(record)
    assert shared is record
    assert decode_once(value) == record


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_releases_wrote_is_read_as_fastavro_reads_it(path: Path) -> None:
    data = path.read_bytes()
    assert as_read(data) == by_fastavro(data)


class Word(StrEnum):
    A = "a"


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "unusual",
    [
        JobStopRequested(job_id=Word.A, command_id="b"),
        JobSubmitted(job_id="a", instances=Number.ONE, pool="/b"),
        JobSubmitted(job_id="a", instances=True, pool="/b"),
        JobSubmitted(job_id="a", instances=2**31, pool="/b"),
        JobSubmitted(job_id="a", pool="/b", instances=1, command=["c"]),  # type: ignore[arg-type]
    ],
)
def test_readers_get_what_they_would_decode(unusual: Event) -> None:
    value, shared = encode_to_share(unusual)
    again = codec._decode(value, *codec._head(value))
    assert repr(shared) == repr(again)
    assert value == encode(unusual) == codec._encode(unusual)


def test_codes_need_no_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PreemptionRefused(
        job_id="a", first=0, count=1, run=1, code=Word.A, victim_job_id="", victim_instance=0, victim_run=0,
        wanted={Word.A: 1}, free={}, cause=None,
    )  # fmt: skip
    for name in ("_encode", "_decode"):
        monkeypatch.setattr(codec, name, None)
    value, shared = encode_to_share(refused)
    assert repr(shared) == repr(decode_once(value))


def test_what_does_not_fit_is_an_error_as_before() -> None:
    with pytest.raises(ValueError):
        encode(PoolRemoved(path="a\udc80", command_id=""))
