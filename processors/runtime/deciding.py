"""Asks a machine for a round: pass after pass, within the size of a record."""

from dataclasses import dataclass
from typing import NamedTuple

from events.codec import encode_to_share
from events.log.port import NewRecord
from events.records.base import Event
from events.records.parts import Seen
from events.records.rounds import RoundCommitted
from events.rounds import sealed_to_share
from events.topics import ROUND_BYTES_MAX
from processors.machine import Machine
from processors.runtime.fold import Fold
from processors.runtime.stops import RoundTooLarge

PASSES_BYTES = 64 * 1024
"""A round that is smaller than this is decided on: what follows from its own decisions goes into it."""

HEAD_BYTES, PART_BYTES = 512, 128
"""More than a round takes without its parts, and more than one of them takes: a segment, a position, a length."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one turn: records applied, units of work decided, bytes of a round. `unstored`: so many rounds may wait
    for the store.
    """

    records: int = 2000
    budget: int = 20_000
    round_bytes: int = ROUND_BYTES_MAX
    unstored: int = 1


class Moment(NamedTuple):
    """The circumstances of a round: the epoch, logical time, whether all inputs were read, and the known position of
    each topic.
    """

    epoch: int
    now: int
    caught_up: bool
    positions: dict[str, int]


class Decided(NamedTuple):
    """A round, its decisions as readers get them, what is to be appended, and whether more is left to decide."""

    round: RoundCommitted
    decisions: list[Event]
    record: NewRecord
    more: bool


class Decider:
    """Asks a machine for rounds, and applies their decisions to its fold."""

    def __init__(self, machine: Machine, fold: Fold, limits: Limits) -> None:
        self._machine = machine
        self._fold = fold
        self._limits = limits

    def decide(self, moment: Moment, forced: bool) -> Decided | None:
        """The next round, its decisions applied; None: there is nothing to decide, and no round is forced. Should the
        round not be accepted, the machine is given up with it. Raises `RoundTooLarge`.
        """
        budget = self._limits.budget
        while True:
            decided = self._machine.decide(moment.now, moment.caught_up, budget)
            if not decided and not forced:
                return None
            decisions, encoded = _encoded(decided)
            size = self._size(moment, encoded)
            if size <= self._limits.round_bytes:
                more = self._go_on(moment, budget, decisions, encoded)
                round_ = self._round(moment, budget, encoded)
                return Decided(round_, decisions, sealed_to_share(round_, decisions), more)
            if budget <= 1:
                raise RoundTooLarge(f"{self._machine.name}: a round of one unit of work takes {size} bytes")
            budget //= 2

    def _go_on(self, moment: Moment, budget: int, decisions: list[Event], encoded: list[bytes]) -> bool:
        """Applies decisions and adds what follows from them to both lists, pass after pass, until nothing more does or
        the round is large; then there is more.
        """
        latest, size, done = list(decisions), self._size(moment, encoded), 0
        while latest:
            self._fold.decided(moment.now, latest, self._fold.own.round + 1, done)
            done += len(latest)
            if size >= PASSES_BYTES:
                return True
            latest, more = _encoded(self._machine.decide(moment.now, moment.caught_up, budget))
            size = self._size(moment, [*encoded, *more])
            if size > self._limits.round_bytes:
                return True
            decisions += latest
            encoded += more
        return False

    def _size(self, moment: Moment, encoded: list[bytes]) -> int:
        """Bytes of a round with these decisions, at most."""
        parts = len(self._fold.segments) + len(self._fold.skipped) + len(moment.positions) + len(encoded)
        return HEAD_BYTES + parts * PART_BYTES + sum(map(len, encoded))

    def _round(self, moment: Moment, budget: int, encoded: list[bytes]) -> RoundCommitted:
        fold, positions = self._fold, moment.positions
        return RoundCommitted(
            cell=fold.cell,
            machine=self._machine.name,
            epoch=moment.epoch,
            round=fold.own.round + 1,
            now=moment.now,
            caught_up=moment.caught_up,
            budget=budget,
            inputs=tuple(fold.segments),
            skipped=tuple(fold.skipped),
            inputs_hash=fold.inputs_hash(),
            start_hash=fold.state.hash,
            seen=tuple([Seen(topic=topic, position=positions[topic]) for topic in sorted(positions)]),
            decisions=tuple(encoded),
            prev_hash=fold.own.hash,
            logic=self._machine.logic,
            state=self._machine.state,
        )


def _encoded(decided: list[Event]) -> tuple[list[Event], list[bytes]]:
    """Decisions as readers get them, and their bytes."""
    decisions, encoded = [], []
    for decision in decided:
        value, shared = encode_to_share(decision)
        decisions.append(shared)
        encoded.append(value)
    return decisions, encoded
