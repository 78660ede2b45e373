"""One machine and its state, folded forward record by record: what driver, recovery and replay share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import msgspec

from events.acceptance import Chain, digest
from events.codec import CodecError, decode
from events.log.port import Log, LogRecord, gap
from events.process.error_text import ErrorCause
from events.records.base import Event
from events.records.parts import Segment, Skipped
from events.records.rounds import RoundCommitted
from events.rounds import Delivered, UnreadableRound, accept
from events.topics import rounds_of
from processors.machine import Decided, Fact, Machine, PeerRound
from processors.runtime.store import Progress, Store, StoreFault
from processors.state.conversion import conversion
from processors.state.table import RowChange, State, hash_rows

PARTS_MAX = 1000
"""So many segments and skipped inputs force a round, empty if need be: its record stays small whatever comes."""
INPUTS_MAX = 10_000
"""So many inputs force a round: what a restart reads again, and what an archive must keep, is bounded."""
FACT_DUE_MS, DECISION_DUE_MS = 60_000, 3_600_000
"""A round is due so long in logical time after a fact, or a decision of another machine, that no round has recorded."""

INPUTS_HELD = 4096
"""So many inputs of a round are held in memory to be compared before they are applied."""


class HistoryDiffers(Exception):
    """The log doesn't hold what a round says it was decided on: it was changed, or the machine isn't deterministic.
    Run `paceline log verify`; nothing is decided on such a history. `places`: where the record is that differs.
    """

    cause = ErrorCause.HISTORY

    def __init__(self, text: str, places: Sequence[Segment] = ()) -> None:
        super().__init__(text)
        self.places = tuple(places)


class Fold:
    """A machine with what it has applied since its last round: `segments`, `skipped` and the hash over the inputs."""

    def __init__(self, machine: Machine, cell: int) -> None:
        self.machine = machine
        self.cell = cell
        self.topic = rounds_of(machine.name)
        self.state = State(machine.tables, machine.peers)
        self.own = Chain()
        self.now = 0
        self.newest_ms = 0
        self.known: dict[str, int] = {}
        self._due_ms: int | None = None
        self._wakeup: tuple[int | None] | None = None
        """The machine's next wakeup since something was last applied; None: it wasn't asked."""
        self._machines = {rounds_of(peer): peer for peer in machine.peers}
        self._begin()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics of its inputs."""
        return (*self.machine.facts, *self._machines)

    def restore(self, store: Store) -> bool:
        """Takes what the store holds, once rows of an older format were converted. False: they are of a format that
        can't be, to be replaced when anything is written there; everything is folded from the log again.
        """
        progress = store.progress()
        if progress is None:
            return True
        if progress.state != self.machine.state:
            progress = self._converted(store, progress)
        if progress is None:
            return False
        self.state.load(store.rows())
        if self.state.hash != progress.hash:
            raise self._damaged(progress)
        self.own, self.known, self.now = progress.own, progress.positions, progress.now
        self._begin()
        self._wakeup = None
        self.machine.restored()
        return True

    def _converted(self, store: Store, progress: Progress) -> Progress | None:
        """Brings a store to the present format of rows; None: there is no way there."""
        convert = conversion(self.machine.conversions, progress.state, self.machine.state)
        if convert is None:
            return None
        old = list(store.rows())
        if hash_rows(old) != progress.hash:
            raise self._damaged(progress)
        rows = list(convert(old))
        new = msgspec.structs.replace(progress, state=self.machine.state, hash=hash_rows(rows))
        store.replace(rows, new)
        return new

    def _damaged(self, progress: Progress) -> StoreFault:
        return StoreFault(
            f"The store of {self.machine.name} doesn't hash to its round {progress.own.round}: "
            "it is damaged. Delete it; it is made anew from the log."
        )

    def chains(self) -> Mapping[str, Chain]:
        """The chain of each machine that is read, shared with the inbox."""
        return {peer: self.state.chains[peer] for peer in self.machine.peers}

    def positions(self) -> dict[str, int]:
        """Where each input continues after the last round."""
        return {topic: self.own.inputs.get(topic, 0) for topic in self.inputs}

    def take(self, delivered: Delivered) -> None:
        """Applies one input in its turn."""
        record = delivered.record
        self.note(record)
        if delivered.fault:
            self._skip(Skipped(record.topic, record.offset, delivered.fault, digest(record.value)), record)
        else:
            self._apply(delivered)

    def is_full(self, parts_max: int = PARTS_MAX) -> bool:
        """Whether what was applied since the last round is as much as one round may record."""
        return self.applied >= INPUTS_MAX or len(self.segments) + len(self.skipped) >= parts_max

    def due_ms(self) -> int | None:
        """When in logical time a round must record what was applied; None: nothing was that asks for it. Rounds
        without decisions ask for none, or machines would answer one another for ever.
        """
        return self._due_ms

    def next_wakeup(self) -> int | None:
        """Implements `Machine.next_wakeup`; the machine is asked once for each state, its loop asks all the time."""
        if self._wakeup is None:
            self._wakeup = (self.machine.next_wakeup(),)
        return self._wakeup[0]

    def wakeup_after(self) -> int | None:
        """When it is to be woken once it has looked and decided nothing: a deadline may have been for nothing."""
        self._wakeup = None
        return self.next_wakeup()

    def note(self, record: LogRecord) -> None:
        """Takes the next input into `segments` and the hash, without applying it."""
        head = f"{record.topic}\0{record.offset}\0{record.at_ms}\0{len(record.key)}\0{len(record.value)}\0"
        self._hasher.update(head.encode())
        self._hasher.update(record.key)
        self._hasher.update(record.value)
        self.applied += 1
        self.newest_ms = max(self.newest_ms, record.at_ms)
        end = record.offset + 1
        if self.segments and self.segments[-1].topic == record.topic:
            last = self.segments[-1]
            self.segments[-1] = Segment(topic=record.topic, start=last.start, end=end)
        else:
            self.segments.append(Segment(topic=record.topic, start=self._ends.get(record.topic, 0), end=end))
        self._ends[record.topic] = end

    def _skip(self, skip: Skipped, record: LogRecord) -> None:
        self.skipped.append(skip)
        self._record_within(FACT_DUE_MS, record)

    def _apply(self, delivered: Delivered) -> None:
        record, event = delivered.record, delivered.event
        if event is None:  # a stray
            return
        self._wakeup = None
        peer = self._machines.get(record.topic)
        if peer is None:
            self._record_within(FACT_DUE_MS, record)
            self.machine.apply(Fact(record.topic, record.offset, record.at_ms, event, record.value))
            return
        self.state.chains.change(peer)
        if isinstance(event, RoundCommitted):
            if event.decisions:
                self._record_within(DECISION_DUE_MS, record)
            self.machine.apply(PeerRound(peer, event.round, event.now, delivered.decisions()))

    def _record_within(self, ms: int, record: LogRecord) -> None:
        due = max(record.at_ms, self.now) + ms
        self._due_ms = due if self._due_ms is None else min(due, self._due_ms)

    def take_recorded(self, record: LogRecord, skip: Skipped | None, own: Delivered) -> None:
        """Applies one input that a round (`own`) has recorded, once it was noted; `skip`: as skipped. What this build
        can read decides nothing. Raises `UnreadableRound`, `BrokenHistory`.
        """
        if skip is not None:
            self._skip(skip, record)
            return
        peer = self._machines.get(record.topic)
        if peer is not None:
            self._apply(accept(record, self.state.chains[peer], peer, self.cell))
            return
        try:
            event = decode(record.value)
        except CodecError as error:
            assert own.key is not None
            why = f"it took in {record.topic}:{record.offset}, and that is {error}"
            raise UnreadableRound(own.key, own.record, why) from error
        self._apply(Delivered(record, event))

    def decided(self, now: int, decisions: Iterable[Event], round_: int, start: int = 0) -> None:
        """Applies decisions of its own, of a round at `now`, after the inputs of that round; `start` is the index of
        the first.
        """
        self._wakeup = None
        for index, decision in enumerate(decisions, start):
            self.machine.apply(Decided(now, decision, round_, index))

    def finish(self, record: RoundCommitted) -> list[RowChange]:
        """Ends an accepted round whose decisions were applied; returns the rows that changed since the last one."""
        self.now = record.now
        self.known = {seen.topic: seen.position for seen in record.seen}
        self._begin()
        return self.state.take_changes()

    def progress(self) -> Progress:
        """Where it stands after a round."""
        return Progress(self.own, self.known, self.now, self.machine.state, self.state.hash)

    def inputs_hash(self) -> bytes:
        """The hash over the inputs applied since the last round."""
        return self._hasher.digest()

    def _begin(self) -> None:
        self.applied = 0
        self._due_ms = None
        self.segments: list[Segment] = []
        self.skipped: list[Skipped] = []
        self._ends = dict(self.own.inputs)
        self._hasher = blake2b(digest_size=32)


class Recorded:
    """Feeds a fold with the inputs that rounds have recorded, straight from the log. `is_real`: False where something
    was changed in the fold, whose state is then another than that of the rounds.
    """

    def __init__(self, log: Log, fold: Fold, is_real: bool = True) -> None:
        self._log = log
        self._fold = fold
        self._is_real = is_real
        self._scans: dict[str, Iterator[LogRecord]] = {}
        self._next: dict[str, LogRecord | None] = {}

    def take(self, own: Delivered) -> RoundCommitted:
        """Applies the inputs of an accepted round, and returns it. Raises `HistoryDiffers` where they are not what it
        was decided on, `RoundFault` where one can't be read.
        """
        fold, record = self._fold, own.event
        assert isinstance(record, RoundCommitted)
        if self._is_real and record.state == fold.machine.state and record.start_hash != fold.state.hash:
            raise HistoryDiffers(f"{fold.machine.name} round {record.round}: the state before it has another hash")
        skips = {(skip.topic, skip.offset): skip for skip in record.skipped}
        inputs = iter(self._inputs(record))
        while batch := list(islice(inputs, INPUTS_HELD)):
            for each in batch:
                fold.note(each)
            if len(batch) < INPUTS_HELD:  # all of most rounds: what was changed may be anything, and isn't applied
                self._compare(record)
            for each in batch:
                skip = skips.get((each.topic, each.offset))
                if skip is not None and skip.digest != digest(each.value):
                    raise self._misnamed(record)
                fold.take_recorded(each, skip, own)
        self._compare(record)
        if fold.skipped != list(record.skipped):
            raise self._misnamed(record)
        return record

    def _misnamed(self, record: RoundCommitted) -> HistoryDiffers:
        name = self._fold.machine.name
        return HistoryDiffers(f"{name} round {record.round}: what it names as skipped is not among its inputs")

    def _compare(self, record: RoundCommitted) -> None:
        if self._fold.inputs_hash() != record.inputs_hash:
            text = f"{self._fold.machine.name} round {record.round}: its inputs in the log have another hash"
            raise HistoryDiffers(text, record.inputs)

    def finish(self, own: Delivered) -> list[RowChange]:
        """Applies an accepted round, inputs and decisions; returns the rows that it changed."""
        record = self.take(own)
        self._fold.decided(record.now, own.decisions(), record.round)
        return self._fold.finish(record)

    def _inputs(self, record: RoundCommitted) -> Iterator[LogRecord]:
        return (each for segment in record.inputs for each in self._records(segment))

    def _records(self, segment: Segment) -> Iterator[LogRecord]:
        topic, position = segment.topic, segment.start
        while position < segment.end:
            record = self._next.pop(topic, None) or next(self._scans.get(topic, iter(())), None)
            if record is None:  # the scan ended where the log ended when it began
                start, end = self._log.bounds(topic)
                if end < segment.end:
                    raise gap(topic, segment.end, start, end)
                self._scans[topic] = self._log.scan(topic, position)
                record = next(self._scans[topic], None)
            if record is None or record.offset >= segment.end:
                self._next[topic] = record
                return
            position = record.offset + 1
            yield record
