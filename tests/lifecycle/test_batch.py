"""What batch jobs can do, in the words of their users."""

from events.codes import Outcome, RunCause, RunReport
from events.columns import ints
from events.records.lifecycle import GangsQueued, JobChanged, JobRejected, RunsEnded, RunsOverdue, RunsStopping
from tests.lifecycle.harness import World
from tests.machines import kinds, of, one, runs_of

A0, A1 = ("a", 0, 1), ("a", 1, 1)
MINUTE = 60_000


def why(event: RunsEnded | RunsStopping) -> list[int]:
    return ints(event.why).tolist()


def started(world: World, *runs: tuple[str, int, int]) -> None:
    world.place(*runs)
    world.report(RunReport.STARTED, *runs)


def test_a_run_that_is_available_for_max_runtime_is_stopped_and_its_task_is_killed() -> None:
    world = World()
    world.submit("a", instances=2, max_runtime_ms=MINUTE, retries_max=5)
    started(world, A0)
    world.later(30_000)
    started(world, A1)
    assert world.later(29_000) == []
    said = world.later(2_000)
    assert runs_of(one(said, RunsOverdue)) == [A0]
    assert (runs_of(one(said, RunsStopping)), why(one(said, RunsStopping))) == ([A0], [RunCause.RUN_LIMIT])
    ended = one(world.report(RunReport.STOPPED, A0, exit_code=143), RunsEnded)
    assert (ints(ended.outcome).tolist(), why(ended)) == ([Outcome.STOPPED], [RunCause.RUN_LIMIT])
    world.report(RunReport.EXITED, A1)
    assert world.machine.state_of("a") == "KILLED", "one was, the other succeeded"


def test_a_run_that_ends_within_max_runtime_is_left_alone_and_the_next_has_the_whole_time() -> None:
    world = World()
    world.submit("a", max_runtime_ms=MINUTE, retries_max=1)
    started(world, A0)
    world.later(50_000)
    world.report(RunReport.EXITED, A0, exit_code=1)
    started(world, ("a", 0, 2))
    assert world.later(50_000) == []
    assert runs_of(one(world.later(11_000), RunsStopping)) == [("a", 0, 2)]


def test_a_run_that_exits_as_its_time_is_up_has_its_own_outcome_and_no_retry() -> None:
    world = World()
    world.submit("a", max_runtime_ms=MINUTE, retries_max=5)
    started(world, A0)
    world.later(61_000)
    said = world.report(RunReport.EXITED, A0, exit_code=3)
    assert (ints(one(said, RunsEnded).outcome).tolist(), of(said, GangsQueued)) == ([Outcome.FAILED], [])
    assert one(said, JobChanged).state == "FAILED"


def test_a_gang_of_which_a_member_has_had_its_time_ends_as_one_and_is_not_queued_again() -> None:
    world = World()
    world.submit("a", instances=3, gang_min=3, max_runtime_ms=MINUTE, retries_max=5)
    members = [("a", n, 1) for n in range(3)]
    world.place(*members)
    world.report(RunReport.STARTED, members[0])
    said = world.later(61_000)
    assert runs_of(one(said, RunsStopping)) == members
    said = world.report(RunReport.STOPPED, *members)
    assert "GangsQueued" not in kinds(said)
    assert one(said, JobChanged).state == "KILLED"


def test_max_runtime_is_for_batch_jobs() -> None:
    rejected = one(World().submit("a", kind="stateless", max_runtime_ms=MINUTE), JobRejected)
    assert "runs until it is stopped" in rejected.message
