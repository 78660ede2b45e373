"""Hosts in maintenance: what leaves them, when, as what, and where it goes on."""

from typing import Any

import pytest
from msgspec.structs import replace

from events.codec import encode
from events.codes import Code, Outcome, RunCause, RunReport, Stage, TaskState
from events.columns import ints
from events.records.base import Event
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    PreemptionAnswered,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    UpdateEnded,
    UpdateProgressed,
)
from events.records.parts import UpdatePolicy
from processors.lifecycle.updates.steps import Step
from tests.helpers.machines import START_MS, Run, kinds, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World, allowed, deferred

WEB = [("web", instance, 1) for instance in range(3)]
FREE = [("free", instance, 1) for instance in range(2)]
BATCH: Run = ("batch", 0, 1)
FIRM: Run = ("firm", 0, 1)
STATEFUL: dict[str, Any] = {"kind": "stateful", "on_silence": "stop_after", "stop_after_ms": 10_000}


@pytest.fixture
def world() -> World:
    return populated()


def populated() -> World:
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


# Units: what is bound to its host, and gangs.


def bound(world: World, *, sla: bool = True) -> tuple[Run, Run]:
    """An instance of a stateful job and one of a daemon on h1."""
    world.submit("db", **STATEFUL, **({"max_unavailable": 1} if sla else {}))
    world.submit("log", kind="daemon", instances=0, preemptible=False, **({"max_unavailable": 1} if sla else {}))
    world.match("log", "h1")
    up(world, ("db", 0, 1), ("log", 0, 1))
    return ("db", 0, 1), ("log", 0, 1)


def test_what_is_bound_to_its_host_leaves_last_and_as_one_unit(world: World) -> None:
    db, log = bound(world)
    said = world.stage(Stage.DRAINING_BATCH)
    assert not {db, log} & {*runs_of(one(said, DisruptionAsked)), *runs_of(one(said, RunsStopping))}
    world.peer("sla", allowed(*WEB))
    world.report(RunReport.STOPPED, *WEB, *FREE, BATCH)
    assert world.report(RunReport.STARTED) == []
    asked = one(world.report(RunReport.EXITED, FIRM), DisruptionAsked)
    assert runs_of(asked) == [db, log], "the last batch task was firm"
    assert asked.host_ids == ("h1",)
    assert asked.unit_array.tolist() == [1, 1]
    assert runs_of(one(world.peer("sla", allowed(db, log)), RunsStopping)) == [db, log]
    said = world.report(RunReport.STOPPED, db, log)
    ended = one(said, RunsEnded)
    assert {*ended.outcome_array.tolist()} == {Outcome.RELOCATED}
    assert not ended.hold_array.any(), "a host that is to be empty keeps no room"
    queued = one(said, GangsQueued)
    assert queued.host_ids == ("h1",)
    assert queued.admitted_array.tolist() == [1, 1], "they wait for their host"


def test_what_is_bound_stays_while_something_else_comes_to_its_host(world: World) -> None:
    db, _ = bound(world)
    world.report(RunReport.EXITED, *WEB, *FREE, BATCH, FIRM, exit_code=0)
    world.submit("late", preemptible=False)
    assert db in runs_of(one(world.stage(Stage.DRAINING), DisruptionAsked))
    assert RunsOrdered in map(type, world.place(("late", 0, 1))), "placement had decided that before"
    said = world.peer("sla", deferred(db), allowed(("log", 0, 1)))
    assert {*runs_of(one(said, DisruptionWithdrawn))} == {db, ("log", 0, 1)}


def test_what_is_bound_and_fails_before_it_leaves_is_started_again_and_asks_again() -> None:
    world = World(9)
    db, _ = bound(world)
    world.stage(Stage.DRAINING)
    said = world.report(RunReport.VANISHED, db)
    assert one(said, RunsEnded).outcome_array.tolist() == [Outcome.FAILED]
    world.now += 10_000
    world.quiet()
    said = world.place(("db", 0, 2))
    asked = one(said, DisruptionAsked)
    assert kinds(said)[0] == "RunsOrdered"
    assert (runs_of(asked), asked.unit_array.tolist(), asked.host_ids) == ([("db", 0, 2)], [1], ("h1",))


def test_an_instance_of_a_stateful_job_that_is_not_bound_yet_goes_elsewhere() -> None:
    world = World()
    world.submit("db", **STATEFUL)
    world.busy = True
    world.stage(Stage.DRAINING)
    world.place(("db", 0, 1))
    world.busy = False
    said = world.quiet()
    assert one(said, RunsEnded).outcome_array.tolist() == [Outcome.RELOCATED]
    assert one(said, GangsQueued).host_ids == ()


def test_a_gang_leaves_whole_from_all_its_hosts() -> None:
    world = World()
    members = [("gang", instance, 1) for instance in range(3)]
    world.submit("gang", instances=3, gang_min=3, max_unavailable=3)
    world.place(members[0])
    world.place(*members[1:], host="h2")
    world.report(RunReport.STARTED, *members)
    assert world.stage(Stage.DRAINING) == []
    asked = one(world.stage(Stage.DRAINING_BATCH), DisruptionAsked)
    assert runs_of(asked) == members
    assert {*asked.unit_array.tolist()} == {-1}
    assert [cause_of(asked, row) for row in range(3)] == [("placement", world.rounds["placement"])] * 3
    assert runs_of(one(world.peer("sla", allowed(*members)), RunsStopping)) == members
    said = world.report(RunReport.STOPPED, *members)
    ended = one(said, RunsEnded)
    assert ended.kept_array.tolist() == [0, 0, 0]
    assert {*ended.outcome_array.tolist()} == {Outcome.RELOCATED}
    assert ranges_of(one(said, GangsQueued)) == [("gang", 0, 3, 2, 1)]


def test_a_gang_is_forced_out_whole_and_stays_whole_when_it_is_called_off() -> None:
    world = World()
    members = [("gang", instance, 1) for instance in range(2)]
    world.submit("gang", instances=2, gang_min=2, preemptible=False)
    world.place(members[0])
    world.place(members[1], host="h2")
    world.report(RunReport.STARTED, *members)
    assert world.stage(Stage.DRAINING_BATCH, host="h2") == [], "it is firm"
    world.busy = True
    world.stage(Stage.FORCING, host="h2")
    world.stage(Stage.UP, host="h2")
    world.busy = False
    assert world.quiet() == []
    stopping = one(world.stage(Stage.FORCING, host="h2"), RunsStopping)
    assert runs_of(stopping) == members
    assert {*stopping.why_array.tolist()} == {RunCause.EVICT}


# Races with verdicts.


def test_an_allowed_of_an_ask_that_is_withdrawn_answers_no_later_ask(world: World) -> None:
    world.stage(Stage.DRAINING)
    world.peer("sla", deferred(WEB[0]))
    assert WEB[0] in runs_of(one(world.stage(Stage.UP), DisruptionWithdrawn))
    assert WEB[0] in runs_of(one(world.stage(Stage.DRAINING), DisruptionAsked))
    assert world.peer("sla", allowed(WEB[0], later=1)) == [], "it was deferred: this answers the first ask"
    assert runs_of(one(world.peer("sla", allowed(WEB[0])), RunsStopping)) == WEB[:1]


def test_a_free_verdict_is_void_once_the_run_is_ready(world: World) -> None:
    world.submit("more", kind="stateless", max_unavailable=1)
    more: Run = ("more", 0, 1)
    world.place(more)
    assert more in runs_of(one(world.stage(Stage.DRAINING), DisruptionAsked))
    world.busy = True
    world.peer("sla", allowed(more, free=1))
    world.busy = False
    assert runs_of(one(world.quiet(), RunsStopping)) == [more], "it isn't ready"
    other: Run = ("other", 0, 1)
    world.submit("other", kind="stateless", max_unavailable=1)
    world.place(other, host="h2")
    world.stage(Stage.DRAINING, host="h2")
    world.report(RunReport.STARTED, other)
    said = world.peer("sla", allowed(other, free=1))
    assert kinds(said) == ["DisruptionWithdrawn", "DisruptionAsked"], "it has become ready since sla has said so"


def test_an_order_goes_by_a_free_verdict_though_the_run_becomes_ready(world: World) -> None:
    world.submit("more", kind="stateless", max_unavailable=1)
    more: Run = ("more", 0, 1)
    world.place(more, host="h2")
    world.preempt(more, WEB[0])
    assert world.peer("sla", allowed(more, free=1)) == []
    said = world.peer("sla", allowed(WEB[0]))
    assert {*runs_of(one(said, RunsStopping))} == {more, WEB[0]}


def test_a_free_run_of_an_order_that_becomes_ready_is_asked_about_again(world: World) -> None:
    world.submit("more", kind="stateless", max_unavailable=1)
    more: Run = ("more", 0, 1)
    world.place(more, host="h2")
    world.preempt(more, WEB[0])
    world.peer("sla", allowed(more, free=1))
    said = world.report(RunReport.STARTED, more)
    assert runs_of(one(said, DisruptionWithdrawn)) == runs_of(one(said, DisruptionAsked)) == [more]
    assert world.peer("sla", allowed(WEB[0])) == [], "the order waits for that verdict"
    assert {*runs_of(one(world.peer("sla", allowed(more)), RunsStopping))} == {more, WEB[0]}


def test_of_an_order_that_is_deferred_the_drain_that_remains_is_asked_for_and_keeps_its_age(world: World) -> None:
    world.preempt(WEB[0], WEB[1])
    since = world.now // 1000
    world.now += 7_000
    said = world.stage(Stage.DRAINING)
    assert runs_of(one(said, DisruptionAsked)) == WEB[2:], "the others wait for the verdict on their order"
    said = world.peer("sla", deferred(WEB[0]), allowed(WEB[1]))
    assert one(said, PreemptionAnswered).code == Code.DEFERRED
    stopping, asked = one(said, RunsStopping), one(said, DisruptionAsked)
    assert runs_of(stopping) == WEB[1:2], "it holds budget for one that has to go"
    assert runs_of(one(said, DisruptionWithdrawn)) == runs_of(asked) == WEB[:1]
    assert asked.why_array.tolist() == [RunCause.DRAIN]
    assert asked.since_array.tolist() == [since]


def test_a_drain_that_comes_while_an_update_waits_is_asked_for_in_its_place(world: World) -> None:
    db, _ = bound(world)
    world.act("db", "restart")
    assert world.peer("sla", deferred(db)) == []
    world.report(RunReport.EXITED, *WEB, *FREE, BATCH, FIRM)
    said = world.stage(Stage.DRAINING)
    assert runs_of(one(said, DisruptionWithdrawn)) == [db]
    asked = [each for each in said if isinstance(each, DisruptionAsked)]
    assert {run: unit for each in asked for run, unit in zip(runs_of(each), each.unit_array.tolist(), strict=True)} == {
        ("log", 0, 1): 1,
        db: 1,
    }


def test_a_verdict_on_a_run_that_has_died_is_void(world: World) -> None:
    world.stage(Stage.DRAINING)
    world.report(RunReport.VANISHED, WEB[0])
    assert world.peer("sla", allowed(WEB[0])) == []


# Updates.


def update(world: World, job_id: str, **spec: Any) -> list[Event]:
    wanted = encode(JobSubmitted(job_id=job_id, pool="/p", **spec))
    asked = JobUpdateRequested(job_id=job_id, command_id=world.command_id(), expected_version=0, spec=wanted)
    return world.fact("paceline.jobs", asked)


@pytest.mark.parametrize("drained_first", [True, False])
def test_an_instance_whose_host_is_drained_holds_up_no_update_of_the_others(drained_first: bool) -> None:
    world, spec = World(), {**STATEFUL, "instances": 2, "update": UpdatePolicy(batch=1, healthy_ms=0)}
    first, second = [("db", instance, 1) for instance in range(2)]
    world.submit("db", command=("true",), **spec)
    up(world, first)
    up(world, second, host="h2")
    if drained_first:
        drain(world, first)
        world.stage(Stage.DRAINED)
        said = update(world, "db", command=("false",), **spec)
    else:
        update(world, "db", command=("false",), **spec)  # it takes the first, which was told to stop
        world.stage(Stage.DRAINING)
        world.report(RunReport.STOPPED, first)
        said = world.stage(Stage.DRAINED)
    progressed = one(said, UpdateProgressed)
    assert (progressed.first_array.tolist(), progressed.step_array.tolist()) == ([0], [Step.LEFT])
    assert runs_of(one(said, RunsStopping)) == [second]
    world.report(RunReport.STOPPED, second)
    world.place(("db", 1, 2), host="h2")
    ended = one(world.report(RunReport.STARTED, ("db", 1, 2)), UpdateEnded)
    assert ended.state == "SUCCEEDED"
    world.stage(Stage.UP)
    assert one(world.place(("db", 0, 2)), RunsOrdered).version_array.tolist() == [2], "it has come to the target"


def drain(world: World, *runs: Run, host: str = "h1") -> None:
    """These runs leave a host."""
    assert runs_of(one(world.stage(Stage.DRAINING, host=host), RunsStopping)) == [*runs]
    world.report(RunReport.STOPPED, *runs)


def test_a_deferral_that_sla_repeats_is_no_answer_to_the_next_ask(world: World) -> None:
    world.stage(Stage.DRAINING)
    world.peer("sla", deferred(WEB[0]))
    world.stage(Stage.UP)
    world.stage(Stage.DRAINING)
    assert world.peer("sla", replace(deferred(WEB[0]), code="SLA_RATE_REACHED", again=True)) == []
    assert runs_of(one(world.peer("sla", allowed(WEB[0])), RunsStopping)) == WEB[:1]
