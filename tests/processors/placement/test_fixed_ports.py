"""Ports with fixed numbers: no two tasks of a host have the same, and none has one that is taken."""

from typing import Any

import pytest

from events.codes import Code
from events.records.parts import TaskShape
from events.records.placement import GangsUnplaced, PreemptionAsked
from tests.helpers.machines import mixed, one
from tests.processors.placement.harness import World, ended, places
from tests.processors.placement.sharing import Giver, Shared, Taker, asks, victims


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


def full(port: int) -> Shared:
    """Two hosts, on each a task of one pool that has a port, and much room beside it."""
    cell = Shared()
    for host in ("h1", "h2"):
        cell.host(host, cpu=8000)
    cell.run("web", 2, **fixed(port, cpu=1000))
    return cell


def test_who_has_a_port_leaves_for_it_and_the_port_is_kept() -> None:
    cell = full(31_000)
    cell.run("small", 4, cpu=1000)
    cell.run("b", pool="/b", **fixed(31_000, cpu=1000))
    ask = one(cell.right(Taker("b", pool="/b"), Giver("/p")), PreemptionAsked)
    (victim,) = victims(ask)
    assert victim[0] == "web", "nobody else need leave"
    cell.order(ask)
    late = one(cell.run("late", **fixed(31_000, cpu=1000)), GangsUnplaced)
    assert late.hosts_by_reason == {"port taken": 2}
    said = cell.leave(victim)
    (host,) = ask.host_ids
    assert places(said) == {("b", 0, 1): (host, (31_000,))}


def test_a_port_that_is_kept_is_chosen_for_nobody() -> None:
    cell = full(31_000)
    cell.run("b", 2, gang_min=2, pool="/b", **fixed(31_000, cpu=1000))
    ask = one(cell.right(Taker("b", count=2, gang=1, pool="/b"), Giver("/p")), PreemptionAsked)
    cell.order(ask)
    first, last = victims(ask)
    cell.leave(first)
    found = places(cell.run("any", 2, shapes=(TaskShape({"cpu": 1000}, 1, (), "spread"),)))
    assert {ports for _, ports in found.values()} == {(31_001,)}, "one host has it free, for the gang"
    assert {ports for _, ports in places(cell.leave(last)).values()} == {(31_000,)}


def test_a_port_that_work_has_which_may_not_leave_is_not_asked_for() -> None:
    cell = Shared()
    for host in ("h1", "h2"):
        cell.host(host, cpu=8000)
    cell.run("web", 2, preemptible=False, **fixed(8080, cpu=1000))
    cell.run("b", pool="/b", **fixed(8080, cpu=1000))
    assert not asks(cell.right(Taker("b", pool="/b"), Giver("/p")))


def test_two_that_want_one_port_are_not_planned_onto_one_host() -> None:
    cell = full(8080)
    for job in ("b", "c", "d"):
        cell.run(job, pool="/b", **fixed(8080, cpu=1000))
    said = cell.right(*(Taker(job, pool="/b") for job in ("b", "c", "d")), Giver("/p"))
    assert sorted(host for ask in asks(said) for host in ask.host_ids) == ["h1", "h2"]


def test_a_port_stays_with_the_task_that_is_to_come_back() -> None:
    cell = world(1)
    cell.run("j", **fixed(8080))
    cell.end(("j", 0, 1), kept=1, hold=1)
    assert one(cell.run("other", **fixed(8080)), GangsUnplaced).hosts_by_reason == {"port taken": 1}
    assert places(cell.requeue(("j", 0, 1, 2, 0))) == {("j", 0, 2): ("h0", (8080,))}


def test_a_task_whose_next_version_wants_a_port_that_is_taken_at_home_goes_elsewhere() -> None:
    cell = world(2)
    cell.run("other", **fixed(9090))
    cell.run("j", **fixed(8080))
    cell.end(("j", 0, 1), kept=1, hold=1)
    (shape,) = fixed(9090)["shapes"]
    assert places(cell.requeue(("j", 0, 1, 2, 0), shape=shape)) == {("j", 0, 2): ("h1", (9090,))}
    assert places(cell.run("k", **fixed(8080))) == {("k", 0, 1): ("h0", (8080,))}, "its old one is free"
