"""Recorded rounds, each at the moment at which it was decided: its inputs are applied, its decisions not yet.

The machine is asked there, as often as one likes. What was recorded is applied in any case, so that each round is met
in the state in which the cell was (decision 131).
"""

from collections.abc import Iterator

from events.log.port import Log
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.rounds import Delivered, accept
from processors.runtime.fold import Fold, Recorded


class OpenRound:
    """A recorded round whose first `applied` decisions are applied."""

    def __init__(self, fold: Fold, own: Delivered) -> None:
        assert isinstance(own.event, RoundCommitted)
        self.record = own.event
        self.offset, self.at_ms = own.record.offset, own.record.at_ms
        self.decisions = own.decisions()
        self.applied = 0
        self._fold = fold

    def decide(self) -> list[Event]:
        """One pass of the machine, which changes nothing."""
        return self._fold.machine.decide(self.record.now, self.record.caught_up, self.record.budget)

    def apply(self, until: int) -> None:
        """Applies the recorded decisions up to an index."""
        self._fold.decided(self.record.now, self.decisions[self.applied : until], self.record.round, self.applied)
        self.applied = until


class RecordedRounds:
    """The rounds of one machine, from the first record or from where a fold stands. `is_real`: as `Recorded` has it."""

    def __init__(self, log: Log, fold: Fold, is_real: bool = True) -> None:
        self.fold = fold
        self._log = log
        self._recorded = Recorded(log, self.fold, is_real)

    def rounds(self, last: int | None = None) -> Iterator[OpenRound]:
        """Yields round after round to the present end of the log, or to `last`; asked again, those that came since.
        Each is finished when the next is asked for. Raises `HistoryDiffers`, `RoundFault`, `LogError` and `CodecError`,
        after which there is no going on.
        """
        fold = self.fold
        for record in self._log.scan(fold.topic, fold.own.position):
            if last is not None and fold.own.round >= last:
                return
            own = accept(record, fold.own, fold.machine.name, fold.cell)
            if not isinstance(own.event, RoundCommitted):
                continue
            self._recorded.take(own)
            each = OpenRound(fold, own)
            yield each
            each.apply(len(each.decisions))
            fold.finish(own.event)
