"""Replay: the same fold with another reader. It decides every round again and compares, byte for byte."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from events.codec import encode
from events.log import Log
from events.records.rounds import RoundCommitted
from processors.fold import Fold, HistoryDiffers, Recorded, decode_decisions, own_record
from processors.machine import Machine


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a history and its replay part. `index` is the decision within the round; `recorded` and
    `decided` are its bytes, None where there is none.
    """

    machine: str
    round: int
    index: int
    recorded: bytes | None
    decided: bytes | None
    reason: str = "decided otherwise"


@dataclass(slots=True)
class Replayed:
    """What the replay of one machine found. `folded` counts rounds of another logic number, which are not decided
    again; `events` the inputs applied; `hash` is the state hash after the last round.
    """

    machine: str
    rounds: int = 0
    folded: int = 0
    decisions: int = 0
    events: int = 0
    epochs: int = 0
    hash: bytes = bytes(32)
    difference: Difference | None = None


class Replay:
    """Replays one machine of a cell from the start of its history."""

    def __init__(self, machine: Machine, log: Log) -> None:
        self.fold = Fold(machine, log.cell)
        self.result = Replayed(machine.name)
        self._log = log
        self._recorded = Recorded(log, self.fold)

    def rounds(self, decide: bool = True) -> Iterator[RoundCommitted]:
        """Replays round after round to the present end of the log, or to the first difference."""
        fold, result = self.fold, self.result
        for record in self._log.scan(fold.topic, 0):
            event = own_record(record, fold)
            if not isinstance(event, RoundCommitted):
                result.epochs += event is not None
                continue
            try:
                self._recorded.take(event)
            except HistoryDiffers as differs:
                result.difference = Difference(fold.machine.name, event.round, 0, None, None, str(differs))
                return
            result.events += sum(segment.end - segment.start for segment in event.inputs)
            if decide and event.logic == fold.machine.logic:
                result.difference = self._decide_again(event)
                result.rounds += 1
            else:
                fold.decided(event.now, decode_decisions(event))
                result.folded += 1
            result.decisions += len(event.decisions)
            fold.finish(event)
            result.hash = fold.state.hash
            yield event
            if result.difference:
                return

    def _decide_again(self, record: RoundCommitted) -> Difference | None:
        """Decides a round pass after pass, as the driver did, and applies what was recorded; the first difference."""
        fold, recorded, done = self.fold, record.decisions, 0
        events = decode_decisions(record)
        while True:
            decided = [encode(event) for event in fold.machine.decide(record.now, record.caught_up, record.budget)]
            found = self._compare(record, done, decided)
            ends = len(recorded) if found else done + len(decided)
            fold.decided(record.now, events[done:ends])
            done = ends
            if done == len(recorded):
                return found

    def _compare(self, record: RoundCommitted, start: int, decided: list[bytes]) -> Difference | None:
        """Holds a pass against what stands in the round from `start`; an empty pass is one of a round without any."""
        recorded = record.decisions
        for index in range(start, start + max(len(decided), start < len(recorded))):
            old = recorded[index] if index < len(recorded) else None
            new = decided[index - start] if index - start < len(decided) else None
            if old != new:
                return Difference(self.fold.machine.name, record.round, index, old, new)
        return None


def replay(machine: Machine, log: Log, on_round: Callable[[RoundCommitted], None] | None = None) -> Replayed:
    """Replays a machine's whole history and returns what was found."""
    run = Replay(machine, log)
    for record in run.rounds():
        if on_round:
            on_round(record)
    return run.result
