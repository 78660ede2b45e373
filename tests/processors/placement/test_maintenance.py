"""Hosts that are cordoned, drained and taken back: what operators ask, what placement decides."""

from collections.abc import Sequence
from typing import Any

import pytest

from events.codes import Code, Stage
from events.records.base import Event
from events.records.placement import CapacityChanged, HostMaintenanceChanged, HostsAnswered, TasksPlaced
from tests.helpers.machines import of, one
from tests.processors.placement.harness import World, hosts_of


def world_of(*hosts: str, **offer: Any) -> World:
    world = World()
    for host in hosts:
        world.host(host, **offer)
    return world


def answers(said: Sequence[Event]) -> list[str]:
    return [event.code for event in of(said, HostsAnswered)]


def test_a_host_that_drains_takes_no_tasks_and_is_drained_when_its_last_run_is_over() -> None:
    world = world_of("h0", "h1")
    world.run("j", 2)
    said = world.drain("h0")
    assert answers(said) == [Code.DONE]
    assert world.stages() == {"h0": "DRAINING"}
    assert set(hosts_of(world.run("k", 3)).values()) == {"h1"}
    assert world.end(("j", 0, 1))
    assert world.stages() == {"h0": "DRAINING"}
    empty = one(world.end(("j", 1, 1)), HostMaintenanceChanged)
    assert (empty.code, empty.stage_array.tolist(), empty.by) == (Code.EMPTY, [Stage.DRAINED], "operator")
    world.resume("h0")
    assert world.stages() == {}
    assert set(hosts_of(world.run("l", 4)).values()) == {"h0", "h1"}


def test_an_empty_host_is_drained_at_once() -> None:
    world = world_of("h0")
    assert [event.code for event in of(world.drain("h0"), HostMaintenanceChanged)] == [Code.ASKED, Code.EMPTY]
    assert world.stages() == {"h0": "DRAINED"}


def test_of_several_hosts_of_which_one_is_unknown_none_drains() -> None:
    hosts = [f"h{number}" for number in range(19)]
    world = world_of(*hosts)
    answer = one(world.drain(*hosts, "nowhere"), HostsAnswered)
    assert (answer.code, answer.host_ids, answer.codes) == (Code.NOT_FOUND, ("nowhere",), (Code.NOT_FOUND,))
    assert answer.message == "This cell knows no host nowhere; nothing was changed on any of the 20 hosts."
    assert world.stages() == {}


def test_a_cordon_keeps_new_tasks_away_and_outlasts_a_drain() -> None:
    world = world_of("h0", "h1")
    world.run("j", 1)
    assert answers(world.cordon("h0")) == [Code.DONE]
    assert set(hosts_of(world.run("k", 2)).values()) == {"h1"}
    assert answers(world.cordon("h0")) == [Code.REPEATED]
    world.drain("h0")
    assert answers(world.resume("h0", cordon_only=True)) == [Code.HOST_DRAINING]
    assert world.stages() == {"h0": "DRAINING"}
    assert world.machine.stages.of("h0").cordon
    assert answers(world.resume("h0")) == [Code.DONE], "resume ends drain and cordon"
    assert world.stages() == {}
    world.cordon("h1")
    assert answers(world.resume("h1", cordon_only=True)) == [Code.DONE]
    assert answers(world.resume("h1", cordon_only=True)) == [Code.REPEATED]


def test_force_is_refused_unless_the_cell_allows_it() -> None:
    world = world_of("h0")
    world.run("j", 1)
    for how in ({"force": True}, {"escalate": "force", "deadline_ms": 60_000}):
        assert answers(world.drain("h0", **how)) == [Code.FORCE_NOT_ALLOWED]
    assert world.stages() == {}
    world.configure(drain_force=True)
    assert answers(world.drain("h0", force=True)) == [Code.DONE]
    assert world.stages() == {"h0": "FORCING"}


@pytest.mark.parametrize(
    ("escalate", "stages"),
    [
        ("wait", ["DRAINING", "DRAINING", "DRAINING"]),
        ("preempt", ["DRAINING", "DRAINING_BATCH", "DRAINING_BATCH"]),
        ("force", ["DRAINING", "DRAINING_BATCH", "FORCING"]),
    ],
)
def test_a_deadline_does_what_the_drain_says(escalate: str, stages: list[str]) -> None:
    world = world_of("h0")
    world.configure(drain_force=True)
    world.run("j", 1)
    world.drain("h0", deadline_ms=60_000, escalate=escalate, force_after_ms=30_000)
    seen = []
    for ms in (59_000, 2_000, 30_000):
        world.later(ms)
        seen.append(world.stages()["h0"])
    assert seen == stages
    changes = of(world.said, HostMaintenanceChanged)
    assert {change.cause for change in changes} == {changes[0].cause}, "the fact of the operator says who and why"


def test_force_that_the_cell_no_longer_permits_waits_until_it_does() -> None:
    world = world_of("h0")
    world.configure(drain_force=True)
    world.run("j", 1)
    world.drain("h0", deadline_ms=60_000, escalate="force")
    world.configure(drain_force=False)
    world.later(70_000)
    assert world.stages() == {"h0": "DRAINING_BATCH"}
    assert not world.later(70_000), "nothing wakes for it"
    world.configure(drain_force=True)
    assert world.stages() == {"h0": "FORCING"}


def test_a_second_drain_replaces_the_times_of_the_first() -> None:
    world = world_of("h0")
    world.run("j", 1)
    world.drain("h0", deadline_ms=60_000, escalate="preempt")
    world.later(30_000)
    world.drain("h0", deadline_ms=60_000, escalate="preempt")
    world.later(31_000)
    assert world.stages() == {"h0": "DRAINING"}
    world.later(30_000)
    assert world.stages() == {"h0": "DRAINING_BATCH"}


def test_a_draining_host_counts_with_what_still_runs_there() -> None:
    world = world_of("h0", "h1")
    world.run("j", 3)
    changed = one(world.drain("h0"), CapacityChanged)
    assert (changed.capacity["cpu"], changed.largest["cpu"], changed.hosts) == (7000, 4000, 2)
    assert one(world.end(("j", 0, 1)), CapacityChanged).capacity["cpu"] == 6000
    assert one(world.resume("h0"), CapacityChanged).capacity["cpu"] == 8000


def test_tasks_that_find_room_only_in_maintenance_are_told_so_with_the_hosts() -> None:
    world = world_of("h0", "h1", "h2")
    world.cordon("h0")
    world.drain("h1")
    world.run("j", 4)
    told = world.run("k", 1)[-1]
    assert (told.code, told.hosts_by_reason) == (Code.HOSTS_IN_MAINTENANCE, {"cordoned": 1, "cpu": 1, "drained": 1})  # type: ignore[attr-defined]
    assert of(world.resume("h0"), TasksPlaced)


def test_some_of_many_hosts_are_those_that_cost_least() -> None:
    world = world_of("h0", "h1", "h2", "h3", "h4", cpu=4000)
    jobs: list[tuple[str, str, dict[str, Any]]] = [
        ("firm", "h0", {"preemptible": False}),
        ("bound", "h1", {"kind": "stateful"}),
        ("gang", "h2", {"gang_min": 2, "instances": 2, "cpu": 2000}),
        ("web", "h3", {"kind": "service"}),
    ]
    for job, at, spec in jobs:
        known: dict[str, Any] = {"instances": 1, "cpu": 4000}
        assert set(hosts_of(world.run(job, **known | spec)).values()) == {at}
    world.run("batch", 1, cpu=4000)
    hosts = ("h0", "h1", "h2", "h3", "h4")
    for most, taken in ((1, ["h4"]), (2, ["h2", "h3"]), (3, ["h0", "h1"])):
        answer = one(world.drain(*hosts, most=most), HostsAnswered)
        assert (answer.code, sorted(answer.host_ids)) == (Code.DONE, taken)
    assert answers(world.drain(*hosts, most=1)) == [Code.REPEATED]
    assert answers(world.drain("h0", "nowhere", most=1)) == [Code.NOT_FOUND]
