"""Pools of hosts: which hosts tasks may use by their resource pool or kind, and in which order."""

from typing import Any

import pytest

from events.codes import Code
from events.records.base import Event
from events.records.entitlement import HostPoolsWanted, PoolAnswered
from events.records.hosts import HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested
from events.records.parts import HostPoolPolicy, HostPoolWaits
from events.records.placement import (
    CapacityChanged,
    GangsUnplaced,
    HostPoolChanged,
    HostPoolMoveStarted,
    HostsAnswered,
    HostsPooled,
)
from tests.processors.placement.harness import World, hosts_of


class Pooled(World):
    def define(self, name: str, *kinds: str, **more: Any) -> list[Event]:
        return self.fact(HostPoolDefined(name=name, command_id=name, kinds=kinds, **more))

    def assign(self, host_pool: str, *hosts: str) -> list[Event]:
        return self.fact(HostPoolAssigned(host_ids=hosts, host_pool=host_pool, command_id="a"))

    def names(self, path: str, *host_pools: str) -> list[Event]:
        """A resource pool names host pools."""
        known = {"path": path, "pools_offset": 10**6, "command_id": "", "code": Code.DONE}
        return self.peer("entitlement", PoolAnswered(host_pools=host_pools, **known))


@pytest.fixture
def world() -> Pooled:
    """Two hosts in shared, one in gpus."""
    world = Pooled()
    for host in ("h1", "h2", "h3"):
        world.host(host)
    world.define("gpus")
    world.assign("gpus", "h3")
    return world


def code_of(said: list[Event]) -> str:
    (answer,) = [event for event in said if isinstance(event, HostsAnswered)]
    return answer.code


def test_a_host_is_in_shared_until_it_is_assigned_and_an_assignment_is_a_decision(world: Pooled) -> None:
    pools = world.machine.hosts.pools
    assert [pools.of(host) for host in ("h1", "h3")] == ["shared", "gpus"]
    said = world.assign("shared", "h3", "h1")
    (moved,) = [event for event in said if isinstance(event, HostsPooled)]
    assert (moved.host_ids, moved.host_pool) == (("h3",), "shared")
    assert code_of(said) == Code.DONE
    assert pools.of("h3") == "shared"


def test_a_job_whose_pool_names_host_pools_runs_only_on_these_the_first_choice_first(world: Pooled) -> None:
    world.names("/p", "gpus", "shared")
    placed = hosts_of(world.run("a", 10))
    assert [placed["a", at, 1] for at in range(10)] == ["h3"] * 4 + ["h1"] * 4 + ["h2"] * 2


def test_jobs_whose_pool_names_none_run_on_shared_alone(world: Pooled) -> None:
    assert {*hosts_of(world.run("a", 12)).values()} == {"h1", "h2"}


def test_pools_below_use_what_the_pool_above_names(world: Pooled) -> None:
    world.names("/p", "gpus")
    assert {*hosts_of(world.run("a", 2, pool="/p/q")).values()} == {"h3"}
    world.names("/p/q", "shared")
    assert {*hosts_of(world.run("b", 2, pool="/p/q")).values()} == {"h1"}


@pytest.mark.parametrize(
    ("job", "host"),
    [
        ({"kind": "stateless"}, "h3"),
        ({"kind": "batch", "preemptible": False}, "h2"),
        ({"kind": "batch", "preemptible": True}, "h1"),
    ],
)
def test_kinds_of_jobs_use_host_pools_that_name_them_before_shared(job: dict[str, Any], host: str) -> None:
    world = Pooled()
    for name in ("h1", "h2", "h3"):
        world.host(name)
    world.define("firm", "batch-non-preemptible")
    world.define("services", "service")
    world.assign("firm", "h2")
    world.assign("services", "h3")
    assert hosts_of(world.run("a", **job)) == {("a", 0, 1): host}


def test_waiting_tasks_get_a_host_when_one_is_assigned_to_their_host_pool(world: Pooled) -> None:
    world.names("/p", "gpus")
    world.run("a", 5)
    assert {*hosts_of(world.assign("gpus", "h1")).values()} == {"h1"}


def test_waiting_tasks_get_a_host_when_their_pool_may_use_more(world: Pooled) -> None:
    world.names("/p", "gpus")
    world.run("a", 5)
    assert {*hosts_of(world.names("/p", "gpus", "shared")).values()} == {"h1"}


def test_tasks_that_find_room_in_other_host_pools_alone_say_so(world: Pooled) -> None:
    world.define("large")
    world.host("big", cpu=64_000)
    world.assign("large", "big")
    said = world.run("a", cpu=8000)
    (why,) = [event for event in said if isinstance(event, GangsUnplaced)]
    assert why.code == Code.OUTSIDE_HOST_POOLS
    assert why.hosts_by_reason == {"cpu": 2, "in other host pools": 2}
    assert any(isinstance(event, CapacityChanged) for event in world.assign("shared", "big"))
    assert hosts_of(world.admit(("a", 0, 1, 1, 0))) == {("a", 0, 1): "big"}


def test_what_runs_goes_on_when_its_host_is_assigned_elsewhere_and_a_restart_goes_to_its_own(world: Pooled) -> None:
    assert hosts_of(world.run("a")) == {("a", 0, 1): "h1"}
    assert not hosts_of(world.assign("gpus", "h1"))
    assert world.machine.hosts.runs[world.machine.hosts.table["h1"].number] == 1
    world.end(("a", 0, 1), kept=1, hold=1)
    assert hosts_of(world.requeue(("a", 0, 1, 2, 0))) == {("a", 0, 2): "h2"}


def test_a_host_that_is_assigned_before_it_comes_is_in_its_host_pool_from_the_start(world: Pooled) -> None:
    assert code_of(world.assign("gpus", "h4")) == Code.DONE
    world.names("/p", "gpus")
    world.host("h4")
    assert {*hosts_of(world.run("a", 8)).values()} == {"h3", "h4"}


def test_daemons_run_on_the_hosts_of_all_host_pools(world: Pooled) -> None:
    world.accept("d", 3, kind="daemon")
    assert {*hosts_of(world.admit(("d", 0, 3, 1, 0))).values()} <= {"h1", "h2", "h3"}
    assert world.machine.hosts.pools.reach(world.machine.runs.jobs["d"]) == ()


def test_a_host_that_is_removed_comes_back_to_shared(world: Pooled) -> None:
    world.silence("h3")
    world.later(10_000)
    world.confirm("h3")
    world.remove("h3")
    assert "h3" not in world.machine.hosts.table
    world.host("h3")
    assert world.machine.hosts.pools.of("h3") == "shared"
    assert {*hosts_of(world.run("a", 12)).values()} == {"h1", "h2", "h3"}


def test_commands_that_cannot_be_followed_are_refused_with_a_code(world: Pooled) -> None:
    assert code_of(world.define("gpus")) == Code.REPEATED
    assert code_of(world.define("gpus", "service")) == Code.DONE
    assert code_of(world.define("shared")) == Code.INVALID_SPEC
    assert code_of(world.define("No")) == Code.INVALID_SPEC
    assert code_of(world.define("x", "nonsense")) == Code.INVALID_SPEC
    assert code_of(world.define("gpus", removed=True)) == Code.HOST_POOL_IN_USE
    assert code_of(world.define("none", removed=True)) == Code.NOT_FOUND
    assert code_of(world.assign("none", "h1")) == Code.NOT_FOUND
    assert code_of(world.assign("gpus")) == Code.INVALID_SPEC
    assert code_of(world.assign("gpus", "h3")) == Code.REPEATED


def test_a_host_pool_without_hosts_is_removed(world: Pooled) -> None:
    world.assign("shared", "h3")
    said = world.define("gpus", removed=True)
    assert [event.removed for event in said if isinstance(event, HostPoolChanged)] == [True]
    assert {*hosts_of(world.run("a", 12)).values()} == {"h1", "h2", "h3"}


def test_the_capacity_of_each_host_pool_is_said_and_of_none_where_there_are_none(world: Pooled) -> None:
    said = world.assign("gpus", "h2")
    (change,) = [event for event in said if isinstance(event, CapacityChanged)]
    assert [(each.name, each.hosts, each.capacity["cpu"]) for each in change.host_pools] == [
        ("gpus", 2, 8000),
        ("shared", 1, 4000),
    ]
    alone = World().host("h1")
    assert [event.host_pools for event in alone if isinstance(event, CapacityChanged)][-1] == ()


def capacities(said: list[Event]) -> list[CapacityChanged]:
    return [event for event in said if isinstance(event, CapacityChanged)]


def daemons_of(event: CapacityChanged) -> dict[str, int]:
    return {each.name: each.daemons["cpu"] for each in event.host_pools if each.daemons}


def test_what_daemons_hold_is_said_of_each_host_pool_and_is_no_change_of_hosts(world: Pooled) -> None:
    version = world.machine.cell["cell"].version
    said = world.run("logs", 3, cpu=3000, kind="daemon")
    (event,) = capacities(said)
    assert daemons_of(event) == {"gpus": 3000, "shared": 6000}
    assert event.version == version, "nothing that was given back for good is tried again"
    assert capacities(world.run("a", 2)) == []
    (event,) = capacities(world.assign("gpus", "h2"))
    assert daemons_of(event) == {"gpus": 6000, "shared": 3000}
    (event,) = capacities(world.end(("logs", 0, 1), ("logs", 1, 1), ("logs", 2, 1)))
    assert daemons_of(event) == {}


# Moves.


def move(world: Pooled, source: str, target: str, *host_ids: str, hosts: int = 0, **how: Any) -> list[Event]:
    ask = HostPoolMoveRequested(source=source, target=target, host_ids=host_ids, hosts=hosts, command_id="m", **how)
    return world.fact(ask)


def started(said: list[Event]) -> list[HostPoolMoveStarted]:
    return [event for event in said if isinstance(event, HostPoolMoveStarted)]


def test_an_empty_host_is_moved_at_once_and_is_up_again(world: Pooled) -> None:
    said = move(world, "shared", "gpus", hosts=1)
    (event,) = started(said)
    assert (event.host_ids, event.code, event.candidates) == (("h1",), Code.ASKED, 2)
    assert [(each.host_ids, each.code) for each in said if isinstance(each, HostsPooled)] == [(("h1",), Code.MOVED)]
    assert world.machine.hosts.pools.of("h1") == "gpus"
    assert world.stages() == {}


def test_a_host_with_work_is_emptied_first(world: Pooled) -> None:
    world.run("a", 2, kind="stateless")
    assert world.machine.hosts.runs[0] == 2
    move(world, "shared", "gpus", "h1")
    assert (world.stages(), world.machine.hosts.pools.of("h1")) == ({"h1": "DRAINING"}, "shared")
    world.end(("a", 0, 1), ("a", 1, 1))
    assert (world.stages(), world.machine.hosts.pools.of("h1")) == ({}, "gpus")


def test_the_hosts_whose_work_is_worth_least_are_moved_first() -> None:
    world = Pooled()
    for host in ("a-firm", "b-many", "c-few", "d-none"):
        world.host(host)
    world.define("gpus")
    world.run("firm", 1, cpu=4000, preemptible=False)
    world.run("many", 4, priority=1)
    world.run("few", 1, cpu=3000, priority=9)
    said = move(world, "shared", "gpus", hosts=3, batch="move")
    (event,) = started(said)
    assert event.host_ids == ("d-none", "c-few", "b-many")
    assert (event.tasks_array.tolist(), event.priorities_array.tolist()) == ([0, 1, 4], [0, 9, 4])
    assert event.candidates == 4
    assert code_of(move(world, "shared", "gpus", hosts=1)) == Code.TOO_FEW_HOSTS


def test_who_takes_a_host_back_ends_its_move(world: Pooled) -> None:
    world.run("a", 1)
    move(world, "shared", "gpus", "h1")
    world.resume("h1")
    assert world.stages() == {}
    world.end(("a", 0, 1))
    assert world.machine.hosts.pools.of("h1") == "shared"


def test_an_assignment_ends_the_move_of_a_host_and_so_does_the_end_of_its_host_pool(world: Pooled) -> None:
    world.run("a", 1)
    move(world, "shared", "gpus", "h1")
    world.assign("gpus", "h1")
    assert (world.stages(), world.machine.hosts.pools.of("h1")) == ({}, "gpus")
    world.define("other")
    move(world, "gpus", "other", "h1")
    assert world.stages() == {"h1": "DRAINING"}
    world.define("other", removed=True)
    assert (world.stages(), world.machine.hosts.pools.of("h1")) == ({}, "gpus")


def test_moves_that_cannot_be_made_are_refused_whole(world: Pooled) -> None:
    assert code_of(move(world, "shared", "gpus", hosts=3)) == Code.TOO_FEW_HOSTS
    assert code_of(move(world, "shared", "gpus", "h1", "h3")) == Code.TOO_FEW_HOSTS
    assert code_of(move(world, "shared", "none", hosts=1)) == Code.NOT_FOUND
    assert code_of(move(world, "shared", "shared", hosts=1)) == Code.INVALID_SPEC
    assert code_of(move(world, "shared", "gpus")) == Code.INVALID_SPEC
    assert code_of(move(world, "shared", "gpus", hosts=1, escalate="force", deadline_ms=9)) == Code.FORCE_NOT_ALLOWED
    assert world.stages() == {}


@pytest.fixture
def elastic() -> Pooled:
    """Two hosts for services, three in shared; beyond 60 % of load for two minutes another one comes."""
    world = Pooled()
    for host in ("s1", "s2", "w1", "w2", "w3"):
        world.host(host)
    policy = HostPoolPolicy(source="shared", above=60, below=40, lasts_ms=120_000, hosts=1, keep=1)
    world.define("web", "service", elastic=(policy,))
    world.assign("web", "s1", "s2")
    return world


def test_a_host_comes_when_the_load_was_above_the_bound_for_long_enough(elastic: Pooled) -> None:
    elastic.run("site", 5, kind="stateless")
    assert started(elastic.beats(120_000)) == []
    (event,) = started(elastic.beats(60_000))
    assert (event.source, event.target, event.host_ids) == ("shared", "web", ("w1",))
    assert (event.code, event.load, event.bound) == (Code.LOAD_ABOVE, 62, 60)
    assert elastic.machine.hosts.pools.of("w1") == "web"
    assert started(elastic.beats(600_000)) == [], "its load is 41 % now, between the bounds"


def test_hosts_go_back_when_the_load_is_low_and_not_when_that_was_short(elastic: Pooled) -> None:
    elastic.run("site", 5, kind="stateless")
    elastic.beats(90_000)
    elastic.end(("site", 0, 1))
    assert started(elastic.beats(600_000)) == [], "it was above for less than two minutes"
    elastic.end(("site", 1, 1), ("site", 2, 1))
    (event,) = started(elastic.beats(600_000))
    assert (event.source, event.target, event.code, event.load) == ("web", "shared", Code.LOAD_BELOW, 25)
    assert event.host_ids == ("s1",), "both have one task: the first by name"


def test_hosts_stay_that_a_policy_keeps_and_that_the_rest_could_not_bear(elastic: Pooled) -> None:
    assert len(started(elastic.beats(1_200_000))) == 1, "of two hosts one stays"
    other = Pooled()
    for host in ("s1", "s2", "w1"):
        other.host(host)
    other.define("web", "service", elastic=(HostPoolPolicy(source="shared", above=60, below=50, lasts_ms=0),))
    other.assign("web", "s1", "s2")
    other.run("site", 3, kind="stateless")
    assert started(other.beats(600_000)) == [], "one host alone would have a load of 75 %"


def test_a_host_comes_when_work_waits_for_its_host_pool_however_low_the_load_is(elastic: Pooled) -> None:
    elastic.run("site", 2, cpu=2000, kind="stateless")
    assert started(elastic.beats(600_000)) == [], "half of web is allocated"
    waits = (HostPoolWaits(name="web", waiting={"cpu": 3000}),)
    elastic.peer("entitlement", HostPoolsWanted(host_pools=waits))
    (event,) = started(elastic.beats(180_000))
    assert (event.code, event.load, event.waiting, event.host_ids) == (Code.LOAD_ABOVE, 87, 37, ("w1",))
    assert started(elastic.beats(600_000)) == [], "58 % of three hosts"
    elastic.peer("entitlement", HostPoolsWanted(host_pools=()))
    (event,) = started(elastic.beats(600_000))
    assert (event.code, event.load, event.waiting) == (Code.LOAD_BELOW, 33, 0)


def test_admitted_work_that_finds_no_place_counts_for_its_first_host_pool(elastic: Pooled) -> None:
    elastic.names("/p", "web")
    elastic.run("site", 3, cpu=3000, kind="stateless")
    (event,) = started(elastic.beats(180_000))
    assert (event.code, event.load, event.waiting) == (Code.LOAD_ABOVE, 112, 37)


def test_policies_that_make_no_sense_are_refused(world: Pooled) -> None:
    for policy in (
        HostPoolPolicy(source="gpus", above=60, below=40, lasts_ms=0),
        HostPoolPolicy(source="shared", above=40, below=40, lasts_ms=0),
        HostPoolPolicy(source="shared", above=60, below=40, lasts_ms=-1),
        HostPoolPolicy(source="shared", above=60, below=40, lasts_ms=0, hosts=0),
    ):
        assert code_of(world.define("gpus", elastic=(policy,))) == Code.INVALID_SPEC
    unknown = HostPoolPolicy(source="typo", above=60, below=40, lasts_ms=0)
    assert code_of(world.define("gpus", elastic=(unknown,))) == Code.NOT_FOUND
