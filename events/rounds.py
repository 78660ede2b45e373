"""Claims and rounds in a log: how they are written, and the one reader of them (decision 001).

A record in a machine's topic is *accepted*: the next of the history; *stray*: counted and ignored, however many there
are; or the history is *broken*. Which of them is decided by the keys alone (`events.acceptance`), so no build passes
over what another build takes in: one that can't read the value of an accepted record stops.

A record is parsed, hashed and decoded once in a process, whoever reads it first, and not at all where this process has
written it. The result is for its key and its value: another value under that key is read again.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from events import VERSION
from events.acceptance import CLAIM, NO_HASH, ROUND, Acceptance, Chain, RoundKey, digest, parse
from events.codec import CodecError, check_schema, decode_once, encode_to_share, fingerprint_in, wire
from events.log.port import Log, LogFault, LogRecord, NewRecord, gap
from events.process.error_text import ErrorCause
from events.recent import Recent
from events.records.base import Event
from events.records.rounds import EpochStarted, RoundCommitted
from events.topics import rounds_of

E = TypeVar("E", bound=EpochStarted | RoundCommitted)

OPENED_MAX, OPENED_BYTES_MAX = 512, 4 * 1024 * 1024
"""So many claims and rounds that were read last are shared by the readers of a process, and so much."""


class RoundFault(LogFault):
    """A reader of rounds can't go on: nothing is skipped and nothing decided until an operator has helped. `verdict` is
    None where the record is of the history and can't be read.
    """

    cause = ErrorCause.HISTORY

    def __init__(self, text: str, key: RoundKey, record: LogRecord, verdict: Acceptance | None = None) -> None:
        super().__init__(text)
        self.key = key
        self.record = record
        self.verdict = verdict


class UnreadableRound(RoundFault):
    """An accepted record, or what it took in, was written by a build whose schemas this one doesn't have. A process of
    that build can go on.
    """

    cause = ErrorCause.LOCAL

    def __init__(self, key: RoundKey, record: LogRecord, why: str) -> None:
        schema = "RoundCommitted" if key.kind == ROUND else "EpochStarted"
        super().__init__(
            f"{key} at {record.topic}:{record.offset}, which Paceline {key.build} wrote with the schema {schema} "
            f"{key.schema}, can't be read by this Paceline, {build()}: {why}. Install Paceline {key.build} or newer.",
            key,
            record,
        )


class BrokenHistory(RoundFault):
    """A record shows that records before it are missing, or were changed."""

    def __init__(self, key: RoundKey, record: LogRecord, verdict: Acceptance) -> None:
        damaged = verdict is Acceptance.DAMAGED
        what = "was changed" if damaged else f"doesn't continue what stands before it: {verdict}"
        super().__init__(
            f"{key} at {record.topic}:{record.offset} {what}. Records are missing or were changed: restore the log "
            "from its archive or from a replica.",
            key,
            record,
            verdict,
        )


class EarlierHistory(LogFault):
    """The claim that a history begins with has no key of its own: a build from before such keys wrote it."""

    cause = ErrorCause.HISTORY

    def __init__(self, record: LogRecord) -> None:
        super().__init__(
            f"{record.topic} was written by an earlier Paceline, whose rounds this one, {build()}, can't read: begin "
            "with new topics or a new folder, or use the version that wrote it."
        )


class Opened:
    """The result of reading a record in a machine's topic by itself: whether it belongs to the history of its place."""

    __slots__ = ("_decisions", "event", "key", "undamaged", "value")

    def __init__(self, value: bytes, key: RoundKey | None, undamaged: bool) -> None:
        self.value = value
        self.key = key
        self.undamaged = undamaged
        """Whether its value is the one that its key is of."""
        self.event: EpochStarted | RoundCommitted | None = None
        """The value, once it was read and agrees with its key."""
        self._decisions: tuple[Event, ...] | None = None

    def holds(self, event: EpochStarted | RoundCommitted, decisions: Sequence[Event] | None = None) -> None:
        """Notes what it says, and its decisions where they are at hand."""
        self.event = event
        self._decisions = None if decisions is None else tuple(decisions)

    def decisions(self) -> tuple[Event, ...]:
        """The decisions of a round. Raises `CodecError` where one is no record."""
        if self._decisions is None:
            self._decisions = decode_decisions(self.event)
        return self._decisions


_opened: Recent[bytes, Opened] = Recent(OPENED_MAX, OPENED_BYTES_MAX)


class Delivered(NamedTuple):
    """A record in its turn: what it holds, and what the acceptance rule says of it where it is of a machine's topic.

    `event` is None for bytes that are no record of that topic, `fault` then says why; and for strays in a machine's
    topic, whose cause is `verdict`. `key`: that of a claim or round.
    """

    record: LogRecord
    event: Event | None
    fault: str = ""
    verdict: Acceptance = Acceptance.ACCEPTED
    key: RoundKey | None = None
    opened: Opened | None = None

    def decisions(self) -> tuple[Event, ...]:
        """The decisions of an accepted round. Raises `CodecError` where one is no record."""
        return decode_decisions(self.event) if self.opened is None else self.opened.decisions()


def decode_decisions(event: Event | None) -> tuple[Event, ...]:
    """The decisions of a round; none of anything else. Raises `CodecError` where one is no record."""
    return tuple(map(decode_once, event.decisions)) if isinstance(event, RoundCommitted) else ()


def build() -> str:
    """The version of this Paceline."""
    return VERSION


def sealed(event: EpochStarted | RoundCommitted, prev: bytes = NO_HASH) -> NewRecord:
    """A claim or round as it is appended. `prev`: of a claim, the hash of the round that it was folded up to."""
    return _sealed(event, event.prev_hash if isinstance(event, RoundCommitted) else prev)[0]


def sealed_to_share(event: RoundCommitted, decisions: Sequence[Event]) -> NewRecord:
    """As `sealed`, of a round that was decided here. `decisions`: those of the round as `encode_to_share` gave them;
    readers of this process take them as they are.
    """
    record, key, shared = _sealed(event, event.prev_hash)
    opened = Opened(record.value, key, undamaged=True)
    opened.holds(shared, decisions)
    _opened.put(record.key, opened, len(record.value))
    return record


def _sealed(event: E, prev: bytes) -> tuple[NewRecord, RoundKey, E]:
    """The record of a claim or round, its key, and what a reader makes of it."""
    encoded, shared = encode_to_share(event)
    value = wire(encoded)
    key = RoundKey(*_named(event), prev, fingerprint_in(encoded), build(), digest(value))
    return NewRecord(rounds_of(event.machine), key.pack(), value), key, shared


def _named(event: EpochStarted | RoundCommitted) -> tuple[str, str, int, int, int]:
    """The fields that key and value both have."""
    kind = CLAIM if isinstance(event, EpochStarted) else ROUND
    return kind, event.machine, event.cell, event.epoch, event.round


def key_of(record: LogRecord) -> RoundKey | None:
    """The key of a claim or round, of whatever history; None: it has none, or its value is another."""
    key = parse(record.key)
    return key if key is not None and key.hash == digest(record.value) else None


def _open(record: LogRecord) -> Opened:
    """Reads a record by itself, once for all readers of this process."""
    opened = _opened.get(record.key)
    if opened is None or opened.value != record.value:
        key = parse(record.key)
        opened = Opened(record.value, key, key is not None and key.hash == digest(record.value))
        if key is not None:
            _opened.put(record.key, opened, len(record.value))
    return opened


def judge(record: LogRecord, chain: Chain, machine: str, cell: int) -> Delivered:
    """Judges the record at the next position of a machine's topic: accepted or stray. Changes nothing. Raises
    `BrokenHistory`; `UnreadableRound` where it is accepted, and this build can't read it or one of its decisions;
    `EarlierHistory` where nothing was accepted yet.
    """
    opened = _open(record)
    key = opened.key
    if key is None:
        if not chain.epoch and record.key == machine.encode() and _is_claim(record.value):
            raise EarlierHistory(record)
        return Delivered(record, None, verdict=Acceptance.NO_KEY)
    verdict = chain.judge(key, machine, cell)
    if (verdict is Acceptance.ACCEPTED or verdict.broken) and not opened.undamaged:
        verdict = Acceptance.DAMAGED
    if verdict.broken:
        raise BrokenHistory(key, record, verdict)
    if verdict is not Acceptance.ACCEPTED:
        return Delivered(record, None, verdict=verdict, key=key)
    event = opened.event
    if event is None:
        event = _read(record, key)
        opened.holds(event)
    if isinstance(event, RoundCommitted) and not chain.continues(event):
        raise BrokenHistory(key, record, Acceptance.INPUTS_DONT_FIT)
    return Delivered(record, event, "", verdict, key, opened)


def _read(record: LogRecord, key: RoundKey) -> EpochStarted | RoundCommitted:
    """Reads the value of an accepted record. Raises `BrokenHistory` where it contradicts its key, and
    `UnreadableRound`.
    """
    event = _decoded(record, key)
    if not isinstance(event, EpochStarted | RoundCommitted) or _named(event) != key[:5]:
        raise BrokenHistory(key, record, Acceptance.NOT_ITS_KEY)
    if isinstance(event, RoundCommitted) and event.prev_hash != key.prev:
        raise BrokenHistory(key, record, Acceptance.NOT_ITS_KEY)
    return event


def accept(record: LogRecord, chain: Chain, machine: str, cell: int) -> Delivered:
    """Judges the next record of a machine's topic and takes it into the chain if it is accepted. Raises as `judge`."""
    delivered = judge(record, chain, machine, cell)
    follow(delivered, chain)
    return delivered


def follow(delivered: Delivered, chain: Chain) -> None:
    """Takes what was judged into the chain, if it was accepted."""
    if delivered.event is not None and delivered.key is not None:
        round_ = delivered.event if isinstance(delivered.event, RoundCommitted) else None
        chain.follow(delivered.key, round_, delivered.record.offset + 1)


def _is_claim(value: bytes) -> bool:
    try:
        return isinstance(decode_once(value), EpochStarted)
    except CodecError:
        return False


def _decoded(record: LogRecord, key: RoundKey) -> Event:
    try:
        event = decode_once(record.value)
        for decision in event.decisions if isinstance(event, RoundCommitted) else ():
            check_schema(decision)
    except CodecError as error:
        raise UnreadableRound(key, record, str(error)) from error
    return event


def in_log(log: Log, topic: str, position: int, hash_: bytes) -> bool:
    """Whether the record before `position` is the round of this hash; one that the log has no more is believed. Raises
    `BrokenHistory` where it is, but for its value, and `LogGap` where the log ends before it.
    """
    start, end = log.bounds(topic)
    if position <= start:
        return True
    if position > end:
        raise gap(topic, position, start, end)
    record = next(iter(log.scan(topic, position - 1)), None)
    if record is None or record.offset != position - 1:
        return False
    if digest(record.value) == hash_:
        return True
    key = parse(record.key)
    if key is not None and key.hash == hash_:
        raise BrokenHistory(key, record, Acceptance.DAMAGED)
    return False
