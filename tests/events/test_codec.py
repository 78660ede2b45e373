"""The codec: what was written is read, and bytes from outside never raise anything but a `CodecError`."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codec import CodecError, decode, encode
from events.records.base import Event
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.parts import Constraint, Simulated
from events.records.pools import PoolRemoved
from tests.helpers.drawn import examples

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
longs = st.integers(-(2**63), 2**63 - 1)
jobs = st.builds(
    JobSubmitted,
    job_id=texts,
    pool=texts,
    instances=st.integers(-(2**31), 2**31 - 1),
    command=st.lists(texts, max_size=3).map(tuple),
    env=st.dictionaries(texts, texts, max_size=3),
    resources=st.dictionaries(texts, longs, max_size=3),
    constraints=st.lists(st.builds(Constraint, texts, texts, st.lists(texts, max_size=2).map(tuple)), max_size=2).map(
        tuple
    ),
    max_unavailable=st.none() | st.integers(0, 100),
    simulated=st.none() | st.builds(Simulated, longs),
    spec_hash=st.binary(max_size=32),
)


@given(jobs)
def test_what_was_written_is_read(job: JobSubmitted) -> None:
    assert decode(encode(job)) == job


@given(jobs, st.data())
@examples(200)
def test_damaged_bytes_are_a_codec_error_or_another_record(job: JobSubmitted, data: st.DataObject) -> None:
    raw = bytearray(encode(job))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        assert isinstance(decode(bytes(raw)), Event)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_codec_error(raw: bytes) -> None:
    with pytest.raises(CodecError):
        decode(raw)


GOOD = encode(JobStopRequested(job_id="a", command_id="b"))


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "NOT_AVRO"),
        (b"{}", "NOT_AVRO"),
        (GOOD[:5], "TRUNCATED"),
        (GOOD[:-1], "TRUNCATED"),
        (GOOD + b"\0", "TRAILING_BYTES"),
        (GOOD[:2] + bytes(8) + GOOD[10:], "UNKNOWN_SCHEMA"),
        pytest.param(GOOD + bytes(17 * 1024 * 1024), "TOO_LARGE", id="TOO_LARGE"),
        (encode(PoolRemoved(path="abc", command_id=""))[:10] + b"\x06\xff\xff\xff\0", "BAD_VALUE"),
    ],
)
def test_each_fault_has_its_code(raw: bytes, code: str) -> None:
    with pytest.raises(CodecError) as found:
        decode(raw)
    assert found.value.code == code


def test_a_field_that_does_not_fit_is_said_when_writing() -> None:
    with pytest.raises(ValueError, match="PoolRemoved"):
        encode(PoolRemoved(path=7, command_id=""))  # type: ignore[arg-type]
