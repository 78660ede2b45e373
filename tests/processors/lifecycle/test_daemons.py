"""Daemons in lifecycle: an instance for each host that matches, whose number is the host's."""

from events.codes import Outcome, RunReport
from events.columns import ints
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.lifecycle import GangsQueued, InstancesChanged, RunsEnded, RunsStopping
from events.records.parts import Cause
from events.records.placement import HostLost
from tests.helpers.machines import of, one, ranges_of
from tests.processors.lifecycle.harness import World


def daemon() -> World:
    world = World()
    world.submit("d", kind="daemon", instances=0, preemptible=False)
    return world


def changes(said: list[Event]) -> list[tuple[str, int, int]]:
    """Host, instance, whether it was added; of those that were removed no host."""
    found = []
    for event in of(said, InstancesChanged):
        added, removed, _ = instance_change(event)
        found += [(host_id, instance, 1) for host_id, instance in zip(event.host_ids, added.tolist(), strict=True)]
        found += [("", instance, 0) for instance in removed.tolist()]
    return found


def queued(said: list[Event]) -> list[tuple[str, int, int]]:
    """Host, instance, run of what is queued."""
    return [
        (event.host_ids[pin], first, run)
        for event in of(said, GangsQueued)
        for pin, first, run in zip(*(ints(each).tolist() for each in (event.pin, event.first, event.run)), strict=True)
    ]


def test_each_host_that_matches_gets_an_instance_that_is_bound_to_it() -> None:
    world = daemon()
    assert world.machine.state_of("d") == "PENDING"
    said = world.match("d", "h2", "h1")
    assert changes(said) == [("h1", 0, 1), ("h2", 1, 1)]
    assert queued(said) == [("h1", 0, 1), ("h2", 1, 1)]
    assert one(said, InstancesChanged).cause == Cause(machine="placement", round=1)
    assert changes(world.match("d", "h3")) == [("h3", 2, 1)]


def test_the_task_of_a_host_that_no_longer_matches_is_stopped_and_its_number_stays_the_hosts() -> None:
    world = daemon()
    world.match("d", "h1", "h2")
    world.place(("d", 0, 1))
    world.report(RunReport.STARTED, ("d", 0, 1))
    assert of(world.match("d", "h1", matches=0), RunsStopping)
    said = world.report(RunReport.STOPPED, ("d", 0, 1))
    assert changes(said) == [("", 0, 0)]
    assert changes(world.match("d", "h3")) == [("h3", 2, 1)], "0 still belongs to h1"
    assert queued(world.match("d", "h1")) == [("h1", 0, 2)], "and its runs go on where they were"


def test_a_host_that_matches_again_while_its_task_ends_gets_it_anew() -> None:
    world = daemon()
    world.match("d", "h1")
    world.place(("d", 0, 1))
    world.match("d", "h1", matches=0)
    world.match("d", "h1")
    said = world.report(RunReport.STOPPED, ("d", 0, 1))
    assert changes(said) == [("", 0, 0), ("h1", 0, 1)]
    assert queued(said) == [("h1", 0, 2)]


def test_the_task_of_a_lost_host_is_queued_for_it_again() -> None:
    world = daemon()
    world.match("d", "h1")
    world.place(("d", 0, 1))
    world.report(RunReport.STARTED, ("d", 0, 1))
    said = world.peer("placement", HostLost(host_id="h1", session=1, code="SILENT", silent_ms=1))
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.LOST]
    assert queued(said) == [("h1", 0, 2)]


def test_with_a_host_that_is_forgotten_its_instance_goes_and_its_number_is_free() -> None:
    world = daemon()
    world.match("d", "h1", "h2")
    assert changes(world.remove("h1")) == [("", 0, 0)]
    assert queued(world.match("d", "h3")) == [("h3", 0, 2)]


def test_a_daemon_that_was_held_as_its_first_instance_left_is_queued_by_itself_when_it_is_released() -> None:
    world = daemon()
    world.match("d", "h0", "h1")
    world.place(("d", 1, 1))
    world.act("d", "hold")
    world.remove("h0")
    world.act("d", "release")
    said = world.report(RunReport.EXITED, ("d", 1, 1)) + world.later(10_000)
    assert ranges_of(one(said, GangsQueued)) == [("d", 1, 1, 2, 0)]


def test_a_daemon_that_is_stopped_ends_and_one_without_hosts_at_once() -> None:
    world = daemon()
    world.match("d", "h1")
    world.stop("d")
    assert world.machine.state_of("d") == "KILLED"
    world.submit("e", kind="daemon", instances=0, preemptible=False)
    world.stop("e")
    assert world.machine.state_of("e") == "KILLED"
    for job_id in "de":
        world.act(job_id, "delete")
    assert not len(world.machine.daemons.table)
