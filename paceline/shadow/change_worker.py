"""Decides the rounds of a running cell as with other pools or settings: `python -m paceline.shadow.change_worker`.

Reads a `ChangeOrder` from standard input and answers as `paceline.history.build_worker` does. The machines are folded
to where their spans begin, the change is made there, and each round from there on is decided with it.
"""

import os
import sys
from typing import Any

import msgspec

from events.host_pools import SHARED
from events.log.port import Log
from events.topics import MACHINES, rounds_of
from paceline.client.errors import InvalidValue
from paceline.history.build_protocol import Changed, Order
from paceline.history.build_worker import Comparison, Write, answer, read, start, write
from paceline.history.recorded_rounds import RecordedRounds
from paceline.history.tail import Tail
from paceline.history.watched_fold import WatchedFold
from paceline.moments.log_cut import CutLog
from paceline.moments.ordered_work import read_order
from paceline.shadow.changed_fold import ENTITLEMENT, answers_of, change
from paceline.whatif.settings import Setting, change_from, check_host_pools
from processors.cell_machines import machines
from processors.entitlement.machine import Entitlement

MODULE = "paceline.shadow.change_worker"


class ChangeOrder(msgspec.Struct, frozen=True):
    """An order with a change: bodies of pools by path, and settings: pool or `cell`, field, resource, value."""

    order: Order
    pools: dict[str, dict[str, Any]]
    settings: list[tuple[str, str, str, Any]]


def main() -> int:
    """Does what standard input orders."""
    order = read_order(ChangeOrder, 0)
    os.nice(order.order.nice)
    return answer(order.order, lambda log, tail: comparisons(log, tail, order, write))


def comparisons(log: Log, tail: Tail | None, order: ChangeOrder, write: Write) -> list[Comparison]:
    """The machines, each with the change from where its span begins. Raises `InvalidValue`."""
    folds = {name: folded(log, order.order, name) for name in MACHINES}
    machine = folds[ENTITLEMENT].machine
    assert isinstance(machine, Entitlement)
    settings = [Setting(*each) for each in order.settings]
    check_host_pools(settings, order.pools, [*machine.cell.host_pools, SHARED])
    the_change = change_from(machine, log.cell, settings, order.pools)
    if not the_change.lines:
        raise InvalidValue("Nothing would be changed: pools and settings are as the change has them.")
    answers = answers_of(folds[ENTITLEMENT], the_change.first)
    for fold in folds.values():
        change(fold, the_change, answers)
    write(Changed(list(the_change.lines)))
    spans = order.order.machines
    return [
        Comparison(read(log, tail, name), fold, spans[name], write, is_changed=True)
        for name, fold in folds.items()
        if name in spans
    ]


def folded(log: Log, order: Order, name: str) -> WatchedFold:
    """A machine as it was where its span begins."""
    make = machines(log.cell)[name]
    fold = WatchedFold(make(), log.cell)
    store = start(log, order, make())
    if store is not None:
        fold.restore(store)
    own = rounds_of(name)
    offset = order.machines[name].offset
    if fold.own.position < offset:
        for _ in RecordedRounds(CutLog(log, {own: offset}), fold).rounds():
            pass
    return fold


if __name__ == "__main__":
    sys.exit(main())
