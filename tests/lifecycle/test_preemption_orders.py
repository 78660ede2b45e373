"""Orders to preempt runs: each has one answer, whatever becomes of its runs."""

from random import Random

import pytest

from events.codes import Code, Outcome, RunReport
from events.columns import ints, pack_ints
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import DisruptionAsked, DisruptionWithdrawn, PreemptionAnswered, RunsEnded, RunsStopping
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from tests.lifecycle.harness import World
from tests.machines import Run, columns, kinds, of, one, runs_of
from tests.restored.histories import Lifecycle

WEB = [("web", instance, 1) for instance in range(3)]
BATCH = ("batch", 0, 1)


def order(*runs: Run) -> PreemptionsOrdered:
    return PreemptionsOrdered(**columns(runs), for_pool="/q", from_pool="/p", code=Code.BELOW_RESERVATION)


def deferred(run: Run) -> DisruptionDeferred:
    job_id, instance, number = run
    return DisruptionDeferred(
        job_id=job_id, instance=instance, run=number, code=Code.SLA_BUDGET_SPENT, unavailable=1, max_unavailable=1
    )


def allowed(*runs: Run, later: int = 0) -> DisruptionAllowed:
    return DisruptionAllowed(**columns(runs), deferred=pack_ints([later] * len(runs)))


@pytest.fixture
def world() -> World:
    world = World()
    world.submit("web", kind="stateless", instances=3, max_unavailable=1)
    world.submit("batch")
    world.place(*WEB, BATCH)
    world.report(RunReport.STARTED, *WEB, BATCH)
    return world


def test_an_order_is_answered_when_its_last_run_is_over_however_it_ended(world: World) -> None:
    said = world.peer("entitlement", order(WEB[0], BATCH))
    assert runs_of(one(said, RunsStopping)) == [BATCH], "no SLA protects it"
    assert PreemptionAnswered not in map(type, world.report(RunReport.STOPPED, BATCH))
    answer = one(world.report(RunReport.EXITED, WEB[0], exit_code=1), PreemptionAnswered)
    assert (answer.code, answer.victims, runs_of(answer)) == (Code.LEFT, 2, [])
    assert (answer.order.machine, answer.order.round, answer.order.index) == ("entitlement", 2, 0)


def test_runs_that_sla_defers_stay_and_the_others_go(world: World) -> None:
    said = world.peer("entitlement", order(*WEB, BATCH))
    assert runs_of(one(said, DisruptionAsked)) == WEB
    assert world.peer("sla", deferred(WEB[1])) == [], "sla hasn't spoken of all"
    said = world.peer("sla", allowed(WEB[0]), deferred(WEB[2]))
    assert runs_of(one(said, RunsStopping)) == [WEB[0]]
    answer = one(said, PreemptionAnswered)
    assert (answer.code, runs_of(answer)) == (Code.DEFERRED, WEB[1:])
    assert runs_of(one(said, DisruptionWithdrawn)) == WEB[1:]
    said = world.report(RunReport.STOPPED, WEB[0], BATCH)
    assert PreemptionAnswered not in map(type, said), "one answer is enough"
    assert set(ints(one(said, RunsEnded).outcome)) == {Outcome.PREEMPTED}


def test_an_order_for_what_is_over_or_in_an_earlier_order_is_void(world: World) -> None:
    world.peer("entitlement", order(BATCH))
    for runs in ([BATCH], [("web", 0, 7)], [("nobody", 0, 1)], []):
        answer = one(world.peer("entitlement", order(*runs)), PreemptionAnswered)
        assert (answer.code, answer.victims) == (Code.VOID, 0)


def test_a_verdict_that_crossed_a_withdrawal_counts_for_no_later_ask(world: World) -> None:
    world.peer("entitlement", order(WEB[0]))
    world.peer("sla", deferred(WEB[0]))
    assert world.peer("sla", allowed(WEB[0], later=1)) == [], "it stays"
    assert kinds(world.peer("entitlement", order(WEB[0]))) == ["DisruptionAsked"]
    assert world.peer("sla", allowed(WEB[0], later=1)) == [], "that is of the first ask, which was withdrawn"
    assert kinds(world.peer("sla", allowed(WEB[0]))) == ["RunsStopping"]


def test_the_strongest_cause_at_the_end_is_the_outcome(world: World) -> None:
    world.peer("entitlement", order(BATCH))
    world.stop("batch")
    assert ints(one(world.report(RunReport.STOPPED, BATCH), RunsEnded).outcome).tolist() == [Outcome.STOPPED]


def test_a_stop_goes_ahead_of_the_verdict_and_its_end_is_the_answer(world: World) -> None:
    world.peer("entitlement", order(WEB[0]))
    assert runs_of(one(world.stop("web"), RunsStopping)) == WEB
    said = world.report(RunReport.STOPPED, *WEB)
    assert one(said, PreemptionAnswered).code == Code.LEFT
    assert runs_of(one(said, DisruptionWithdrawn)) == [WEB[0]]


@pytest.mark.parametrize("seed", range(6))
def test_every_order_has_one_answer_or_has_runs_that_are_not_over(seed: int) -> None:
    history = Lifecycle(Random(seed))
    given = 0

    def counted(machine: str, *decisions: object) -> list:
        nonlocal given
        given += sum(isinstance(each, PreemptionsOrdered) for each in decisions)
        return peer(machine, *decisions)

    peer, history.world.peer = history.world.peer, counted
    history.play(150)
    answers = [answer.order for answer in of(history.world.said, PreemptionAnswered)]
    assert len({*answers}) == len(answers)
    assert len(answers) + len(history.world.machine.orders.table) == given
    assert all(row.open for row in history.world.machine.orders.table.values())


def test_an_order_for_a_run_whose_deferral_is_still_to_be_withdrawn_is_answered(world: World) -> None:
    world.busy = True
    world.peer("entitlement", order(WEB[0]))
    world.decided(*world.machine.decide(world.now, True, 1000))
    world.peer("sla", deferred(WEB[0]))
    world.decided(*of(world.machine.decide(world.now, True, 1000), PreemptionAnswered))
    world.peer("entitlement", order(WEB[0]))
    world.busy = False
    answer = one(world.quiet(), PreemptionAnswered)
    assert (answer.code, runs_of(answer)) == (Code.DEFERRED, [WEB[0]])
    assert not world.machine.orders.table
