"""The acceptance rule: which rounds of a machine every reader takes, and what other records mean (design law 4).

A machine's topic may hold more than its history: a late round of a process that has lost the cell, a record written
twice, bytes of a stranger. The rule needs nothing but the keys in the topic, and a key has a form that never changes,
so that all readers of all builds take the same rounds (decision 017).
"""

import re
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from events.records.rounds import RoundCommitted

NO_HASH = bytes(32)
CLAIM, ROUND = "claim", "round"
_KEY = re.compile(
    rb"paceline (claim|round) machine=([a-z]{1,40}) cell=(\d{1,9}) epoch=(\d{1,18}) round=(\d{1,18}) "
    rb"prev=([0-9a-f]{64}) schema=([0-9a-f]{16}) build=([\w.+!-]{1,60}) hash=([0-9a-f]{64})"
)


class Acceptance(StrEnum):
    """The judgement on a record in a machine's topic."""

    ACCEPTED = "ACCEPTED"

    # Strays: counted and ignored.
    NO_KEY = "NO_KEY"
    """It has no key of a claim or round."""
    DAMAGED = "DAMAGED"
    """Its value is not the one that its key is of."""
    FOREIGN = "FOREIGN"
    """Not of this machine and cell."""
    OLD_EPOCH = "OLD_EPOCH"
    """The record is of an epoch that is over, or is a claim that came second."""
    REPEATED = "REPEATED"
    """A round that was there before."""

    # A broken history: only a writer that has read records which this reader lacks writes such.
    NOT_CLAIMED = "NOT_CLAIMED"
    """The record is of an epoch that nobody has claimed, or is a claim that leaves one out."""
    NOT_NEXT = "NOT_NEXT"
    """Rounds before it are missing."""
    HASH_DOESNT_FIT = "HASH_DOESNT_FIT"
    """It continues another history."""
    INPUTS_DONT_FIT = "INPUTS_DONT_FIT"
    """Its inputs don't continue where the last round's ended."""
    NOT_ITS_KEY = "NOT_ITS_KEY"
    """Its value says otherwise than its key."""

    @property
    def broken(self) -> bool:
        """Whether such a record shows that records of the history are missing or were changed."""
        return self in _BROKEN


_BROKEN = frozenset(
    (
        Acceptance.NOT_CLAIMED,
        Acceptance.NOT_NEXT,
        Acceptance.HASH_DOESNT_FIT,
        Acceptance.INPUTS_DONT_FIT,
        Acceptance.NOT_ITS_KEY,
    )
)


def digest(value: bytes) -> bytes:
    """BLAKE2b-256 of a record's bytes."""
    return blake2b(value, digest_size=32).digest()


class RoundKey(NamedTuple):
    """The key of a claim or round. `round` and `prev`: of a round its number and the hash of the record of the round
    before it; of a claim the last round that the claimant has folded, and its hash. `schema`: fingerprint of the
    value's schema in hexadecimal; `build`: the version of Paceline that wrote it; `hash`: of the value, which binds
    both.
    """

    kind: str
    machine: str
    cell: int
    epoch: int
    round: int
    prev: bytes
    schema: str
    build: str
    hash: bytes

    def pack(self) -> bytes:
        """The key as it stands in the log. This form never changes: builds of all times judge by it."""
        return (
            f"paceline {self.kind} machine={self.machine} cell={self.cell} epoch={self.epoch} round={self.round} "
            f"prev={self.prev.hex()} schema={self.schema} build={self.build} hash={self.hash.hex()}"
        ).encode()

    def __str__(self) -> str:
        what = f"round {self.round}" if self.kind == ROUND else f"the claim of epoch {self.epoch}"
        return f"{what} of {self.machine} in cell {self.cell}"


def parse(key: bytes) -> RoundKey | None:
    """The key of a claim or round; None: it is no such key."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    kind, machine, cell, epoch, round_, prev, schema, build, hash_ = (part.decode() for part in match.groups())
    numbers = int(cell), int(epoch), int(round_)
    return RoundKey(kind, machine, *numbers, bytes.fromhex(prev), schema, build, bytes.fromhex(hash_))


class Chain(msgspec.Struct):
    """The state of a reader of one machine's history; a row of its state. `inputs` is the end of the inputs per
    topic.
    """

    epoch: int = 0
    round: int = 0
    hash: bytes = NO_HASH
    position: int = 0
    inputs: dict[str, int] = {}

    def judge(self, key: RoundKey, machine: str, cell: int) -> Acceptance:
        """Judges the record with this key at the next position, if its value is the key's. Changes nothing.

        One process writes in an epoch, once it has read back its claim, and each round once it has read back the last.
        So a record of an epoch that isn't over which doesn't continue this history was written by a process that has
        read another: what it had read is missing here, or was changed.
        """
        if key.machine != machine or key.cell != cell:
            return Acceptance.FOREIGN
        if key.kind == CLAIM:
            return self._judge_claim(key)
        if key.epoch > self.epoch:
            return Acceptance.NOT_CLAIMED
        if key.epoch < self.epoch or not self.epoch:
            return Acceptance.OLD_EPOCH
        if key.round > self.round + 1:
            return Acceptance.NOT_NEXT
        if key.round == self.round + 1:
            return Acceptance.ACCEPTED if key.prev == self.hash else Acceptance.HASH_DOESNT_FIT
        return Acceptance.REPEATED if key.round < self.round or key.hash == self.hash else Acceptance.HASH_DOESNT_FIT

    def _judge_claim(self, key: RoundKey) -> Acceptance:
        if key.epoch <= self.epoch:
            return Acceptance.OLD_EPOCH
        if key.epoch > self.epoch + 1:
            return Acceptance.NOT_CLAIMED
        if key.round > self.round:
            return Acceptance.NOT_NEXT
        return Acceptance.HASH_DOESNT_FIT if key.round == self.round and key.prev != self.hash else Acceptance.ACCEPTED

    def continues(self, round_: RoundCommitted) -> bool:
        """Whether the inputs of the next round begin where those of the last one ended."""
        ends = dict(self.inputs)
        for segment in round_.inputs:
            if segment.start != ends.get(segment.topic, 0) or segment.end <= segment.start:
                return False
            ends[segment.topic] = segment.end
        return True

    def follow(self, key: RoundKey, round_: RoundCommitted | None, position: int) -> None:
        """Takes an accepted record: a round, or (None) a claim. `position`: the offset after it."""
        self.position = position
        self.epoch = key.epoch
        if round_ is None:
            return
        self.round = key.round
        self.hash = key.hash
        for segment in round_.inputs:
            self.inputs[segment.topic] = segment.end
