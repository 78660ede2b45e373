"""Placement on hosts that lend: what revocable runs hold, which of them end, and that nothing else is steered by it."""

from typing import Any

import pytest

from events.columns import ints, pack_ints, pack_longs
from events.records.hosts import HostsLoaded
from events.records.placement import RevocationAsked
from events.resources import REVOCABLE
from processors.placement.slack import PATIENCE_MS, Slack
from tests.helpers.machines import instances_changed, of, one, runs_of, shaped
from tests.processors.placement.harness import World, hosts_of


@pytest.fixture
def world() -> World:
    world = World()
    world.host("a")
    world.host("b")
    world.configure(slack=True)
    return world


def load(world: World, **steps: int) -> list[Any]:
    """Hosts lend so many sixteenths of their CPU."""
    sessions = pack_longs([world.sessions[host] for host in steps])
    slack = pack_ints([*steps.values()])
    nothing = pack_ints([0] * len(steps))
    return world.fact(HostsLoaded(gateway="g", host_ids=(*steps,), host_session=sessions, cpu_used=nothing,
                                  memory_used=nothing, slack=slack))  # fmt: skip


def revocable(world: World, job: str, instances: int, cpu: int = 500) -> list[Any]:
    return world.run(job, instances, **shaped({"memory": 64, REVOCABLE: cpu}))


def asked(said: list[Any]) -> list[Any]:
    return [run for event in of(said, RevocationAsked) for run in runs_of(event)]


@pytest.mark.parametrize("lent", [{}, {"a": 16}, {"b": 16}, {"a": 3, "b": 9}])
def test_what_hosts_lend_does_not_steer_other_work(world: World, lent: dict[str, int]) -> None:
    if lent:
        load(world, **lent)
    assert hosts_of(world.run("j", 1)) == {("j", 0, 1): "a"}
    assert hosts_of(world.run("k", 3)) == {("k", each, 1): "a" for each in range(3)}
    assert hosts_of(world.run("l", 1)) == {("l", 0, 1): "b"}


def test_the_newest_runs_end_where_a_host_lends_too_little_for_a_minute(world: World) -> None:
    load(world, a=16, b=16)
    assert {*hosts_of(revocable(world, "r", 8)).values()} == {"a"}
    world.later(1000)
    assert {*hosts_of(revocable(world, "s", 4)).values()} == {"b"}
    load(world, a=8, b=8)
    assert asked(world.later(PATIENCE_MS - 1000)) == []
    said = world.later(2000)
    assert one(said, RevocationAsked).host_ids == ("a",)
    assert asked(said) == [("r", each, 1) for each in (4, 5, 6, 7)]
    assert asked(world.end(("r", 4, 1), ("r", 5, 1))) == []
    load(world, a=4)
    assert asked(world.later(PATIENCE_MS + 1000)) == [("r", 2, 1), ("r", 3, 1)]


def test_runs_that_end_by_themselves_in_time_spare_the_others(world: World) -> None:
    load(world, a=16)
    revocable(world, "r", 8)
    load(world, a=14)
    world.later(PATIENCE_MS // 2)
    world.end(("r", 0, 1))
    assert asked(world.later(2 * PATIENCE_MS)) == []


def test_a_host_is_looked_at_again_only_when_something_ended_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(world, a=16, b=16)
    revocable(world, "r", 16)
    world.run("j", 4)
    load(world, a=14, b=14)
    looks: list[str] = []
    review = Slack._review
    monkeypatch.setattr(
        Slack, "_review", lambda self, host_id, *more: (looks.append(host_id), review(self, host_id, *more))
    )
    world.end(("j", 0, 1), ("j", 1, 1))
    assert looks == []
    world.end(("r", 0, 1))
    assert {*looks} == {"a"}


def test_a_job_that_gets_more_instances_than_it_has_room_for_is_found_on_its_hosts(world: World) -> None:
    load(world, a=16)
    revocable(world, "r", 4)
    world.accept("next")
    shapes = shaped({"memory": 64, REVOCABLE: 500})["shapes"]
    before = world.machine.runs.jobs["r"].base
    world.peer("lifecycle", instances_changed("r", range(4), range(4, 400), shapes=shapes))
    assert world.machine.runs.jobs["r"].base != before
    load(world, a=4)
    assert len(asked(world.later(PATIENCE_MS + 1000))) == 2


def test_amounts_are_told_as_asked_and_lent(world: World) -> None:
    load(world, a=16)
    revocable(world, "r", 8)
    load(world, a=8)
    said = one(world.later(PATIENCE_MS + 1000), RevocationAsked)
    assert (list(said.lent_array), list(said.used_array), len(ints(said.job))) == ([2000], [4000], 4)


def test_a_gang_on_two_hosts_that_lend_too_little_is_asked_to_end_once(world: World) -> None:
    load(world, a=16, b=16)
    gang = shaped({"memory": 64, REVOCABLE: 1500})
    placed_on = hosts_of(world.run("g", 4, gang_min=4, **gang))
    assert sorted(placed_on.values()) == ["a", "a", "b", "b"]
    load(world, a=4, b=4)
    assert asked(world.later(PATIENCE_MS + 1000)) == [("g", each, 1) for each in range(4)]
    load(world, a=1, b=1)
    assert asked(world.later(2 * PATIENCE_MS)) == []


def test_a_gang_that_is_to_end_for_one_host_gives_no_other_host_a_longer_time(world: World) -> None:
    load(world, a=16, b=16)
    gang = shaped({"memory": 64, REVOCABLE: 1500})
    assert sorted(hosts_of(world.run("g", 4, gang_min=4, **gang)).values()) == ["a", "a", "b", "b"]
    load(world, a=12)
    assert {*hosts_of(revocable(world, "r", 2)).values()} == {"b"}
    load(world, a=4)
    world.later(PATIENCE_MS // 2)
    load(world, b=0)
    assert asked(world.later(PATIENCE_MS // 2)) == [("g", each, 1) for each in range(4)]
    assert asked(world.later(PATIENCE_MS // 2)) == [("r", 0, 1), ("r", 1, 1)]
