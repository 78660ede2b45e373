"""Hosts in maintenance: what leaves them, when, as what, and where it goes on."""

import pytest

from events.codes import Outcome, RunCause, RunReport, Stage, TaskState
from events.columns import ints
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from tests.helpers.machines import START_MS, Run, kinds, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World, allowed, deferred

WEB = [("web", instance, 1) for instance in range(3)]
FREE = [("free", instance, 1) for instance in range(2)]
BATCH: Run = ("batch", 0, 1)
FIRM: Run = ("firm", 0, 1)


@pytest.fixture
def world() -> World:
    """A service with an SLA and one without, a batch task that may be preempted and one that may not, all on h1."""
    world = World(open_jobs_max=9)
    world.submit("web", kind="stateless", instances=3, max_unavailable=1)
    world.submit("free", kind="stateless", instances=2)
    world.submit("batch")
    world.submit("firm", preemptible=False)
    up(world, *WEB, *FREE, BATCH, FIRM)
    return world


def up(world: World, *runs: Run, host: str = "h1") -> None:
    world.place(*runs, host=host)
    world.report(RunReport.STARTED, *runs)


def cause_of(event: DisruptionAsked | RunsStopping | RunsEnded, row: int = 0) -> tuple[str, int]:
    """By which decision of placement a run is to leave."""
    which = event.cause_array if isinstance(event, RunsEnded) else event.led_by_array
    cause = event.causes[which[row]]
    return cause.machine, cause.round


def test_a_drained_host_is_left_by_budget_and_the_next_run_keeps_its_admission(world: World) -> None:
    world.now += 5_000
    said = world.stage(Stage.DRAINING)
    asked, stopping = one(said, DisruptionAsked), one(said, RunsStopping)
    assert runs_of(asked) == WEB
    assert {*asked.since_array.tolist()} == {(START_MS + 5_000) // 1000}
    assert {*asked.why_array.tolist()} == {RunCause.DRAIN}
    assert {*asked.unit_array.tolist()} == {0}
    assert cause_of(asked) == ("placement", world.rounds["placement"])
    assert runs_of(stopping) == FREE, "nobody is asked for a job without an SLA"
    assert {*stopping.why_array.tolist()} == {RunCause.DRAIN}
    assert {*ints(stopping.cause).tolist()} == {Outcome.RELOCATED}
    assert cause_of(stopping) == ("placement", world.rounds["placement"])
    assert world.peer("sla", deferred(WEB[1]), deferred(WEB[2])) == []
    said = world.peer("sla", allowed(WEB[0]))
    assert runs_of(one(said, RunsStopping)) == WEB[:1]
    said = world.report(RunReport.STOPPED, WEB[0])
    ended = one(said, RunsEnded)
    assert (ended.outcome_array[0], ended.why_array[0], ended.kept_array[0]) == (Outcome.RELOCATED, RunCause.DRAIN, 1)
    assert ranges_of(one(said, GangsQueued)) == [("web", 0, 1, 2, 0)]
    assert one(said, GangsQueued).admitted_array.tolist() == [1]
    assert kinds(world.place(("web", 0, 2), host="h2")) == ["RunsOrdered"]
    assert runs_of(one(world.peer("sla", allowed(WEB[1], later=1)), RunsStopping)) == WEB[1:2]


def test_batch_tasks_leave_at_the_deadline_unless_they_are_firm(world: World) -> None:
    said = world.stage(Stage.DRAINING)
    assert not {BATCH, FIRM} & {*runs_of(one(said, RunsStopping))}
    assert runs_of(one(world.stage(Stage.DRAINING_BATCH), RunsStopping)) == [BATCH]


def test_a_forced_drain_ends_all_that_is_left_unasked(world: World) -> None:
    world.stage(Stage.DRAINING)
    said = world.stage(Stage.FORCING, code="FORCED")
    stopping = one(said, RunsStopping)
    assert {*runs_of(stopping)} == {*WEB, BATCH, FIRM}
    assert {*stopping.why_array.tolist()} == {RunCause.EVICT}
    assert cause_of(stopping) == ("placement", world.rounds["placement"])
    said = world.report(RunReport.STOPPED, *WEB, FIRM)
    ended = one(said, RunsEnded)
    assert {*ended.outcome_array.tolist()} == {Outcome.RELOCATED}
    assert {*ended.why_array.tolist()} == {RunCause.EVICT}
    assert {*ended.kept_array.tolist()} == {1}


def test_a_task_that_fails_when_it_is_preempted_fails_when_it_is_forced_out() -> None:
    world = World()
    world.submit("once", on_preempt="fail")
    up(world, ("once", 0, 1))
    assert world.stage(Stage.DRAINING_BATCH) == []
    world.stage(Stage.FORCING)
    ended = one(world.report(RunReport.STOPPED, ("once", 0, 1)), RunsEnded)
    assert ended.next_array.tolist() == [TaskState.FAILED]


def test_what_is_placed_as_its_host_begins_to_drain_is_never_ordered(world: World) -> None:
    world.submit("late", kind="stateless")
    world.busy = True
    world.stage(Stage.DRAINING)
    world.place(("late", 0, 1))
    world.busy = False
    said = world.quiet()
    assert RunsOrdered not in map(type, said)
    ended = one(said, RunsEnded)
    assert runs_of(ended) == [("late", 0, 1)]
    assert (ended.outcome_array[0], ended.kept_array[0]) == (Outcome.RELOCATED, 1)
    assert cause_of(ended) == ("placement", world.rounds["placement"] - 1)


def test_a_drain_that_is_called_off_lets_stay_what_was_not_told_to_stop(world: World) -> None:
    world.stage(Stage.DRAINING)
    world.peer("sla", deferred(WEB[0]), allowed(WEB[1]))
    said = world.stage(Stage.UP)
    assert runs_of(one(said, DisruptionWithdrawn)) == WEB[:1], "the third has no verdict yet"
    assert runs_of(one(world.peer("sla", allowed(WEB[2])), DisruptionWithdrawn)) == WEB[2:]
    assert one(world.report(RunReport.STOPPED, WEB[1]), RunsEnded).why_array.tolist() == [RunCause.DRAIN]
    later = world.now = world.now + 60_000
    asked = one(world.stage(Stage.DRAINING), DisruptionAsked)
    assert {*asked.since_array.tolist()} == {later // 1000}, "it is another drain"
