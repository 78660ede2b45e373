"""Tasks that may run on one host alone: those of stateful jobs and daemons."""

import pytest
from msgspec.structs import replace

from events.codes import Code
from events.columns import pack_ints
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
