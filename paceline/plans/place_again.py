"""Derives again among which hosts a task was placed: `python -m paceline.plans.place_again`, started by
`paceline.moments.placements`.

Reads a `PlacementOrder` from standard input and writes a `PlacementResult` to standard output. Placement begins from
the newest snapshot before the round, or from the first record, applies the rounds in between, and is looked at as it
stood when it made that decision.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from events.log.port import Log, LogGap
from events.records.placement import TasksPlaced
from events.records.rounds import RoundCommitted
from events.rounds import Delivered, accept
from paceline.history.decide_again import newest_snapshot
from paceline.history.make_views import NICE
from paceline.history.open_log import open_log
from paceline.history.start_state import start_of
from paceline.moments.order import PlacementCandidate, PlacementOrder, PlacementResult
from paceline.moments.ordered_work import read_order
from paceline.services.settings import Settings
from processors.placement.candidates import PARTS, PlacedTask, candidates
from processors.placement.machine import Placement
from processors.placement.packing import SCORE
from processors.runtime.fold import Fold, Recorded

BEST = 5


class NotDerived(Exception):
    """The placement can't be derived again; the message says why."""


def main() -> int:
    """Derives the placement that standard input names."""
    order = read_order(PlacementOrder, NICE)
    log = open_log(Settings(**msgspec.structs.asdict(order.log)))
    try:
        result = place_again(log, order)
    except NotDerived as why:
        result = PlacementResult(why=str(why))
    finally:
        log.close()
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    return 0


def place_again(log: Log, order: PlacementOrder) -> PlacementResult:
    """The candidates for a task in the round that placed it. Raises `NotDerived`."""
    machine = Placement()
    fold = Fold(machine, log.cell)
    start = start_of(Path(order.log.data), machine.name) or newest_snapshot(log, order.snapshots, order.round, machine)
    if start is not None:
        fold.restore(start)
    try:
        task, before = _stand_before(log, fold, order)
    except LogGap as gap:
        raise NotDerived(f"the round is before the oldest snapshot and the log: {gap}") from gap
    ranked = candidates(machine.runs, machine.hosts, machine.sharing, task, before, BEST)
    best = [
        PlacementCandidate(
            each.host_id,
            each.score / SCORE,
            {name: term / PARTS.get(name, SCORE) for name, term in each.terms.items()},
            dict(each.free),
            each.tasks,
            each.own_room,
            each.value,
            each.value_tasks,
            each.with_devices,
            each.unmet,
            each.without_image,
        )
        for each in ranked.best
    ]
    return PlacementResult("", ranked.strategy, ranked.hosts, ranked.feasible, best, ranked.over)


def _stand_before(log: Log, fold: Fold, order: PlacementOrder) -> tuple[PlacedTask, list[PlacedTask]]:
    """Brings the machine to where it made the decision; returns the task, and those that this decision placed before
    it.
    """
    recorded = Recorded(log, fold)
    for own in _rounds(log, fold):
        event = own.event
        assert isinstance(event, RoundCommitted)
        if event.round < order.round:
            recorded.finish(own)
            continue
        if event.logic != fold.machine.logic:
            raise NotDerived(
                f"round {event.round} was decided by logic {event.logic} of placement, this build has "
                f"{fold.machine.logic}"
            )
        recorded.take(own)
        return _pass_of(fold, event, own, order)
    raise NotDerived(f"there is no round {order.round} of placement in the log")


def _pass_of(
    fold: Fold, event: RoundCommitted, own: Delivered, order: PlacementOrder
) -> tuple[PlacedTask, list[PlacedTask]]:
    """Decides the passes of a round before the one of the decision."""
    decisions, done = own.decisions(), 0
    while True:
        ends = done + len(fold.machine.decide(event.now, event.caught_up, event.budget))
        if done <= order.index < ends:
            break
        if ends == done:
            raise NotDerived(f"round {event.round} is decided otherwise by this build")
        fold.decided(event.now, decisions[done:ends], event.round, done)
        done = ends
    placed = decisions[order.index]
    if not isinstance(placed, TasksPlaced):
        raise NotDerived(f"round {event.round} is decided otherwise by this build")
    columns = (placed.job_array, placed.instance_array, placed.host_array, placed.alternative_array)
    before: list[PlacedTask] = []
    for job, instance, host, alternative in zip(*(column.tolist() for column in columns), strict=True):
        task = PlacedTask(placed.job_ids[job], instance, placed.host_ids[host], alternative)
        if (task.job_id, task.instance) == (order.job_id, order.instance):
            return task, before
        before.append(task)
    raise NotDerived(f"round {event.round} doesn't place the task")


def _rounds(log: Log, fold: Fold) -> Iterator[Delivered]:
    """The accepted rounds of the machine from where it stands."""
    for record in log.scan(fold.topic, fold.own.position):
        own = accept(record, fold.own, fold.machine.name, fold.cell)
        if isinstance(own.event, RoundCommitted):
            yield own


if __name__ == "__main__":
    sys.exit(main())
