"""Causal delivery: nobody sees an answer before its question, in whatever order topics are read."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from events.acceptance import NO_HASH, ROUND, Acceptance, Chain, digest, parse
from events.codec import encode
from events.delivery import Inbox
from events.log.memory import MemoryLog
from events.log.port import LogRecord, NewRecord
from events.records.base import Event
from events.records.hosts import HostLossConfirmed
from events.records.jobs import JobStopRequested
from events.records.parts import Seen, Segment
from events.records.pools import PoolRemoved
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import BrokenHistory, sealed
from events.topics import rounds_of
from tests.helpers.drawn import seeds

JOBS, POOLS, HOSTS = "paceline.jobs", "paceline.pools", "paceline.hosts"
MACHINES = ("lifecycle", "entitlement", "placement", "sla")
Place = tuple[str, int]
"""Topic and offset."""


def claim(machine: str, epoch: int = 1, last: int = 0, prev: bytes = NO_HASH) -> NewRecord:
    event = EpochStarted(
        cell=0, machine=machine, epoch=epoch, claimant="c", logic=1, state=1, round=last, start_hash=NO_HASH
    )
    return sealed(event, prev)


def round_(machine: str, number: int, prev: bytes, seen: dict[str, int], epoch: int = 1, **more: Any) -> NewRecord:
    event = RoundCommitted(
        **{"cell": 0, "inputs": (), **more},
        machine=machine,
        epoch=epoch,
        round=number,
        now=0,
        caught_up=True,
        budget=1,
        skipped=(),
        inputs_hash=NO_HASH,
        start_hash=NO_HASH,
        seen=tuple(Seen(topic=topic, position=position) for topic, position in sorted(seen.items())),
        decisions=(),
        prev_hash=prev,
        logic=1,
        state=1,
    )
    return sealed(event)


def facts(topic: str, start: int, count: int) -> list[LogRecord]:
    kinds: dict[str, Event] = {
        JOBS: JobStopRequested(job_id="j", command_id="c"),
        POOLS: PoolRemoved(path="/p", command_id="c"),
        HOSTS: HostLossConfirmed(host_id="h", command_id="c"),
    }
    return [LogRecord(topic, start + at, 0, b"", encode(kinds[topic])) for at in range(count)]


def placed(offset: int, record: NewRecord) -> LogRecord:
    return LogRecord(record.topic, offset, 0, record.key, record.value)


def inbox(facts_: Iterable[str], machines: Iterable[str], known: dict[str, int] | None = None) -> Inbox:
    machines = list(machines)
    topics = [*facts_, *map(rounds_of, machines)]
    return Inbox(dict.fromkeys(topics, 0), known or {}, {machine: Chain() for machine in machines}, 0)


def given(box: Inbox, limit: int = 1000) -> list[Place]:
    return [(each.record.topic, each.record.offset) for each in box.deliver(limit)]


LEFT, RIGHT = rounds_of("lifecycle"), rounds_of("placement")


def test_a_round_waits_for_the_facts_that_its_writer_had_read() -> None:
    box = inbox([JOBS], ["lifecycle"])
    box.add([placed(0, claim("lifecycle")), placed(1, round_("lifecycle", 1, NO_HASH, {JOBS: 2}))])
    assert given(box) == [(LEFT, 0)]
    box.add(facts(JOBS, 0, 1))
    assert given(box) == [(JOBS, 0)]
    assert box.waiting == 1
    box.add(facts(JOBS, 1, 2))
    assert given(box) == [(JOBS, 1), (JOBS, 2), (LEFT, 1)]
    assert box.positions == {JOBS: 3, LEFT: 2}


def test_what_rounds_tell_of_other_topics_is_known_and_told_on() -> None:
    box = inbox([JOBS], ["lifecycle"], known={HOSTS: 7})
    box.add([*facts(JOBS, 0, 1), placed(0, claim("lifecycle"))])
    box.add([placed(1, round_("lifecycle", 1, NO_HASH, {JOBS: 1, POOLS: 5, HOSTS: 6}))])
    assert len(given(box)) == 3
    assert box.known == {JOBS: 1, LEFT: 2, POOLS: 5, HOSTS: 7}


def test_what_is_no_round_of_the_history_waits_for_nothing_and_tells_nothing() -> None:
    box = inbox([JOBS], ["lifecycle"])
    far = {JOBS: 1000, POOLS: 1000}
    first = round_("lifecycle", 1, NO_HASH, {})
    strays = [
        round_("lifecycle", 1, NO_HASH, far),
        round_("placement", 1, NO_HASH, far)._replace(topic=LEFT),
        round_("lifecycle", 1, NO_HASH, far, cell=3),
        NewRecord(LEFT, b"lifecycle", first.value),
        NewRecord(LEFT, b"", b"garbage"),
    ]
    records = [claim("lifecycle"), first, claim("lifecycle", 2, 1, digest(first.value)), *strays]
    records.append(round_("lifecycle", 2, digest(first.value), {JOBS: 1}, epoch=2))
    box.add(placed(offset, record) for offset, record in enumerate(records))
    found = list(box.deliver(1000))
    verdicts = [each.verdict for each in found[3:]]
    assert verdicts == [
        Acceptance.OLD_EPOCH,
        Acceptance.FOREIGN,
        Acceptance.FOREIGN,
        Acceptance.NO_KEY,
        Acceptance.NO_KEY,
    ]
    assert not any(each.event for each in found[3:])
    assert box.known == {JOBS: 0, LEFT: 8}
    box.add(facts(JOBS, 0, 1))
    assert given(box) == [(JOBS, 0), (LEFT, 8)]


def test_a_broken_history_is_said_again_whenever_it_is_asked() -> None:
    box = inbox([JOBS], ["lifecycle"])
    box.add([placed(0, claim("lifecycle")), placed(1, round_("lifecycle", 2, NO_HASH, {JOBS: 9}))])
    assert given(box, 1) == [(LEFT, 0)]
    for _ in range(2):
        with pytest.raises(BrokenHistory, match="round 2 of lifecycle"):
            given(box)
    assert (box.waiting, box.positions[LEFT]) == (1, 1)


def test_facts_come_first_then_machines_by_rank_and_no_more_than_asked_for() -> None:
    box = inbox([POOLS, JOBS], ["placement", "lifecycle"])
    box.add([placed(0, claim("placement")), placed(0, claim("lifecycle")), *facts(POOLS, 0, 2), *facts(JOBS, 0, 2)])
    assert given(box, 3) == [(JOBS, 0), (JOBS, 1), (POOLS, 0)]
    assert box.waiting == 3
    assert given(box) == [(POOLS, 1), (LEFT, 0), (RIGHT, 0)]


def test_what_was_known_before_is_not_forgotten() -> None:
    known = {JOBS: 9, POOLS: 4}
    box = Inbox({JOBS: 3, LEFT: 2}, known, {"lifecycle": Chain()}, 0)
    assert box.known == {JOBS: 9, POOLS: 4, LEFT: 2}
    box.add(facts(JOBS, 3, 1))
    assert given(box) == [(JOBS, 3)]
    assert box.known == {JOBS: 9, POOLS: 4, LEFT: 2}
    assert known == {JOBS: 9, POOLS: 4}, "that of the caller"


class Writer:
    """A machine that reads some topics and now and then writes a round. `past`: all that its next round follows."""

    def __init__(self, world: "World", machine: str) -> None:
        draw = world.draw
        self.world, self.machine = world, machine
        self.facts = draw.sample([JOBS, POOLS, HOSTS], draw.randint(0, 3))
        others = [other for other in MACHINES if other != machine]
        self.peers = draw.sample(others, draw.randint(0 if self.facts else 1, 3))
        self.box = inbox(self.facts, self.peers)
        self.reader = world.log.reader(dict.fromkeys(self.box.positions, 0))
        self.past: set[Place] = set()
        self.inputs: list[Segment] = []
        self.epoch, self.round, self.hash = 0, 0, NO_HASH

    def step(self) -> None:
        draw = self.world.draw
        self.box.add(self.reader.poll(draw.choice([1, 3, 20]), 0))
        for each in self.box.deliver(draw.choice([1, 5, 50])):
            topic, offset = place = each.record.topic, each.record.offset
            self.past |= {place} | self.world.pasts.get(place, set())
            self.inputs.append(Segment(topic=topic, start=offset, end=offset + 1))
        if draw.random() < 0.05 or not self.epoch:
            self.epoch += 1
            self._write(claim(self.machine, self.epoch, self.round, self.hash))
        elif draw.random() < 0.5:
            record = self._next()
            self.round, self.hash, self.inputs = self.round + 1, digest(record.value), []
            self._write(record)
        elif draw.random() < 0.1:  # by a process that has lost the machine
            self.world.log.append([round_(self.machine, 1, NO_HASH, {JOBS: 10_000}, epoch=self.epoch - 1)])

    def _next(self) -> NewRecord:
        return round_(
            self.machine, self.round + 1, self.hash, self.box.known, epoch=self.epoch, inputs=tuple(self.inputs)
        )

    def _write(self, record: NewRecord) -> None:
        place = record.topic, self.world.log.append([record])[0]
        self.world.written.add(place)
        if parse(record.key).kind == ROUND:  # type: ignore[union-attr]
            self.world.pasts[place] = set(self.past)  # a claim tells nothing, so it follows nothing
        self.past.add(place)


class World:
    """Four machines that read one another in any way and facts that come meanwhile, all drawn by a seed. `pasts`: of
    each round what it follows, however indirectly: kept by hand, not by what rounds say. `written`: claims and rounds.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.log = MemoryLog(lambda: 0, seed=seed)
        self.pasts: dict[Place, set[Place]] = {}
        self.written: set[Place] = set()
        writers = [Writer(self, machine) for machine in MACHINES]
        for _ in range(120):
            if self.draw.random() < 0.4:
                topic = self.draw.choice([JOBS, POOLS, HOSTS])
                self.log.append([NewRecord(topic, b"", facts(topic, 0, 1)[0].value)])
            self.draw.choice(writers).step()

    def read(self, topics: list[str], machines: list[str], seed: int) -> list[tuple[Place, Acceptance]]:
        """What a reader is given that polls and takes as its seed says."""
        draw, box = random.Random(seed), inbox(topics, machines)
        self.log.draw = random.Random(seed)
        reader = self.log.reader(dict.fromkeys(box.positions, 0))
        out: list[tuple[Place, Acceptance]] = []
        for _ in range(5000):
            if not box.waiting and all(reader.position(topic) >= end for topic, end in reader.ends().items()):
                return out
            box.add(reader.poll(draw.choice([1, 2, 30]), 0))
            for each in box.deliver(draw.choice([1, 40])):
                out.append(((each.record.topic, each.record.offset), each.verdict))
        raise AssertionError(f"waits for ever: {box.waiting} records")


@seeds(60, 15)
def test_whatever_is_read_when_every_record_comes_once_in_its_turn_and_after_all_that_it_follows(seed: int) -> None:
    world = World(seed)
    draw = random.Random(seed)
    topics, machines = draw.sample([JOBS, POOLS, HOSTS], draw.randint(1, 3)), draw.sample(MACHINES, draw.randint(1, 4))
    histories = [world.read(topics, machines, reads) for reads in range(4)]
    of_reader = {*topics, *map(rounds_of, machines)}
    for history in histories:
        given_: dict[Place, None] = {}
        ends = dict.fromkeys(of_reader, 0)
        for place, _ in history:
            assert place[1] == ends[place[0]], "each topic in order, none left out, none twice"
            ends[place[0]] += 1
            early = {each for each in world.pasts.get(place, set()) if each[0] in of_reader} - given_.keys()
            assert not early, f"{place} was given before {early}"
            given_[place] = None
        assert ends == world.log.ends(of_reader)
        assert dict(history) == dict(histories[0]), "the same records are accepted, whatever comes first"
    strays = {place for place, verdict in histories[0] if verdict is not Acceptance.ACCEPTED}
    assert strays.isdisjoint(world.written)
