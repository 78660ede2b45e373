"""Why something was decided is read from the log: chains of causes, held against what a test knows to be true."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from events.codec import decode
from events.codes import Outcome
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, PreemptionsOrdered
from events.records.lifecycle import JobChanged, JobsForgotten, PreemptionAnswered, RunsEnded
from events.records.parts import Cause
from events.records.placement import CapacityChanged, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined
from events.records.rounds import RoundCommitted
from events.topics import MACHINES, rounds_of
from hostagent.fleet import Fleet
from hostagent.gateway.component import Gateway
from projections.queries.cause_index import ViewIndex
from projections.queries.causes import Causes
from projections.views.mentions import Run, runs_of
from projections.views.projector import rebuild
from tests.helpers import SCENARIOS
from tests.helpers.past import past
from tests.helpers.play import play
from tests.helpers.whole_cell import Cell
from tests.helpers.whole_log import WholeLog, causes


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


def test_a_lost_place_is_followed_back_to_the_pool_that_was_changed_for_the_winner() -> None:
    cell = Cell(hosts=1)  # four cores
    cell.append(CellConfigured(command_id="quick", preemption_delay_ms=2000))
    cell.pool("/a")
    cell.pool("/b")
    cell.submit("low", pool="/a", instances=4, resources={"cpu": 1000}, duration_ms=1_000_000)
    cell.run(2000)
    cell.submit("high", pool="/b", resources={"cpu": 1000}, duration_ms=1_000_000, preemptible=False)
    cell.run(10_000)
    assert PreemptionsOrdered not in {type(event) for _, event in decisions(cell)}
    changed = cell.log.bounds("paceline.pools")[1]
    cell.append(PoolDefined(path="/b", command_id="raise", reservation={"cpu": 1000}))
    cell.run(2000)
    cell.pool("/unrelated")
    cell.submit("later", pool="/a", instances=3)
    cell.run(10_000)
    log = causes(cell.log)

    ended = last(cell, RunsEnded)
    (victim,) = runs_of(log.event(ended))
    assert victim[0] == "low"
    assert log.event(ended).outcome == Outcome.PREEMPTED.to_bytes(4, "little")
    chain = [ended]
    while log.of(chain[-1]):
        chain.append(log.of(chain[-1])[0])
    assert kinds(log, chain) == [
        "RunsEnded",
        "RunsStopping",
        "PreemptionsOrdered",
        "PreemptionAsked",
        "RightsSet",
        "GangsAdmitted",
        "PoolAnswered",
        "PoolDefined",
    ]
    assert chain[-1] == Cause(topic="paceline.pools", offset=changed)
    assert log.event(chain[-1]).command_id == "raise"
    order = log.event(chain[2])
    assert ([*runs_of(order)], order.for_job, order.from_pools) == ([victim], "high", ("/a",))

    answered = last(cell, PreemptionAnswered)
    assert log.of(answered) == [chain[2]]
    placed = last(cell, TasksPlaced, ("high", 0, 1))
    reached = {link.cause for link in log.back(placed, ("high", 0, 1))}
    assert {*chain[5:]} <= reached
    assert Cause(topic="paceline.jobs", offset=1) in reached, "it was submitted, too"
    assert Cause(topic="paceline.jobs", offset=2) not in reached, "what came later led to nothing"
    cell.verify()


def test_a_run_lost_with_its_host_is_followed_back_to_the_silence_of_that_host() -> None:
    cell = Cell(hosts=1)
    cell.append(CellConfigured(command_id="quick", host_lost_after_ms=1000, host_lost_grace_ms=2000))
    cell.pool("/p")
    cell.submit("a", duration_ms=1_000_000)
    cell.run(2000)
    cell.fleet = Fleet(cell.gateway, [], cell.clock, session=1)  # nobody answers for the host any more
    cell.gateway = Gateway(cell.log, cell.gateway._path, cell.clock, "g")
    cell.run(30_000, step=1000)
    log = causes(cell.log)
    (lost,) = log.of(last(cell, RunsEnded, ("a", 0, 1)))
    (silent,) = log.of(lost)
    assert kinds(log, [lost, silent]) == ["HostLost", "HostSilent"]
    capacity = last(cell, CapacityChanged)
    assert log.of(capacity) == [lost]
    said = [place for place, event in decisions(cell) if isinstance(event, EntitlementsSet)]
    told = [place for place in said if capacity in [link.cause for link in log.back(place)]]
    assert told, "what pools may use was told for the capacity that went with the host"
    cell.verify()


def test_the_end_of_a_job_is_followed_back_to_the_command_and_forgetting_it_to_a_deadline() -> None:
    cell = Cell(hosts=1)
    cell.append(CellConfigured(command_id="quick", forget_after_ms=5000))
    cell.pool("/p")
    cell.submit("a", instances=2, duration_ms=1_000_000)
    cell.run(2000)
    cell.stop("a")
    cell.run(8000)
    log = causes(cell.log)
    (ended,) = log.of(last(cell, JobChanged))
    (stopping,) = log.of(ended, ("a", 1, 1))
    (wanted,) = log.of(stopping, ("a", 1, 1))
    (fact,) = log.of(wanted)
    assert kinds(log, [ended, stopping, wanted, fact]) == [
        "RunsEnded",
        "RunsStopping",
        "InstancesWanted",
        "JobStopRequested",
    ]
    (deadline,) = log.of(last(cell, JobsForgotten))
    assert deadline.due_ms > 0
    assert (deadline.topic, deadline.machine, log.event(deadline)) == ("", "", None), "time alone did it"
    cell.verify()


def test_more_ended_jobs_than_are_kept_are_forgotten_for_the_last_that_ended() -> None:
    cell = Cell(hosts=1)
    cell.append(CellConfigured(command_id="few", ended_jobs_max=2))
    cell.pool("/p")
    for number in range(3):
        cell.submit(f"j{number}", duration_ms=100)
        cell.run(3000)
    (ended,) = causes(cell.log).of(last(cell, JobsForgotten))
    assert ended == last(cell, JobChanged)


def test_each_decision_of_a_history_has_a_cause_that_its_machine_knew() -> None:
    index = WholeLog(past())
    log = Causes(index)
    without = set()
    for (machine, number), events in index.rounds.items():
        for at, event in enumerate(events):
            place = Cause(machine=machine, round=number, index=at)
            found = log.of(place)
            if not found:
                without.add(type(event).__name__)
            for cause in found:
                assert cause.due_ms or index.had_read(place, cause), (event, cause)
    assert without <= {"TimerPassed"}, "a deadline, which it names"


STORIES = SCENARIOS
FOLLOWED = [
    "lifecycle/daemon-loses-hosts-during-a-paused-update.yaml",
    "lifecycle/failing-update-rolled-back.yaml",
    "lifecycle/health-checks.yaml",
    "lifecycle/controllers.yaml",
    "lifecycle/held-jobs.yaml",
    "lifecycle/stop-and-start-by-ranges.yaml",
    "lifecycle/run-limits.yaml",
    "sharing/deferred-then-others.yaml",
    "sharing/displaced-too-often.yaml",
]


@pytest.mark.parametrize("story", [None, *FOLLOWED])
def test_the_views_find_the_causes_that_the_whole_log_has(story: str | None, tmp_path: Path) -> None:
    log = past() if story is None else play((STORIES / story).read_text()).run.cell.log
    index = WholeLog(log)
    whole = Causes(index)
    with rebuild(log, tmp_path).connect() as connection:
        views = Causes(ViewIndex(connection, log))
        for (machine, number), events in index.rounds.items():
            for at, event in enumerate(events):
                place = Cause(machine=machine, round=number, index=at)
                for run in (None, *islice(runs_of(event), 3)):
                    links = whole.links(place, run)
                    assert views.links(place, run) == links, (place, run, event)
                    there = (each.cause.due_ms or whole.event(each.cause) for each in links)
                    assert all(there), (place, run, event)


@pytest.mark.parametrize(
    "story",
    [
        "daemon-held-while-a-host-leaves.yaml",
        "daemon-loses-hosts-during-a-paused-update.yaml",
        "update-past-a-lost-host.yaml",
    ],
)
def test_the_end_of_a_run_that_waited_is_followed_back_to_the_host_that_left_or_the_update(story: str) -> None:
    index = WholeLog(play((STORIES / "lifecycle" / story).read_text()).run.cell.log)
    log, ends = Causes(index), 0
    for (machine, number), events in index.rounds.items():
        for at, event in enumerate(events):
            if isinstance(event, RunsEnded):
                for run in runs_of(event):
                    ends += 1
                    assert log.of(Cause(machine=machine, round=number, index=at), run), (run, event)
    assert ends
