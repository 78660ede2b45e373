"""One machine of a cell, whose rounds are replayed as they come, and what is kept of it over restarts."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from events.codec import decode
from events.log.port import Log, LogGap, LogUnavailable
from events.records.rounds import RoundCommitted
from events.rounds import RoundFault, in_log
from events.topics import rounds_of
from paceline.history.tail import Tail, TailLog
from paceline.witness.alarms import Alarmed, Finding, found
from paceline.witness.head import Standing
from processors.machine import Machine
from processors.runtime.replay import Difference, Mismatch, Replay
from processors.runtime.store import Progress, RocksStore
from processors.runtime.store_writer import StoreWriter
from processors.state.table import RowChange

ROUNDS_A_WRITE = 100_000
"""A store is written with each head; so many rounds at the latest."""


class HeldStore:
    """A store whose writes are held until a head is signed."""

    def __init__(self, store: RocksStore) -> None:
        self._store = store
        self._writer = StoreWriter(store, ROUNDS_A_WRITE)

    def progress(self) -> Progress | None:
        """Implements `Store.progress`."""
        return None if self._writer.replaces else self._store.progress()

    def rows(self) -> Iterator[RowChange]:
        """Implements `Store.rows`."""
        return self._store.rows()

    def commit(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.commit`, later."""
        self._writer.add(changes, progress)

    def replace(self, rows: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.replace`."""
        self._store.replace(rows, progress)

    def begin_anew(self) -> None:
        """The next write takes the place of all that is there."""
        self._writer.replaces = True

    def flush(self) -> None:
        """Writes what is held."""
        self._writer.flush()

    def close(self) -> None:
        """Implements `Store.close`; what is held is given up: it is replayed."""
        self._store.close()


class WitnessedMachine:
    """The rounds of one machine, replayed. `after`: where the last head had it: rounds up to there were decided
    before, and are applied only.
    """

    def __init__(self, make: Callable[[], Machine], tail: Tail, folder: Path, after: Standing) -> None:
        machine = make()
        self.name = machine.name
        self.own = rounds_of(machine.name)
        self.standing = after
        self.decided = 0
        """Rounds that this process has replayed."""
        self._make = make
        self._after = after
        self._store = HeldStore(RocksStore(folder / machine.name))
        self._tail = tail
        self._turn: Iterator[RoundCommitted] | None = None
        self._turn_end = -1
        self._told = 0
        try:
            self._look_at_store(tail.log)
            self._begin(tail)
        except BaseException:
            self._store.close()
            raise

    @property
    def inputs(self) -> dict[str, int]:
        """Per topic where the inputs of the last round end."""
        return self._replay.result.inputs

    @property
    def position(self) -> int:
        """The offset in its own topic up to which it has read."""
        return self._replay.fold.own.position

    @property
    def is_level(self) -> bool:
        """Whether it has decided all rounds that are settled."""
        return self._turn is None and self._turn_end == self._tail.settled[self.own]

    @property
    def lag(self) -> int:
        """The records of its own topic that it hasn't read."""
        return max(0, self._tail.ends[self.own] - self.position)

    def step(self, rounds: int) -> int:
        """Replays up to so many rounds; returns how many there were. Raises `Alarmed`, and `LogUnavailable`: then
        `restart` it.
        """
        replay, count = self._replay, 0
        if self._turn is None:
            self._turn, self._turn_end = replay.rounds(first=self._after.round + 1), self._tail.settled[self.own]
        for round_ in islice(self._turn, rounds):
            if replay.result.difference is not None:
                break
            count += 1
            self._note(round_)
        else:
            if count < rounds:
                self._turn = None
        if replay.result.difference is not None:
            raise Alarmed(found(replay.result.difference))
        return count

    def take_count(self) -> int:
        """The rounds that were replayed since this was asked."""
        count, self._told = self.decided - self._told, self.decided
        return count

    def write(self) -> None:
        """Writes what rounds have changed to the store."""
        self._store.flush()

    def restart(self, tail: Tail) -> None:
        """Goes on from the last whole round, after the log couldn't be read."""
        self._store.flush()
        self._begin(tail)

    def close(self) -> None:
        """Closes the store."""
        self._turn = None
        self._store.close()

    def _begin(self, tail: Tail) -> None:
        self._tail, self._turn = tail, None
        self._replay = Replay(
            self._make(), TailLog(tail, self.own), self._store, strict=self._after.first > 0 or self.standing.first > 0
        )
        if not self._replay.fold.own.round:
            self._store.begin_anew()

    def _note(self, round_: RoundCommitted) -> None:
        replay, last = self._replay, self.standing
        own, number = replay.fold.own, round_.round
        if number <= self._after.round:
            return
        first = last.first
        if round_.logic == replay.fold.machine.logic:
            first = first or number
            self.decided += 1
            replay.strict = True
        self.standing = Standing(number, own.position, round_.logic, first, own.hash)

    def _look_at_store(self, log: Log) -> None:
        """Takes over how far the store is. It may be ahead of the last head, and isn't used where nobody knows which of
        its rounds were replayed. Raises `Alarmed` where the log doesn't hold the round that it is at.
        """
        progress, after = self._store.progress(), self._after
        if progress is None or progress.own.round <= after.round:
            return
        if not after.first:
            self._store.begin_anew()
            return
        own = progress.own
        try:
            there = in_log(log, self.own, own.position, own.hash)
        except LogUnavailable:
            raise
        except RoundFault as fault:
            raise Alarmed(self._finding(own.round, str(fault), Mismatch.INPUTS)) from fault
        except LogGap as gap:
            raise Alarmed(self._finding(own.round, str(gap), Mismatch.MISSING)) from gap
        if not there:
            text = f"{self.own}:{own.position - 1} is not round {own.round}, which was replayed here"
            raise Alarmed(self._finding(own.round, text, Mismatch.CHAIN))
        round_ = decode(next(iter(log.scan(self.own, own.position - 1))).value)
        assert isinstance(round_, RoundCommitted)
        self.standing = Standing(own.round, own.position, round_.logic, after.first, own.hash)

    def _finding(self, number: int, text: str, kind: Mismatch) -> Finding:
        return found(Difference(self.name, number, 0, None, None, text, (), kind))
