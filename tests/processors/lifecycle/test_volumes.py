"""Who may remove a volume, and when."""

from typing import Any

import pytest

from events.codes import Code, RunReport
from events.records.jobs import VolumeRemovalRequested
from events.records.lifecycle import CommandAnswered, VolumeRemovalOrdered
from tests.helpers.machines import one
from tests.processors.lifecycle.harness import World

SPEC: dict[str, Any] = {
    "kind": "stateful",
    "volumes": ("data",),
    "on_silence": "stop_after",
    "stop_after_ms": 1000,
    "instances": 2,
}


def remove(world: World, instance: int = 0, host: str = "h1", **fields: Any) -> CommandAnswered:
    """Asks for the end of a volume; what is done must be what the answer says."""
    named = {"job_id": "db", "instance": instance, "name": "data", "created_ms": 5, **fields}
    wanted = VolumeRemovalRequested(command_id=world.command_id(), host_id=host, **named)
    said = world.fact("paceline.jobs", wanted)
    answer = one(said, CommandAnswered)
    ordered = [each for each in said if isinstance(each, VolumeRemovalOrdered)]
    done = [(each.host_id, each.job_id, each.instance, each.name, each.created_ms) for each in ordered]
    assert done == ([(host, *named.values())] if answer.code == Code.DONE else [])
    return answer


@pytest.fixture
def world() -> World:
    """Instance 0 runs on h1, instance 1 waits to be placed for the first time."""
    world = World()
    world.submit("db", **SPEC)
    world.inventory(1)
    world.place(("db", 0, 1))
    world.report(RunReport.STARTED, ("db", 0, 1))
    return world


def test_the_volume_of_a_task_that_runs_there_stays(world: World) -> None:
    answer = remove(world)
    assert answer.code == Code.VOLUME_IN_USE
    assert answer.message == (
        "task db/0 stays on h1 with its volumes; delete the job, or remove the instance from it by an update, and "
        "remove the volume then"
    )


def test_the_volume_of_a_stopped_task_stays_where_it_will_run_again(world: World) -> None:
    world.stop("db")
    world.report(RunReport.STOPPED, ("db", 0, 1))
    assert world.machine.jobs["db"].state == "KILLED"
    assert remove(world).code == Code.VOLUME_IN_USE


def test_a_volume_is_removed_once_its_job_is_deleted(world: World) -> None:
    world.stop("db")
    world.report(RunReport.STOPPED, ("db", 0, 1))
    world.act("db", "delete")
    assert "db" not in world.machine.jobs
    answer = remove(world)
    assert (answer.code, answer.message) == (Code.DONE, "host h1 removes it, as soon as it is connected")
    assert remove(world).code == Code.DONE, "a repeat is harmless: the host removes the volume of that time only"


def test_a_volume_stays_until_the_last_run_of_a_deleted_job_is_over(world: World) -> None:
    world.act("db", "delete", force=True)
    assert remove(world).code == Code.VOLUME_IN_USE
    world.report(RunReport.STOPPED, ("db", 0, 1))
    assert remove(world).code == Code.DONE


@pytest.mark.parametrize(
    ("instance", "host"),
    [(1, "h1"), (0, "h2"), (2, "h1"), (0, "never-heard-of")],
    ids=["of a task that never ran there", "on another host", "beyond the job", "of a host that is not known"],
)
def test_a_volume_that_no_task_will_look_for_is_removed_though_the_job_lives(
    world: World, instance: int, host: str
) -> None:
    world.inventory(1, host="h2")
    assert remove(world, instance, host).code == Code.DONE


def test_a_volume_is_removed_when_its_task_has_moved_since_its_host_was_removed(world: World) -> None:
    world.remove("h1")
    assert remove(world).code == Code.DONE


@pytest.mark.parametrize("fields", [{"name": "../x"}, {"job_id": ".."}, {"instance": -1}])
def test_what_names_no_volume_reaches_no_agent(world: World, fields: dict[str, Any]) -> None:
    assert remove(world, **fields).code == Code.NOT_FOUND
