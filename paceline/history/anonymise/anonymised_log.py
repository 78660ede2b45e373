"""A log with other names: facts are rewritten, rounds written again (decision 123).

Each machine is folded over the new records. A round is replayed with the new names, and written so where that is what
was recorded but for the names; else what was recorded is written with the new names. Offsets and times stay.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from events.acceptance import CLAIM, NO_HASH, ROUND, Chain, RoundKey, digest
from events.codec import CodecError, decode_once, encode, fingerprint_in
from events.id_digests import job_digest
from events.log.port import Log, LogRecord
from events.override_chunks import name_of
from events.records.base import Event
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.parts import Skipped
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import Delivered, accept, decode_decisions
from events.topics import FACT_BYTES_MAX, JOBS, VIEWED, rounds_of
from paceline.client.errors import PacelineError
from paceline.history.anonymise.kinds import JOB
from paceline.history.anonymise.run_floors import RunFloors
from paceline.history.anonymise.walk import Noted, Renamed, rewritten, without_derived
from paceline.history.anonymise.written_log import WrittenLog
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.runtime.fold import Fold
from processors.runtime.replay import Replay

Say = Callable[[str], None]
Machines = Mapping[str, Callable[[], Machine]]
FACT_TOPICS = tuple(topic.name for topic in VIEWED if topic.machine is None)


class Anonymised(NamedTuple):
    """A log with other names. `rounds`: how many rounds it has; `copies`: those that are written as recorded, without
    the sentences of machines, since another logic has decided them, or this one decides otherwise.
    """

    log: WrittenLog
    rounds: int
    copies: int


@contextmanager
def anonymised(log: Log, machines: Machines, say: Say) -> Iterator[Anonymised]:
    """Writes a log with other names to a temporary folder, for as long as it is looked at. The log must reach back to
    its beginning. Raises `PacelineError` where a round in it doesn't fit its inputs, or is of a newer Paceline.
    """
    say("reading all names")
    names = _names(log, machines)
    starts = {topic.name: log.bounds(topic.name)[0] for topic in VIEWED}
    with TemporaryDirectory(prefix="paceline-anonymise-") as folder:
        new = WrittenLog(Path(folder), log.cell, starts)
        try:
            _write_facts(log, new, names)
            say("writing the rounds with other names")
            rounds = _write_rounds(log, new, names, machines)
            yield Anonymised(new, sum(each.rounds for each in rounds), sum(each.copies for each in rounds))
        finally:
            new.close()


def _names(log: Log, machines: Machines) -> Renamed:
    """The new names of all texts in a log, once its rounds were found to fit their inputs."""
    noted = Noted()
    for topic in FACT_TOPICS:
        for record in log.scan(topic, log.bounds(topic)[0]):
            if (fact := _fact(record)) is not None:
                rewritten(fact, noted)
    floors = RunFloors()
    for name, make in machines.items():
        machine = make()
        replay = Replay(machine, log)
        for round_ in replay.rounds(decide=False):
            if isinstance(machine, Lifecycle):
                floors.note(round_, machine.ended)
        if replay.result.difference is not None:
            raise PacelineError(f"{replay.result.difference.reason.removesuffix('.')}. See `paceline log verify`.")
        for delivered in _delivered(log, name, Chain()):
            if delivered.event is not None:
                for event in (delivered.event, *decode_decisions(delivered.event)):
                    rewritten(event, noted)
    names = Renamed(noted, floors.renamed)
    names.hashes |= {job_digest(old): job_digest(new) for old, new in names.all_of(JOB).items()}
    for record in log.scan(JOBS.name, log.bounds(JOBS.name)[0]):
        if isinstance(upload := _fact(record), OverridesUploaded):
            names.hashes[name_of(upload)] = name_of(rewritten(upload, names))
    return names


def _delivered(log: Log, machine: str, chain: Chain) -> Iterator[Delivered]:
    topic = rounds_of(machine)
    return (accept(record, chain, machine, log.cell) for record in log.scan(topic, log.bounds(topic)[0]))


def _fact(record: LogRecord) -> Event | None:
    """The record of a fact; None: the bytes are none."""
    try:
        return decode_once(record.value)
    except CodecError:
        return None


def _encoded(event: Event, record: LogRecord) -> bytes:
    try:
        return encode(event)
    except ValueError as error:
        raise PacelineError(
            f"{record.topic}:{record.offset} was written by a newer Paceline: {error}. Export with that one."
        ) from error


def _write_facts(log: Log, new: WrittenLog, names: Renamed) -> None:
    for topic in FACT_TOPICS:
        start, end = log.bounds(topic)
        for record in log.scan(topic, start):
            fact = _fact(record)
            key = value = b""
            if fact is not None:
                renamed = rewritten(fact, names)
                value = _encoded(renamed, record)
                if isinstance(renamed, JobSubmitted) and len(value) <= FACT_BYTES_MAX < len(record.value):
                    value = _encoded(replace(renamed, description="x" * FACT_BYTES_MAX), record)
                key = _key(record, fact, renamed)
            new.add(record._replace(key=key, value=value))
        new.pass_over(topic, end)


def _key(record: LogRecord, fact: Event, renamed: Event) -> bytes:
    """The key of a fact: the job or the host that it is about, and nothing where it has another."""
    for field in ("job_id", "host_id", "path"):
        if getattr(fact, field, "").encode() == record.key:
            return str(getattr(renamed, field, "")).encode()
    return b""


def _write_rounds(log: Log, new: WrittenLog, names: Renamed, machines: Machines) -> Sequence["_Rounds"]:
    """Writes the records of all machines, each as soon as what its inputs name is written."""
    rounds = [_Rounds(log, new, names, make()) for make in machines.values()]
    while sum(each.step() for each in rounds):
        pass
    if stuck := next((each for each in rounds if not each.is_over), None):
        raise PacelineError(f"{stuck.topic} has a round whose inputs aren't in the log. See `paceline log verify`.")
    for each in rounds:
        new.pass_over(each.topic, log.bounds(each.topic)[1])
    return rounds


class _Rounds:
    """The rounds of one machine, rewritten one after another."""

    def __init__(self, log: Log, new: WrittenLog, names: Renamed, machine: Machine) -> None:
        self.rounds = self.copies = 0
        self._new = new
        self._names = names
        self._fold = Fold(machine, log.cell)
        self.topic = self._fold.topic
        self._old = _delivered(log, machine.name, Chain())
        self._next = next(self._old, None)
        self._hashes = [NO_HASH]
        """The hashes of the new rounds, from round 0 on, which none is."""
        self._states = [self._fold.state.hash]
        """The hashes of the states after them."""

    @property
    def is_over(self) -> bool:
        """Whether all records are written."""
        return self._next is None

    def step(self) -> bool:
        """Writes all records that can be written now; says whether there were any."""
        before = self._next
        while self._next is not None and self._is_ready(self._next):
            self._write(self._next)
            self._next = next(self._old, None)
        return self._next is not before

    def _is_ready(self, delivered: Delivered) -> bool:
        event = delivered.event
        inputs = event.inputs if isinstance(event, RoundCommitted) else ()
        return all(self._new.bounds(each.topic)[1] >= each.end for each in inputs)

    def _write(self, delivered: Delivered) -> None:
        record, event = delivered.record, delivered.event
        if isinstance(event, RoundCommitted):
            self._round(delivered, event)
        elif isinstance(event, EpochStarted):
            start_hash = self._states[event.round] if event.state == self._fold.machine.state else NO_HASH
            claim = replace(rewritten(event, self._names), start_hash=start_hash)
            self._take(delivered, claim, self._hashes[event.round])
        else:  # a stray
            self._new.add(record._replace(key=b"", value=b""))

    def _take(self, delivered: Delivered, event: EpochStarted | RoundCommitted, prev: bytes) -> None:
        """Writes a claim or a round, and takes it into the chain."""
        old = delivered.key
        assert old is not None
        value = _encoded(event, delivered.record)
        kind = CLAIM if isinstance(event, EpochStarted) else ROUND
        places = event.machine, event.cell, event.epoch, event.round
        key = RoundKey(kind, *places, prev, fingerprint_in(value), old.build, digest(value))
        record = delivered.record._replace(key=key.pack(), value=value)
        self._new.add(record)
        accept(record, self._fold.own, self._fold.machine.name, self._fold.cell)

    def _round(self, delivered: Delivered, event: RoundCommitted) -> None:
        fold = self._fold
        start_hash = fold.state.hash if event.state == fold.machine.state else NO_HASH
        skipped = self._apply_inputs(delivered, event)
        decisions = self._decisions(event)
        prev = self._hashes[-1]
        new = replace(
            rewritten(event, self._names),
            inputs_hash=fold.inputs_hash(),
            start_hash=start_hash,
            prev_hash=prev,
            skipped=skipped,
            decisions=tuple(_encoded(each, delivered.record) for each in decisions),
        )
        self._take(delivered, new, prev)
        fold.finish(new)
        self.rounds += 1
        self._hashes.append(fold.own.hash)
        self._states.append(fold.state.hash)

    def _apply_inputs(self, own: Delivered, event: RoundCommitted) -> tuple[Skipped, ...]:
        skips = {(each.topic, each.offset): each for each in event.skipped}
        skipped: list[Skipped] = []
        for record in self._inputs(event):
            skip = skips.get((record.topic, record.offset))
            if skip is not None:
                skip = replace(rewritten(skip, self._names), digest=digest(record.value))
                skipped.append(skip)
            self._fold.note(record)
            self._fold.take_recorded(record, skip, own)
        return tuple(skipped)

    def _inputs(self, event: RoundCommitted) -> Iterator[LogRecord]:
        for segment in event.inputs:
            for record in self._new.scan(segment.topic, segment.start):
                if record.offset >= segment.end:
                    break
                yield record

    def _decisions(self, event: RoundCommitted) -> list[Event]:
        """Decides a round pass after pass, and applies it: as it is decided now where that is what was recorded but for
        the names, from the first difference on as it was recorded.
        """
        fold = self._fold
        recorded = [rewritten(each, self._names) for each in decode_decisions(event)]
        out: list[Event] = []
        same = event.logic == fold.machine.logic
        while same:
            decided = [
                decode_once(encode(each)) for each in fold.machine.decide(event.now, event.caught_up, event.budget)
            ]
            part = recorded[len(out) : len(out) + len(decided)]
            same = [*map(without_derived, decided)] == [*map(without_derived, part)]
            same = same and (bool(decided) or not recorded)
            if same:
                fold.decided(event.now, decided, event.round, len(out))
                out += decided
                if len(out) == len(recorded):
                    return out
        self.copies += 1
        fold.decided(event.now, recorded[len(out) :], event.round, len(out))
        return out + recorded[len(out) :]
