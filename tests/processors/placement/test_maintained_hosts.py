"""Hosts in maintenance are silent, lost, back and removed as others are; what was kept there is given back."""

import pytest
from msgspec.structs import replace

from events.cell_settings import DEFAULTS
from events.codes import Code, RunCause, Stage
from events.columns import pack_ints
from events.records.hosts import HostConnected
from events.records.placement import GangsUnplaced, HostLost, HostMaintenanceChanged, HostsReserved, PreemptionAsked
from processors.placement.stages import changed
from tests.helpers.machines import Run, of, one, queued
from tests.processors.placement.harness import World, ended, hosts_of, offered, places
from tests.processors.placement.sharing import Giver, Shared, Taker

AFTER_MS = DEFAULTS.reserve_after_ms


def leave(world: World, *runs: Run, why: int = RunCause.DRAIN) -> None:
    """Runs leave their host by its maintenance, and keep their admissions."""
    world.peer("lifecycle", replace(ended(runs, kept=1), why=pack_ints([why] * len(runs))))


def bound(world: World, job: str, instance: int, run: int, host: str) -> dict[Run, str]:
    """Where a task goes that waits for one host alone."""
    waiting = queued([(job, instance, 1, run, 0)], 1)
    return hosts_of(world.peer("lifecycle", replace(waiting, host_ids=(host,), pin=pack_ints([0]))))


# How it is heard.


def test_a_host_keeps_its_stage_while_it_is_silent_lost_and_back_with_another_session() -> None:
    world = World()
    world.host("h0")
    world.host("h1")
    world.run("j", 2)
    world.drain("h0")
    world.silence("h0")
    assert world.stages() == {"h0": "DRAINING"}
    world.confirm("h0")
    assert world.stages() == {"h0": "DRAINING"}, "its runs aren't over"
    leave(world, ("j", 0, 1), ("j", 1, 1), why=RunCause.NONE)
    assert world.stages() == {"h0": "DRAINED"}
    world.host("h0")
    assert world.stages() == {"h0": "DRAINED"}
    assert set(hosts_of(world.run("k", 4)).values()) == {"h1"}


def test_what_is_forgotten_comes_back_as_another_host() -> None:
    world = World()
    world.host("h0")
    world.drain("h0")
    world.silence("h0")
    world.confirm("h0")
    world.remove("h0")
    assert world.stages() == {}
    world.host("h0")
    assert set(hosts_of(world.run("k", 1)).values()) == {"h0"}


def test_the_boot_at_which_a_host_was_drained_is_kept() -> None:
    world = World()
    world.sessions["h0"] = 1
    world.fact(HostConnected(host_id="h0", session=1, gateway="g", boot="first"), offered("h0", 1))
    world.drain("h0")
    world.fact(HostConnected(host_id="h0", session=2, gateway="g", boot="second"), offered("h0", 2))
    assert (world.machine.stages.of("h0").boot, world.machine.hosts.table["h0"].boot) == ("first", "second")


def test_drained_hosts_that_fall_silent_are_given_up_beside_the_bound_on_losses() -> None:
    """Of twenty hosts two a minute may be given up."""
    world = World()
    names = [f"h{number:02}" for number in range(20)]
    for name in names:
        world.host(name)
    world.run("j", 4)  # on h00
    world.drain(*names[1:6])
    world.drain(names[0])
    world.beats(10_000)
    world.silence(*names[:8])
    lost = [event.host_id for event in of(world.beats(60_000), HostLost)]
    assert sorted(lost) == names[:7], "h00 and h06 are the two that may be"
    assert [event.host_id for event in of(world.beats(60_000), HostLost)] == ["h07"]


# What is kept there.


@pytest.mark.parametrize("how", ["cordon", "drain"])
def test_no_room_is_kept_for_next_runs(how: str) -> None:
    world = World()
    world.host("h0")
    world.host("h1")
    world.run("j", 4)
    world.end(("j", 0, 1), kept=1, hold=1)
    (world.cordon if how == "cordon" else world.drain)("h0")
    assert world.free("h0")[0] == 1000
    world.end(("j", 1, 1), kept=1, hold=1)
    assert world.free("h0")[0] == 2000
    said = world.requeue(("j", 0, 2, 2, 0))
    assert {host for host, _ in places(said).values()} == {"h1"}


def test_hosts_that_are_reserved_for_a_unit_are_given_back() -> None:
    world = Shared()
    for host in ("h1", "h2"):
        world.host(host, cpu=4000)
    world.run("fill", 8)
    world.run("big", cpu=4000)
    reserved = one(world.later(AFTER_MS + 1000), HostsReserved)
    assert reserved.host_ids == ("h1",)
    over = of(world.drain("h1"), HostsReserved)
    assert [(event.state, event.host_ids) for event in over][:1] == [(Code.WITHDRAWN, ("h1",))]
    assert all(event.host_ids == ("h2",) for event in over[1:])


def test_a_plan_on_a_host_that_is_to_drain_comes_to_nothing() -> None:
    world = Shared()
    for host in ("h1", "h2"):
        world.host(host, cpu=4000)
    world.run("soft", 8)
    world.run("a", 1, pool="/a")
    ask = one(world.right(Taker("a", count=1, pool="/a"), Giver("/p")), PreemptionAsked)
    asked = of(world.cordon(*ask.host_ids), PreemptionAsked)
    assert all(set(each.host_ids).isdisjoint(ask.host_ids) for each in asked)
    assert not any(set(row.hosts) & set(ask.host_ids) for row in world.machine.sharing.room.table.values())


# Tasks that are bound to their hosts.


def test_bound_tasks_are_started_again_on_a_host_that_drains_until_they_have_left_it() -> None:
    world = World()
    world.host("h0")
    world.host("h1")
    world.run("db", 2, kind="stateful")
    world.drain("h0")
    world.end(("db", 0, 1), kept=1)
    assert bound(world, "db", 0, 2, "h0") == {("db", 0, 2): "h0"}, "it has failed and is started again"
    leave(world, ("db", 0, 2))
    assert world.stages() == {"h0": "DRAINING"}
    assert bound(world, "db", 0, 3, "h0") == {}
    told = one(world.said[-3:], GangsUnplaced)
    assert (told.code, told.hosts_by_reason) == (Code.BOUND_HOST_IN_MAINTENANCE, {"draining": 1})
    leave(world, ("db", 1, 1))
    assert world.stages() == {"h0": "DRAINED"}
    assert bound(world, "db", 1, 2, "h0") == {}
    assert hosts_of(world.resume("h0")) == {("db", 0, 3): "h0", ("db", 1, 2): "h0"}


def test_bound_tasks_go_to_a_host_that_is_cordoned_after_its_drain() -> None:
    world = World()
    world.host("h0")
    world.run("db", 1, kind="stateful")
    world.drain("h0")
    leave(world, ("db", 0, 1))
    assert bound(world, "db", 0, 2, "h0") == {}
    goal = world.machine.stages.of("h0").goal._replace(stage=Stage.CORDONED, cordon=True)
    world.decided(changed({"h0": goal}, Code.RESUMED, by="operator"))
    assert hosts_of(world.said)[("db", 0, 2)] == "h0"


def test_each_change_of_a_host_names_the_request_that_led_to_it() -> None:
    world = World()
    world.host("h0")
    world.run("j", 1)
    world.drain("h0")
    world.end(("j", 0, 1))
    causes = [event.cause for event in of(world.said, HostMaintenanceChanged)]
    assert causes[0] == causes[1]
    assert causes[0] is not None
    assert causes[0].topic == "paceline.hosts"
