"""Orders to preempt runs: each goes as a whole or not at all, and has one answer, whatever becomes of its runs."""

from random import Random
from typing import Any

import pytest

from events.codes import Code, Outcome, RunReport, TaskState
from events.columns import ints
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    PreemptionAnswered,
    RunsEnded,
    RunsStopping,
)
from processors.lifecycle.causes import EndCause, SlaVerdict
from processors.lifecycle.task_rules import Trait
from processors.machine import Input, PeerRound
from tests.helpers.drawn import seeds
from tests.helpers.machines import Run, instances_changed, kinds, of, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World, allowed, deferred
from tests.processors.restored.histories import Lifecycle

WEB = [("web", instance, 1) for instance in range(3)]
BATCH = ("batch", 0, 1)


@pytest.fixture
def world() -> World:
    world = World()
    world.submit("web", kind="stateless", instances=3, max_unavailable=1)
    world.submit("batch")
    world.place(*WEB, BATCH)
    world.report(RunReport.STARTED, *WEB, BATCH)
    return world


def test_nobody_leaves_before_sla_has_allowed_all_and_then_all_leave(world: World) -> None:
    said = world.preempt(WEB[0], WEB[1], BATCH)
    assert kinds(said) == ["DisruptionAsked"]
    assert runs_of(said[0]) == WEB[:2]
    assert world.peer("sla", allowed(WEB[1])) == []
    said = world.peer("sla", allowed(WEB[0]))
    stopping = one(said, RunsStopping)
    assert runs_of(stopping) == [*WEB[:2], BATCH]
    assert set(ints(stopping.cause)) == {Outcome.PREEMPTED}
    assert PreemptionAnswered not in map(type, world.report(RunReport.STOPPED, WEB[0], WEB[1]))
    answer = one(world.report(RunReport.STOPPED, BATCH), PreemptionAnswered)
    assert (answer.number, answer.code, answer.victims, runs_of(answer)) == (1, Code.LEFT, 3, [])
    assert (answer.order.machine, answer.order.round, answer.order.index) == ("entitlement", 2, 0)


def test_batch_tasks_leave_at_once(world: World) -> None:
    assert runs_of(one(world.preempt(BATCH), RunsStopping)) == [BATCH]


def test_an_order_with_a_run_that_sla_defers_is_void_as_a_whole(world: World) -> None:
    said = world.preempt(*WEB, BATCH)
    assert runs_of(one(said, DisruptionAsked)) == WEB
    assert world.peer("sla", deferred(WEB[1])) == [], "sla hasn't spoken of all"
    said = world.peer("sla", allowed(WEB[0]), deferred(WEB[2]))
    answer = one(said, PreemptionAnswered)
    assert (answer.number, answer.code, answer.victims, runs_of(answer)) == (1, Code.DEFERRED, 4, WEB[1:])
    assert answer.sla_code == Code.SLA_NEVER_ALLOWS, "one of the service may go at a time"
    assert runs_of(one(said, DisruptionWithdrawn)) == WEB, "what was allowed for it is free again"
    assert kinds(said) == ["PreemptionAnswered", "DisruptionWithdrawn"], "nobody leaves"
    assert runs_of(one(world.preempt(BATCH), RunsStopping)) == [BATCH], "it can be in another order"


def test_a_run_that_ends_by_itself_holds_up_no_order(world: World) -> None:
    world.preempt(WEB[0], WEB[1], BATCH)
    world.peer("sla", deferred(WEB[0]))
    said = world.report(RunReport.EXITED, WEB[0], exit_code=1)
    assert ints(one(said, RunsEnded).kept).tolist() == [0], "its place is the winner's"
    assert runs_of(one(world.peer("sla", allowed(WEB[1])), RunsStopping)) == [WEB[1], BATCH]
    world.report(RunReport.STOPPED, WEB[1])
    assert one(world.report(RunReport.STOPPED, BATCH), PreemptionAnswered).code == Code.LEFT


def test_a_run_that_is_refused_and_ends_in_the_same_breath_voids_nothing(world: World) -> None:
    world.preempt(WEB[0], BATCH)
    world.busy = True
    world.peer("sla", deferred(WEB[0]))
    world.report(RunReport.EXITED, WEB[0])
    world.busy = False
    said = world.quiet()
    assert PreemptionAnswered not in map(type, said)
    assert runs_of(one(said, RunsStopping)) == [BATCH]


def test_a_run_that_has_its_host_and_not_yet_its_order_waits_for_the_others(world: World) -> None:
    world.submit("late")
    late = ("late", 0, 1)
    world.busy = True
    world.place(late)
    world.preempt(late, WEB[0])
    world.busy = False
    assert kinds(world.quiet()) == ["RunsOrdered", "DisruptionAsked"]
    assert runs_of(one(world.peer("sla", allowed(WEB[0])), RunsStopping)) == [WEB[0], late]


def test_an_order_for_what_is_over_or_in_an_earlier_order_is_void(world: World) -> None:
    world.preempt(BATCH)
    for number, runs in enumerate(([BATCH], [("web", 0, 7)], [("nobody", 0, 1)], []), 2):
        answer = one(world.preempt(*runs), PreemptionAnswered)
        assert (answer.number, answer.code, answer.victims) == (number, Code.VOID, 0)


def test_a_verdict_that_crossed_a_withdrawal_counts_for_no_later_ask(world: World) -> None:
    world.preempt(WEB[0])
    world.peer("sla", deferred(WEB[0]))
    assert world.peer("sla", allowed(WEB[0], later=1)) == [], "it stays"
    assert kinds(world.preempt(WEB[0])) == ["DisruptionAsked"]
    assert world.peer("sla", allowed(WEB[0], later=1)) == [], "that is of the first ask, which was withdrawn"
    assert kinds(world.peer("sla", allowed(WEB[0]))) == ["RunsStopping"]


def test_the_strongest_cause_at_the_end_is_the_outcome(world: World) -> None:
    world.preempt(BATCH)
    world.stop("batch")
    assert ints(one(world.report(RunReport.STOPPED, BATCH), RunsEnded).outcome).tolist() == [Outcome.STOPPED]


def test_a_stop_goes_ahead_of_the_verdict_and_its_end_is_the_answer(world: World) -> None:
    world.preempt(WEB[0], BATCH)
    said = world.stop("web")
    assert runs_of(of(said, RunsStopping)[0]) == WEB
    assert runs_of(of(said, RunsStopping)[1]) == [BATCH], "sla has nothing to say any more"
    said = world.report(RunReport.STOPPED, *WEB, BATCH)
    assert one(said, PreemptionAnswered).code == Code.LEFT
    assert runs_of(one(said, DisruptionWithdrawn)) == [WEB[0]]


def test_a_gang_leaves_whole_as_preempted_and_is_queued_again_with_its_retries() -> None:
    world, members = World(), [("a", at, 1) for at in range(3)]
    world.submit("a", instances=3, gang_min=3)
    world.place(*members)
    assert runs_of(one(world.preempt(*members), RunsStopping)) == members
    outcomes = [
        *ints(one(world.report(RunReport.STOPPED, members[0]), RunsEnded).outcome),
        *ints(one(said := world.report(RunReport.STOPPED, *members[1:]), RunsEnded).outcome),
    ]
    assert outcomes == [Outcome.PREEMPTED] * 3
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 3, 2, 1)]
    assert world.machine.jobs["a"].gang_failures == 0


def test_what_is_preempted_fails_where_the_job_says_so_and_a_gang_as_one() -> None:
    world, members = World(), [("gang", at, 1) for at in range(2)]
    world.submit("alone", instances=2, on_preempt="fail", retries_max=9)
    world.submit("gang", instances=2, gang_min=2, on_preempt="fail", retries_max=9)
    world.place(("alone", 0, 1), *members)
    world.preempt(("alone", 0, 1), *members)
    said = world.report(RunReport.STOPPED, ("alone", 0, 1), *members)
    assert set(ints(one(said, RunsEnded).outcome)) == {Outcome.PREEMPTED}
    assert (world.machine.state_of("gang"), world.machine.state_of("alone")) == ("FAILED", "RUNNING")
    assert GangsQueued not in map(type, said)
    world.place(("alone", 1, 1))
    assert world.report(RunReport.EXITED, ("alone", 1, 1), exit_code=1)
    assert world.machine.state_of("alone") == "RUNNING", "its own failures have retries as before"


def test_a_job_that_moves_in_the_columns_keeps_its_place_in_an_order(world: World) -> None:
    world.preempt(WEB[0], WEB[2], BATCH)
    world.decided(instances_changed("web", range(3), range(3, 2000)))
    assert world.peer("sla", allowed(WEB[0])) == []
    assert runs_of(one(world.peer("sla", allowed(WEB[2])), RunsStopping)) == [BATCH, WEB[0], WEB[2]]
    assert one(world.report(RunReport.STOPPED, *WEB, BATCH), PreemptionAnswered).code == Code.LEFT


def test_an_order_for_a_run_whose_deferral_is_still_to_be_withdrawn_is_answered(world: World) -> None:
    world.busy = True
    world.preempt(WEB[0])
    world.decided(*world.machine.decide(world.now, True, 1000))
    world.peer("sla", deferred(WEB[0]))
    world.decided(*of(world.machine.decide(world.now, True, 1000), PreemptionAnswered))
    world.preempt(WEB[0])
    world.busy = False
    answer = one(world.quiet(), PreemptionAnswered)
    assert (answer.number, answer.code, runs_of(answer)) == (2, Code.DEFERRED, [WEB[0]])
    assert not world.machine.orders.table


class Preempted(Lifecycle):
    """A history in which services run, are named in orders, and sla speaks of what it was asked."""

    def do_serve(self) -> None:
        spec: dict[str, Any] = {"kind": "stateless", "instances": 3, "max_unavailable": 1}
        self.world.submit(self.name(), pool="/q", **spec)
        runs = self.runs(TaskState.QUEUED)
        self.world.place(*runs)
        self.world.report(RunReport.STARTED, *runs)

    def do_preempt_what_runs(self) -> None:
        self.world.preempt(*self.some(self.runs(TaskState.ORDERED, TaskState.RUNNING), 5))

    def do_speak(self) -> None:
        jobs, arena = self.world.machine.jobs, self.world.machine.tasks.arena
        for job_id, at, run in self.some(self.runs(TaskState.ORDERED, TaskState.RUNNING), 9):
            verdict = arena["verdict"][jobs[job_id].base + at] if job_id in jobs else SlaVerdict.NONE
            if verdict == SlaVerdict.ASKED and self.draw.random() < 0.3:
                self.world.peer("sla", deferred((job_id, at, run)))
            elif verdict in (SlaVerdict.ASKED, SlaVerdict.DEFERRED):
                self.world.peer("sla", allowed((job_id, at, run), later=int(verdict == SlaVerdict.DEFERRED)))

    do_speak_again = do_speak_more = do_speak


class Orders:
    """What is seen of each order in a random history."""

    def __init__(self, history: Preempted) -> None:
        self.machine = history.world.machine
        self.runs: dict[int, set[Run]] = {}
        self.answered: dict[int, str] = {}
        self._apply = history.world.apply
        history.world.apply = self.apply  # type: ignore[method-assign]

    def apply(self, record: Input) -> None:
        self._apply(record)
        for event in record.decisions if isinstance(record, PeerRound) else [record.event]:
            self.see(event)

    def see(self, event: Event) -> None:
        if isinstance(event, PreemptionsOrdered):
            self.runs[event.order] = self.in_order(event.order)
        elif isinstance(event, PreemptionAnswered):
            assert event.number not in self.answered, "one answer is enough"
            assert (event.victims > 0) == (event.code != Code.VOID)
            assert event.victims == len(self.runs[event.number])
            assert {*runs_of(event)} <= self.runs[event.number]
            self.answered[event.number] = event.code
            if event.code == Code.DEFERRED:
                assert runs_of(event)
                assert not {*self.leaving()} & self.runs[event.number], "nobody leaves for an order that is void"
            else:
                assert not self.runs[event.number] & {*self.alive()}
        elif isinstance(event, RunsStopping):
            for run, cause in zip(runs_of(event), ints(event.cause), strict=True):
                if cause == Outcome.PREEMPTED:
                    [number] = [number for number, runs in self.runs.items() if run in runs and self.open(number)]
                    assert self.runs[number] & {*self.alive()} <= {*self.leaving()}, "all of it leaves"
                    assert not self.runs[number] & {*self.protected()}, "and sla has allowed all"

    def open(self, number: int) -> bool:
        return number not in self.answered

    def column(self, name: str) -> list[tuple[Run, int]]:
        arena = self.machine.tasks.arena
        return [
            ((job_id, at, int(arena["run"][row.base + at])), int(arena[name][row.base + at]))
            for job_id, row in self.machine.jobs.items()
            for at in range(row.instances)
        ]

    def in_order(self, number: int) -> set[Run]:
        return {run for run, order in self.column("order") if order == number}

    def leaving(self) -> list[Run]:
        return [run for run, causes in self.column("causes") if causes & EndCause.PREEMPT]

    def protected(self) -> list[Run]:
        up, held = dict(self.column("state")), dict(self.column("verdict"))
        return [
            run
            for run, traits in self.column("traits")
            if traits & Trait.SLA
            and up[run] in (TaskState.ORDERED, TaskState.RUNNING)
            and held[run] != SlaVerdict.ALLOWED
        ]

    def alive(self) -> list[Run]:
        over = (TaskState.NONE, TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED)
        return [run for run, state in self.column("state") if state not in over]


@seeds(20, 5)
def test_an_order_is_never_half_done_and_has_one_answer_or_runs_that_are_not_over(seed: int) -> None:
    history = Preempted(Random(seed))
    orders = Orders(history)
    history.play(150)
    machine = history.world.machine
    assert {*orders.answered} | {*machine.orders.table} == {*orders.runs}
    assert not {*orders.answered} & {*machine.orders.table}
    assert all(row.open for row in machine.orders.table.values())
    assert len(orders.runs) == history.world.orders > 2
