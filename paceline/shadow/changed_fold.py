"""A machine that goes on with other pools or settings than its cell has.

The change is a fact that only this machine knows of, with an answer of its own. Later definitions of the same pools
have it too. Everything else is as it was recorded.
"""

from collections.abc import Iterable

from events.codec import CodecError, decode, encode
from events.codes import IN_EFFECT
from events.log.port import LogRecord
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.topics import POOLS
from paceline.client.errors import InvalidValue
from paceline.history.watched_fold import WatchedFold
from paceline.whatif.branch import Change
from processors.machine import Decided, Fact, PeerRound
from processors.runtime.fold import Fold

FIRST_OFFSET = 1 << 60
"""No log is so long: the facts of a change have offsets of their own."""
BUDGET = 20_000
ENTITLEMENT = "entitlement"


def answers_of(entitlement: Fold, events: Iterable[Event]) -> list[PoolAnswered]:
    """Applies facts to entitlement, and its answers to them. Raises `InvalidValue` where it refuses one."""
    machine, answers = entitlement.machine, []
    for at, event in enumerate(events):
        machine.apply(_fact(at, event, entitlement.now))
        decided = machine.decide(entitlement.now, True, BUDGET)
        answer = next(
            (each for each in decided if isinstance(each, PoolAnswered) and each.pools_offset == FIRST_OFFSET + at),
            None,
        )
        if answer is None or answer.code not in IN_EFFECT:  # a whole file of pools has some as they are
            why = f"{answer.message} ({answer.code})" if answer is not None else "it isn't answered"
            raise InvalidValue(f"The cell would refuse this change of {getattr(event, 'path', 'the cell')}: {why}")
        machine.apply(Decided(entitlement.now, answer, entitlement.own.round, at))
        answers.append(answer)
    return answers


def change(fold: WatchedFold, change_: Change, answers: Iterable[PoolAnswered]) -> None:
    """Applies a change that entitlement has answered to a machine: from now on, to later facts too."""
    machine = fold.machine
    if machine.name != ENTITLEMENT:
        for at, (event, answer) in enumerate(zip(change_.first, answers, strict=True)):
            if POOLS.name in machine.facts:
                machine.apply(_fact(at, event, fold.now))
            if ENTITLEMENT in machine.peers:
                machine.apply(PeerRound(ENTITLEMENT, 0, fold.now, (answer,)))

    def altered(record: LogRecord) -> LogRecord:
        try:
            event = decode(record.value)
        except CodecError:
            return record
        other = change_.alter(event)
        return record if other is None or other is event else record._replace(value=encode(other))

    fold.alter = altered


def _fact(at: int, event: Event, now: int) -> Fact:
    return Fact(POOLS.name, FIRST_OFFSET + at, now, event, encode(event))
