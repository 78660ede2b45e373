"""A consumer in Java that has only our .avsc files, and forty lines that know the single-object encoding."""

import json
import threading

import msgspec

import schemas
from events.codec import decode, fingerprint_of
from events.log.kafka.connection import Link
from events.records.placements import TaskPlaced
from events.records.rounds import RoundCommitted
from projections.fanout.publisher import Publisher
from projections.fanout.unfold import OutputMessage, unfold
from tests.foreign.java import SOURCES, read_placements
from tests.helpers.broker import Broker
from tests.helpers.site import empty
from tests.projections.fanout.world import history

CELLS = 2


def placements(cell: int) -> list[OutputMessage]:
    """What the fan-out has to say of a history."""
    rounds = [(decode(record.value), record.offset) for record in history(cell).scan("paceline.placement", 0)]
    found = (out for round_, at in rounds if isinstance(round_, RoundCommitted) for out in unfold(round_, at))
    return [out for out in found if isinstance(out.event, TaskPlaced)]


def odd(cell: int) -> OutputMessage:
    """A message at the ends of what its fields hold."""
    event = TaskPlaced(
        event_id="9/π/1/2/3", cell=cell, machine="π", round=2**63 - 1, index=-(2**31), item=2**31 - 1, at_ms=-(2**63),
        job_id="köln", instance=0, run=1, host_id="", host_session=2**40, ports=(0, 65_535),
    )  # fmt: skip
    return OutputMessage(event.topic, "köln/0", event.event_id, event)


def test_a_consumer_in_java_reads_every_placement_with_our_schemas(broker: Broker) -> None:
    address = empty(broker, CELLS)
    sent = []
    for cell in range(CELLS):
        messages = [*placements(cell), odd(cell)]
        assert len(messages) > 50
        publisher = Publisher(Link(address, lambda _: None, None), cell, threading.Event())
        publisher.publish(messages)
        publisher.close()
        sent += [(out.key, out.event_id, json.loads(msgspec.json.encode(out.event))) for out in messages]

    lines = read_placements(address, schemas.ROOT / "placements" / "TaskPlaced.avsc").splitlines()

    def each(line: str) -> tuple[str, str, object]:
        key, event_id, value = line.split("\t")
        return key, event_id, json.loads(value)

    def in_order(messages: list[tuple[str, str, object]]) -> list[tuple[str, str, object]]:
        return sorted(messages, key=repr)

    assert in_order([each(line) for line in lines]) == in_order(sent)


def test_fingerprints_are_those_of_the_specification() -> None:
    assert fingerprint_of("null") == (0x63DD24E7CC258F8A).to_bytes(8, "little"), "the first of Avro's own test data"


def test_its_decoder_is_forty_lines() -> None:
    decoder = SOURCES / "SingleObject.java"
    assert len(decoder.read_text().splitlines()) <= 40
    assert "C301" in decoder.read_text()
    assert {path.name for path in SOURCES.iterdir()} == {"SingleObject.java", "Placements.java", "pom.xml"}
    assert (SOURCES / "pom.xml").read_text().count("<repository>") == 0, "Maven Central only"
