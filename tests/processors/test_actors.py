"""No machine looks at who wrote a fact."""

import msgspec
import pytest

from events.actors import body_without_actor
from events.codec import body, decode, encode
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.parts import Actor
from events.records.rounds import RoundCommitted
from events.topics import MACHINES, rounds_of
from paceline.simulate.world import cell as world
from processors.lifecycle.commands import ask_row
from schemas import GOLDEN
from tests.helpers.play import CELL, play

ACTORS = (Actor("ann", "environment", "10.0.0.1"), Actor("Jörg", "header", "", 7), None)
SCENARIO = (
    CELL
    + """
jobs:
  - {job_id: a, pool: /p, instances: 3, resources: {cpu: 1}, sim: {duration: 1h}}
  - {job_id: b, pool: /q, instances: 2, resources: {cpu: 1}, sim: {duration: 5m}}
events:
  - {at: 1m, priority: {job_id: b, priority: 3}}
  - {at: 2m, update: {job_id: a, pool: /p, instances: 2, resources: {cpu: 1}, sim: {duration: 2h}}}
  - {at: 3m, pool: {path: /p, limit: {cpu: 1}}}
  - {at: 4m, stop: a}
  - {at: 10m, remove_pool: /q}
end: 20m
"""
)


def decided(text):
    """What machines decided of which inputs."""
    cell = play(text).run.cell
    read = {topic: [decode(record.value) for record in cell.log.scan(topic, 0)] for topic in map(rounds_of, MACHINES)}
    return {
        topic: [(each.now, each.inputs, each.decisions) for each in records if isinstance(each, RoundCommitted)]
        for topic, records in read.items()
    }


def test_the_same_facts_by_others_lead_to_the_same_decisions_byte_for_byte(monkeypatch):
    plain, said = decided(SCENARIO), []
    append = world.Cell.append

    def signed(self, event, *args):
        if "actor" in event.__struct_fields__:
            said.append(type(event).__name__)
            event = msgspec.structs.replace(event, actor=ACTORS[len(said) % 3])
        return append(self, event, *args)

    monkeypatch.setattr(world.Cell, "append", signed)
    assert decided(SCENARIO) == plain
    kinds = {"JobSubmitted", "JobStopRequested", "JobUpdateRequested", "JobPriorityRequested", "PoolDefined"}
    assert kinds | {"PoolRemoved"} <= set(said)
    assert sum(map(len, plain.values())) > 20


@pytest.mark.parametrize("spec_hash", [b"", b"of the client"])
def test_a_submission_of_another_actor_is_the_same_job_of_the_same_size(spec_hash):
    submitted = [
        JobSubmitted(job_id="j", pool="/p", command=("true",), spec_hash=spec_hash, actor=actor) for actor in ACTORS
    ]
    assert len({ask_row(0, each, encode(each)).spec_hash for each in submitted}) == 1
    assert len({ask_row(0, each, encode(each)).size for each in submitted}) == 1
    updates = [JobUpdateRequested(job_id="j", command_id="c", spec=encode(each)) for each in submitted]
    assert len({msgspec.msgpack.encode(ask_row(0, each, encode(each))) for each in updates}) == 1
    other = msgspec.structs.replace(submitted[0], priority=1, spec_hash=b"")
    assert ask_row(0, other, encode(other)).spec_hash != ask_row(0, submitted[0], encode(submitted[0])).spec_hash


WITHOUT_ACTOR = [
    path for path in sorted(GOLDEN.glob("JobSubmitted*.bin")) if '"actor"' not in path.with_suffix(".avsc").read_text()
]


@pytest.mark.parametrize("path", WITHOUT_ACTOR, ids=lambda path: path.stem)
def test_submissions_of_earlier_releases_name_nobody_and_are_hashed_whole(path):
    data = path.read_bytes()
    event = decode(data)
    assert event.actor is None
    assert body_without_actor(data, event.actor) == body(data)
