"""Updates of a service, in the machine alone: hosts and the other machines answer at once, or as a test says."""

from itertools import chain
from typing import Any

import pytest

from events.codec import encode
from events.codes import Code, Outcome, RunReport, TaskState
from events.columns import ints, pack_ints
from events.records.base import Event
from events.records.jobs import JobActionRequested, JobSubmitted, JobUpdateRequested
from events.records.lifecycle import (
    CommandAnswered,
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    InstancesChanged,
    InstancesReturned,
    InstancesTaken,
    InstancesWanted,
    JobPriorityChanged,
    JobSlaChanged,
    PreemptionAnswered,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    UpdateEnded,
    UpdateProgressed,
    UpdateStarted,
)
from events.records.parts import Constraint, HealthCheck, UpdatePolicy
from processors.lifecycle.updates.steps import INHERITED
from processors.machine import Decided, Input
from tests.helpers.machines import Run, of, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World, allowed, deferred


def policy(**fields: Any) -> UpdatePolicy:
    """An instance is done as soon as it is available."""
    return UpdatePolicy(**{"healthy_ms": 0} | fields)


SERVICE = {"pool": "/p", "kind": "stateless", "command": ("one",), "instances": 4, "update": policy()}
HEALTHY_MS = 5_000


class Cell(World):
    """Hosts place, start and stop at once what lifecycle orders; versions in `fails` exit as soon as they start."""

    def __init__(self, **spec: Any) -> None:
        self.at: dict[tuple[int, int], Event] = {}
        """Its decisions by round and index."""
        super().__init__()
        self.spec = SERVICE | spec
        self.fails: set[int] = set()
        self.stops = True
        """Hosts stop what they are told to stop."""
        self.sla = True
        """Sla allows all it is asked."""
        self.commands = 0
        self.versions: dict[Run, int] = {}
        """Of each run that was ordered the version."""
        self.settle(self.submit("web", **self.spec))

    def apply(self, record: Input) -> None:
        if isinstance(record, Decided):
            self.at[record.round, record.index_in_round] = record.event
        super().apply(record)

    def led_to(self, event: Any) -> type[Event]:
        """The decision of lifecycle that is the cause of another one."""
        assert event.cause.machine == "lifecycle"
        return type(self.at[event.cause.round, event.cause.index])

    def update(self, expected_version: int = 0, command_id: str = "", **changes: Any) -> CommandAnswered:
        self.spec |= changes
        self.commands += 1
        wanted = JobUpdateRequested(
            job_id="web",
            command_id=command_id or f"u{self.commands}",
            spec=encode(JobSubmitted(job_id="web", **self.spec)),
            expected_version=expected_version,
        )
        return one(self.settle(self.fact("paceline.jobs", wanted)), CommandAnswered)

    def act(self, action: str, *instances: int, **fields: Any) -> CommandAnswered:
        self.commands += 1
        ranges = {"first": pack_ints(instances), "count": pack_ints([1] * len(instances))} if instances else {}
        wanted = JobActionRequested(job_id="web", command_id=f"a{self.commands}", action=action, **ranges, **fields)
        return one(self.settle(self.fact("paceline.jobs", wanted)), CommandAnswered)

    def settle(self, said: list[Event]) -> list[Event]:
        """Everybody answers until nothing is left to be said."""
        out, now = list(said), list(said)
        for _ in range(1000):
            said, now = now, []
            for event in said:
                now += self.answer(event)
            out += now
            if not now:
                return out
        raise AssertionError("it never comes to rest")

    def answer(self, event: Event) -> list[Event]:
        match event:
            case GangsQueued():
                ranges = [(job, range(first, first + count), run) for job, first, count, run, _ in ranges_of(event)]
                return self.place(*((job, at, run) for job, instances, run in ranges for at in instances))
            case RunsOrdered():
                versions = ints(event.version).tolist() or [1] * len(runs_of(event))
                self.versions |= dict(zip(runs_of(event), versions, strict=True))
                said = self.report(RunReport.STARTED, *runs_of(event))
                failing = [run for run in runs_of(event) if self.versions[run] in self.fails]
                return said + (self.report(RunReport.EXITED, *failing, exit_code=1) if failing else [])
            case RunsStopping() if self.stops:
                return self.report(RunReport.STOPPED, *runs_of(event))
            case DisruptionAsked() if self.sla:
                return self.peer("sla", allowed(*runs_of(event)))
        return []

    def wait(self, ms: int) -> list[Event]:
        """Time passes, second by second."""
        out = []
        for _ in range(ms // 1000):
            out += self.settle(self.later(1000))
        return out

    def column(self, name: str) -> list[int]:
        return self.machine.updates.column("web", name).tolist()

    def running(self) -> list[int]:
        """The version that each instance runs, 0: none."""
        rows = zip(self.column("state"), self.column("version"), strict=True)
        return [version if state == TaskState.RUNNING else 0 for state, version in rows]

    def run_of(self, instance: int) -> Run:
        return ("web", instance, self.column("run")[instance])

    def taken(self) -> list[list[int]]:
        """The instances that were taken, in the order of decisions."""
        return [instances_of(each) for each in of(self.said, InstancesTaken)]

    def ends(self) -> list[tuple[int, str, str]]:
        return [(each.number, each.state, each.code) for each in of(self.said, UpdateEnded)]


def instances_of(event: Any) -> list[int]:
    pairs = zip(ints(event.first).tolist(), ints(event.count).tolist(), strict=True)
    return [at for first, count in pairs for at in range(first, first + count)]


def outcomes(cell: Cell) -> set[int]:
    return {each for ended in of(cell.said, RunsEnded) for each in ints(ended.outcome).tolist()}


def test_an_update_goes_through_all_instances_in_batches() -> None:
    cell = Cell(update=policy(batch=2))
    answer = cell.update(command=("two",))
    assert (answer.code, answer.version, answer.update) == (Code.DONE, 2, 1)
    assert answer.message == "update 1 takes 4 instances to version 2, at most 2 at a time"
    assert cell.running() == [2, 2, 2, 2]
    assert cell.taken() == [[0, 1], [2, 3]]
    assert one(cell.said, UpdateStarted).updated == 4
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert outcomes(cell) == {Outcome.REPLACED}
    for ended in of(cell.said, RunsEnded):
        assert {*ints(ended.kept).tolist()} == {1}, "it keeps its admission"
        assert {*ints(ended.hold).tolist()} == {1}, "and its host"


def test_without_a_batch_all_instances_are_updated_at_once() -> None:
    cell = Cell()
    cell.update(command=("two",))
    assert cell.taken() == [[0, 1, 2, 3]]
    assert cell.running() == [2, 2, 2, 2]


def test_no_more_than_max_unavailable_are_updated_at_a_time() -> None:
    cell = Cell(update=policy(batch=3), max_unavailable=1)
    cell.update(command=("two",))
    assert cell.taken() == [[0], [1], [2], [3]]
    assert cell.running() == [2, 2, 2, 2]


def test_labels_priority_and_policy_change_without_a_new_run() -> None:
    cell = Cell()
    answer = cell.update(labels={"a": "b"}, owner="me", priority=7, update=policy(batch=2))
    assert answer.code == Code.DONE
    assert one(cell.said, JobPriorityChanged).priority == 7
    assert (one(cell.said, UpdateStarted).unchanged, cell.running()) == (4, [1, 1, 1, 1])
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert cell.machine.jobs["web"].version == 2


def test_an_update_a_roll_back_and_a_restart_after_another_priority_was_given() -> None:
    cell = Cell()

    def priority() -> int:
        return cell.machine.jobs["web"].priority

    assert cell.update(priority=5).code == Code.DONE
    assert cell.update(priority=5).code == Code.REPEATED
    cell.prioritise("web", 9, "nine")
    assert cell.act("restart").code == Code.DONE
    assert priority() == 9, "a restart changes nothing but the runs"
    assert cell.update(priority=5).code == Code.DONE, "it has another priority, though its version says this one"
    assert (priority(), cell.running()) == (5, [3, 3, 3, 3])
    cell.act("roll_back", version=1)
    assert priority() == 0


def test_an_update_of_a_held_job_takes_nothing_that_runs_until_it_is_released() -> None:
    cell = Cell(update=policy(batch=1))
    cell.act("hold")
    answer = cell.act("restart")
    text = "; the job is held: what runs is taken after `paceline job release web`"
    assert (answer.code, answer.message.endswith(text)) == (Code.DONE, True)
    cell.wait(60_000)
    assert (cell.taken(), cell.running(), cell.ends()) == ([], [1, 1, 1, 1], [])
    cell.act("release")
    assert (cell.running(), cell.ends()) == ([2, 2, 2, 2], [(1, "SUCCEEDED", "")])
    cell.update(command=("three",), update=policy(batch=1, start_paused=True))
    cell.act("hold")
    cell.act("resume")
    assert cell.running() == [2, 2, 2, 2], "it is held though it goes on"


@pytest.mark.parametrize(("before", "after"), [("pack", ""), ("", "pack")])
def test_a_specification_that_names_no_strategy_any_more_ends_no_run_and_holds_from_the_next_one_on(before, after):
    cell = Cell(strategy=before)
    answer = cell.update(strategy=after)
    assert (answer.code, answer.version) == (Code.DONE, 2)
    assert (one(cell.said, UpdateStarted).unchanged, cell.running()) == (4, [1, 1, 1, 1])
    assert not of(cell.said, RunsEnded)
    assert cell.update(strategy=after).code == Code.REPEATED
    since = len(cell.said)
    cell.settle(cell.report(RunReport.EXITED, cell.run_of(2), exit_code=1))
    cell.wait(60_000)
    queued = one(cell.said[since:], GangsQueued)
    assert queued.shapes[ints(queued.shape)[0]].strategy == after
    assert cell.running() == [1, 1, 2, 1]
    cell.update(strategy="spread")
    assert cell.running() == [3, 3, 3, 3], "another strategy takes another place"


def test_a_batch_job_that_packed_may_be_updated_without_a_strategy() -> None:
    cell = Cell(kind="batch", strategy="pack", update=None)
    assert cell.update(strategy="", instances=5).code == Code.DONE
    assert not of(cell.said, RunsEnded)
    assert one(cell.said, InstancesChanged).shapes[0].strategy == ""
    refused = cell.update(strategy="spread")
    assert (refused.code, refused.message.split()[0]) == (Code.NOT_UPDATABLE, "strategy")


def test_only_instances_whose_content_differs_are_updated() -> None:
    from events.records.parts import TaskOverride

    ranges = {"override_first": pack_ints([1]), "override_count": pack_ints([2]), "override": pack_ints([0])}
    cell = Cell()
    cell.update(overrides=(TaskOverride(command=("own",)),), **ranges)
    assert cell.running() == [1, 2, 2, 1]
    cell.update(command=("two",))
    assert cell.running() == [3, 2, 2, 3], "1 and 2 have a command of their own"


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"pool": "/q"}, "pool"), ({"kind": "batch"}, "kind"), ({"preemptible": False}, "preemptible")],
)  # fmt: skip
def test_what_a_job_is_stays_as_it_is(changes: dict[str, Any], field: str) -> None:
    cell = Cell()
    answer = cell.update(**changes)
    assert (answer.code, answer.message.split()[0]) == (Code.NOT_UPDATABLE, field)
    assert cell.machine.jobs["web"].version == 1


def test_a_spec_that_no_job_may_have_is_refused_as_a_submission_is() -> None:
    cell = Cell()
    assert cell.update(instances=0).code == Code.INVALID_SPEC
    assert cell.update(resources={"cpu": 1}, instances=1001).code == Code.OPEN_TASKS_MAX
    wanted = JobUpdateRequested(job_id="web", command_id="x", spec=b"what")
    assert one(cell.fact("paceline.jobs", wanted), CommandAnswered).code == Code.INVALID_SPEC
    unknown = JobSubmitted(job_id="web", **SERVICE, resources={"cpu": 1, "cheese": 1})
    cell.fact("paceline.jobs", JobUpdateRequested(job_id="web", command_id="x", spec=encode(unknown)))
    assert one(cell.wait(1000), CommandAnswered).code == Code.UNKNOWN_RESOURCE, "it might have been defined just now"
    other = JobUpdateRequested(job_id="web", command_id="x", spec=encode(JobSubmitted(job_id="other", **SERVICE)))
    assert one(cell.fact("paceline.jobs", other), CommandAnswered).code == Code.INVALID_SPEC


def test_a_command_for_another_version_is_refused_with_both() -> None:
    cell = Cell()
    cell.update(command=("two",))
    answer = cell.update(expected_version=1, command=("three",))
    assert answer.code == Code.VERSION_CONFLICT
    assert answer.message == "job web has version 2, the command expects 1; look at what changed"
    assert cell.update(expected_version=2).code == Code.DONE
    assert cell.act("restart", expected_version=1).code == Code.VERSION_CONFLICT


def test_repeats_are_harmless() -> None:
    cell = Cell()
    assert cell.update(command=("two",), command_id="c").code == Code.DONE
    assert cell.update(command_id="c").code == Code.REPEATED
    again = cell.update(command_id="d")
    assert (again.code, again.message) == (Code.REPEATED, "the job has this specification already, as version 2")
    assert cell.machine.jobs["web"].version == 2


def test_commands_for_what_is_not_there_have_a_code_each() -> None:
    cell = Cell()
    for action in ("pause", "resume", "abort", "promote"):
        assert cell.act(action).code == Code.NO_UPDATE
    assert cell.act("roll_back").code == Code.NO_SUCH_VERSION
    assert cell.act("roll_back", version=7).code == Code.NO_SUCH_VERSION
    assert cell.act("dance").code == Code.INVALID_SPEC
    assert cell.act("restart", 4).code == Code.INVALID_SPEC, "there are 0 to 3"
    other = JobActionRequested(job_id="none", command_id="1", action="pause")
    assert one(cell.fact("paceline.jobs", other), CommandAnswered).code == Code.NOT_FOUND
    cell.settle(cell.stop("web"))
    cell.act("delete")
    assert cell.update(command=("two",)).code == Code.NOT_FOUND
    assert cell.act("restart").code == Code.NOT_FOUND


def test_an_update_in_the_breath_of_the_submission_waits_its_turn() -> None:
    world = Cell()
    world.busy = True
    world.submit("b", kind="stateless", update=policy())
    spec = JobSubmitted(job_id="b", pool="/p", kind="stateless", command=("two",), update=policy())
    world.fact("paceline.jobs", JobUpdateRequested(job_id="b", command_id="1", spec=encode(spec)))
    world.busy = False
    said = world.settle(world.quiet())
    assert one(of(said, CommandAnswered), CommandAnswered).code == Code.DONE
    assert world.machine.jobs["b"].version == 2
    assert one(said, UpdateEnded).state == "SUCCEEDED"


def test_a_paused_update_takes_nothing_more_and_goes_on_when_resumed() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    assert cell.taken() == [[0]]
    answer = cell.act("pause")
    assert (answer.code, answer.message) == (
        Code.DONE,
        "3 instances still to be taken, 1 being updated",
    )
    cell.wait(20_000)
    assert (cell.running(), cell.machine.updates.table["web"].done) == ([2, 1, 1, 1], 1)
    assert cell.act("pause").code == Code.REPEATED
    assert cell.act("resume").code == Code.DONE
    cell.wait(60_000)
    assert cell.running() == [2, 2, 2, 2]


def test_an_update_may_start_paused() -> None:
    cell = Cell()
    answer = cell.update(command=("two",), update=policy(start_paused=True))
    assert answer.message.endswith("it waits for resume")
    assert cell.taken() == []
    cell.act("resume")
    assert cell.running() == [2, 2, 2, 2]


def test_an_instance_counts_as_done_when_it_was_available_for_long_enough() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.wait(HEALTHY_MS - 2000)
    assert cell.taken() == [[0]]
    cell.wait(3000)
    assert cell.taken() == [[0], [1]]


def test_an_update_that_fails_too_often_fails_and_leaves_the_others_alone() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS, batch=1, max_failures=1, max_attempts=2))
    cell.fails = {2}
    cell.update(command=("bad",))
    cell.wait(60_000)
    assert cell.ends() == [(1, "FAILED", Code.MAX_FAILURES)]
    assert cell.taken() == [[0]]
    assert cell.running()[1:] == [1, 1, 1]
    ended = one(cell.said, UpdateEnded)
    assert ended.message == "1 instance failed after 2 runs of version 2; max_failures is 1"


def test_a_failed_update_rolls_back_where_its_policy_says_so() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS, batch=2, max_failures=2, max_attempts=1, roll_back=True))
    cell.fails = {2}
    cell.update(command=("bad",))
    cell.wait(60_000)
    assert cell.ends() == [(1, "ROLLED_BACK", Code.MAX_FAILURES), (2, "SUCCEEDED", "")]
    back = of(cell.said, UpdateStarted)[1]
    assert (back.kind, back.like, back.from_version, back.version) == ("roll_back", 1, 2, 3)
    assert cell.running() == [3, 3, 1, 1], "who was never updated is not restarted"
    assert cell.machine.updates.versions["web"][3].contents == cell.machine.updates.versions["web"][1].contents


def test_a_roll_back_goes_to_the_newest_version_that_an_update_completed() -> None:
    cell = Cell()
    cell.update(command=("two",))
    cell.act("restart")
    cell.fails = {4, 5}
    fails = policy(batch=1, max_failures=1, max_attempts=2, roll_back=True, healthy_ms=HEALTHY_MS)
    cell.update(command=("bad",), update=fails)
    assert cell.ends() == [(1, "SUCCEEDED", ""), (2, "SUCCEEDED", "")], "it has failed once"
    cell.update(command=("worse",))
    cell.wait(10_000)
    back = of(cell.said, UpdateStarted)[-1]
    assert (back.kind, back.like, back.from_version) == ("roll_back", 3, 5)
    assert cell.ends()[2:] == [
        (3, "ABORTED", Code.OVERRIDDEN),
        (4, "ROLLED_BACK", Code.MAX_FAILURES),
        (5, "SUCCEEDED", ""),
    ]
    assert cell.column("target") == [6] * 4


def test_a_restart_of_what_failed_makes_it_no_version_to_go_back_to() -> None:
    cell = Cell(update=policy(batch=1, max_failures=1, max_attempts=1, healthy_ms=HEALTHY_MS))
    cell.fails = {2}
    cell.update(command=("bad",))
    assert cell.ends() == [(1, "FAILED", Code.MAX_FAILURES)]
    cell.act("restart", 3, batch=2)
    cell.wait(2 * HEALTHY_MS)
    assert cell.ends()[-1] == (2, "SUCCEEDED", "")
    cell.act("roll_back")
    assert of(cell.said, UpdateStarted)[-1].like == 1


def test_a_roll_back_that_fails_is_not_rolled_back() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS, max_failures=1, max_attempts=1, roll_back=True))
    cell.fails = {2, 3}
    cell.update(command=("bad",))
    cell.wait(600_000)
    assert cell.ends() == [(1, "ROLLED_BACK", Code.MAX_FAILURES), (2, "FAILED", Code.MAX_FAILURES)]


def test_an_update_whose_window_is_full_of_failed_instances_stalls() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS, batch=1, max_attempts=1))
    cell.fails = {2}
    cell.update(command=("bad",))
    cell.wait(60_000)
    assert cell.ends() == [(1, "FAILED", Code.STALLED)]


def test_an_instance_that_recovers_is_done() -> None:
    cell = Cell(update=policy(batch=2, max_attempts=1, max_failures=3))
    cell.update(command=("two",), update=policy(batch=2, max_attempts=1, max_failures=3, healthy_ms=HEALTHY_MS))
    cell.settle(cell.report(RunReport.EXITED, cell.run_of(0), exit_code=1))
    assert cell.machine.updates.table["web"].bad == 1
    cell.wait(60_000)
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert cell.running() == [2, 2, 2, 2]


def test_an_update_rolled_back_by_hand_goes_to_the_version_before_or_to_the_one_named() -> None:
    cell = Cell()
    cell.update(command=("two",))
    cell.update(command=("three",))
    answer = cell.act("roll_back")
    assert (answer.code, answer.version) == (Code.DONE, 4)
    assert cell.machine.updates.versions["web"][4].contents == cell.machine.updates.versions["web"][2].contents
    assert cell.act("roll_back", version=1).version == 5
    assert cell.running() == [5, 5, 5, 5]
    assert cell.act("roll_back", version=5).code == Code.NO_SUCH_VERSION


def test_a_roll_back_by_hand_never_goes_to_a_version_that_failed_or_to_one_equal_to_the_present() -> None:
    fails = policy(batch=1, max_failures=1, max_attempts=1, roll_back=True, healthy_ms=HEALTHY_MS)
    cell = Cell(update=fails)
    cell.update(command=("two",))
    cell.wait(5 * HEALTHY_MS)
    cell.fails = {3}
    cell.update(command=("bad",))
    cell.wait(5 * HEALTHY_MS)
    assert [each[1] for each in cell.ends()] == ["SUCCEEDED", "ROLLED_BACK", "SUCCEEDED"]
    answer = cell.act("roll_back")
    assert (answer.code, answer.version) == (Code.DONE, 5)
    assert "back to version 1, as version 5" in answer.message, "3 failed, and 4 is equal to 2"
    cell = Cell()
    cell.act("restart")
    answer = cell.act("roll_back")
    text = "no other version was completed; it can go back to 1"
    assert (answer.code, answer.message) == (Code.NO_SUCH_VERSION, text)


def test_a_newer_update_takes_the_place_of_the_one_in_progress() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.wait(HEALTHY_MS + 2000)
    assert cell.running() == [2, 2, 1, 1]
    cell.update(command=("three",))
    cell.wait(60_000)
    assert cell.ends() == [(1, "ABORTED", Code.OVERRIDDEN), (2, "SUCCEEDED", "")]
    assert cell.running() == [3, 3, 3, 3]


def test_an_aborted_update_leaves_instances_where_they_are() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.wait(HEALTHY_MS + 2000)
    assert cell.act("abort").code == Code.DONE
    cell.wait(60_000)
    assert cell.ends() == [(1, "ABORTED", Code.ABORTED)]
    assert cell.running() == [2, 2, 1, 1]
    assert cell.update().code == Code.DONE, "the same specification again goes on with what is left"
    cell.wait(60_000)
    assert cell.running() == [2, 2, 3, 3]


def test_a_canary_waits_to_be_promoted() -> None:
    cell = Cell(update=policy(canary=1))
    cell.update(command=("two",))
    cell.wait(600_000)
    assert cell.running() == [2, 1, 1, 1]
    assert of(cell.said, UpdateProgressed)[-1].waits
    assert cell.act("promote").message == "3 instances to follow the canary of 1"
    assert cell.running() == [2, 2, 2, 2]


def test_a_canary_promotes_itself_after_a_time() -> None:
    cell = Cell(update=policy(canary=2, promote_after_ms=10_000))
    cell.update(command=("two",))
    cell.wait(8_000)
    assert cell.running() == [2, 2, 1, 1]
    cell.wait(3_000)
    assert cell.running() == [2, 2, 2, 2]


def test_one_failed_canary_fails_the_update() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS, canary=1, max_attempts=1, roll_back=True, max_failures=3))
    cell.fails = {2}
    cell.update(command=("bad",))
    cell.wait(60_000)
    assert cell.ends() == [(1, "ROLLED_BACK", Code.MAX_FAILURES), (2, "SUCCEEDED", "")]
    assert cell.running() == [3, 1, 1, 1]


def test_who_is_down_is_updated_first_and_at_once() -> None:
    cell = Cell(update=policy(batch=1))
    cell.settle(cell.report(RunReport.EXITED, cell.run_of(2), exit_code=1))
    assert cell.column("state")[2] == TaskState.BACKOFF
    cell.update(command=("two",))
    assert cell.taken()[0] == [2]
    assert cell.running() == [2, 2, 2, 2], "its back-off doesn't hold the new version up"


def test_how_a_run_of_the_old_version_ends_says_nothing_of_the_new_one() -> None:
    cell = Cell(update=policy(max_failures=1, max_attempts=1))
    cell.stops = False
    cell.update(command=("two",))
    cell.stops = True
    cell.settle(cell.report(RunReport.EXITED, *[("web", at, 1) for at in range(4)], exit_code=1))
    assert cell.ends() == [(1, "SUCCEEDED", "")]


def test_an_update_asks_sla_before_it_stops_anything() -> None:
    cell = Cell(update=policy(batch=2), max_unavailable=2)
    cell.sla = False
    cell.update(command=("two",))
    assert [runs_of(each) for each in of(cell.said, DisruptionAsked)] == [[("web", 0, 1), ("web", 1, 1)]]
    assert of(cell.said, RunsStopping) == []
    cell.sla = True
    cell.settle(cell.peer("sla", allowed(("web", 0, 1), ("web", 1, 1))))
    assert cell.running() == [2, 2, 2, 2]


def test_deferred_instances_give_way_to_one_that_is_down() -> None:
    cell = Cell(update=policy(batch=1), max_unavailable=1)
    cell.sla = False
    cell.update(command=("two",))
    cell.peer("sla", deferred(("web", 0, 1)))
    said = cell.report(RunReport.EXITED, ("web", 3, 1), exit_code=1)
    assert instances_of(one(said, InstancesReturned)) == [0]
    assert runs_of(one(said, DisruptionWithdrawn)) == [("web", 0, 1)]
    assert cell.taken() == [[0], [3]]
    cell.settle(said)
    assert cell.running()[3] == 2


def test_an_update_that_sla_blocks_for_too_long_fails() -> None:
    cell = Cell(update=policy(batch=1, blocked_after_ms=30_000), max_unavailable=1)
    cell.sla = False
    cell.update(command=("two",))
    cell.peer("sla", deferred(("web", 0, 1)))
    cell.wait(29_000)
    assert cell.ends() == []
    cell.wait(2_000)
    assert cell.ends() == [(1, "FAILED", Code.BLOCKED)]
    assert cell.running() == [1, 1, 1, 1]


def test_an_sla_that_allows_nothing_refuses_updates_and_restarts() -> None:
    cell = Cell(max_unavailable=0)
    assert cell.update(command=("two",)).code == Code.NOT_UPDATABLE
    assert cell.act("restart").code == Code.NOT_UPDATABLE
    assert cell.update(command=("two",), max_unavailable=1).code == Code.DONE
    assert cell.running() == [2, 2, 2, 2]


def test_instances_that_an_aborted_update_left_down_count_in_the_next_one() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS, batch=2, max_attempts=5))
    cell.fails = {2}
    cell.update(command=("bad",))
    cell.wait(2_000)
    cell.act("abort")
    cell.fails = {2, 3}
    cell.update(command=("worse",))
    assert cell.taken() == [[0, 1], [0, 1]], "those two are down and are all that may be down"


def test_added_instances_run_the_new_version_and_removed_ones_leave() -> None:
    cell = Cell(update=policy(batch=1))
    cell.update(instances=6, command=("two",))
    assert cell.taken() == [[4], [5], [0], [1], [2], [3]], "what is added costs nothing"
    assert cell.running() == [2] * 6
    started = one(cell.said, UpdateStarted)
    assert (started.added, started.updated, started.removed, started.unchanged) == (2, 4, 0, 0)
    assert cell.machine.open_tasks == 6
    cell.update(instances=3)
    assert cell.running() == [2] * 3
    assert cell.machine.jobs["web"].instances == 3
    assert cell.machine.open_tasks == 3
    again = cell.update(instances=5)
    assert (again.code, cell.running()) == (Code.DONE, [2, 2, 2, 4, 4])
    assert cell.column("run") == [2, 2, 2, 3, 3], "above all runs of those that were removed"


def test_sla_hears_that_removed_instances_are_not_wanted() -> None:
    cell = Cell(max_unavailable=1)
    cell.update(instances=2)
    wanted = of(cell.said, InstancesWanted)
    assert [(each.wanted, instances_of(each)) for each in wanted] == [(False, [2]), (False, [3])]
    assert of(cell.said, DisruptionAsked) == [], "nobody is asked about what nobody wants"


def test_resources_change_with_the_next_run_and_what_needs_more_is_admitted_anew() -> None:
    cell = Cell(resources={"cpu": 100})
    cell.update(resources={"cpu": 50})
    less = of(cell.said, GangsQueued)[-1]
    assert (ints(less.admitted).tolist(), ints(less.shape).tolist()) == ([1], [0])
    assert less.shapes[0].resources == {"cpu": 50}
    cell.update(resources={"cpu": 200}, ports=("a",))
    more = of(cell.said, GangsQueued)[-1]
    assert ints(more.admitted).tolist() == [0]
    assert (more.shapes[0].resources, more.shapes[0].ports) == ({"cpu": 200}, 1)
    cell.update(constraints=(Constraint("rack", "in", ("r1",)),))
    moved = of(cell.said, GangsQueued)[-1]
    assert ints(moved.admitted).tolist() == [1]
    assert moved.shapes[0].constraints[0].attribute == "rack"
    cell.update(command=("two",))
    assert of(cell.said, GangsQueued)[-1].shapes == ()
    cell.update(health=HealthCheck("command", ("true",)))
    checked = of(cell.said, GangsQueued)[-1]
    assert Constraint("paceline/health", "exists") in checked.shapes[0].constraints


def test_queued_instances_take_another_shape_by_a_new_run_and_other_content_without_one() -> None:
    cell = Cell(instances=1)
    cell.fact("paceline.jobs", JobSubmitted(job_id="q", pool="/p", kind="stateless", command=("one",)))

    def wanted(**changes: Any) -> list[Event]:
        cell.commands += 1
        spec = JobSubmitted(job_id="q", pool="/p", kind="stateless", **changes)
        return cell.fact(
            "paceline.jobs", JobUpdateRequested(job_id="q", command_id=str(cell.commands), spec=encode(spec))
        )

    assert of(wanted(command=("two",)), RunsEnded) == []
    said = wanted(command=("two",), resources={"cpu": 1})
    ended = one(said, RunsEnded)
    assert (ints(ended.kept).tolist(), ended.hold) == ([0], b""), "it may not be admitted yet"
    assert ints(one(said, GangsQueued).run).tolist() == [2]
    said = cell.place(("q", 0, 2))
    assert ints(one(said, RunsOrdered).version).tolist() == [3]


def test_a_restart_is_an_update_of_equal_content() -> None:
    cell = Cell(update=policy(batch=4))
    answer = cell.act("restart", 1, 3, batch=1)
    assert answer.message == "update 1 restarts 2 instances, at most 1 at a time: 2 updated, 2 unchanged"
    assert cell.taken() == [[1], [3]]
    assert cell.running() == [1, 2, 1, 2]
    assert one(cell.said, UpdateStarted).kind == "restart"
    cell.act("restart")
    assert cell.running() == [3, 3, 3, 3]


def test_a_restart_in_the_middle_of_an_update_joins_it() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.wait(HEALTHY_MS)
    assert cell.running() == [2, 2, 1, 1], "the second is being updated"
    answer = cell.act("restart", 0, 3)
    assert answer.message == "update 1 goes on and starts 2 instances again in its turn, with version 2"
    assert (answer.update, answer.version) == (1, 0)
    cell.wait(5 * HEALTHY_MS)
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert cell.running() == [2, 2, 2, 2]
    assert cell.column("run") == [3, 2, 2, 2], "what wasn't updated yet is started again once"
    assert cell.act("restart", 1).message.startswith("update 2 restarts 1 instance")


def test_a_restart_of_a_paused_update_waits_for_it() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS, start_paused=True))
    cell.update(command=("two",))
    answer = cell.act("restart", 2)
    assert answer.message == "update 1 goes on and starts 1 instance again once it is resumed, with version 2"
    cell.wait(HEALTHY_MS)
    assert cell.running() == [1, 1, 1, 1]
    cell.act("resume")
    cell.wait(5 * HEALTHY_MS)
    assert cell.running() == [2, 2, 2, 2]


def test_a_restart_leaves_each_instance_with_the_version_that_it_runs() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",), instances=6)
    cell.act("abort")
    assert cell.running() == [1, 1, 1, 1, 2]
    answer = cell.act("restart", 0, 4, batch=1)
    assert answer.message == "update 2 restarts 2 instances, at most 1 at a time: 2 updated, 3 unchanged"
    cell.wait(4 * HEALTHY_MS)
    assert cell.ends()[-1] == (2, "SUCCEEDED", "")
    assert cell.running() == [1, 1, 1, 1, 3], "the last one runs the newest version, as before"
    assert cell.column("run") == [2, 1, 1, 1, 2]


def test_a_batch_job_gets_more_instances_and_another_priority_and_nothing_else() -> None:
    cell = Cell(kind="batch", instances=2)
    assert cell.update(instances=4, priority=3).code == Code.DONE
    assert cell.running() == [1, 1, 2, 2]
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert cell.machine.jobs["web"].priority == 3
    assert cell.update(instances=3).code == Code.NOT_UPDATABLE
    assert cell.update(instances=4, command=("two",)).code == Code.NOT_UPDATABLE
    assert cell.act("restart").code == Code.NOT_UPDATABLE


def test_an_update_ends_with_its_job() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.act("delete", force=True)
    assert cell.ends() == [(1, "ABORTED", Code.ALREADY_ENDED)]
    assert cell.machine.state_of("web") is None
    assert (len(cell.machine.updates.table), len(cell.machine.updates.versions)) == (0, 0)


def test_a_service_that_is_stopped_during_its_update_starts_with_the_new_version() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.settle(cell.stop("web"))
    assert (cell.machine.state_of("web"), cell.ends()) == ("KILLED", [(1, "SUCCEEDED", "")])
    cell.act("start")
    assert cell.running() == [2, 2, 2, 2]


def test_a_stopped_service_is_updated_at_once_and_never_starts_the_version_before() -> None:
    cell = Cell(update=policy(batch=1, canary=1))
    cell.settle(cell.stop("web"))
    cell.update(command=("two",), resources={"cpu": 2})
    assert (cell.ends(), cell.taken()) == ([(1, "SUCCEEDED", "")], []), "nothing runs that a canary could be"
    cell.act("start")
    assert {cell.versions[run] for run in cell.versions if run[2] > 1} == {2}
    assert cell.running() == [2, 2, 2, 2]


def test_starting_one_instance_of_a_stopped_service_that_got_more_starts_no_other() -> None:
    cell = Cell(instances=3)
    cell.settle(cell.stop("web"))
    cell.update(instances=5)
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    cell.act("start", 0)
    assert [version > 0 for version in cell.running()] == [True, False, False, False, False]


def test_stopped_instances_are_no_canary() -> None:
    cell = Cell(update=policy(canary=1, promote_after_ms=1_000, max_attempts=1))
    cell.settle(cell.stop_some("web", (2, 2)))
    cell.fails = {2}
    cell.update(command=("two",))
    assert cell.taken() == [[0]]
    assert (cell.ends(), cell.running()[1]) == ([(1, "FAILED", Code.MAX_FAILURES)], 1)


def test_a_canary_that_is_stopped_has_shown_nothing() -> None:
    cell = Cell(update=policy(canary=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.settle(cell.stop_some("web", (0, 1)))
    assert cell.taken() == [[0], [1]]
    assert not cell.machine.updates.table["web"].waits_ms


def test_what_an_earlier_update_left_down_and_a_user_stops_takes_no_place_of_the_next_one() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.act("abort")
    cell.settle(cell.stop_some("web", (0, 1)))
    cell.update(description="the others follow")
    cell.wait(4 * HEALTHY_MS)
    assert (cell.running(), cell.ends()[-1]) == ([0, 3, 3, 3], (2, "SUCCEEDED", ""))


def test_the_ten_newest_versions_are_kept_and_those_that_runs_are_of() -> None:
    cell = Cell()
    for number in range(15):
        cell.update(labels={"n": str(number)})
    assert sorted(cell.machine.updates.versions["web"]) == [1, *range(7, 17)]
    forgotten = [ints(each.forgotten).tolist() for each in of(cell.said, UpdateStarted)]
    assert [*chain(*forgotten)] == [2, 3, 4, 5, 6]
    cell.update(command=("two",))
    cell.update(labels={})
    assert 1 not in cell.machine.updates.versions["web"]


def test_a_lost_host_in_the_middle_of_an_update_delays_it_and_is_no_failure() -> None:
    cell = Cell(update=policy(batch=1, healthy_ms=HEALTHY_MS, max_failures=1, max_attempts=1))
    cell.update(command=("two",))
    cell.settle(cell.inventory(2))
    cell.wait(60_000)
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert cell.running() == [2, 2, 2, 2]


def test_an_updated_instance_goes_back_to_its_host() -> None:
    cell = Cell(instances=2)
    cell.update(command=("two",))
    assert [ints(each.hold).tolist() for each in of(cell.said, RunsEnded)] == [[1, 1]]
    cell.settle(cell.stop("web"))
    assert not of(cell.said, RunsEnded)[-1].hold, "nobody comes back"


def test_an_update_may_give_a_service_an_sla_or_take_it() -> None:
    cell = Cell()
    assert cell.update(max_unavailable=1).message == "update 1 takes 0 instances to version 2"
    said = one(cell.said, JobSlaChanged)
    assert (said.max_unavailable, said.instances, ints(said.count).tolist(), ints(said.run).tolist()) == (
        1,
        4,
        [4],
        [1],
    )
    cell.update(max_unavailable=2)
    cell.update(max_unavailable=None)
    assert [each.max_unavailable for each in of(cell.said, JobSlaChanged)] == [1, 2, None]
    assert cell.act("roll_back", version=1).code == Code.DONE
    assert len(of(cell.said, JobSlaChanged)) == 3, "version 1 has none either"


def test_nothing_is_promoted_while_the_whole_job_stops() -> None:
    cell = Cell(update=policy(canary=1, promote_after_ms=10_000))
    cell.update(command=("two",))
    cell.stops = False
    cell.settle(cell.stop("web"))
    cell.wait(20_000)
    assert len(cell.taken()) == 1


def test_only_updates_that_wait_for_a_time_are_looked_at_when_it_passes() -> None:
    cell = Cell(update=policy(healthy_ms=HEALTHY_MS))
    cell.stops = False
    cell.update(command=("two",))
    updates = cell.machine.updates
    assert (len(updates.table), updates.touched, len(updates.deadlines)) == (1, {}, 0), "its runs are still to stop"
    cell.settle(cell.report(RunReport.STOPPED, *[("web", at, 1) for at in range(4)]))
    due_ms = cell.machine.next_wakeup()
    assert (len(updates.deadlines), updates.deadlines.get("web")) == (1, due_ms)
    updates.restored()
    assert (len(updates.deadlines), cell.machine.next_wakeup()) == (0, due_ms), "it is found again after a restart"
    cell.wait(2 * HEALTHY_MS)
    assert (cell.ends(), len(updates.deadlines)) == ([(1, "SUCCEEDED", "")], 0)


def test_a_job_that_has_lost_instances_is_looked_at_no_more_when_they_are_gone() -> None:
    cell = Cell()
    cell.update(instances=3)
    cell.settle(cell.later(1000))
    assert cell.column("state") == [TaskState.RUNNING] * 3
    assert not cell.machine.updates.leaving


def test_a_number_whose_instance_has_left_is_not_stopped_with_the_others() -> None:
    cell = Cell(instances=3)
    cell.stops = False
    cell.update(instances=1)
    cell.settle(cell.report(RunReport.STOPPED, ("web", 1, 1)))
    assert cell.column("state")[1:] == [TaskState.NONE, TaskState.STOPPING]
    cell.stops = True
    cell.settle(cell.stop("web"))
    cell.act("start")
    cell.update(instances=3)
    assert cell.running() == [2, 3, 0], "it comes back, and runs"


def test_an_instance_that_still_leaves_comes_back_when_its_run_is_over() -> None:
    cell = Cell(instances=3)
    cell.stops = False
    cell.update(instances=1)
    cell.update(instances=3)
    cell.stops = True
    cell.settle(cell.report(RunReport.STOPPED, ("web", 1, 1)))
    cell.settle(cell.report(RunReport.STOPPED, ("web", 2, 1)))
    assert cell.running() == [1, 3, 3]
    assert cell.ends()[-1] == (2, "SUCCEEDED", "")


def test_a_restart_of_a_stopped_service_ends_at_once() -> None:
    cell = Cell()
    cell.settle(cell.stop("web"))
    assert cell.act("restart").message == "update 1 restarts 0 instances"
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    cell.act("start")
    assert cell.running() == [2] * 4


def test_each_step_of_an_update_says_what_led_to_it() -> None:
    cell = Cell(instances=2, update=policy(batch=1, healthy_ms=HEALTHY_MS))

    begin = cell.now
    cell.update(command=("two",))
    cell.wait(2 * HEALTHY_MS)
    progressed = of(cell.said, UpdateProgressed)
    assert [each.cause.due_ms > begin for each in progressed if each.cause] == [True, True]
    assert [cell.led_to(each) for each in of(cell.said, InstancesTaken)] == [UpdateStarted, UpdateProgressed]
    assert cell.led_to(one(cell.said, UpdateEnded)) is UpdateProgressed


def test_a_failed_instance_is_followed_back_to_the_end_of_its_run() -> None:
    cell = Cell(update=policy(batch=1, max_failures=1, max_attempts=1))

    cell.fails = {2}
    cell.update(command=("two",))
    assert cell.led_to(of(cell.said, UpdateProgressed)[-1]) is RunsEnded


def test_instances_that_are_added_or_leave_say_why() -> None:
    cell = Cell()

    cell.update(instances=6)
    cell.update(instances=2)
    added, removed = of(cell.said, InstancesChanged)
    assert (cell.led_to(added), cell.led_to(removed)) == (UpdateStarted, InstancesTaken)


def test_a_run_that_is_to_be_preempted_leaves_when_its_job_has_no_sla_any_more() -> None:
    cell = Cell(max_unavailable=1)
    cell.busy = True
    cell.preempt(("web", 0, 1))
    wanted = JobSubmitted(job_id="web", **SERVICE)
    cell.fact("paceline.jobs", JobUpdateRequested(job_id="web", command_id="none", spec=encode(wanted)))
    cell.busy = False
    said = cell.settle(cell.quiet())
    assert one(said, PreemptionAnswered).code == Code.LEFT
    assert of(said, DisruptionAsked) == []


def test_what_an_earlier_update_left_down_counts_as_up_again_while_the_next_one_is_paused() -> None:
    cell = Cell(update=policy(batch=2, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    cell.act("abort")
    cell.update(command=("three",), update=policy(batch=2, healthy_ms=HEALTHY_MS, start_paused=True))
    assert [step & INHERITED for step in cell.column("step")] == [INHERITED, INHERITED, 0, 0]
    cell.wait(2 * HEALTHY_MS)
    assert [step & INHERITED for step in cell.column("step")] == [0, 0, 0, 0]
