"""Runs that end since their hosts need what they had lent: no failure, queued again, whatever an SLA says."""

from typing import Any

import pytest

from events.codec import encode
from events.codes import Code, Outcome, RunCause, RunReport
from events.columns import ints
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import CommandAnswered, GangsQueued, JobAccepted, JobRejected, RunsEnded, RunsStopping
from events.records.pools import CellConfigured
from events.resources import REVOCABLE
from tests.helpers.machines import kinds, one, runs_of
from tests.processors.lifecycle.harness import World

A0, A1 = ("a", 0, 1), ("a", 1, 1)
CPU = {"cpu": 2000, "memory": 64}


def lending() -> World:
    world = World()
    world.fact("paceline.pools", CellConfigured(command_id="slack", slack=True))
    asked = max(world.machine._settings.pending)
    world.peer(
        "entitlement", PoolAnswered(path="/", pools_offset=asked, command_id="slack", code=Code.DONE, message="")
    )
    return world


def submitted(world: World, **fields: Any) -> list[Any]:
    return world.submit("a", revocable=True, resources=CPU, **fields)


def test_a_revocable_task_asks_for_lent_cpu_and_real_memory() -> None:
    accepted = one(submitted(lending()), JobAccepted)
    assert [shape.resources for shape in accepted.shapes] == [{"memory": 64, REVOCABLE: 2000}]


def test_a_cell_that_lends_nothing_refuses_revocable_jobs() -> None:
    assert one(submitted(World()), JobRejected).code == Code.SLACK_OFF


@pytest.mark.parametrize(
    "fields",
    [
        {"preemptible": False},
        {"kind": "stateless", "preemptible": False},
        {"controller": True, "instances": 2},
        {"resources": {"gpu": 1000}},
        {"revocable": False, "resources": {REVOCABLE: 1000}},
    ],
)
def test_what_cannot_be_ended_at_any_time_is_refused(fields: dict[str, Any]) -> None:
    said = lending().submit("a", **{"revocable": True, "resources": CPU, **fields})
    assert one(said, JobRejected).code == Code.INVALID_SPEC


@pytest.mark.parametrize("fields", [{}, {"on_preempt": "fail"}, {"kind": "stateless", "max_unavailable": 0}])
def test_a_revoked_run_ends_at_once_and_its_task_waits_again_without_a_failure(fields: dict[str, Any]) -> None:
    world = lending()
    submitted(world, instances=2, **fields)
    world.place(A0, A1)
    world.report(RunReport.STARTED, A0, A1)
    said = world.revoke(A0)
    assert runs_of(one(said, RunsStopping)) == [A0]
    assert ints(one(said, RunsStopping).why).tolist() == [RunCause.REVOKED]
    assert "DisruptionAsked" not in kinds(said)
    said = world.report(RunReport.STOPPED, A0)
    ended = one(said, RunsEnded)
    assert (ints(ended.outcome).tolist(), ints(ended.why).tolist()) == ([Outcome.REVOKED], [RunCause.REVOKED])
    assert not any(ints(ended.counts_as))
    assert not any(ints(one(said, GangsQueued).admitted)), "it is admitted anew"


def test_a_run_that_its_host_ends_for_want_of_memory_is_no_failure_either() -> None:
    world = lending()
    submitted(world, retries_max=0)
    world.place(A0)
    world.report(RunReport.STARTED, A0)
    said = world.report(RunReport.REVOKED, A0)
    ended = one(said, RunsEnded)
    assert (ints(ended.outcome).tolist(), ints(ended.why).tolist()) == ([Outcome.REVOKED], [RunCause.REVOKED])
    assert not any(ints(ended.counts_as))
    assert "GangsQueued" in kinds(said)


def test_a_job_stays_revocable_or_not_for_as_long_as_it_lives() -> None:
    world = lending()
    submitted(world, kind="stateless")
    spec = JobSubmitted(job_id="a", pool="/p", command=("true",), kind="stateless", resources=CPU)
    said = world.fact("paceline.jobs", JobUpdateRequested(job_id="a", command_id="u", spec=encode(spec)))
    assert one(said, CommandAnswered).code == Code.NOT_UPDATABLE
