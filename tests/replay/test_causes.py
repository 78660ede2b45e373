"""Why something was decided is read from the log: chains of causes, held against what a test knows to be true."""

from typing import Any

from events.codec import decode
from events.codes import Outcome
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.parts import Cause
from events.records.placement import TasksPlaced
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from events.topics import MACHINES, rounds_of
from paceline.history.causes import Causes, Run, runs_of
from tests.cell.world import Cell


def decisions(cell: Cell) -> list[tuple[Cause, Any]]:
    """All decisions of a cell with their positions."""
    out = []
    for machine in MACHINES:
        for record in cell.log.scan(rounds_of(machine), 0):
            event = decode(record.value)
            if isinstance(event, RoundCommitted):
                for index, decision in enumerate(event.decisions):
                    out.append((Cause(machine=machine, round=event.round, index=index), decode(decision)))
    return out


def last(cell: Cell, kind: type[Event], run: Run | None = None) -> Cause:
    """The position of the last decision of a kind, about a run."""
    return [place for place, event in decisions(cell) if isinstance(event, kind) and run in (None, *runs_of(event))][-1]


def kinds(log: Causes, places: list[Cause]) -> list[str]:
    return [type(log.event(place)).__name__ for place in places]


def test_a_placement_is_followed_back_to_the_change_of_a_pool_that_preempted_for_it() -> None:
    cell = Cell(hosts=1)  # four cores
    cell.pool("/a")
    cell.pool("/b")
    cell.submit("low", pool="/a", instances=4, resources={"cpu": 1000}, duration_ms=1_000_000)
    cell.run(2000)
    cell.submit("high", pool="/b", resources={"cpu": 1000}, duration_ms=1_000_000)
    cell.run(10_000)
    assert PreemptionsOrdered not in {type(event) for _, event in decisions(cell)}
    changed = cell.log.bounds("paceline.pools")[1]
    cell.append(PoolDefined(path="/b", command_id="raise", reservation={"cpu": 1000}))
    cell.run(2000)
    cell.pool("/unrelated")
    cell.submit("later", pool="/a", instances=3)
    cell.run(10_000)
    log = Causes(cell.log)

    placed = last(cell, TasksPlaced, ("high", 0, 1))
    (admitted,) = log.of(placed, ("high", 0, 1))
    room, queued = log.of(admitted, ("high", 0, 1))
    assert kinds(log, [admitted, room, queued]) == ["GangsAdmitted", "RunsEnded", "GangsQueued"]
    (victim,) = runs_of(log.event(room))
    assert victim[0] == "low"
    assert log.event(room).outcome == Outcome.PREEMPTED.to_bytes(4, "little")
    (stopping,) = log.of(room)
    (ordered,) = log.of(stopping)
    (entitled,) = log.of(ordered)
    (answered,) = log.of(entitled)
    assert kinds(log, [stopping, ordered, entitled, answered]) == [
        "RunsStopping",
        "PreemptionsOrdered",
        "EntitlementsSet",
        "PoolAnswered",
    ]
    assert runs_of(log.event(ordered)) == [victim]
    assert log.of(answered) == [Cause(topic="paceline.pools", offset=changed)]
    fact = log.event(log.of(answered)[0])
    assert fact.command_id == "raise"
    assert log.of(log.of(answered)[0]) == [], "a fact has no cause in the log"
    reached = {link.cause for link in log.back(placed, ("high", 0, 1))}
    assert {room, stopping, ordered, entitled, answered, *log.of(answered)} <= reached
    assert Cause(topic="paceline.jobs", offset=1) in reached, "it was submitted, too"
    assert Cause(topic="paceline.jobs", offset=2) not in reached, "what came later led to nothing"
    cell.verify()
