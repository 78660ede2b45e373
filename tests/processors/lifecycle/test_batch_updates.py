"""Updates of batch jobs: what runs depend on changes only for instances that haven't begun."""

from typing import Any

from events.codec import encode
from events.codes import Code, RunReport
from events.columns import ints, pack_ints
from events.records.base import Event
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import CommandAnswered, GangsQueued, RunsEnded, RunsOrdered, RunsStopping, UpdateEnded
from events.records.parts import TaskOverride, UpdatePolicy
from tests.helpers.machines import of, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World


class Waiting(World):
    """A batch job of four instances, of which the first one has begun; the next two are queued."""

    def __init__(self, **spec: Any) -> None:
        super().__init__()
        self.spec = {"pool": "/p", "command": ("one",), "instances": 4, "max_running": 3} | spec
        self.submit("b", **self.spec)
        self.place(("b", 0, 1))

    def update(self, *overrides: tuple[int, TaskOverride], **changes: Any) -> list[Event]:
        columns = (range(len(overrides)), [instance for instance, _ in overrides], [1] * len(overrides))
        override, first, count = map(pack_ints, columns)
        changes |= {"overrides": tuple(each for _, each in overrides), "override": override}
        changes |= {"override_first": first, "override_count": count}
        spec = encode(JobSubmitted(job_id="b", **self.spec | changes))
        return self.fact("paceline.jobs", JobUpdateRequested(job_id="b", command_id=self.command_id(), spec=spec))

    def column(self, name: str) -> list[int]:
        return self.machine.updates.column("b", name).tolist()


ENV = TaskOverride(env={"A": "2"})


def test_instances_of_a_batch_job_that_have_not_begun_get_other_overrides() -> None:
    cell = Waiting()

    said = cell.update((1, ENV), (3, ENV))
    assert one(said, CommandAnswered).message == "update 1 takes 2 instances to version 2: 2 updated, 2 unchanged"
    assert not of(said, RunsEnded)
    assert cell.column("version") == [1, 2, 1, 1]
    assert cell.column("target") == [2, 2, 2, 2]
    assert one(said, UpdateEnded).state == "SUCCEEDED"
    ordered = one(cell.place(("b", 1, 1), ("b", 2, 1)), RunsOrdered)
    assert ints(ordered.version).tolist() == [2, 1]


def test_what_a_queued_instance_of_a_batch_job_asks_changes_with_another_run() -> None:
    cell = Waiting()

    said = cell.update((1, TaskOverride(resources={"cpu": 5})))
    assert runs_of(one(said, RunsEnded)) == [("b", 1, 1)]
    queued = one(said, GangsQueued)
    assert queued.shapes[ints(queued.shape)[0]].resources["cpu"] == 5


def test_instances_of_a_batch_job_that_have_begun_stay_as_they_are() -> None:
    cell, message = Waiting(), "1 instance would change that began before, the first is 0"

    answer = one(cell.update((0, ENV), (3, ENV)), CommandAnswered)
    assert (answer.code, answer.message) == (Code.NOT_UPDATABLE, message)
    cell.report(RunReport.EXITED, ("b", 0, 1), exit_code=1)
    assert one(cell.update((0, ENV)), CommandAnswered).message == message


def test_an_instance_that_begins_before_its_update_takes_it_keeps_its_run() -> None:
    cell = Waiting()

    cell.update((1, ENV), (2, ENV), update=UpdatePolicy(start_paused=True))
    cell.place(("b", 1, 1))
    said = cell.act("b", "resume")
    assert not of(said, RunsStopping)
    assert one(said, UpdateEnded).state == "SUCCEEDED"
    assert cell.column("version") == [1, 1, 2, 1]


def test_members_of_a_gang_are_not_changed_by_overrides() -> None:
    cell = Waiting(gang_min=2, max_running=0)

    answer = one(cell.update((1, ENV)), CommandAnswered)
    assert (answer.code, answer.message) == (Code.NOT_UPDATABLE, "the 2 instances of the gang can't be changed")


def test_how_many_instances_of_a_batch_job_run_at_a_time_changes_by_update() -> None:
    cell = Waiting(max_running=1)

    queued = one(cell.update(max_running=3), GangsQueued)
    assert [each[1:3] for each in ranges_of(queued)] == [(1, 2)]
    queued = one(cell.update(max_running=0), GangsQueued)
    assert [each[1:3] for each in ranges_of(queued)] == [(3, 1)]


def test_a_batch_job_is_rolled_back_only_to_what_its_instances_allow() -> None:
    cell = Waiting()

    cell.update((2, ENV), instances=5)
    refused = one(cell.act("b", "roll_back"), CommandAnswered)
    assert refused.message == "instances of a batch job can be added to its 5 only"
    cell.update((3, ENV), instances=5)
    assert one(cell.act("b", "roll_back"), CommandAnswered).code == Code.DONE


def test_nothing_is_added_to_a_job_that_ends_with_its_controller() -> None:
    cell = Waiting(controller=True, max_running=0)
    cell.place(("b", 1, 1))
    cell.report(RunReport.EXITED, ("b", 0, 1))
    assert one(cell.update(instances=6), CommandAnswered).code == Code.ALREADY_ENDED
    assert one(cell.act("b", "roll_back"), CommandAnswered).code == Code.ALREADY_ENDED
    cell.report(RunReport.STOPPED, ("b", 1, 1))
    assert cell.machine.state_of("b") == "SUCCEEDED"


def test_an_update_adds_nothing_more_once_the_controller_is_over() -> None:
    cell = Waiting(controller=True, max_running=0)
    cell.place(("b", 1, 1))
    cell.update(instances=6, update=UpdatePolicy(start_paused=True))
    cell.report(RunReport.EXITED, ("b", 0, 1))
    assert of(cell.act("b", "resume"), GangsQueued) == []
    ended = one(cell.report(RunReport.STOPPED, ("b", 1, 1)), UpdateEnded)
    assert (ended.state, ended.code) == ("ABORTED", Code.ALREADY_ENDED)
    assert cell.machine.state_of("b") == "SUCCEEDED"
