"""Two results from one state: a round as it was recorded and as it is replayed, and the rows that differ."""

from collections.abc import Callable
from typing import NamedTuple

from events.log.port import Log
from events.rounds import Delivered, follow
from processors.machine import Machine
from processors.runtime.fold import Fold, Recorded
from processors.runtime.store import MemoryStore
from processors.state.table import RowChange


class RowDifference(NamedTuple):
    """A row that differs, as a store holds it; None: there is none."""

    table: str
    key: bytes
    recorded: bytes | None
    decided: bytes | None


class Divergence(NamedTuple):
    """The round after which the recorded state and the replayed one have other hashes, and
    the rows they differ in. `fault`: why there are no rows to show.
    """

    round: int
    rows: tuple[RowDifference, ...]
    fault: str = ""


def find_divergence(make: Callable[[], Machine], log: Log, store: MemoryStore, own: Delivered) -> Divergence | None:
    """Folds an accepted round both ways from where the store stands. None: both come to the same state, and
    the store stands after the round. The inputs of the round must be those that it was decided on.
    """
    assert own.key is not None
    number = own.key.round
    replayed, changes = _fold(make, log, store, own, decide=True)
    before = {(row.table, row.key): row.row for row in store.rows()}
    try:
        as_recorded, recorded = _fold(make, log, store, own, decide=False)
    except Exception as error:  # decisions that no machine took may be anything
        return Divergence(number, (), f"what was recorded can't be applied: {error!r}")
    if as_recorded.state.hash == replayed.state.hash:
        store.commit(recorded, as_recorded.progress())
        return None
    sides = [{(row.table, row.key): row.row for row in side} for side in (recorded, changes)]
    rows = []
    for name in sorted({**sides[0], **sides[1]}):
        old, new = (side.get(name, before.get(name)) for side in sides)
        if old != new:
            rows.append(RowDifference(*name, old, new))
    return Divergence(number, tuple(rows))


def _fold(
    make: Callable[[], Machine], log: Log, store: MemoryStore, own: Delivered, decide: bool
) -> tuple[Fold, list[RowChange]]:
    """A machine after a round, and the rows that changed in it. Where it decides again, it does so pass after pass up
    to as many decisions as were recorded.
    """
    fold = Fold(make(), log.cell)
    fold.restore(store)
    follow(own, fold.own)
    record = Recorded(log, fold).take(own)
    if not decide:
        fold.decided(record.now, own.decisions(), record.round)
        return fold, fold.finish(record)
    done = 0
    while True:
        decided = fold.machine.decide(record.now, record.caught_up, record.budget)
        fold.decided(record.now, decided, record.round, done)
        done += len(decided)
        if not decided or done >= len(record.decisions):
            return fold, fold.finish(record)
