"""Where the passes of recorded rounds end, found by deciding them again: what a round decides after the pass in which
it differs follows from that, and is no difference of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from events.codec import CodecError
from events.log.port import Log, LogError
from events.rounds import RoundFault
from paceline.history.build_protocol import Differs, Part
from paceline.history.decide_again import newest_snapshot
from paceline.history.recorded_rounds import OpenRound, RecordedRounds
from paceline.history.round_comparison import pass_end
from paceline.history.start_state import start_of
from paceline.history.tail import Tail, TailLog
from paceline.moments.order import LogAddress
from processors.cell_machines import machines
from processors.machine import Machine
from processors.runtime.fold import Fold, HistoryDiffers
from processors.runtime.store import MemoryStore

Start = Callable[[Machine, int], MemoryStore | None]
"""The store from which a machine goes on to a round; None: the first record of the log."""


class _Walk(NamedTuple):
    """The rounds of one machine, met in order."""

    fold: Fold
    rounds: RecordedRounds


class OwnPasses:
    """Folds the machines of this build as far as rounds are asked about, and no machine that none is asked about.
    `follows`: rounds of a log that grows.
    """

    def __init__(self, log: Log, start: Start, follows: bool = False) -> None:
        self._log, self._start, self._follows = log, start, follows
        self._tail: Tail | None = None
        self._walks: dict[str, _Walk] = {}

    def of_the_pass(self, differs: Differs) -> list[Part]:
        """The parts of a difference without what was recorded after its pass; all where this build can't tell. Rounds
        are asked about in order.
        """
        if not any(part.recorded and not part.decided for part in differs.parts):
            return differs.parts
        end = self._end(differs)
        return [part for part in differs.parts if part.decided or end is None or part.index < end]

    def _end(self, differs: Differs) -> int | None:
        end = None
        with suppress(HistoryDiffers, RoundFault, LogError, CodecError):
            for each in self._rounds(differs.machine, differs.round):
                if each.record.round == differs.round:
                    end = pass_end(each, differs.index)
        return end

    def _rounds(self, machine: str, number: int) -> Iterator[OpenRound]:
        if self._follows:
            self._tail = self._tail or Tail(self._log)
            self._tail.pull()
        walk = self._walks.get(machine)
        if walk is None:
            log = self._log if self._tail is None else TailLog(self._tail)
            make = machines(log.cell)[machine]
            fold = Fold(make(), log.cell)
            store = self._start(make(), number)
            if store is not None:
                fold.restore(store)
            walk = self._walks[machine] = _Walk(fold, RecordedRounds(log, fold))
        return walk.rounds.rounds(number)


def begin(log: Log, address: LogAddress, snapshots: str, machine: Machine, before: int) -> MemoryStore | None:
    """The store from which a machine goes on to a round: that of an exported range, or of the newest snapshot before
    the round. `snapshots`: their URL, empty: none.
    """
    own = start_of(Path(address.data), machine.name) if not address.kafka else None
    if own is not None or not snapshots or before <= 1:
        return own
    return newest_snapshot(log, snapshots, before, machine)
