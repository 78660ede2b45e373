"""A host is kept for the next run of a task that an update or a restart ended there."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from events.codes import Code
from events.columns import pack_ints
from events.records.base import Event
from events.records.lifecycle import JobChanged
from events.records.parts import Constraint, TaskShape
from events.records.placement import GangsUnplaced
from processors.placement.homes import HOME_MS
from tests.helpers.machines import instances_changed, of, one, queued
from tests.processors.placement.harness import World, places

BIG, SMALL, HALF = (TaskShape({"cpu": cpu}) for cpu in (4000, 1000, 2000))


def cell(hosts: int = 2) -> World:
    """A job of two tasks fills two hosts of four cores."""
    world = World()
    for number in range(hosts):
        world.host(f"h{number}", cpu=4000)
    world.run("j", 2, shapes=(BIG,))
    return world


def hosts(said: Sequence[Event]) -> dict[tuple[str, int], str]:
    return {(job, instance): host for (job, instance, _), (host, _) in places(said).items()}


def again(world: World, instance: int, run: int = 2, shape: TaskShape | None = None) -> dict[tuple[str, int], str]:
    """Where a task goes that keeps its admission."""
    return hosts(world.requeue(("j", instance, 1, run, 0), shape=shape))


def test_the_next_run_goes_where_the_last_one_was_though_others_wait_for_room() -> None:
    world = cell()
    world.run("other", 2, shapes=(SMALL,))
    assert world.end(("j", 1, 1), kept=1, hold=1) == []
    assert again(world, 1) == {("j", 1): "h1"}


def test_nobody_waits_for_longer_than_two_minutes() -> None:
    world = cell()
    world.run("other", 1, shapes=(SMALL,))
    world.end(("j", 1, 1), kept=1, hold=1)
    assert hosts(world.later(HOME_MS - 1000)) == {}
    assert hosts(world.later(2000)) == {("other", 0): "h1"}
    assert again(world, 1) == {}


def test_a_run_that_is_held_for_twice_keeps_its_first_time() -> None:
    world = cell()
    world.end(("j", 1, 1), hold=1)
    world.later(HOME_MS // 2)
    world.end(("j", 1, 2), hold=1)
    world.run("other", 1, shapes=(SMALL,))
    assert hosts(world.later(HOME_MS // 2 + 1000)) == {("other", 0): "h1"}


@pytest.mark.parametrize("how", ["its run ends otherwise", "it is removed", "its job ends"])
def test_what_is_kept_goes_with_what_it_is_kept_for(how: str) -> None:
    world = cell()
    world.run("other", 1, shapes=(SMALL,))
    world.end(("j", 1, 1), hold=1)
    if how == "its run ends otherwise":
        said = world.end(("j", 1, 2))
    elif how == "it is removed":
        said = world.peer("lifecycle", instances_changed("j", (0, 1), removed=(1,)))
    else:
        world.end(("j", 0, 1), hold=1)
        said = world.peer("lifecycle", JobChanged(job_id="j", state="KILLED"))
    assert list(hosts(said)) == [("other", 0)]


def test_a_task_that_asks_less_keeps_less_and_one_that_asks_more_than_is_there_goes_elsewhere_at_once() -> None:
    world = cell(hosts=3)
    world.end(("j", 1, 1), kept=1, hold=1)
    assert again(world, 1, shape=HALF) == {("j", 1): "h1"}
    assert world.free("h1")[0] == 2000
    world.run("other", 1, shapes=(SMALL,))
    world.end(("j", 1, 2), kept=1, hold=1)
    assert again(world, 1, 3, TaskShape({"cpu": 3000})) == {("j", 1): "h1"}, "beside the other there is as much"
    world.end(("j", 1, 3), kept=1, hold=1)
    assert again(world, 1, 4, BIG) == {("j", 1): "h2"}


def test_new_conditions_that_the_host_does_not_meet_lead_elsewhere_at_once() -> None:
    world = cell()
    world.host("h2", cpu=4000, attributes={"disk": "fast"})
    world.end(("j", 1, 1), kept=1, hold=1)
    fast = TaskShape({"cpu": 4000}, 0, (Constraint("disk", "in", ("fast",)),))
    assert again(world, 1, shape=fast) == {("j", 1): "h2"}
    assert world.free("h1")[0] == 4000


def test_a_host_that_is_silent_is_waited_for_and_the_task_is_told_until_when() -> None:
    world = cell(hosts=3)
    world.end(("j", 1, 1), kept=1, hold=1)
    ends = world.machine.runs.homes.next_ms()
    world.silence("h1")
    said = world.requeue(("j", 1, 1, 2, 0))
    told = one(said, GangsUnplaced)
    assert (told.code, told.host_id, told.until_ms) == (Code.WAITING_FOR_HOST, "h1", ends)
    assert hosts(world.hear("h1")) == {("j", 1): "h1"}


def test_a_host_that_stays_silent_is_waited_for_until_its_time_is_over() -> None:
    world = cell(hosts=3)
    world.end(("j", 1, 1), kept=1, hold=1)
    world.silence("h1")
    world.requeue(("j", 1, 1, 2, 0))
    assert hosts(world.later(HOME_MS + 1000)) == {("j", 1): "h2"}


def test_a_host_that_is_given_up_is_waited_for_no_longer() -> None:
    world = cell(hosts=3)
    world.end(("j", 1, 1), kept=1, hold=1)
    world.silence("h1")
    world.requeue(("j", 1, 1, 2, 0))
    assert hosts(world.confirm("h1")) == {("j", 1): "h2"}
    world.end(("j", 1, 2), kept=1, hold=1)
    world.silence("h2")
    world.remove("h2")
    assert "h2" not in world.machine.hosts.table
    assert not world.machine.runs.homes.tasks


def test_ports_are_not_kept_but_found_anew() -> None:
    world = World()
    world.host("h0", cpu=4000, port_last=31_001)
    world.run("j", 2, shapes=(TaskShape({"cpu": 1000}, 1),))
    world.end(("j", 0, 1), ("j", 1, 1), kept=1, hold=1)
    world.run("other", 1, shapes=(TaskShape({"cpu": 1000}, 1),))
    said = world.requeue(("j", 0, 2, 2, 0))
    assert places(said) == {("j", 0, 2): ("h0", (31_001,))}
    assert of(said, GangsUnplaced)[0].code == Code.NO_HOST_FITS


def test_a_batch_of_many_goes_home_as_one_round() -> None:
    world = World()
    for number in range(4):
        world.host(f"h{number}", cpu=100_000)
    world.run("j", 100, shapes=(BIG,))
    before = hosts(world.said)
    world.end(*(("j", at, 1) for at in range(100)), kept=1, hold=1)
    assert hosts(world.requeue(("j", 0, 100, 2, 0))) == before
    world.budget = 7
    world.end(*(("j", at, 2) for at in range(100)), kept=1, hold=1)
    assert hosts(world.requeue(("j", 0, 100, 3, 0))) == before


def test_a_task_that_is_bound_to_its_host_no_longer_keeps_it_for_two_minutes_at_most() -> None:
    world = cell()
    bound = replace(queued([("j", 1, 1, 2, 0)], 1), host_ids=("h1",), pin=pack_ints([0]))
    world.end(("j", 1, 1), kept=1, hold=1)
    assert hosts(world.peer("lifecycle", bound)) == {("j", 1): "h1"}
    world.run("other", 1, shapes=(SMALL,))
    world.end(("j", 1, 2), kept=1, hold=1)
    assert world.machine.runs.homes.next_ms() is None, "bound tasks keep their hosts"
    world.silence("h1")
    world.requeue(("j", 1, 1, 3, 0))
    assert world.machine.runs.homes.next_ms() is not None
    world.later(HOME_MS + 2000)
    assert not world.machine.runs.homes.tasks
