"""Replay: the same fold with another reader. It decides every round again and compares, byte for byte."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from events.acceptance import Acceptance
from events.codec import CodecError, decode, encode
from events.log.port import Log, LogGap, LogRecord
from events.records.base import Event
from events.records.parts import Segment
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import Delivered, RoundFault, accept
from processors.machine import Machine
from processors.runtime.divergence import Divergence, find_divergence
from processors.runtime.fold import Fold, HistoryDiffers, Recorded
from processors.runtime.store import MemoryStore, Store


class Mismatch(StrEnum):
    """The kind of a difference."""

    DECIDED = "DECIDED"
    """The round was decided otherwise."""
    STATE = "STATE"
    """The round, or a claim, was made from another state."""
    INPUTS = "INPUTS"
    """A record was changed."""
    MISSING = "MISSING"
    """Records are missing."""
    CHAIN = "CHAIN"
    """A round continues another history."""
    LOGIC = "LOGIC"
    """A round was decided by another logic."""
    UNREADABLE = "UNREADABLE"
    """This build can't read a record."""
    LOG = "LOG"
    """The log isn't what it was when a head of it was taken."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a history and its replay part. `index` is the decision within the round; `recorded` and
    `decided` are its bytes, None where there is none. `places`: stretches of topics, one of which holds what differs;
    none where it isn't a record.
    """

    machine: str
    round: int
    index: int
    recorded: bytes | None
    decided: bytes | None
    reason: str = "decided otherwise"
    places: tuple[Segment, ...] = ()
    kind: Mismatch = Mismatch.DECIDED


@dataclass(slots=True)
class Replayed:
    """The result of replaying one machine. `begun`: the round that it began after; `before` counts the rounds that came
    before those that were asked for, `folded` those of another logic number: both are applied only. `events` are
    the inputs applied; `hash` is the state hash after the last round, `inputs` where each input then ends. `parting`:
    the round after which the recorded and the replayed state differ, where that was asked for.
    """

    machine: str
    rounds: int = 0
    folded: int = 0
    decisions: int = 0
    events: int = 0
    epochs: int = 0
    hash: bytes = bytes(32)
    difference: Difference | None = None
    begun: int = 0
    before: int = 0
    inputs: dict[str, int] = field(default_factory=dict)
    divergence: Divergence | None = None


class Replay:
    """Replays one machine of a cell from the start of its history, or from where `store` stands.

    With a store, which holds the rows after each round, and `make`, which makes another machine, it goes on after a
    difference until the recorded and the replayed state differ. `strict`: a round of another logic is a difference.
    """

    def __init__(
        self,
        machine: Machine,
        log: Log,
        store: Store | None = None,
        make: Callable[[], Machine] | None = None,
        strict: bool = False,
    ) -> None:
        self.strict = strict
        self.fold = Fold(machine, log.cell)
        self.result = Replayed(machine.name)
        self._log = log
        self._store = store
        self._make = make
        if store is not None:
            self.fold.restore(store)
        self._recorded = Recorded(log, self.fold)
        self._latest = max(0, self.fold.own.position - 1)
        """Offset of the last round that belongs to the history: what comes next must fit it, claims between or not."""
        self._ignore: Difference | None = None
        self._finished = False
        self.result.begun, self.result.hash = self.fold.own.round, self.fold.state.hash
        self.result.inputs = dict(self.fold.own.inputs)

    def rounds(self, decide: bool = True, first: int = 1, last: int | None = None) -> Iterator[RoundCommitted]:
        """Replays round after round to the present end of the log, to `last`, or to the first difference. Rounds before
        `first` are applied only.
        """
        own = self.fold.own
        try:
            for record in self._log.scan(self.fold.topic, own.position):
                if last is not None and self.fold.own.round >= last:
                    return
                delivered = self._own(record)
                if delivered is not None and isinstance(delivered.event, RoundCommitted):
                    self._round(delivered, delivered.event, decide, first)
                    yield delivered.event
                if self._finished:
                    return
        except LogGap as error:
            self._differs(_unreadable(error), kind=Mismatch.MISSING)
        if self._ignore is not None:
            self.result.difference = self.result.difference or self._ignore

    def _differs(self, reason: str, *places: Segment, kind: Mismatch) -> None:
        """A difference that nothing can be folded after."""
        fold, result = self.fold, self.result
        self._finished = True
        result.difference = result.difference or Difference(
            fold.machine.name, fold.own.round, 0, None, None, reason, places, kind
        )

    def _own(self, record: LogRecord) -> Delivered | None:
        """Reads a record of the machine's own topic; None: it ends the replay."""
        fold = self.fold
        place = Segment(topic=fold.topic, start=self._latest, end=record.offset + 1)
        try:
            delivered = accept(record, fold.own, fold.machine.name, fold.cell)
        except RoundFault as fault:
            self._differs(str(fault), place, kind=_kind_of(fault))
            return None
        if isinstance(delivered.event, EpochStarted):
            self.result.epochs += 1
            self._claim(delivered.event, place)
        elif delivered.event is not None:
            self._ignore, self._latest = None, record.offset
        elif delivered.verdict is Acceptance.DAMAGED and self._ignore is None:
            # It ends the history, and is told where nothing comes after it that continues what stands before it.
            text = f"{delivered.key} at {place.topic}:{record.offset} has another value than its key says"
            self._ignore = Difference(
                fold.machine.name, fold.own.round + 1, 0, None, None, text, (place,), Mismatch.INPUTS
            )
        return delivered

    def _claim(self, claim: EpochStarted, place: Segment) -> None:
        """A claim says which state its claimant had folded."""
        fold = self.fold
        agrees = claim.round == fold.own.round and claim.state == fold.machine.state
        if agrees and claim.start_hash != fold.state.hash:
            text = f"the claim of epoch {claim.epoch} at {place.topic}:{place.end - 1} was of another state"
            self._differs(text, place, kind=Mismatch.STATE)

    def _round(self, own: Delivered, event: RoundCommitted, decide: bool, first: int) -> None:
        """Replays an accepted round; a difference ends in the result."""
        fold, result, record = self.fold, self.result, own.record
        segment = Segment(topic=record.topic, start=record.offset, end=record.offset + 1)
        decide = decide and event.round >= first
        if decide and self.strict and event.logic != fold.machine.logic:
            self._differs(_other_logic(own, fold.machine), segment, kind=Mismatch.LOGIC)
            return
        try:
            self._recorded.take(own)
            decisions = own.decisions()
        except HistoryDiffers as differs:
            kind = Mismatch.INPUTS if differs.places else Mismatch.STATE
            self._differs(str(differs), *differs.places, segment, kind=kind)
            return
        except (LogGap, CodecError, RoundFault) as error:
            self._differs(_unreadable(error), *event.inputs, segment, kind=_kind_of(error))
            return
        result.events += sum(each.end - each.start for each in event.inputs)
        result.decisions += len(event.decisions)
        difference = None
        if decide and event.logic == fold.machine.logic:
            difference = self._decide_again(event, decisions, segment)
            result.rounds += 1
        else:
            fold.decided(event.now, decisions, event.round)
            if event.round < first:
                result.before += 1
            else:
                result.folded += 1
        if difference is None:
            changes = fold.finish(event)
            if self._store is not None:
                self._store.commit(changes, fold.progress())
            result.hash, result.inputs = fold.state.hash, dict(fold.own.inputs)
        else:
            result.difference = result.difference or difference
            self._find_divergence(own)

    def _find_divergence(self, own: Delivered) -> None:
        """After a round that is decided otherwise: ends where the states part there, else goes on from what both come
        to.
        """
        if self._make is None or not isinstance(self._store, MemoryStore):
            self._finished = True
            return
        self.result.divergence = find_divergence(self._make, self._log, self._store, own)
        if self.result.divergence is not None:
            self._finished = True
            return
        self.fold = Fold(self._make(), self._log.cell)
        self.fold.restore(self._store)
        self._recorded = Recorded(self._log, self.fold)
        self.result.hash = self.fold.state.hash

    def _decide_again(self, record: RoundCommitted, events: Sequence[Event], segment: Segment) -> Difference | None:
        """Decides a round pass after pass, as the driver did, and applies what was recorded, up to the first
        difference.
        """
        fold, recorded, done = self.fold, record.decisions, 0
        while True:
            decided = [encode(event) for event in fold.machine.decide(record.now, record.caught_up, record.budget)]
            difference = self._compare(record, done, decided, segment)
            if difference is not None:
                return difference
            ends = done + len(decided)
            fold.decided(record.now, events[done:ends], record.round, done)
            done = ends
            if done == len(recorded):
                return None

    def _compare(
        self, record: RoundCommitted, start: int, decided: Sequence[bytes], segment: Segment
    ) -> Difference | None:
        """Holds a pass against what stands in the round from `start`; an empty pass is one of a round without any."""
        recorded = record.decisions
        for index in range(start, start + max(len(decided), start < len(recorded))):
            old = recorded[index] if index < len(recorded) else None
            new = decided[index - start] if index - start < len(decided) else None
            if old != new and not (old and new and encode(decode(old)) == new):  # a build may add fields
                return Difference(self.fold.machine.name, record.round, index, old, new, places=(segment,))
        return None


def _unreadable(error: Exception) -> str:
    return f"the log can't be replayed: {error}"


def _kind_of(error: LogGap | CodecError | RoundFault) -> Mismatch:
    if isinstance(error, LogGap):
        return Mismatch.MISSING
    verdict = error.verdict if isinstance(error, RoundFault) else None
    match verdict:
        case None:
            return Mismatch.UNREADABLE
        case Acceptance.NOT_NEXT | Acceptance.NOT_CLAIMED:
            return Mismatch.MISSING
        case Acceptance.HASH_DOESNT_FIT | Acceptance.INPUTS_DONT_FIT:
            return Mismatch.CHAIN
        case _:
            return Mismatch.INPUTS


def _other_logic(own: Delivered, machine: Machine) -> str:
    assert isinstance(own.event, RoundCommitted)
    assert own.key is not None
    return (
        f"{machine.name} round {own.event.round} was decided by logic {own.event.logic} of Paceline {own.key.build}, "
        f"and this is logic {machine.logic}: decide it again with that version"
    )


def replay(machine: Machine, log: Log, on_round: Callable[[RoundCommitted], None] | None = None) -> Replayed:
    """Replays a machine's whole history and returns what was found."""
    run = Replay(machine, log)
    for record in run.rounds():
        if on_round:
            on_round(record)
    return run.result
