"""Tasks that may run on one host alone: those of stateful jobs and daemons."""

import pytest
from msgspec.structs import replace

from events.codes import Code
from events.columns import pack_ints
from events.records.parts import PlacementRules, TaskShape
from events.records.placement import GangsUnplaced, HostRemoved
from tests.helpers.machines import instances_changed, one, queued
from tests.processors.placement.harness import World, hosts_of


@pytest.mark.parametrize(
    ("bound", "other", "first"), [(1, 0, "bound"), (0, 1, "other"), (1, 1, "bound"), (0, 0, "bound")]
)
def test_what_is_bound_goes_before_others_of_its_rank_alone(bound: int, other: int, first: str) -> None:
    """1: entitled; 0: borrowed. The other is admitted first, and the host has room for one of both."""
    world = World()
    world.host("h", cpu=1000)
    world.run("before")
    world.run("other", entitled=other)
    world.accept("bound")
    one = ("bound", 0, 1, 1, 0)
    world.peer("lifecycle", replace(queued([one]), host_ids=("h",), pin=pack_ints([0])))
    assert hosts_of(world.admit(one, entitled=bound)) == {}
    assert hosts_of(world.end(("before", 0, 1))) == {(first, 0, 1): "h"}


def test_the_last_host_of_a_cell_is_removed_while_an_instance_of_a_daemon_is_bound_to_it() -> None:
    """What can't go anywhere keeps nobody from deciding: lifecycle takes it out of its daemon."""
    world = World()
    world.host("h")
    world.accept("agent", kind="daemon")
    agent = ("agent", 0, 1, 1, 0)
    world.silence("h")
    world.confirm("h")
    world.peer("lifecycle", replace(queued([agent]), host_ids=("h",), pin=pack_ints([0])))
    world.admit(agent)
    one(world.remove("h"), HostRemoved)
    assert not len(world.machine.hosts.table)
    said = world.admit(agent)
    assert (one(said, GangsUnplaced).code, one(said, GangsUnplaced).hosts_considered) == (Code.BOUND_HOST_LOST, 0)
    world.peer("lifecycle", instances_changed("agent", (0, 1), removed=(0,)))
    world.host("other")
    world.run("web")
    assert hosts_of(world.said) == {("web", 0, 1): "other"}


def test_many_that_find_no_room_on_their_hosts_do_not_keep_others_waiting() -> None:
    """More than one decision may place."""
    world = World()
    world.host("full", cpu=1000)
    world.run("before")
    world.host("h", cpu=1000)
    world.budget = 2
    world.accept("bound", 3)
    tasks = ("bound", 0, 3, 1, 0)
    world.peer("lifecycle", replace(queued([tasks]), host_ids=("full",), pin=pack_ints([0])))
    world.admit(tasks)
    assert hosts_of(world.run("other")) == {("other", 0, 1): "h"}


def test_tasks_that_are_bound_to_hosts_count_for_those_of_their_job_that_are_not() -> None:
    world = World()
    world.host("small", cpu=3000)
    world.host("large", cpu=9000)
    world.accept("db", 2, shapes=(TaskShape({"cpu": 1000}, rules=PlacementRules(host_limit=1)),))
    bound, free = ("db", 0, 1, 1, 0), ("db", 1, 1, 1, 0)
    world.peer("lifecycle", replace(queued([bound, free]), host_ids=("small",), pin=pack_ints([0, -1])))
    assert hosts_of(world.admit(("db", 0, 2, 1, 0))) == {("db", 0, 1): "small", ("db", 1, 1): "large"}


def test_who_is_bound_to_a_host_that_is_kept_for_it_and_silent_waits_for_nothing_else() -> None:
    world = World()
    world.host("h")
    world.host("other")
    world.accept("db")
    world.peer("lifecycle", replace(queued([("db", 0, 1, 1, 0)]), host_ids=("h",), pin=pack_ints([0])))
    world.admit(("db", 0, 1, 1, 0))
    world.end(("db", 0, 1), kept=1, hold=1)
    world.silence("h")
    again = replace(queued([("db", 0, 1, 2, 0)], admitted=1), host_ids=("h",), pin=pack_ints([0]))
    assert one(world.peer("lifecycle", again), GangsUnplaced).code == Code.BOUND_HOST_BUSY
