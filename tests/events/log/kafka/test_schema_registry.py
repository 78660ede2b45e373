"""Records that Confluent's serializers write and read, by the ids of a schema registry."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

import events.log.kafka.schema_registry
from events import codec
from events.codec import CodecError, decode, encode, wire
from events.log.port import LogFault, LogUnavailable
from events.records import BY_NAME
from events.records.hosts import HostBack
from events.records.jobs import JobSubmitted
from events.topics import EVERY
from tests.helpers.drawn import examples
from tests.helpers.ports import kept_port
from tests.helpers.registry import Registry, registry
from tools.release import sample

PATHS = sorted({path for topic in EVERY for path in topic.messages()})
VALUE = SerializationContext("any", MessageField.VALUE)
STRATEGY = {"subject.name.strategy": record_subject_name_strategy}
BACK = HostBack(host_id="h", session=3)


@pytest.fixture
def server() -> Iterator[Registry]:
    """An empty registry; this process uses none afterwards."""
    with registry() as found:
        yield found
    codec.use_ids(None)


def schema_of(name: str) -> Any:
    return json.loads(next(path for path in PATHS if path.stem == name).read_text())


def written_by_confluent(server: Registry, schema: Any, value: Any) -> bytes:
    serializer = AvroSerializer(server.client(), json.dumps(schema), conf=STRATEGY)
    found = serializer(value, VALUE)
    assert isinstance(found, bytes)
    return found


def test_confluents_serializers_read_what_we_write_and_write_what_we_read(server: Registry) -> None:
    events.log.kafka.schema_registry.use(server.url)
    client = server.client()
    deserialize = AvroDeserializer(client)
    for path in PATHS:
        schema = json.loads(path.read_text())
        value = sample(schema)
        event = msgspec.convert(value, BY_NAME[path.stem])

        ours = wire(encode(event))
        assert ours[:1] == b"\0"
        assert deserialize(ours, VALUE) == value

        theirs = AvroSerializer(client, json.dumps(schema), conf=STRATEGY)(value, VALUE)
        assert theirs == ours, "they find the subject and the id that we have registered"
        assert decode(theirs) == event
        assert decode(encode(event)) == event, "single-object encoding is read as before"


@given(job_id=st.text(), command=st.lists(st.text(max_size=20), max_size=5), instances=st.integers(-(2**31), 2**31 - 1))
@examples(50)
def test_any_job_makes_the_way_in_both_forms(job_id: str, command: list[str], instances: int) -> None:
    class Two:
        def header(self, print_: bytes) -> bytes | None:
            return b"\0\0\0\0\2"

        def schema(self, number: int) -> Any:
            assert number == 2
            return schema_of("JobSubmitted")

    job = JobSubmitted(job_id=job_id, pool="/p", instances=instances, command=tuple(command), spec_hash=b"")
    codec.use_ids(Two())
    try:
        assert decode(wire(encode(job))) == decode(encode(job)) == job
        assert wire(wire(encode(job))) == wire(encode(job))
    finally:
        codec.use_ids(None)


def test_each_record_is_a_subject_with_our_rule_and_a_second_start_adds_nothing(server: Registry) -> None:
    events.log.kafka.schema_registry.use(server.url)
    subjects = {f"paceline.{path.stem}" for path in PATHS}
    assert set(server.kept.get_subjects()) == subjects
    assert server.levels == dict.fromkeys(subjects, "FULL_TRANSITIVE")
    value = wire(encode(BACK))

    events.log.kafka.schema_registry.use(server.url)
    assert wire(encode(BACK)) == value
    assert all(len(server.texts(subject)) == 1 for subject in subjects)


def test_what_a_machine_keeps_and_decides_is_the_same_bytes_with_and_without_a_registry(server: Registry) -> None:
    before = encode(BACK)
    events.log.kafka.schema_registry.use(server.url)
    assert encode(BACK) == before
    codec.use_ids(None)
    assert wire(before) == before


def test_a_foreign_schema_of_one_of_our_records_is_read_with_our_defaults(server: Registry) -> None:
    few = schema_of("JobSubmitted")
    wanted = ("job_id", "pool", "instances", "command", "spec_hash")
    few["fields"] = [field for field in few["fields"] if field["name"] in wanted or "default" not in field]
    few["fields"].append({"name": "cost_center", "type": "string", "default": ""})
    value = sample(few) | {"job_id": "of-others", "cost_center": "42"}
    events.log.kafka.schema_registry.use(server.url)
    found = decode(written_by_confluent(server, few, value))
    assert isinstance(found, JobSubmitted)
    assert (found.job_id, found.instances) == ("of-others", 7)


def test_a_schema_that_does_not_fit_what_is_registered_stops_the_start_and_registers_nothing(server: Registry) -> None:
    other = {**schema_of("JobStopRequested"), "fields": [{"name": "other", "type": "string"}]}
    written_by_confluent(server, other, {"other": "x"})
    with pytest.raises(LogFault, match=r"schema of JobStopRequested isn't compatible .* paceline\.JobStopRequested"):
        events.log.kafka.schema_registry.use(server.url)
    assert server.kept.get_subjects() == ["paceline.JobStopRequested"]
    assert not codec.uses_ids()


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\0\0\0\x27\x0f..", "UNKNOWN_SCHEMA"),
        (b"\0\0\0", "TRUNCATED"),
        (b"\1\0\0\0\1", "NOT_AVRO"),
    ],
)
def test_bytes_that_the_registry_does_not_know_are_a_codec_error(server: Registry, bad: bytes, code: str) -> None:
    events.log.kafka.schema_registry.use(server.url)
    with pytest.raises(CodecError) as raised:
        decode(bad)
    assert raised.value.code == code


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "JobSubmitted", "namespace": "of.others", "fields": []},
        {"type": "record", "name": "Nothing", "namespace": "paceline", "fields": []},
        {"type": "record", "name": "HostBack", "namespace": "paceline", "fields": [{"name": "x", "type": "no.type"}]},
        "string",
    ],
    ids=["another package", "no record of ours", "names a type that isn't there", "no record"],
)
def test_a_schema_that_is_not_of_our_records_is_a_codec_error(schema: Any) -> None:
    class Kept:
        def header(self, print_: bytes) -> bytes | None:
            return None

        def schema(self, number: int) -> Any:
            return schema

    codec.use_ids(Kept())
    try:
        with pytest.raises(CodecError, match="UNKNOWN_SCHEMA"):
            decode(b"\0\0\0\0\1")
    finally:
        codec.use_ids(None)


def test_an_unknown_id_is_not_asked_for_again_and_again(server: Registry) -> None:
    events.log.kafka.schema_registry.use(server.url)
    for _ in range(20):
        with pytest.raises(CodecError):
            decode(b"\0\0\0\x27\x0f")
    assert server.asked.count("GET /schemas/ids/9999") == 2


def test_a_registry_that_comes_late_is_waited_for_and_named_once() -> None:
    port = kept_port()
    said: list[str] = []
    heard = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        heard.set()

    starting = threading.Thread(
        target=events.log.kafka.schema_registry.use, args=(f"http://me:word@127.0.0.1:{port}", say)
    )
    starting.start()
    assert heard.wait(20)
    try:
        with registry(port) as server:
            starting.join(20)
            assert decode(written_by_confluent(server, schema_of("HostBack"), sample(schema_of("HostBack"))))
        assert len(said) == 1
        assert f"http://127.0.0.1:{port}" in said[0], "the address without its password"
    finally:
        codec.use_ids(None)


def test_reading_only_registers_nothing_and_waits_a_while_for_one_that_is_away(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = written_by_confluent(server, schema_of("HostBack"), sample(schema_of("HostBack")))
    asked = len(server.asked)
    events.log.kafka.schema_registry.read(server.url)
    assert len(server.asked) == asked
    assert wire(encode(BACK)) == encode(BACK), "it writes no ids"

    server.refuses = 503
    monkeypatch.setattr(events.log.kafka.schema_registry, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(LogUnavailable, match="503"):
        decode(value)
    server.refuses = 0
    assert isinstance(decode(value), HostBack), "nothing is remembered of a registry that was away"


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://", "not an address"])
def test_a_wrong_address_is_one_sentence(url: str) -> None:
    with pytest.raises(LogFault, match="schema_registry_url is no address"):
        events.log.kafka.schema_registry.use(url)


def test_a_registry_that_refuses_says_what_it_said(server: Registry) -> None:
    server.refuses = 401
    with pytest.raises(LogFault, match=r"answers 401 to GET /subjects: .*not now"):
        events.log.kafka.schema_registry.use(server.url)
