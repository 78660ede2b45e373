"""The one driver loop: all effects of a machine happen here (decisions 002, 006 and 010).

`recover` and `turn` are generators that stop between any two steps, so that a test can crash or pause a process at
each of them. A host runs them to their end with `run`.
"""

import math
from collections.abc import Generator
from contextlib import ExitStack, suppress
from typing import Protocol

from events.acceptance import CLAIM
from events.delivery import Inbox
from events.log.port import AppendUnknown, Log, LogRecord, NewRecord, Reader
from events.process.clock import Clock
from events.records.base import Event
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import UnreadableRound, accept, in_log, sealed
from processors.machine import Machine
from processors.runtime.deciding import PART_BYTES, Decider, Limits, Moment
from processors.runtime.end_offsets import Ends
from processors.runtime.fold import PARTS_MAX, Fold, Recorded
from processors.runtime.stops import ForeignRound, StuckTimer, Superseded
from processors.runtime.store import Store, StoreFault
from processors.runtime.store_writer import StoreWriter

ENDS_AGE_MS = 500
"""The age, in ms, at which the ends of the topics are asked for again."""

READ_BACK_POLLS = 30
"""So often a round that was appended is waited for, a second each time."""
LAG_AGE_MS = 5000
STRETCH_MS = 500
"""A fold of the log stops so often, for its host has other work too: a membership to keep, an end to look for."""
DUE_WAIT_S = 0.005


class Observer(Protocol):
    """Told what happened, for metrics."""

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        """A round was accepted."""
        ...

    def ignored(self, topic: str, cause: str) -> None:
        """A record of a machine's topic was ignored."""
        ...


class Driver:
    """Runs one machine of one cell. `claimant` names the process for others to read; `fold`: the machine with the state
    that it goes on from, where that isn't the one in its store.
    """

    def __init__(
        self,
        machine: Machine,
        log: Log,
        store: Store,
        clock: Clock,
        claimant: str,
        limits: Limits | None = None,
        observer: Observer | None = None,
        fold: Fold | None = None,
    ) -> None:
        self.fold = fold or Fold(machine, log.cell)
        self._is_of_store = fold is None
        self.machine = machine
        self.epoch = 0
        self._log = log
        self._store = store
        self._clock = clock
        self._claimant = claimant
        self._limits = limits or Limits()
        self._decider = Decider(machine, self.fold, self._limits)
        self._parts_max = min(PARTS_MAX, self._limits.round_bytes // 4 // PART_BYTES)
        self._observer = observer
        self._readers: list[Reader] = []
        self._decide_again = True
        self._writer = StoreWriter(store, self._limits.unstored)
        self._starved = False
        """Nothing that was read may be applied yet: what it waits for must be read, however much waits."""
        self._anchor = (0, clock.monotonic_ms())
        self._settled = False
        """Whether all that was read was decided on: unless a record comes, a turn would find nothing to do."""
        self._rests_until: float | None = None
        """Until then (clock, ms), where it was asked since."""

    def recover(self) -> Generator[str, None, None]:
        """Restores the state from the store and the log, then takes the cell. Raises `Superseded` where another
        process took it first, `StoreFault` where the store is damaged or of another log.
        """
        fold = self.fold
        self._writer.replaces = not fold.restore(self._store)  # rows that this build can't go on with
        own = fold.own
        if self._is_of_store and own.round and not in_log(self._log, fold.topic, own.position, own.hash):
            raise StoreFault(
                f"The store of {self.machine.name} is of another log: its round {own.round} is not at "
                f"{fold.topic}:{own.position - 1}. Delete it; it is made anew from the log."
            )
        recorded = Recorded(self._log, fold)
        yield from self._catch_up(recorded)
        yield "folded"
        claim = EpochStarted(
            cell=self._log.cell,
            machine=self.machine.name,
            epoch=fold.own.epoch + 1,
            claimant=self._claimant,
            logic=self.machine.logic,
            state=self.machine.state,
            round=fold.own.round,
            start_hash=fold.state.hash,
        )
        offset = self._append(sealed(claim, fold.own.hash))
        yield "claimed"
        yield from self._catch_up(recorded, claim=offset)
        self._inbox = Inbox(fold.positions(), fold.known, fold.chains(), self._log.cell)
        self._reader = self._open(fold.positions())
        self._ends = Ends(self._reader)
        self._own_reader = self._open({fold.topic: fold.own.position})
        self.epoch = claim.epoch  # from here on others may look at it
        yield "owned"

    def rests(self) -> bool:
        """Whether a turn would find nothing to do, which costs more to find out by taking it."""
        if not self._settled or self._reader.news() or self._own_reader.news():
            return False
        if self._rests_until is None:
            wait = self.wait_ms()
            self._rests_until = math.inf if wait is None else self._clock.monotonic_ms() + wait
        return self._clock.monotonic_ms() < self._rests_until

    def turn(self) -> Generator[str, None, bool]:
        """One turn of the loop. Returns whether there may be more to do at once; else wait for records or `wake_at`."""
        self._settled, self._rests_until = False, None
        for own_record in self._own_reader.poll(self._limits.records, 0):
            self._judge(own_record, None)
        if self._starved or self._inbox.waiting < self._limits.records:
            self._inbox.add(self._reader.poll(self._limits.records, 0))
        yield "read"
        applied = self._apply()
        self._starved = applied == 0
        yield "applied"
        full = self.fold.is_full(self._parts_max)
        works, at = bool(applied or self._decide_again or full), self._clock.monotonic_ms()
        if not works:
            now = self._now(at, True)
            if not (_passed(now, self.fold.next_wakeup()) or _passed(now, self.fold.due_ms())):
                self._settled = not self._inbox.waiting
                return False
        caught_up = self._caught_up(at)
        now = self._now(at, caught_up)
        forced = full or _passed(now, self.fold.due_ms())
        if not (works or forced or (caught_up and _passed(now, self.fold.next_wakeup()))):
            return False
        self._decide_again = False
        decided = self._decider.decide(Moment(self.epoch, now, caught_up, self._inbox.known), forced)
        yield "decided"
        if decided is None:
            wakeup = self.fold.wakeup_after()
            if caught_up and _passed(now, wakeup):
                raise StuckTimer(f"{self.machine.name} asked to be woken at {wakeup} and decided nothing at {now}")
            self._settled = not self._inbox.waiting
            return applied > 0
        record, decisions, new, self._decide_again = decided
        offset = self._append(new)
        yield "appended"
        self._read_back(offset)
        yield "read back"
        changes = self.fold.finish(record)
        yield "finished"
        self._writer.add(changes, self.fold.progress())
        if self._observer:
            self._observer.committed(record, decisions, len(new.value))
        self._settled = not (self._decide_again or self._inbox.waiting)
        yield "stored"
        return True

    def run(self) -> bool:
        """One turn from end to end; returns what `turn` returns."""
        turn = self.turn()
        while True:
            try:
                next(turn)
            except StopIteration as end:
                return bool(end.value)

    def idle(self) -> bool:
        """Whether another turn would find nothing to do but for deadlines: all is read, applied and decided on."""
        if self._decide_again or self._inbox.waiting:
            return False
        positions = self._inbox.positions
        for topic, end in self._reader.ends().items():
            if positions[topic] < end and self._reader.position(topic) < end:
                return False
        return True

    def wait(self, seconds: float) -> None:
        """Returns when an input has come or the next deadline is due, at the latest after `seconds`."""
        deadline = self.wait_ms()
        if deadline is not None:  # a deadline that is due waits for the ends of the topics: no reason to spin
            seconds = min(seconds, max(deadline / 1000, DUE_WAIT_S))
        if not self._inbox.waiting or self._starved:
            self._inbox.add(self._reader.poll(self._limits.records, seconds))

    def wait_ms(self, recording: bool = True) -> int | None:
        """Milliseconds until the next deadline of the machine, or (`recording`) of a round for what was applied, as far
        as time passes like now; None: no deadline.
        """
        due = self.fold.due_ms() if recording else None
        deadlines = [at for at in (self.fold.next_wakeup(), due) if at is not None]
        return max(0, min(deadlines) - self._now(self._clock.monotonic_ms(), True)) if deadlines else None

    def lag(self) -> dict[str, int]:
        """Records not applied yet, per input topic."""
        self._ends.look(LAG_AGE_MS, self._clock.monotonic_ms())
        positions = self._inbox.positions
        return {topic: max(0, end - positions[topic]) for topic, end in self._ends.known.items()}

    def positions(self) -> dict[str, int]:
        """The position up to which each input topic was applied."""
        return self._inbox.positions

    def write_store(self) -> None:
        """Writes the rounds that wait for the store. Raises `StoreFault` where its disk says no."""
        self._writer.flush()

    def close(self) -> None:
        """Gives back reader and store; what can't be written there any more is folded again."""
        with ExitStack() as closing:
            closing.callback(self._store.close)
            with suppress(StoreFault, AppendUnknown):
                self._writer.flush()
            for reader in self._readers:
                closing.callback(reader.close)

    def _open(self, positions: dict[str, int]) -> Reader:
        self._readers.append(self._log.reader(positions))
        return self._readers[-1]

    def _catch_up(self, recorded: Recorded, claim: int | None = None) -> Generator[str, None, None]:
        """Folds the own topic to its end, or to a claim of ours; `Superseded` if that claim is not the current one."""
        fold = self.fold
        accepted, began = False, self._clock.monotonic_ms()
        for record in self._log.scan(fold.topic, fold.own.position):
            delivered = accept(record, fold.own, self.machine.name, fold.cell)
            if isinstance(delivered.event, RoundCommitted):
                self._writer.add(recorded.finish(delivered), fold.progress())
            if record.offset == claim:
                accepted = delivered.event is not None
                self._anchor = (record.at_ms, self._clock.monotonic_ms())
                break
            if self._clock.monotonic_ms() - began >= STRETCH_MS:
                yield "folding"
                began = self._clock.monotonic_ms()
        if claim is not None and not accepted:
            raise Superseded(f"another process took {self.machine.name} of cell {self._log.cell} first")

    def _append(self, record: NewRecord) -> int:
        return self._log.append([record])[0]

    def _judge(self, record: LogRecord, own_offset: int | None) -> bool:
        """Judges a record of the own topic; True where it is our own round at `own_offset`. A claim is believed by its
        key alone.
        """
        try:
            delivered = accept(record, self.fold.own, self.machine.name, self.fold.cell)
        except UnreadableRound as newer:
            if newer.key.kind == CLAIM:
                raise self._superseded(f"Paceline {newer.key.build}", newer.key.epoch) from newer
            raise
        if isinstance(delivered.event, EpochStarted):
            raise self._superseded(delivered.event.claimant, delivered.event.epoch)
        if delivered.event is None:
            if record.offset == own_offset:
                raise Superseded(f"the round at {record.topic}:{own_offset} was not accepted: {delivered.verdict}")
            if self._observer:
                self._observer.ignored(record.topic, delivered.verdict)
        elif record.offset != own_offset:
            raise ForeignRound(
                f"{delivered.key} at {record.topic}:{record.offset} is of epoch {self.epoch}, which is this process's, "
                "and this process hasn't written it. Find out who writes to that topic, and stop that."
            )
        return record.offset == own_offset

    def _superseded(self, claimant: str, epoch: int) -> Superseded:
        return Superseded(f"{claimant} has taken {self.machine.name} of cell {self._log.cell}: epoch {epoch}")

    def _read_back(self, offset: int) -> None:
        empty = 0
        while empty < READ_BACK_POLLS and self._own_reader.position(self.fold.topic) <= offset:
            records = self._own_reader.poll(self._limits.records, 1.0)
            empty += not records
            if mine := [record for record in records if self._judge(record, offset)]:
                self._anchor = (mine[0].at_ms, self._clock.monotonic_ms())
                return
        raise AppendUnknown(
            f"the round appended at {self.fold.topic}:{offset} doesn't come back from the log in {READ_BACK_POLLS} s. "
            "Look whether somebody removes records of that topic."
        )

    def _apply(self) -> int:
        applied = 0
        for delivered in self._inbox.deliver(self._limits.records):
            self.fold.take(delivered)
            applied += 1
            if self._observer and delivered.verdict != "ACCEPTED":
                self._observer.ignored(delivered.record.topic, delivered.verdict)
            if self.fold.is_full(self._parts_max):
                break
        return applied

    def _caught_up(self, at: int) -> bool:
        inbox = self._inbox
        return self._ends.look(ENDS_AGE_MS, at) and not inbox.waiting and self._ends.reached(inbox.positions)

    def _now(self, at: int, caught_up: bool) -> int:
        """Logical time at a time of the clock: the log's, and when caught up the time that has passed since the newest
        record was read.

        What is read back was written just now, so the time that a clock has got wrong lasts until the next round.
        """
        newest, since = self._anchor
        if self.fold.newest_ms > newest + (at - since):
            self._anchor = newest, since = (self.fold.newest_ms, at)
        passed = at - since if caught_up else 0
        return max(self.fold.now, newest + passed)


def _passed(now: int, deadline: int | None) -> bool:
    return deadline is not None and deadline <= now
