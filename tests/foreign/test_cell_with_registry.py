"""A cell whose processes use a schema registry, and clients of Confluent's that know only the registry."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.schema_registry import record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import events.log.kafka.schema_registry
import schemas
from events import codec
from events.codec import encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import LogFault, NewRecord
from events.records.pools import PoolDefined
from events.topics import EVERY, MACHINES
from tests.helpers.broker import Broker
from tests.helpers.registry import Registry, registry
from tests.helpers.site import Site, empty

pytestmark = pytest.mark.xdist_group("processes")
VALUE = SerializationContext("any", MessageField.VALUE)
PARTS = (*MACHINES, "gateway.0", "fanout")
STRATEGY = {"subject.name.strategy": record_subject_name_strategy}


@pytest.fixture
def server() -> Iterator[Registry]:
    """A registry with nothing in it."""
    with registry() as found:
        yield found
    codec.use_ids(None)


def submit(server: Registry, site: Site, job: dict[str, Any]) -> None:
    """A job of somebody who has Confluent's client and our schema."""
    text = (schemas.ROOT / "jobs" / "JobSubmitted.avsc").read_text()
    fields = json.loads(text)["fields"]
    job = {**{field["name"]: b"" for field in fields if field["type"] == "bytes"}, **job}  # it wants these as bytes
    serializer = AvroSerializer(server.client(), text, conf={**STRATEGY, "auto.register.schemas": False})
    producer = Producer({"bootstrap.servers": site.bootstrap, "acks": "all"})
    producer.produce("paceline.jobs", key=job["job_id"], value=serializer(job, VALUE), partition=0)
    assert producer.flush(20) == 0


class Reader:
    """Reads topics as somebody does who has Confluent's client and the registry, and nothing else."""

    def __init__(self, server: Registry, site: Site) -> None:
        self._deserialize = AvroDeserializer(server.client())
        self._consumer = Consumer({"bootstrap.servers": site.bootstrap, "group.id": "reader"})
        self._topics: dict[str, list[Message]] = {topic.name: [] for topic in EVERY}
        self._consumer.assign([TopicPartition(name, 0, 0) for name in self._topics])

    def come(self, topic: str) -> list[Message]:
        """The messages of a topic up to now."""
        for message in self._consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            self._topics[message.topic() or ""].append(message)
        return self._topics[topic]

    def values(self, topic: str) -> list[Any]:
        """Those that carry ids, read."""
        values = [message.value() or b"" for message in self.come(topic)]
        return [self._deserialize(value, VALUE) for value in values if value[:1] == b"\0"]

    def close(self) -> None:
        self._consumer.close()


def test_a_cell_reads_what_confluents_serializer_writes_and_writes_what_its_deserializer_reads(
    broker: Broker, server: Registry, tmp_path: Path
) -> None:
    site = Site(tmp_path, empty(broker, 1), PACELINE_SCHEMA_REGISTRY_URL=server.url)
    pool = PoolDefined(path="/p", command_id="first", cell=0)
    site.append(0, NewRecord(pool.topic, b"/p", encode(pool)))  # from before there was a registry
    reader = Reader(server, site)
    try:
        site.start(*PARTS)
        site.until_ready(*PARTS)
        simulated = {"duration_ms": 200}
        job = {"job_id": "from-afar", "pool": "/p", "instances": 3, "command": [], "simulated": simulated}
        submit(server, site, {**job, "resources": {"cpu": 100}})
        site.until(lambda: "SUCCEEDED" in {each["state"] for each in reader.values("paceline.job-states")})
        site.end()
        for topic in EVERY:
            ours = len(reader.come(topic.name)) - (topic.name == pool.topic)
            assert len(reader.values(topic.name)) == ours, f"all that the processes wrote to {topic.name} has an id"
        placed = reader.values("paceline.placements")
    finally:
        reader.close()
        site.processes.stop_all()
    assert [(each["job_id"], each["instance"]) for each in placed] == [("from-afar", instance) for instance in range(3)]

    without_one = KafkaLog(site.bootstrap)
    with pytest.raises(LogFault, match="schema_registry_url"):
        list(without_one.scan("paceline.placement", 0))
    without_one.close()
    events.log.kafka.schema_registry.read(server.url)
    assert site.verify()["ordered"] == 3


def test_processes_do_not_start_on_a_registry_that_has_other_schemas(
    broker: Broker, server: Registry, tmp_path: Path
) -> None:
    other = {"type": "record", "name": "TaskPlaced", "namespace": "paceline", "fields": [{"name": "x", "type": "int"}]}
    AvroSerializer(server.client(), json.dumps(other), conf=STRATEGY)({"x": 1}, VALUE)
    site = Site(tmp_path, empty(broker, 1), PACELINE_SCHEMA_REGISTRY_URL=server.url)
    try:
        site.start("sla")
        assert site.until_ended("sla") == 1
    finally:
        site.processes.stop_all()
    assert "paceline: the schema of TaskPlaced isn't compatible with what" in site.said("sla")
    assert "Traceback" not in site.said("sla")
