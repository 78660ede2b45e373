"""Runs with a health check: available once they are healthy, ended and run again when they aren't any more."""

from typing import Any

import pytest

from events.codes import Outcome, RunReport
from events.columns import ints
from events.records.lifecycle import GangsQueued, JobAccepted, JobRejected, RunsAvailable, RunsEnded, RunsStopping
from events.records.parts import Constraint, HealthCheck, Simulated
from tests.helpers.machines import one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World

A0 = ("a", 0, 1)
CHECK = HealthCheck("http", port="web", path="/")
MINUTE = 60_000


def world_with(**spec: object) -> World:
    world = World()
    world.submit("a", ports=("web",), **{"kind": "stateless", "health": CHECK, **spec})
    world.place(A0)
    return world


def test_a_run_with_a_check_is_available_when_it_is_healthy_not_when_it_has_started() -> None:
    world = world_with()
    assert world.report(RunReport.STARTED, A0) == []
    assert runs_of(one(world.report(RunReport.HEALTHY, A0), RunsAvailable)) == [A0]
    assert world.report(RunReport.HEALTHY, A0) == []


def test_a_run_without_a_check_is_neither_healthy_nor_unhealthy() -> None:
    world = world_with(health=None)
    assert world.report(RunReport.HEALTHY, A0) == []
    assert world.report(RunReport.UNHEALTHY, A0) == []
    assert runs_of(one(world.report(RunReport.STARTED, A0), RunsAvailable)) == [A0]


@pytest.mark.parametrize("ready", [True, False])
def test_an_unhealthy_service_is_stopped_and_runs_again_after_its_back_off_on_its_admission(ready: bool) -> None:
    world = world_with()
    if ready:
        world.report(RunReport.HEALTHY, A0)
    stopping = one(world.report(RunReport.UNHEALTHY, A0), RunsStopping)
    assert ints(stopping.cause).tolist() == [Outcome.FAILED]
    ended = one(world.report(RunReport.STOPPED, A0, exit_code=143), RunsEnded)
    assert [ints(column).tolist() for column in (ended.outcome, ended.kept)] == [[Outcome.FAILED], [1]]
    world.now += MINUTE
    queued = one(world.quiet(), GangsQueued)
    assert [(each[0], each[3]) for each in ranges_of(queued)] == [("a", 2)]
    assert ints(queued.admitted).tolist() == [1]


def test_failed_checks_of_a_batch_job_count_against_its_retries() -> None:
    world = world_with(kind="batch", retries_max=1)
    for run in (1, 2):
        world.place(("a", 0, run))
        world.report(RunReport.UNHEALTHY, ("a", 0, run))
        world.report(RunReport.STOPPED, ("a", 0, run))
    assert world.machine.state_of("a") == "FAILED"


def test_a_run_that_is_being_stopped_is_stopped_whatever_its_check_says() -> None:
    """A process that ends in good order answers no more: that is no failure of its own."""
    world = world_with()
    world.report(RunReport.HEALTHY, A0)
    world.preempt(A0)
    world.report(RunReport.UNHEALTHY, A0)
    ended = one(world.report(RunReport.STOPPED, A0), RunsEnded)
    assert ints(ended.outcome).tolist() == [Outcome.PREEMPTED]


def test_what_a_run_that_is_preempted_held_goes_to_others_though_its_check_failed() -> None:
    world = world_with()
    world.report(RunReport.HEALTHY, A0)
    world.busy = True
    world.report(RunReport.UNHEALTHY, A0)
    world.preempt(A0)
    world.busy = False
    world.quiet()
    ended = one(world.report(RunReport.STOPPED, A0), RunsEnded)
    assert ints(ended.kept).tolist() == [0]


def test_a_run_that_ended_by_itself_before_its_stop_has_that_outcome() -> None:
    world = world_with()
    world.report(RunReport.UNHEALTHY, A0)
    ended = one(world.report(RunReport.EXITED, A0, exit_code=3), RunsEnded)
    assert [ints(column).tolist() for column in (ended.outcome, ended.exit_code)] == [[Outcome.FAILED], [3]]


@pytest.mark.parametrize("state", [RunReport.HEALTHY, RunReport.UNHEALTHY])
def test_what_a_session_that_is_over_said_of_a_check_is_void(state: RunReport) -> None:
    """The host was started anew: the run isn't there, or is and will be reported in the new session."""
    world = world_with()
    world.inventory(2)
    assert world.report(state, A0, session=1) == []
    assert len(world.report(state, A0, session=2)) > 0


def test_the_start_of_a_run_is_void_in_a_session_that_is_over_and_its_end_is_not() -> None:
    world = world_with(health=None)
    world.inventory(2)
    assert world.report(RunReport.STARTED, A0, session=1) == []
    assert runs_of(one(world.report(RunReport.EXITED, A0, session=1), RunsEnded)) == [A0]


@pytest.mark.parametrize("state", [RunReport.HEALTHY, RunReport.UNHEALTHY])
def test_an_inventory_says_what_the_check_has_found(state: RunReport) -> None:
    world = world_with()
    said = world.inventory(2, A0, state=state)
    assert (RunsAvailable if state == RunReport.HEALTHY else RunsStopping) in map(type, said)


@pytest.mark.parametrize(
    ("check", "simulated", "why"),
    [
        (HealthCheck("ping"), None, "health kind is 'ping', it must be command, http or tcp"),
        (HealthCheck("command"), None, "health command must name a program"),
        (HealthCheck("tcp", port="ssh"), None, "health port is 'ssh', it must be a port of the job"),
        (HealthCheck("http", port="web", path="x"), None, "health path must begin with / and hold printable ASCII"),
        (HealthCheck("tcp", port="web", interval_ms=99), None, "health interval_ms is 99, it must be 100 to"),
        (HealthCheck("tcp", port="web", failures=0), None, "health failures is 0, it must be 1 to 1000"),
        (None, Simulated(unhealthy_ms=1), "simulated unhealthy_ms plays a health check, and the job has none"),
    ],
)
def test_a_check_that_can_not_be_done_is_refused(
    check: HealthCheck | None, simulated: Simulated | None, why: str
) -> None:
    said = World().submit("a", ports=("web",), health=check, simulated=simulated)
    assert why in one(said, JobRejected).message


@pytest.mark.parametrize(
    ("spec", "attribute"),
    [
        ({"health": CHECK}, "paceline/health"),
        ({"stop_signal": "INT"}, "paceline/stop-signal"),
        ({"open_files": 5000}, "paceline/open-files"),
        (
            {"volumes": ("data",), "kind": "stateful", "on_silence": "stop_after", "stop_after_ms": 1000},
            "paceline/volumes",
        ),
    ],
)
def test_a_job_goes_only_where_the_agent_can_do_what_it_needs(spec: dict[str, Any], attribute: str) -> None:
    own = Constraint("kind", "in", ("fast",))
    accepted = one(World().submit("a", ports=("web",), constraints=(own,), **spec), JobAccepted)
    assert [shape.constraints for shape in accepted.shapes] == [(own, Constraint(attribute, "exists"))]
