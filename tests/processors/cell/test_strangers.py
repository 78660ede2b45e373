"""What strangers write into a topic of facts: named by who reads it, the cell goes on, and replay agrees."""

from collections import Counter

import pytest
from prometheus_client import REGISTRY

from events.codec import decode, encode
from events.log.port import NewRecord
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.rounds import RoundCommitted
from events.topics import ALL, MACHINES, rounds_of
from processors.runtime.metrics import Metrics
from tests.helpers.whole_cell import Cell

SOUND = encode(JobSubmitted(job_id="b", pool="/p", command=("true",)))
FACTS = [topic.name for topic in ALL if topic.name not in {rounds_of(machine) for machine in MACHINES}]


@pytest.mark.parametrize("topic", FACTS)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "NOT_AVRO"),
        (b'{"job_id": "b"}', "NOT_AVRO"),
        (SOUND[:6], "TRUNCATED"),
        (SOUND[:-1], "TRUNCATED"),
        (SOUND + b"x", "TRAILING_BYTES"),
        (b"\xc3\x01" + bytes(8), "UNKNOWN_SCHEMA"),
    ],
)
def test_bytes_that_are_no_fact_are_named_and_passed_over(topic: str, value: bytes, reason: str) -> None:
    cell = Cell()
    cell.pool("/p")
    cell.quiet()
    [offset] = cell.log.append([NewRecord(topic, b"k", value)])
    cell.submit("a")
    cell.run(2000)
    assert cell.state("a") == "SUCCEEDED"
    cell.verify()
    skipped = {
        (skip.topic, skip.offset, skip.reason)
        for machine in MACHINES
        for record in cell.log.scan(rounds_of(machine), 0)
        if isinstance(round_ := decode(record.value), RoundCommitted)
        for skip in round_.skipped
    }
    assert skipped == {(topic, offset, reason)}


def test_what_a_machine_does_is_told_in_metrics() -> None:
    cell = Cell(number=7)
    observers = {name: Metrics(7, name) for name in cell.drivers}
    for name, driver in cell.drivers.items():
        driver._observer = observers[name]

    def of(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, {"cell": "7", "machine": "lifecycle", **labels}) or 0.0

    cell.pool("/p", cell=7)
    cell.submit("a", instances=3)
    cell.append(JobStopRequested(job_id="none", command_id="c"))
    cell.run(2000)
    observers["lifecycle"].tell(1, {})  # as it does once a second
    rounds = [
        round_
        for record in cell.log.scan(rounds_of("lifecycle"), 0)
        if isinstance(round_ := decode(record.value), RoundCommitted)
    ]
    assert of("paceline_rounds_total") == of("paceline_round_bytes_count") == len(rounds)
    assert of("paceline_round_inputs_sum") == sum(part.end - part.start for each in rounds for part in each.inputs)
    kinds = Counter(type(decode(each)).__name__ for round_ in rounds for each in round_.decisions)
    assert kinds["RunsOrdered"]
    assert kinds["CommandAnswered"]
    assert {kind: of("paceline_decisions_total", kind=kind) for kind in kinds} == kinds
