"""Decides recorded rounds by this Paceline, for another one that compares: `python -m paceline.history.build_worker`.

Reads an `Order` from standard input and writes `Message`s to standard output (`build_protocol`); it reads the log and
writes nothing. It ends when standard input does.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing

import msgspec

from events import VERSION
from events.acceptance import ROUND, parse
from events.codec import CodecError
from events.log.port import Log, LogError, LogFault, LogGap, LogUnavailable
from events.rounds import RoundFault
from events.topics import rounds_of
from paceline.client.errors import PacelineError
from paceline.history.build_protocol import (
    PROTOCOL,
    Differs,
    Failed,
    Finished,
    Hello,
    Message,
    Order,
    Reached,
    Span,
    Stopped,
)
from paceline.history.open_log import open_log
from paceline.history.own_passes import begin
from paceline.history.recorded_rounds import RecordedRounds
from paceline.history.round_comparison import compare, rewritten, without_causes
from paceline.history.tail import Tail, TailLog
from paceline.history.watched_fold import WatchedFold
from paceline.moments.ordered_work import read_order
from paceline.services.settings import Settings
from processors.cell_machines import machines
from processors.machine import Machine
from processors.runtime.fold import HistoryDiffers
from processors.runtime.store import MemoryStore

SAY_S = 0.2
WAIT_S = 0.5
"""Between two looks at a log that is followed: each asks for the ends of topics."""
NEWEST = 1 << 62
"""All rounds are before this one."""
UNREACHABLE = 6
Write = Callable[[Message], None]


class Comparison:
    """Compares the rounds of one machine within a span, and tells of those that differ. `is_changed`: something was
    changed in the fold.
    """

    def __init__(self, log: Log, fold: WatchedFold, span: Span, write: Write, is_changed: bool = False) -> None:
        self.name = fold.machine.name
        self.is_over = False
        self._log, self._fold, self._span, self._write = log, fold, span, write
        self._rounds = RecordedRounds(log, fold, not is_changed)
        self._form = without_causes if is_changed else rewritten
        self._compared = self._alike = self._other_logic = self._events = 0
        self._at_ms = 0

    def turn(self) -> bool:
        """Compares what is there; returns whether there was something. Raises `LogUnavailable`."""
        fold, before, said_s = self._fold, self._fold.own.position, time.monotonic()
        try:
            for each in self._rounds.rounds(self._span.last):
                record = each.record
                self._events += sum(part.end - part.start for part in record.inputs)
                self._at_ms = each.at_ms
                if record.round >= self._span.first and each.offset >= self._span.offset:
                    self._other_logic += record.logic != fold.machine.logic
                    self._compared += 1
                    difference = compare(each, self.name, fold.pool_of, self._form)
                    if difference is None:
                        self._alike += 1
                    else:
                        counts = (self._compared, self._alike, self._other_logic)
                        place = (self.name, record.round, each.offset, each.at_ms, record.logic)
                        self._write(Differs(*place, difference.at, difference.parts, *counts, difference.fault))
                if time.monotonic() - said_s > SAY_S:
                    said_s = time.monotonic()
                    self._say()
        except LogUnavailable:
            raise
        except (HistoryDiffers, RoundFault, LogGap, CodecError) as error:
            self._stop(str(error))
        except (
            Exception
        ) as error:  # a state that no cell was in, or a build that doesn't know all: it ends this machine
            if isinstance(error, LogError):
                raise
            self._stop(f"what was recorded can't be applied: {error!r}")
        self._say()
        return fold.own.position > before

    def _stop(self, reason: str) -> None:
        self.is_over = True
        self._write(Stopped(self.name, self._fold.own.round, reason))

    def _say(self) -> None:
        own, counts = self._fold.own, (self._compared, self._alike, self._other_logic, self._events)
        end = self._log.bounds(self._fold.topic)[1]
        self._write(Reached(self.name, own.round, own.position, end, self._at_ms, *counts))


def main() -> int:
    """Does what standard input orders."""
    order = read_order(Order, 0)
    os.nice(order.nice)
    return answer(order, lambda log, tail: [comparison(log, tail, order, name) for name in order.machines])


def answer(order: Order, make: Callable[[Log, Tail | None], list[Comparison]]) -> int:
    """Says who it is, compares the rounds of all machines, and says how it ended. `make`: the comparisons of a log, and
    of the tail by which it is followed, if it is.
    """
    write(Hello(PROTOCOL, VERSION, {name: make().logic for name, make in machines().items()}))
    if order.protocol > PROTOCOL:
        write(Failed(f"Paceline {VERSION} can't be asked by this one: it is too old for what is asked.", 2))
        return 2
    try:
        log = open_log(Settings(**msgspec.structs.asdict(order.log)))
        try:
            if order.follow:
                with closing(Tail(log)) as tail:
                    _follow(tail, make(log, tail))
            else:
                for each in make(log, None):
                    each.turn()
        finally:
            log.close()
    except (PacelineError, LogError) as error:
        code = error.exit_code if isinstance(error, PacelineError) else 1
        write(Failed(str(error), UNREACHABLE if isinstance(error, LogUnavailable | LogFault) else code))
        return 1
    write(Finished())
    return 0


def comparison(log: Log, tail: Tail | None, order: Order, name: str) -> Comparison:
    """The comparison of a machine of this build, from where the log or its snapshots let it begin."""
    make = machines(log.cell)[name]
    span = order.machines[name]
    fold = WatchedFold(make(), log.cell)
    store = start(log, order, make())
    if store is not None:
        fold.restore(store)
    return Comparison(read(log, tail, name), fold, span, write)


def read(log: Log, tail: Tail | None, name: str) -> Log:
    """The log as a machine reads it, followed where there is a tail."""
    return log if tail is None else TailLog(tail, rounds_of(name))


def start(log: Log, order: Order, machine: Machine) -> MemoryStore | None:
    """The store that a machine begins from; None: the first record of the log."""
    span = order.machines[machine.name]
    before = _round_from(log, machine.name, span.offset) if span.offset else span.first
    return begin(log, order.log, order.snapshots, machine, before)


def _round_from(log: Log, machine: str, offset: int) -> int:
    """The first round of a machine from an offset in its topic on; `NEWEST`: there is none yet."""
    for record in log.scan(rounds_of(machine), offset):
        key = parse(record.key)
        if key is not None:
            return key.round if key.kind == ROUND else key.round + 1
    return NEWEST


def write(message: Message) -> None:
    """Writes a line to standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _follow(tail: Tail, comparisons: list[Comparison]) -> None:
    while True:
        tail.pull()
        news = [each.turn() for each in comparisons if not each.is_over]
        if not news:
            return
        if not any(news):
            time.sleep(WAIT_S)


if __name__ == "__main__":
    sys.exit(main())
