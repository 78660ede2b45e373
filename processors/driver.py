"""The one driver loop: all effects of a machine happen here (design §6).

`recover` and `turn` are generators that stop between any two steps, so that a test can crash or pause a process at
each of them. A host runs them to their end with `run`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from events.acceptance import Verdict
from events.clock import Clock
from events.codec import encode
from events.delivery import Inbox, in_log
from events.log import Log, LogRecord, LogUnavailable, NewRecord, Reader
from events.records.base import Event
from events.records.parts import Seen
from events.records.rounds import EpochStarted, RoundCommitted
from events.topics import ROUND_BYTES_MAX
from processors.fold import SEGMENTS_MAX, Fold, Recorded, judged, own_record
from processors.machine import Machine
from processors.store import Store, StoreFault
from processors.table import RowChange

PASSES_BYTES = 64 * 1024
"""A round that is smaller than this is decided on: what follows from its own decisions goes into it."""
ENDS_AGE_MS = 500
"""How old the known ends of the topics may get before they are asked for again; the design allows 2,000."""

HEAD_BYTES, PART_BYTES = 512, 128
"""More than a round takes without its parts, and more than one of them takes: a segment, a position, a length."""

LAG_AGE_MS = 5000
STRETCH_MS = 500
"""A fold of the log stops so often, for its host has other work too: a membership to keep, an end to look for."""
DUE_WAIT_S = 0.005


class Superseded(Exception):
    """Another process has this machine of this cell now. Whoever meets this stops deciding at once."""


class StuckTimer(AssertionError):
    """A machine asked to be woken and then had nothing to decide: a bug in the machine."""


class RoundTooLarge(AssertionError):
    """A round of one unit of work is over the limit of a record: a bug in the machine, which must refuse such work."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one turn: records applied, units of work decided, bytes of a round."""

    records: int = 2000
    budget: int = 20_000
    round_bytes: int = ROUND_BYTES_MAX


class Observer(Protocol):
    """Told what happened, for metrics."""

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        """A round was accepted."""
        ...

    def ignored(self, topic: str, cause: str) -> None:
        """A record of a machine's topic was ignored."""
        ...


class Driver:
    """Runs one machine of one cell. `claimant` names the process for others to read."""

    def __init__(
        self,
        machine: Machine,
        log: Log,
        store: Store,
        clock: Clock,
        claimant: str,
        limits: Limits | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.fold = Fold(machine, log.cell)
        self.machine = machine
        self.epoch = 0
        self._log = log
        self._store = store
        self._clock = clock
        self._claimant = claimant
        self._limits = limits or Limits()
        self._observer = observer
        self._readers: list[Reader] = []
        self._again = True
        self._stale = False
        """The store holds rows of another format."""
        self._starved = False
        """Nothing that was read may be applied yet: what it waits for must be read, however much waits."""
        self._anchor = (0, clock.monotonic_ms())
        self._ends: tuple[int, dict[str, int]] | None = None

    def recover(self) -> Generator[str, None, None]:
        """Restores the state from the store and the log, then takes the cell. Raises `Superseded` where another
        process took it first, `StoreFault` where the store is damaged or of another log.
        """
        fold = self.fold
        self._stale = not fold.restore(self._store)
        own = fold.own
        if own.round and not in_log(self._log, fold.topic, own.position, own.hash):
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
        offset = self._append(encode(claim))
        yield "claimed"
        yield from self._catch_up(recorded, claim=offset)
        self._inbox = Inbox(fold.positions(), fold.known, fold.chains(), self._log.cell)
        self._reader = self._open(fold.positions())
        self._own_reader = self._open({fold.topic: fold.own.position})
        self.epoch = claim.epoch  # from here on others may look at it
        yield "owned"

    def turn(self) -> Generator[str, None, bool]:
        """One turn of the loop. Returns whether there may be more to do at once; else wait for records or `wake_at`."""
        for found in self._own_reader.poll(self._limits.records, 0):
            self._look(found, None)
        if self._starved or self._inbox.waiting() < self._limits.records:
            self._inbox.add(self._reader.poll(self._limits.records, 0))
        yield "read"
        applied = self._apply()
        self._starved = applied == 0
        yield "applied"
        wakeup = self.machine.next_wakeup()
        forced = len(self.fold.segments) >= SEGMENTS_MAX
        if not (applied or self._again or forced or (wakeup is not None and wakeup <= self._now(True))):
            return False
        caught_up = self._caught_up()
        now = self._now(caught_up)
        due = wakeup is not None and wakeup <= now
        if not (applied or self._again or forced or (due and caught_up)):
            return False
        self._again = False
        made = self._decide(now, caught_up, forced)
        yield "decided"
        if made is None:
            if due and caught_up:
                raise StuckTimer(f"{self.machine.name} asked to be woken at {wakeup} and decided nothing at {now}")
            return applied > 0
        record, decisions, value = made
        offset = self._append(value)
        yield "appended"
        self._read_back(offset)
        yield "read back"
        changes = self.fold.finish(record)
        yield "finished"
        self._keep(changes)
        if self._observer:
            self._observer.committed(record, decisions, len(value))
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
        if self._again or self._inbox.waiting():
            return False
        return all(self._reader.position(topic) >= end for topic, end in self._reader.ends().items())

    def wait(self, seconds: float) -> None:
        """Returns when an input has come or the next deadline is due, at the latest after `seconds`."""
        deadline = self.wait_ms()
        if deadline is not None:  # a deadline that is due waits for the ends of the topics: no reason to spin
            seconds = min(seconds, max(deadline / 1000, DUE_WAIT_S))
        if not self._inbox.waiting() or self._starved:
            self._inbox.add(self._reader.poll(self._limits.records, seconds))

    def wait_ms(self) -> int | None:
        """How long until the next deadline of the machine, as far as time passes like now; None: no deadline."""
        wakeup = self.machine.next_wakeup()
        return None if wakeup is None else max(0, wakeup - self._now(True))

    def lag(self) -> dict[str, int]:
        """Records not applied yet, per input topic."""
        self._look_at_ends(LAG_AGE_MS)
        positions = self._inbox.positions
        ends = self._ends[1] if self._ends else {}
        return {topic: max(0, end - positions[topic]) for topic, end in ends.items()}

    def positions(self) -> dict[str, int]:
        """How far each input topic was applied."""
        return self._inbox.positions

    def close(self) -> None:
        """Gives back reader and store; the state is what the store holds."""
        for reader in self._readers:
            reader.close()
        self._store.close()

    def _open(self, positions: dict[str, int]) -> Reader:
        self._readers.append(self._log.reader(positions))
        return self._readers[-1]

    def _catch_up(self, recorded: Recorded, claim: int | None = None) -> Generator[str, None, None]:
        """Folds the own topic to its end, or to a claim of ours; `Superseded` if that claim is not the current one."""
        fold = self.fold
        accepted, began = False, self._clock.monotonic_ms()
        for record in self._log.scan(fold.topic, fold.own.position):
            event = self._fold_own(record, recorded)
            if record.offset == claim:
                accepted = isinstance(event, EpochStarted)
                self._anchor = (record.at_ms, self._clock.monotonic_ms())
                break
            if self._clock.monotonic_ms() - began >= STRETCH_MS:
                yield "folding"
                began = self._clock.monotonic_ms()
        if claim is not None and not accepted:
            raise Superseded(f"another process took {self.machine.name} of cell {self._log.cell} first")

    def _fold_own(self, record: LogRecord, recorded: Recorded) -> EpochStarted | RoundCommitted | None:
        fold = self.fold
        peek = own_record(record, fold)
        if isinstance(peek, RoundCommitted):
            self._keep(recorded.finish(peek))
        return peek

    def _keep(self, changes: list[RowChange]) -> None:
        """Writes the end of a round to the store, which rows of another format leave before."""
        if self._stale:
            self._store.clear()
            self._stale = False
        self._store.commit(changes, self.fold.standing())

    def _append(self, value: bytes) -> int:
        return self._log.append([NewRecord(self.fold.topic, self.machine.name.encode(), value)])[0]

    def _look(self, record: LogRecord, mine: int | None) -> bool:
        """Judges a record of the own topic; True where it is our own round at offset `mine`."""
        event, verdict = judged(record, self.fold)
        if verdict is not Verdict.ACCEPTED:
            if record.offset == mine:
                raise Superseded(f"the round at offset {mine} of {self.fold.topic} was not accepted: {verdict}")
            if self._observer:
                self._observer.ignored(record.topic, str(verdict or "NO_ROUND"))
        elif isinstance(event, EpochStarted):
            raise Superseded(
                f"{event.claimant} has taken {self.machine.name} of cell {self._log.cell}: epoch {event.epoch}"
            )
        return record.offset == mine

    def _read_back(self, offset: int) -> None:
        found = False
        while not found:
            for record in self._own_reader.poll(self._limits.records, 1.0):
                if self._look(record, offset):
                    found = True
                    self._anchor = (record.at_ms, self._clock.monotonic_ms())

    def _apply(self) -> int:
        applied = 0
        for delivered in self._inbox.deliver(self._limits.records):
            self.fold.take(delivered)
            applied += 1
            if self._observer and delivered.verdict != "ACCEPTED":
                self._observer.ignored(delivered.record.topic, delivered.verdict)
            if len(self.fold.segments) >= SEGMENTS_MAX:
                break
        return applied

    def _decide(self, now: int, caught_up: bool, forced: bool) -> tuple[RoundCommitted, list[Event], bytes] | None:
        """A round and its bytes; None: there is nothing to decide, and no round is forced."""
        budget = self._limits.budget
        while True:
            decisions = self.machine.decide(now, caught_up, budget)
            if not decisions and not forced:
                return None
            encoded = [encode(decision) for decision in decisions]
            size = self._size(encoded)
            if size <= self._limits.round_bytes:
                self._decide_on(now, caught_up, budget, decisions, encoded)
                record = self._round(now, caught_up, budget, encoded)
                return record, decisions, encode(record)
            if budget <= 1:
                raise RoundTooLarge(f"{self.machine.name}: a round of one unit of work takes {size} bytes")
            budget //= 2

    def _decide_on(self, now: int, caught_up: bool, budget: int, decisions: list[Event], encoded: list[bytes]) -> None:
        """Applies decisions and adds what follows from them to both lists, pass after pass, until nothing more does or
        the round is large. Should the round not be accepted, the machine is given up with it.
        """
        latest, size = decisions, self._size(encoded)
        while latest:
            self.fold.decided(now, latest)
            if size >= PASSES_BYTES:
                self._again = True
                return
            latest = self.machine.decide(now, caught_up, budget)
            more = [encode(decision) for decision in latest]
            size = self._size([*encoded, *more])
            if size > self._limits.round_bytes:
                self._again = True
                return
            decisions += latest
            encoded += more

    def _size(self, encoded: list[bytes]) -> int:
        """Bytes of a round with these decisions, at most."""
        parts = len(self.fold.segments) + len(self.fold.skipped) + len(self._inbox.known) + len(encoded)
        return HEAD_BYTES + parts * PART_BYTES + sum(map(len, encoded))

    def _round(self, now: int, caught_up: bool, budget: int, encoded: list[bytes]) -> RoundCommitted:
        fold = self.fold
        known = self._inbox.known
        return RoundCommitted(
            cell=self._log.cell,
            machine=self.machine.name,
            epoch=self.epoch,
            round=fold.own.round + 1,
            now=now,
            caught_up=caught_up,
            budget=budget,
            inputs=tuple(fold.segments),
            skipped=tuple(fold.skipped),
            inputs_hash=fold.inputs_hash(),
            start_hash=fold.state.hash,
            seen=tuple(Seen(topic=topic, position=known[topic]) for topic in sorted(known)),
            decisions=tuple(encoded),
            prev_hash=fold.own.hash,
            logic=self.machine.logic,
            state=self.machine.state,
        )

    def _caught_up(self) -> bool:
        if not self._look_at_ends(ENDS_AGE_MS) or self._ends is None or self._inbox.waiting():
            return False
        return all(self._reader.position(topic) >= end for topic, end in self._ends[1].items())

    def _look_at_ends(self, age_ms: int) -> bool:
        """Asks for the ends of the topics where those that are known are older; False where nobody answers."""
        at = self._clock.monotonic_ms()
        if self._ends is None or at - self._ends[0] >= age_ms:
            try:
                self._ends = (at, self._reader.ends())
            except LogUnavailable:
                return False
        return True

    def _now(self, caught_up: bool) -> int:
        """Logical time: the log's, and when caught up the time that has passed since the newest record was read.

        What is read back was written just now, so the time that a clock has got wrong lasts until the next round.
        """
        at = self._clock.monotonic_ms()
        newest, since = self._anchor
        if self.fold.newest_ms > newest + (at - since):
            self._anchor = newest, since = (self.fold.newest_ms, at)
        passed = at - since if caught_up else 0
        return max(self.fold.now, newest + passed)
