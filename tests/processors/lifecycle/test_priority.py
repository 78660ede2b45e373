"""The priority of a job is changed by a fact that lifecycle answers; and a controller is admitted alone."""

from events.codes import Outcome, RunReport
from events.columns import ints
from events.records.base import Event
from events.records.jobs import JobPriorityRequested
from events.records.lifecycle import CommandAnswered, GangsQueued, JobAccepted, JobPriorityChanged, RunsEnded
from tests.helpers.machines import kinds, of, one, ranges_of
from tests.processors.lifecycle.harness import World

INT32 = 1 << 31


def code(said: list[Event]) -> str:
    return str(one(said, CommandAnswered).code)


def test_a_job_gets_another_priority_and_the_change_says_by_which_fact() -> None:
    world = World()
    world.submit("a")
    said = world.prioritise("a", 7)
    assert kinds(said) == ["JobPriorityChanged", "CommandAnswered"]
    assert (code(said), one(said, CommandAnswered).command_id) == ("DONE", "c")
    changed = one(said, JobPriorityChanged)
    assert (changed.job_id, changed.priority) == ("a", 7)
    assert (changed.cause.topic, changed.cause.offset) == ("paceline.jobs", 1)
    assert world.machine.jobs["a"].priority == 7
    assert world.machine.state_of("a") == "PENDING", "it isn't being stopped"


def test_a_command_that_comes_again_changes_nothing_even_after_another_one() -> None:
    world = World()
    world.submit("a", priority=1)
    assert code(world.prioritise("a", 1, "same")) == "REPEATED"
    assert code(world.prioritise("a", 5, "mine")) == "DONE"
    assert code(world.prioritise("a", 6, "theirs")) == "DONE"
    assert kinds(world.prioritise("a", 5, "mine")) == ["CommandAnswered"]
    assert code(world.prioritise("a", 6, "late")) == "REPEATED"
    assert world.machine.jobs["a"].priority == 6


def test_a_priority_is_refused_with_a_code() -> None:
    world = World()
    assert code(world.prioritise("none", 1)) == "NOT_FOUND"
    world.submit("a")
    for priority in (INT32, -INT32):
        assert code(said := world.prioritise("a", priority)) == "INVALID_SPEC"
        assert JobPriorityChanged not in map(type, said)
    assert code(world.prioritise("a", INT32 - 1)) == "DONE"
    world.stop("a")
    assert code(world.prioritise("a", 1, "d")) == "ALREADY_ENDED"


def test_commands_that_were_read_with_the_submission_are_answered_in_their_order() -> None:
    world = World()
    world.busy = True
    world.submit("a")
    for command, priority in enumerate((4, 4, 5)):
        world.prioritise("a", priority, str(command))
    world.prioritise("a", 4, "0")
    world.busy = False
    said = world.quiet()
    assert [each.code for each in of(said, CommandAnswered)] == ["DONE", "REPEATED", "DONE", "REPEATED"]
    assert [each.priority for each in of(said, JobPriorityChanged)] == [4, 5]
    assert world.machine.jobs["a"].priority == 5


def test_a_command_for_a_job_that_waits_for_its_pool_waits_with_it() -> None:
    world = World()
    world.submit("a", pool="/late")
    asked = JobPriorityRequested(job_id="a", command_id="c", priority=2)
    assert world.fact("paceline.jobs", asked) == []
    assert kinds(world.later(1000)) == ["JobRejected", "CommandAnswered"]


def test_a_controller_is_queued_as_a_range_of_its_own_and_so_it_is_again() -> None:
    world, runs = World(), [("a", at, 1) for at in range(4)]
    said = world.submit("a", instances=4, controller=True, retries_max=3)
    assert one(said, JobAccepted).controller
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 1, 0), ("a", 1, 3, 1, 0)]
    world.place(*runs)
    said = world.report(RunReport.EXITED, *runs, exit_code=1)
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 1, 2, 0), ("a", 1, 3, 2, 0)]
    said = world.submit("b", controller=True)
    assert ranges_of(one(said, GangsQueued)) == [("b", 0, 1, 1, 0)]


def test_a_preempted_task_is_queued_again_at_once_and_nothing_counts_against_it() -> None:
    world = World()
    world.submit("web", kind="stateless")
    for run in (1, 2, 3):
        world.place(("web", 0, run))
        world.report(RunReport.STARTED, ("web", 0, run))
        world.preempt(("web", 0, run))
        said = world.report(RunReport.STOPPED, ("web", 0, run))
        assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.PREEMPTED]
        assert ranges_of(one(said, GangsQueued)) == [("web", 0, 1, run + 1, 0)]
        assert world.machine.tasks.arena["failures"][world.machine.jobs["web"].base] == 0
