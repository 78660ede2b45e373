"""Hosts that aren't well, in the words of those who look after hosts."""

from typing import Any

import pytest

from events.codes import Code, Stage
from events.host_health import HOUR_MS, is_broken
from events.records.hosts import HostsDrainRequested, HostsResumeRequested
from events.records.parts import ConditionPolicy
from events.records.placement import GangsUnplaced, HostAnswered, HostAvoided, HostMaintenanceChanged, HostTrusted
from events.records.rounds import TimerPassed
from processors.placement.states import LEAVING
from tests.helpers.machines import of, one
from tests.processors.placement.harness import World, hosts_of

RELEASE_MS, DRAIN_MS = 600_000, 900_000


def cell(hosts: int = 3, **settings: Any) -> World:
    world = World()
    for number in range(hosts):
        world.host(f"h{number}", cpu=2000)
    if settings:
        world.configure(**settings)
    return world


def avoided(world: World) -> list[str]:
    return [host_id for host_id, row in world.machine.hosts.table.items() if row.avoided_ms]


def test_a_host_that_is_not_well_takes_no_tasks_until_its_check_has_passed_for_ten_minutes() -> None:
    world = cell()
    told = one(world.finds("h0"), HostAvoided)
    assert (told.host_id, told.code, told.until_ms) == ("h0", Code.CONDITION, 0)
    assert told.cause is not None
    assert told.cause.topic == "paceline.hosts"
    assert {*hosts_of(world.run("a", 4)).values()} == {"h1", "h2"}
    assert one(world.run("b", 1), GangsUnplaced).code == Code.HOSTS_SUSPECTED
    assert not world.machine.conditions.is_well("h0")
    world.beats(RELEASE_MS)
    world.finds("h0", bad=False)
    assert world.machine.conditions.is_well("h0")  # a campaign goes on with it
    assert hosts_of(world.beats(RELEASE_MS - 10_000)) == {}
    said = world.later(10_000)
    assert (one(said, HostTrusted).code, hosts_of(said)) == (Code.CONDITION, {("b", 0, 1): "h0"})
    assert not world.machine.conditions.table


def test_a_condition_that_comes_and_goes_keeps_its_host_out_for_longer_each_time() -> None:
    world = cell()
    world.finds("h0")
    for _ in range(2):
        world.finds("h0", bad=False)
        world.beats(60_000)
        assert world.finds("h0") == []
    world.finds("h0", bad=False)
    world.beats(4 * RELEASE_MS - 10_000)
    assert avoided(world) == ["h0"]
    world.later(10_000)
    assert avoided(world) == []


def test_each_condition_of_a_host_must_pass() -> None:
    world = cell()
    world.finds("h0")
    world.finds("h0", condition="disk-full")
    world.finds("h0", bad=False)
    world.beats(2 * RELEASE_MS)
    assert avoided(world) == ["h0"]
    world.finds("h0", condition="disk-full", bad=False)
    world.beats(RELEASE_MS)
    assert avoided(world) == []


def test_a_host_that_an_operator_clears_is_let_alone_until_the_check_has_passed_once() -> None:
    world = cell()
    world.finds("h0")
    said = world.clear("h0")
    assert (one(said, HostTrusted).code, one(said, HostAnswered).code) == (Code.ASKED, Code.DONE)
    world.finds("h0", code="EXIT_2")
    assert avoided(world) == []
    world.finds("h0", bad=False)
    world.finds("h0")
    assert avoided(world) == ["h0"]


def test_sick_hosts_beyond_a_tenth_go_on_and_that_is_told_once() -> None:
    world = cell(20)
    said = world.finds("h3", "h1", "h2")
    assert {event.host_id for event in of(said, HostAvoided)} == {"h1", "h2"}
    [held] = of(said, HostTrusted)
    assert (held.host_id, held.code, held.avoided, held.most) == ("h3", Code.TOO_MANY_UNHEALTHY, 2, 2)
    assert not of(world.finds("h3", code="EXIT_2"), HostTrusted)
    world.finds("h1", bad=False)
    world.beats(RELEASE_MS)
    assert avoided(world) == ["h2", "h3"]  # there is room for it now


def test_suspected_hosts_and_those_that_are_not_well_are_avoided_within_one_bound() -> None:
    world = cell(20)
    world.suspect("h0")
    world.finds("h1")
    assert one(world.suspect("h2"), HostTrusted).code == Code.TOO_MANY_SUSPECTED
    assert one(world.finds("h3"), HostTrusted).code == Code.TOO_MANY_UNHEALTHY


def test_a_suspected_host_that_is_not_well_is_avoided_while_it_is_not() -> None:
    world = cell()
    world.suspect("h0")
    world.finds("h0")
    world.beats(2 * RELEASE_MS)
    assert avoided(world) == ["h0"]
    world.suspect("h0")
    world.finds("h0", bad=False)
    world.beats(RELEASE_MS)
    assert avoided(world) == []


def test_a_cell_of_two_hosts_avoids_none() -> None:
    assert one(cell(2).finds("h0"), HostTrusted).code == Code.TOO_MANY_UNHEALTHY


def test_nothing_is_done_for_a_condition_that_is_switched_off() -> None:
    world = cell(conditions=(ConditionPolicy("raid", "off"),))
    assert world.finds("h0") == []
    assert world.machine.conditions.is_well("h0")
    said = world.configure(conditions=(ConditionPolicy("raid", "default"),))
    assert one(said, HostAvoided).host_id == "h0"
    assert one(world.configure(conditions=(ConditionPolicy("raid", "off"),)), HostTrusted).code == Code.CONDITION


def test_nothing_is_left_of_a_host_that_is_removed() -> None:
    world = cell()
    world.finds("h0")
    world.silence("h0")
    world.beats(60_000)
    world.remove("h0")
    assert not world.machine.conditions.table
    assert avoided(world) == []
    assert world.finds("h0") == []  # nobody knows it


def test_times_that_pass_without_effect_wake_the_cell_once() -> None:
    world = cell(2)
    world.finds("h0")
    said = world.beats(2 * DRAIN_MS)
    assert len([event for event in said if isinstance(event, TimerPassed)]) <= 1


@pytest.mark.parametrize(
    ("onsets", "hosts", "broken"),
    [
        ([0, 1, 2], 20, True),
        ([0, 1], 20, False),
        ([0, 1, 600_001], 20, False),
        ([0, 1, 600_000], 20, True),
        ([0, 700_000, 700_001, 700_002], 20, True),
        ([0], 3, False),
        ([0, HOUR_MS], 3, False),
        ([0, 1], 3, True),
    ],
)
def test_a_condition_on_more_than_a_tenth_of_the_hosts_within_ten_minutes_is_a_broken_check(
    onsets: list[int], hosts: int, broken: bool
) -> None:
    assert is_broken(onsets, hosts) is broken


def drains(world: World) -> list[str]:
    rows = world.machine.stages.table.items()
    return [host_id for host_id, row in rows if row.by == "health" and row.stage in LEAVING]


def test_a_condition_that_lasts_drains_its_host_until_it_has_passed_for_long_enough() -> None:
    world = cell()
    world.run("a", 6)
    world.finds("h0")
    assert one(world.beats(DRAIN_MS), HostMaintenanceChanged).source == "raid"
    assert drains(world) == ["h0"]
    world.finds("h0", bad=False)
    world.beats(RELEASE_MS - 10_000)
    assert drains(world) == ["h0"]
    back = one(world.beats(20_000), HostMaintenanceChanged)
    assert (back.code, back.stage_array.tolist(), back.by) == (Code.CONDITION, [Stage.UP], "")
    assert (drains(world), avoided(world)) == ([], [])


def test_a_host_that_an_operator_takes_back_is_let_alone_until_the_check_has_passed_once() -> None:
    world = cell()
    world.finds("h0")
    world.beats(DRAIN_MS)
    world.fact(HostsResumeRequested(host_ids=("h0",), command_id="c"))
    world.beats(2 * DRAIN_MS)
    assert (drains(world), avoided(world)) == ([], [])
    world.finds("h0", bad=False)
    world.finds("h0")
    world.beats(HOUR_MS)
    assert drains(world) == ["h0"]


def test_a_twentieth_of_the_hosts_is_drained_at_a_time_and_in_an_hour() -> None:
    world = cell(20)
    world.finds("h0")
    world.finds("h1", condition="smart")
    world.beats(DRAIN_MS)
    assert drains(world) == ["h0"]
    world.finds("h0", bad=False)
    world.beats(RELEASE_MS)
    assert drains(world) == []  # the next one waits for the hour
    world.beats(HOUR_MS - RELEASE_MS)
    assert drains(world) == ["h1"]


def test_nothing_drains_for_a_check_that_is_bad_on_many_hosts_at_once() -> None:
    world = cell(20)
    world.finds(*(f"h{number}" for number in range(20)))
    world.beats(2 * HOUR_MS)
    assert (drains(world), len(avoided(world))) == ([], 2)
    world.finds("h0", condition="disk-full")  # this one is about the host
    world.beats(DRAIN_MS)
    assert drains(world) == ["h0"]


def test_a_host_comes_back_whose_check_turns_out_to_be_broken() -> None:
    world = cell(20, drain_after_ms=60_000)
    world.finds("h0")
    world.beats(60_000)
    assert drains(world) == ["h0"]
    world.finds("h1", "h2")
    assert drains(world) == []


def test_hosts_that_operators_have_and_policies_that_avoid_drain_nothing() -> None:
    world = cell(conditions=(ConditionPolicy("raid", "avoid"),))
    world.finds("h0")
    world.fact(HostsDrainRequested(host_ids=("h1",), command_id="c"))
    world.finds("h1", condition="smart")
    world.beats(2 * DRAIN_MS)
    assert drains(world) == []
    world.configure(conditions=(ConditionPolicy("raid", "drain", 60_000),))
    assert drains(world) == ["h0"]


def test_a_cell_of_two_hosts_drains_none() -> None:
    world = cell(2)
    world.finds("h0")
    world.beats(HOUR_MS)
    assert drains(world) == []
