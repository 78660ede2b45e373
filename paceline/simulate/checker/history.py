"""The topics of a log as far as they were read: facts, and the rounds that a second version of the protocol accepts.

Nothing here comes from the code that runs machines: only the records' schemas are shared.
"""

import re
from hashlib import blake2b
from typing import NamedTuple

from events.codec import CodecError, decode
from events.log.port import Log, LogRecord
from events.records.base import Event
from events.records.rounds import EpochStarted, RoundCommitted
from events.topics import rounds_of

FACTS = ("paceline.jobs", "paceline.pools", "paceline.hosts", "paceline.tasks")
MACHINES = ("lifecycle", "entitlement", "placement", "sla")
KEY = re.compile(
    rb"paceline (?:claim|round) machine=(\w+) cell=(\d+) epoch=(\d+) round=(\d+) prev=(\w{64}) schema=\w{16} "
    rb"build=\S+ hash=(\w{64})"
)
"""Keys of what a machine writes; without one a record is no part of its history."""


class Violation(AssertionError):
    """Something that must hold doesn't; the text says what, where, with the numbers."""


class Taken(NamedTuple):
    """An input of a machine: of rounds each decision for itself. `now_ms`: the logical time of that round, or when the
    fact was appended.
    """

    topic: str
    offset: int
    event: Event
    now_ms: int = 0


class Round(NamedTuple):
    """A round that counts: what its machine took in, in that order, and what it decided."""

    machine: str
    number: int
    offset: int
    inputs: list[Taken]
    decisions: list[Event]
    now_ms: int = 0
    """Its logical time."""

    def __str__(self) -> str:
        return f"round {self.number} of {self.machine} (paceline.{self.machine}:{self.offset})"


class _Owner:
    """The state of one machine's topic: who owns it, and where its chain ends."""

    def __init__(self) -> None:
        self.epoch = self.number = 0
        self.hash = bytes(32)
        self.inputs_read: dict[str, int] = {}
        self.states: set[bytes] = set()
        """The hashes of the state after its last round, as the processes that served it since then have said."""

    def start_from(self, state: bytes, where: str) -> None:
        """A process says its state after the last round. Raises `Violation` where another had another."""
        self.states.add(state)
        if len(self.states) > 1:
            raise Violation(f"{where} begins with another state than another process had after round {self.number}")


class History:
    """Reads a log forward, each topic for itself."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._facts: dict[str, list[Event | None]] = {topic: [] for topic in FACTS}
        self._rounds: dict[str, list[Round | None]] = {rounds_of(machine): [] for machine in MACHINES}
        self._records: dict[str, list[LogRecord]] = {topic: [] for topic in (*self._facts, *self._rounds)}
        self._owners = {machine: _Owner() for machine in MACHINES}
        self.topics = (*self._facts, *self._rounds)
        self.ignored = 0

    def read(self) -> list[Round]:
        """The rounds that count and are new, each machine's in order. Raises `Violation`."""
        new: list[Round] = []
        ends = self._log.ends(self._rounds)
        for topic, events in self._facts.items():
            for record in self._log.scan(topic, len(events)):
                events.append(_event(record))
                self._records[topic].append(record)
        waiting = dict.fromkeys(MACHINES, True)
        records = {machine: self._tail(machine, ends[rounds_of(machine)]) for machine in MACHINES}
        while any(waiting.values()):
            moved = False
            for machine in MACHINES:
                while records[machine] and self._may_take(records[machine][0]):
                    moved = True
                    next_round = self._take(machine, records[machine].pop(0))
                    if next_round is not None:
                        new.append(next_round)
                waiting[machine] = bool(records[machine])
            if not moved and any(waiting.values()):
                stuck = next(machine for machine in MACHINES if waiting[machine])
                raise Violation(f"{stuck} took in records that nobody has written before: {records[stuck][0][0]}")
        return new

    def facts(self) -> int:
        """The number of facts that were read."""
        return sum(map(len, self._facts.values()))

    def fact(self, topic: str, offset: int) -> Event | None:
        """A fact by its position."""
        events = self._facts[topic]
        return events[offset] if offset < len(events) else None

    def _tail(self, machine: str, end: int) -> list[tuple[LogRecord, Event | None]]:
        topic = rounds_of(machine)
        scanned = self._log.scan(topic, len(self._rounds[topic]))
        return [(record, _event(record) if _bound(record) else None) for record in scanned if record.offset < end]

    def _may_take(self, head: tuple[LogRecord, Event | None]) -> bool:
        """Whether all that a round has taken in was read."""
        event = head[1]
        if not isinstance(event, RoundCommitted):
            return True
        ends = {topic: len(events) for topic, events in self._facts.items()}
        ends |= {topic: len(rounds) for topic, rounds in self._rounds.items()}
        return all(segment.end <= ends.get(segment.topic, 0) for segment in event.inputs)

    def _take(self, machine: str, head: tuple[LogRecord, Event | None]) -> Round | None:
        record, event = head
        topic, owner = rounds_of(machine), self._owners[machine]
        round_ = None
        if isinstance(event, EpochStarted) and event.machine == machine and event.epoch == owner.epoch + 1:
            owner.epoch = event.epoch
            if event.round == owner.number:
                owner.start_from(event.start_hash, f"epoch {event.epoch} of {machine}")
        elif isinstance(event, RoundCommitted) and self._counts(event, machine, owner):
            owner.start_from(event.start_hash, f"round {event.round} of {machine}")
            owner.states.clear()
            owner.number, owner.hash = event.round, blake2b(record.value, digest_size=32).digest()
            owner.inputs_read.update({segment.topic: segment.end for segment in event.inputs})
            decisions = [decode(value) for value in event.decisions]
            round_ = Round(machine, event.round, record.offset, self._inputs(event), decisions, event.now)
            if self._inputs_hash(event) != event.inputs_hash:
                raise Violation(f"{round_} says another hash than that of the inputs that it names")
        else:
            self.ignored += 1
        self._rounds[topic].append(round_)
        self._records[topic].append(record)
        return round_

    def _counts(self, event: RoundCommitted, machine: str, owner: _Owner) -> bool:
        if (event.machine, event.cell, event.epoch) != (machine, self._log.cell, owner.epoch) or not owner.epoch:
            return False
        if event.round != owner.number + 1 or event.prev_hash != owner.hash:
            return False
        inputs_read = dict(owner.inputs_read)
        for segment in event.inputs:
            if segment.start != inputs_read.get(segment.topic, 0) or segment.end <= segment.start:
                return False
            inputs_read[segment.topic] = segment.end
        return True

    def _inputs_hash(self, event: RoundCommitted) -> bytes:
        hasher = blake2b(digest_size=32)
        for segment in event.inputs:
            for topic, offset, at_ms, key, value in self._records[segment.topic][segment.start : segment.end]:
                hasher.update(f"{topic}\0{offset}\0{at_ms}\0{len(key)}\0{len(value)}\0".encode() + key + value)
        return hasher.digest()

    def _inputs(self, event: RoundCommitted) -> list[Taken]:
        inputs: list[Taken] = []
        skipped = {(skip.topic, skip.offset) for skip in event.skipped}
        for segment in event.inputs:
            for offset in range(segment.start, segment.end):
                if segment.topic in self._facts:
                    fact = None if (segment.topic, offset) in skipped else self._facts[segment.topic][offset]
                    at_ms = self._records[segment.topic][offset].at_ms
                    inputs += [] if fact is None else [Taken(segment.topic, offset, fact, at_ms)]
                else:
                    round_ = self._rounds[segment.topic][offset]
                    if round_ is not None:
                        inputs += [Taken(segment.topic, offset, each, round_.now_ms) for each in round_.decisions]
        return inputs


def _event(record: LogRecord) -> Event | None:
    try:
        return decode(record.value)
    except CodecError:
        return None


def _bound(record: LogRecord) -> bool:
    """Whether the key of a record in a machine's topic is that of its value."""
    key = KEY.fullmatch(record.key)
    if key is None or bytes.fromhex(key[6].decode()) != blake2b(record.value, digest_size=32).digest():
        return False
    event = _event(record)
    if not isinstance(event, EpochStarted | RoundCommitted):
        return False
    in_value = (event.machine, event.cell, event.epoch, event.round)
    in_key = (key[1].decode(), *(int(key[at]) for at in (2, 3, 4)))
    return in_key == in_value and (isinstance(event, EpochStarted) or event.prev_hash.hex().encode() == key[5])
