"""Windows of maintenance: when hosts drain by themselves, when they are taken back, what an operator is told."""

from datetime import UTC, datetime
from typing import Any

import pytest

from events.codes import Code, Stage
from events.records.base import Event
from events.records.hosts import MaintenanceWindowRemoved, MaintenanceWindowSet
from events.records.placement import (
    GangsUnplaced,
    HostMaintenanceChanged,
    HostsAnswered,
    MaintenanceWindowChanged,
    TasksPlaced,
)
from events.time_zones import offsets_of
from tests.helpers.machines import of, one
from tests.processors.placement.harness import World, hosts_of

HOUR = 3_600_000
DAILY = {"schedule": "0 2 * * *", "duration_ms": 4 * HOUR, "lead_ms": HOUR}


def world_of(*hosts: str) -> World:
    """A world on the 24th of November 2026, 12:00 UTC."""
    world = World()
    world.now = int(datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp() * 1000)
    for host in hosts:
        world.host(host)
    return world


def set_window(world: World, *hosts: str, window: str = "night", zone: str = "UTC", **how: Any) -> list[Event]:
    zone_offsets = offsets_of(zone, world.now // 1000)
    fact = MaintenanceWindowSet(window_id=window, command_id="w", host_ids=hosts, zone=zone_offsets, **{**DAILY, **how})
    return world.fact(fact)


def states(said: list[Event]) -> list[tuple[str, str]]:
    return [(each.state, _utc(each.opens_ms)) for each in of(said, MaintenanceWindowChanged)]


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%d %H:%M") if ms else "never"


def test_hosts_drain_before_it_opens_and_are_taken_back_when_it_closes() -> None:
    world = world_of("h0", "h1", "h2")
    world.run("j", 1)
    assert states(set_window(world, "h0", "h1")) == [("SET", "25 02:00")]
    assert world.stages() == {}
    assert states(world.later(13 * HOUR)) == [("LEADING", "25 02:00")]
    assert set(world.stages()) == {"h0", "h1"}
    assert {row.by for row in world.machine.stages.table.values()} == {"window"}
    assert states(world.later(HOUR)) == [("OPEN", "25 02:00")]
    assert world.machine.windows.is_open("night")
    assert states(world.later(4 * HOUR)) == [("CLOSED", "26 02:00")]
    assert world.stages() == {}


def test_local_time_follows_the_offsets_of_the_fact() -> None:
    world = world_of("h0")
    assert states(set_window(world, "h0", zone="America/New_York")) == [("SET", "25 07:00")]


def test_one_that_closed_while_nothing_was_decided_is_told_and_not_made_up_for() -> None:
    world = world_of("h0")
    set_window(world, "h0")
    said = world.later(20 * HOUR)
    missed = one(said, MaintenanceWindowChanged)
    assert (missed.state, _utc(missed.opens_ms), _utc(missed.cause.due_ms)) == ("MISSED", "26 02:00", "25 02:00")
    assert world.stages() == {}
    assert states(set_window(world, "h0", duration_ms=5 * HOUR)) == [("SET", "26 02:00")]
    assert world.stages() == {}, "an edit outside of it opens nothing"


def test_an_edit_while_it_is_open_keeps_the_opening() -> None:
    world = world_of("h0", "h1", "h2")
    set_window(world, "h0", "h1")
    world.later(13 * HOUR)
    world.later(2 * HOUR)
    said = set_window(world, "h0", "h2", duration_ms=6 * HOUR)
    assert states(said) == [("SET", "25 02:00")]
    assert set(world.stages()) == {"h0", "h2"}, "h1 isn't of it any more, h2 is"
    assert states(world.later(3 * HOUR)) == []
    assert states(world.later(2 * HOUR)) == [("CLOSED", "26 02:00")]
    assert world.stages() == {}
    world.later(18 * HOUR)
    assert set(world.stages()) == {"h0", "h2"}
    said = set_window(world, "h0", schedule="0 3 * * *")
    assert states(said) == [("SET", "26 03:00"), ("LEADING", "26 03:00")], "another schedule: that opening is over"


def test_what_an_operator_has_stays_theirs_and_what_he_takes_back_is_out_until_the_next_time() -> None:
    world = world_of("h0", "h1", "h2")
    world.run("j", 3)
    world.drain("h0")
    set_window(world, "h0", "h1", escalate="preempt")
    world.later(13 * HOUR)
    assert {host: row.by for host, row in world.machine.stages.table.items()} == {"h0": "operator", "h1": "window"}
    world.resume("h1")
    assert set(world.stages()) == {"h0"}
    world.later(HOUR)
    assert set(world.stages()) == {"h0"}
    world.later(4 * HOUR)
    assert set(world.stages()) == {"h0"}
    world.later(19 * HOUR)
    assert set(world.stages()) == {"h0", "h1"}, "the next time"


def test_a_cordon_outlasts_it() -> None:
    world = world_of("h0", "h1")
    world.cordon("h0")
    set_window(world, "h0")
    world.later(13 * HOUR)
    assert world.stages() == {"h0": "DRAINED"}
    world.later(HOUR)
    world.later(4 * HOUR)
    assert world.stages() == {"h0": "CORDONED"}


def test_two_that_overlap_hold_a_host_until_the_later_closes() -> None:
    world = world_of("h0")
    set_window(world, "h0")
    set_window(world, "h0", window="dawn", schedule="0 4 * * *")
    for hours in (13, 1, 1, 1):
        world.later(hours * HOUR)
    assert world.machine.stages.of("h0").source == "night"
    world.later(2 * HOUR)  # six o'clock: night closes
    assert (world.stages(), world.machine.stages.of("h0").source) == ({"h0": "DRAINED"}, "dawn")
    world.later(2 * HOUR)
    assert world.stages() == {}


def test_one_for_campaigns_drains_nothing() -> None:
    world = world_of("h0")
    set_window(world, "h0", escalate="cordon")
    assert states(world.later(13 * HOUR)) == []
    assert states(world.later(HOUR)) == [("OPEN", "25 02:00")]
    assert world.stages() == {}
    assert world.machine.windows.is_open("night")


def test_removed_while_open_its_hosts_are_taken_back() -> None:
    world = world_of("h0")
    set_window(world, "h0")
    world.later(13 * HOUR)
    world.later(HOUR)
    assert states(world.fact(MaintenanceWindowRemoved(window_id="night", command_id="r"))) == [("REMOVED", "never")]
    assert world.stages() == {}
    assert not world.machine.windows.is_open("night")
    again = one(world.fact(MaintenanceWindowRemoved(window_id="night", command_id="r")), HostsAnswered)
    assert (again.code, again.message) == (Code.NOT_FOUND, "There is no window night.")


@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ({"schedule": "0 25 * * *"}, Code.INVALID_SPEC, "schedule: hour: '25' must be 0 to 23."),
        ({"duration_ms": 0}, Code.INVALID_SPEC, "duration_ms is 0"),
        ({"lead_ms": -1}, Code.INVALID_SPEC, "lead_ms is -1"),
        ({"escalate": "later"}, Code.INVALID_SPEC, "escalate is 'later'"),
        ({"escalate": "force"}, Code.FORCE_NOT_ALLOWED, "drain_force=on"),
    ],
)
def test_a_fault_is_a_sentence_and_sets_nothing(how: dict[str, Any], code: Code, told: str) -> None:
    world = world_of("h0")
    answer = one(set_window(world, "h0", **how), HostsAnswered)
    assert answer.code == code
    assert told in answer.message
    assert not world.machine.windows.table


def test_an_unknown_host_is_told_and_sets_nothing() -> None:
    world = world_of("h0")
    answer = one(set_window(world, "h0", "nowhere"), HostsAnswered)
    assert (answer.code, answer.host_ids) == (Code.NOT_FOUND, ("nowhere",))
    assert answer.message == "This cell knows no host nowhere; the window isn't set."
    assert not world.machine.windows.table


def test_force_ends_what_is_left_when_it_opens() -> None:
    world = world_of("h0")
    world.configure(drain_force=True)
    world.run("j", 1, preemptible=False)
    set_window(world, "h0", escalate="force")
    world.later(13 * HOUR)
    assert world.stages() == {"h0": "DRAINING_BATCH"}
    world.later(HOUR)
    assert world.stages() == {"h0": "FORCING"}


def test_nothing_is_forced_while_the_cell_doesnt_permit_it_any_more() -> None:
    world = world_of("h0")
    world.configure(drain_force=True)
    world.run("j", 1, preemptible=False)
    set_window(world, "h0", escalate="force")
    world.configure(drain_force=False)
    world.later(13 * HOUR)
    world.later(HOUR)
    assert world.stages() == {"h0": "DRAINING_BATCH"}
    world.configure(drain_force=True)
    assert world.stages() == {"h0": "FORCING"}


@pytest.mark.parametrize("lead_ms", [0, HOUR])
def test_one_without_a_gap_opens_each_time(lead_ms: int) -> None:
    world = world_of("h0")
    world.run("j", 1)
    assert not one(
        set_window(world, "h0", schedule="0 2 * * *", duration_ms=23 * HOUR, lead_ms=0), HostsAnswered
    ).message
    said = set_window(world, "h0", schedule="0 0 * * *", duration_ms=24 * HOUR, lead_ms=lead_ms)
    assert "stay drained" in one(said, HostsAnswered).message
    seen = [each for _ in range(61) for each in world.later(HOUR)]
    opened = [state for state in states(seen) if state[0] == "OPEN"]
    assert opened == [("OPEN", "25 00:00"), ("OPEN", "26 00:00"), ("OPEN", "27 00:00")]
    ups = [each for each in of(seen, HostMaintenanceChanged) if Stage.UP in each.stage_array.tolist()]
    assert not ups, "its hosts don't take tasks for an instant"


def test_what_isnt_to_be_disturbed_is_put_where_it_is_sure_to_be_over_before() -> None:
    world = world_of("h0", "h1")
    set_window(world, "h0", "h1")
    placed = of(world.run("short", 1, preemptible=False, longest_ms=10 * HOUR), TasksPlaced)
    assert len(placed) == 1
    assert codes(world.run("long", 1, preemptible=False, longest_ms=15 * HOUR)) == [Code.WINDOW_TOO_SOON]
    assert codes(world.run("endless", 1, preemptible=False, longest_ms=-1)) == [Code.WINDOW_TOO_SOON]
    assert of(world.run("soft", 1), TasksPlaced)
    assert set(hosts_of(world.host("h2")).values()) == {"h2"}, "no window empties that one"


def codes(said: list[Event]) -> list[str]:
    return [each.code for each in of(said, GangsUnplaced)]
