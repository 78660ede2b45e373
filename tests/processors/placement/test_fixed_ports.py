"""Ports with fixed numbers: no two tasks of a host have the same, and none has one that is taken."""

from typing import Any

import pytest

from events.codes import Code
from events.records.parts import TaskShape
from events.records.placement import GangsUnplaced
from tests.helpers.machines import mixed, one
from tests.processors.placement.harness import World, ended, places


def world(hosts: int = 2) -> World:
    found = World()
    for host in range(hosts):
        found.host(f"h{host}", cpu=8)
    return found


def fixed(*numbers: int, cpu: int = 1, strategy: str = "pack") -> dict[str, Any]:
    return {"shapes": (TaskShape({"cpu": cpu}, len(numbers), (), strategy, numbers),)}


@pytest.mark.parametrize("strategy", ["pack", "spread"])
@pytest.mark.parametrize("gang", [0, 2])
def test_tasks_with_the_same_port_go_to_different_hosts(strategy: str, gang: int) -> None:
    found = places(world().run("j", 2, gang_min=gang, **fixed(8080, strategy=strategy)))
    assert found == {("j", 0, 1): ("h0", (8080,)), ("j", 1, 1): ("h1", (8080,))}


def test_a_task_waits_where_no_host_has_its_port_free_says_so_and_gets_it_when_it_is_free() -> None:
    cell = world()
    cell.run("a", 2, **fixed(8080))
    why = one(cell.run("b", **fixed(8080)), GangsUnplaced)
    assert (why.code, why.hosts_by_reason) == (Code.NO_HOST_FITS, {"port taken": 2})
    found = places(cell.run("c", **fixed(9090)))
    assert found == {("c", 0, 1): ("h0", (9090,))}, "another port is free"
    assert places(cell.peer("lifecycle", ended([("a", 1, 1)]))) == {("b", 0, 1): ("h1", (8080,))}


def test_more_tasks_than_hosts_wait_though_all_else_has_room() -> None:
    cell = world(3)
    said = cell.run("j", 20, **fixed(8080))
    assert sorted(host for host, _ in places(said).values()) == ["h0", "h1", "h2"]
    assert one(said, GangsUnplaced).hosts_by_reason == {"port taken": 3}


def test_chosen_ports_stay_away_from_those_that_others_must_have() -> None:
    """Within a decision and over several, in the order of the ports of the job."""
    cell = world(1)
    both = mixed((2, TaskShape({"cpu": 1}, 2)), (1, TaskShape({"cpu": 1}, 3, (), "pack", (0, 31_001, 0))))
    found = places(cell.run("j", **both))
    chosen = [port for _, ports in found.values() for port in ports]
    assert len(chosen) == len({*chosen}) == 7
    assert found["j", 2, 1][1][1] == 31_001
    assert one(cell.run("k", **fixed(chosen[0])), GangsUnplaced).hosts_by_reason == {"port taken": 1}


def test_members_of_different_shapes_with_the_same_port_do_not_meet() -> None:
    cell = world(1)
    small, large = (TaskShape({"cpu": cpu}, 1, (), "pack", (8080,)) for cpu in (1, 2))
    said = cell.run("j", gang_min=2, **mixed((1, small), (1, large)))
    assert places(said) == {}
    said = cell.host("h1", cpu=8)
    assert {host for host, _ in places(said).values()} == {"h0", "h1"}
