"""Why a job stands where it stands, in one sentence with its numbers, and who can act."""

from typing import Any

import pytest

from events.codes import Code, Outcome
from events.columns import pack_ints
from events.records.base import Event
from events.records.entitlement import GangsHeld, PreemptionsOrdered
from events.records.jobs import JobStopRequested
from events.records.lifecycle import (
    CommandAnswered,
    PreemptionAnswered,
    RunsStopping,
)
from events.records.parts import Cause, NearMiss
from events.records.placement import GangsReturned, GangsUnplaced
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from projections.queries.entities import explanations
from projections.queries.explain import tier_of
from tests.projections.cell import CORE, ended, queued, ranges, runs


def held(code: str, tasks: int = 2, **more: Any) -> Event:
    fields = {"asked": CORE, "free": {"cpu": 250, "memory": 4096}, **more}
    return GangsHeld(job_id="a", pool="/p", code=code, tasks=tasks, **fields)


def unplaced(code: str, **by_reason: int) -> Event:
    near = NearMiss(host_id="h17", lacks={"cpu": 500, "memory": 2048})
    return GangsUnplaced(job_id="a", code=code, tasks=2, need=CORE, hosts_considered=sum(by_reason.values()),
                         hosts_by_reason=by_reason, nearest=(near,) if by_reason else ())  # fmt: skip


def why(api: Any) -> dict[str, Any]:
    api.fold()
    found: dict[str, Any] = api.get("/v1/jobs/a/explanation")
    return found


@pytest.fixture
def waiting(api):
    api.cell.host()
    api.cell.accept("a", instances=2)
    return api


@pytest.mark.parametrize(
    ("said", "actor", "message"),
    [
        (held("BEHIND_IN_QUEUE", ahead=14), "nobody, wait",
         "2 tasks wait behind 14 others in pool /p (1 cpu asked, 0.25 cpu free); "
         "its turn comes; a higher priority helps"),
        (held("ENTITLEMENT_REACHED", tasks=1), "nobody, wait",
         "1 task waits because pool /p holds all that it may use now (1 cpu asked, 0.25 cpu free); "
         "it goes on when others need less; a larger share or reservation helps"),
        (held("RESERVATION_REACHED", free=CORE), "pool owner",
         "2 tasks that must not be preempted would exceed the reservation of pool /p; "
         "raise the reservation, or make the job preemptible"),
        (unplaced("NEVER_FITS"), "you",
         "2 tasks fit no host, even when it is empty (0 hosts seen); ask for less, or add larger hosts"),
        (unplaced("NO_HOST_FITS", cpu=3, memory=1), "nobody, wait",
         "2 tasks find no room on any host now (4 hosts seen: 3 cpu, 1 memory); "
         "nearest h17, short of 0.5 cpu, 2GiB memory; it goes on when tasks end or hosts are added"),
        (held("A_CODE_OF_LATER", free=CORE), "operator", "2 tasks wait: A_CODE_OF_LATER"),
    ],
)  # fmt: skip
def test_the_sentence(waiting, said, actor, message):
    waiting.cell.decide("entitlement" if isinstance(said, GangsHeld) else "placement", said)
    headline = why(waiting)["headline"]
    assert (headline["actor"], headline["message"]) == (actor, message)


def test_the_first_tier_is_the_headline_and_all_are_listed(waiting):
    waiting.cell.decide("placement", unplaced("NO_HOST_FITS", cpu=1))
    waiting.cell.decide("entitlement", held("LIMIT_REACHED"))
    found = why(waiting)
    assert found["headline"]["code"] == "LIMIT_REACHED"
    assert [(each["code"], each["tier"]) for each in found["reasons"]] == [
        ("LIMIT_REACHED", "pool"),
        ("NO_HOST_FITS", "now"),
    ]
    assert found["reasons"][1]["nearest"] == [{"host_id": "h17", "lacks": {"cpu": 0.5, "memory": "2GiB"}}]


def test_a_gang_given_back_says_when_it_is_tried_again(waiting):
    waiting.cell.decide("placement", GangsReturned(**ranges("a", (0, 1)), gang=pack_ints([0, 0]), code="NO_HOST_FITS",
                                                   not_before_ms=1_700_000_001_000))  # fmt: skip
    assert why(waiting)["reasons"][0]["not_before"] == "2023-11-14T22:13:21.000Z"


def test_a_settled_reason_counts_only_where_nothing_else_explains(waiting):
    waiting.cell.decide("entitlement", held("LIMIT_REACHED", tasks=1))
    waiting.cell.run("a", (0,))
    found = why(waiting)["reasons"]
    assert [(each["code"], each["tasks"]) for each in found] == [("LIMIT_REACHED", 1)]
    waiting.cell.decide("placement", unplaced("NO_HOST_FITS", cpu=1))
    assert [each["code"] for each in why(waiting)["reasons"]] == ["NO_HOST_FITS"]
    waiting.cell.run("a", (1,))
    assert why(waiting)["headline"] is None


def test_a_task_between_two_runs_and_one_that_failed_for_good(api):
    api.cell.host()
    api.cell.accept("a", instances=2, retries={"max": 1})
    api.cell.run("a", (0, 1))
    api.cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, exit_code=7, kept=1))
    assert why(api)["headline"]["message"].startswith("1 task waits before they are tried again; task 1 exited with 7")
    api.cell.decide("lifecycle", queued("a", (1,), 2, admitted=1))
    api.cell.run("a", (1,), run=2)
    api.cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, run=2, exit_code=8),
                    ended("a", (0,), Outcome.SUCCEEDED))  # fmt: skip
    api.cell.changed("FAILED")
    found = why(api)
    assert found["headline"]["code"] == "RUN_FAILED"
    assert found["headline"]["message"].startswith("1 task of 2 failed; task 1 exited with 8")


def test_a_preempted_task_and_one_that_the_sla_protects(waiting):
    waiting.cell.run("a", (0, 1))
    cell = waiting.cell
    cell.decide(
        "entitlement", PreemptionsOrdered(**runs("a", (0,)), for_pool="/q", from_pool="/p", code="BELOW_RESERVATION")
    )
    assert why(waiting)["headline"]["message"].startswith(
        "1 task must leave for pool /q, which is below its reservation"
    )
    cell.decide("sla", DisruptionDeferred(job_id="a", instance=0, run=1, code="SLA_BUDGET_SPENT", unavailable=1,
                                          max_unavailable=1))  # fmt: skip
    assert [each["machine"] for each in why(waiting)["reasons"]] == ["entitlement", "sla"]
    cell.decide("sla", DisruptionAllowed(**runs("a", (0,))))
    stop = RunsStopping(**runs("a", (0,)), host_ids=("h1",), host=pack_ints([0]), cause=pack_ints([4]))
    cell.decide("lifecycle", stop)
    assert [each["code"] for each in why(waiting)["reasons"]] == ["BELOW_RESERVATION"]
    cell.decide("lifecycle", ended("a", (0,), Outcome.PREEMPTED), queued("a", (0,), 2))
    cell.run("a", (0,), run=2)
    assert why(waiting)["headline"] is None


def test_a_preemption_that_sla_has_deferred_is_no_reason_any_more(waiting):
    waiting.cell.run("a", (0, 1))
    cell = waiting.cell
    order = PreemptionsOrdered(**runs("a", (0,)), for_pool="/q", from_pool="/p", code="BELOW_RESERVATION")
    cell.decide("entitlement", order)
    position = Cause(machine="entitlement", round=cell.writers["entitlement"].round)
    cell.decide("lifecycle", PreemptionAnswered(**runs("a", (0,)), order=position, code="DEFERRED", victims=1))
    assert why(waiting)["headline"] is None
    cell.decide("entitlement", order)
    assert why(waiting)["headline"]["code"] == "BELOW_RESERVATION", "it is tried again"


def test_a_job_that_was_stopped_lacks_nothing(waiting):
    waiting.cell.decide("entitlement", held("LIMIT_REACHED"))
    at = waiting.cell.fact(JobStopRequested(job_id="a", command_id="c"))
    waiting.cell.decide("lifecycle", CommandAnswered(job_id="a", jobs_offset=at, command_id="c", code="DONE"),
                        ended("a", (0, 1), Outcome.STOPPED))  # fmt: skip
    waiting.cell.changed("KILLED")
    assert why(waiting)["reasons"] == []
    assert why(waiting)["state"] == "KILLED"


@pytest.mark.parametrize("late", [held("LIMIT_REACHED"), unplaced("NO_HOST_FITS", cpu=1)])
def test_what_a_machine_says_that_has_not_heard_of_the_end_leaves_nothing(waiting, late):
    machine = "entitlement" if isinstance(late, GangsHeld) else "placement"
    waiting.cell.decide(machine, late)
    waiting.cell.decide("lifecycle", ended("a", (0, 1), Outcome.STOPPED))
    waiting.cell.changed("KILLED")
    waiting.cell.decide(machine, late)
    waiting.fold()
    with waiting.projector.views.engine.connect() as connection:
        assert explanations(connection, ["a"]) == {}


def test_every_code_has_a_tier():
    assert {tier_of(code) for code in Code} == {"job", "pool", "shape", "now", "hosts", "cell"}
    assert tier_of(Code.NOT_YET_EVALUATED) == "cell"
    assert tier_of("A_CODE_OF_LATER") == "cell"
