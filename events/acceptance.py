"""The acceptance rule: which rounds of a machine every reader takes, and why the others are ignored (design law 4).

A machine's topic may hold more than its history: a late round of a process that has lost the cell, a record written
twice, bytes of a stranger. The rule needs nothing but the topic itself, so all readers take the same rounds.
"""

from enum import StrEnum
from hashlib import blake2b

import msgspec

from events.records.rounds import EpochStarted, RoundCommitted

NO_HASH = bytes(32)


class Verdict(StrEnum):
    """What becomes of a record in a machine's topic; all but ACCEPTED are counted and ignored."""

    ACCEPTED = "ACCEPTED"
    FOREIGN = "FOREIGN"
    """Not of this machine and cell."""
    OLD_EPOCH = "OLD_EPOCH"
    """Of an epoch that is over, or a claim that came second."""
    NOT_CLAIMED = "NOT_CLAIMED"
    """Of an epoch that nobody has claimed, or a claim that leaves one out."""
    NOT_NEXT = "NOT_NEXT"
    """Its number is not the next."""
    INPUTS_DONT_FIT = "INPUTS_DONT_FIT"
    """Its inputs don't continue where the last round's ended."""
    HASH_DOESNT_FIT = "HASH_DOESNT_FIT"
    """It doesn't continue the chain of hashes."""


def digest(value: bytes) -> bytes:
    """BLAKE2b-256 of a record's bytes."""
    return blake2b(value, digest_size=32).digest()


class Chain(msgspec.Struct):
    """What a reader knows of one machine's history; a row of its state. `inputs` is the end of the inputs per topic."""

    epoch: int = 0
    round: int = 0
    hash: bytes = NO_HASH
    position: int = 0
    inputs: dict[str, int] = {}

    def judge(self, record: EpochStarted | RoundCommitted, machine: str, cell: int) -> Verdict:
        """Whether the record at the next position is part of the history. Changes nothing."""
        if record.machine != machine or record.cell != cell:
            return Verdict.FOREIGN
        if isinstance(record, EpochStarted):
            if record.epoch <= self.epoch:
                return Verdict.OLD_EPOCH
            return Verdict.ACCEPTED if record.epoch == self.epoch + 1 else Verdict.NOT_CLAIMED
        if record.epoch != self.epoch or not self.epoch:
            return Verdict.OLD_EPOCH if record.epoch < self.epoch else Verdict.NOT_CLAIMED
        if record.round != self.round + 1:
            return Verdict.NOT_NEXT
        if record.prev_hash != self.hash:
            return Verdict.HASH_DOESNT_FIT
        ends = dict(self.inputs)
        for segment in record.inputs:
            if segment.start != ends.get(segment.topic, 0) or segment.end <= segment.start:
                return Verdict.INPUTS_DONT_FIT
            ends[segment.topic] = segment.end
        return Verdict.ACCEPTED

    def follow(self, record: EpochStarted | RoundCommitted, value: bytes, position: int) -> None:
        """Takes an accepted record; `value` is its bytes, `position` the offset after it."""
        self.position = position
        if isinstance(record, EpochStarted):
            self.epoch = record.epoch
            return
        self.round = record.round
        self.hash = digest(value)
        for segment in record.inputs:
            self.inputs[segment.topic] = segment.end
