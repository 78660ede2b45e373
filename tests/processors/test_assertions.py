"""A machine that has miscounted stops at that record: each assertion is seen to bite on a bug that is planted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from events.codec import encode
from events.codes import RunReport
from events.columns import pack_ints
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import InstancesTaken, JobChanged
from events.records.parts import TaskShape, UpdatePolicy
from events.records.placement import HostsReserved
from processors.lifecycle.jobs import Jobs
from processors.machine import Decided
from processors.placement.admissions import Admissions
from processors.placement.hosts import Hosts
from processors.placement.runs import Runs
from processors.sla.verdicts import Room
from processors.state.arena import Arena
from processors.state.shapes import Shapes
from tests.processors.entitlement import harness as entitlement
from tests.processors.lifecycle import harness as lifecycle
from tests.processors.placement import harness as placement
from tests.processors.sla import harness as sla

Patch = pytest.MonkeyPatch
BUGS: dict[str, tuple[str, Callable[[Patch], Any]]] = {}
"""By name: the method whose assertion finds it, and a history that holds unless the bug is planted."""


def bug(found_in: str) -> Callable[[Callable[[Patch], Any]], Callable[[Patch], Any]]:
    def add(history: Callable[[Patch], Any]) -> Callable[[Patch], Any]:
        BUGS[history.__name__] = (found_in, history)
        return history

    return add


def planted(patch: Patch, owner: type, name: str, change: Callable[..., Any]) -> None:
    """Replaces a method by one that is called with the old one first."""
    old = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **more: change(old, *args, **more))


def running(instances: int = 2) -> lifecycle.World:
    world = lifecycle.World()
    world.submit("a", kind="batch", instances=instances)
    runs = [("a", at, 1) for at in range(instances)]
    world.place(*runs)
    world.report(RunReport.STARTED, *runs)
    return world


@bug("changed")
def a_job_is_over_before_its_tasks(patch: Patch) -> None:
    world = running()
    world.machine.apply(Decided(world.now, JobChanged(job_id="a", state="SUCCEEDED"), 99, 0))


@bug("_count_open")
def the_open_tasks_of_a_pool_are_given_back_twice(patch: Patch) -> None:
    planted(patch, Jobs, "_count_open", lambda old, self, row, tasks: old(self, row, 2 * tasks))
    world = running()
    for at in range(2):
        world.report(RunReport.EXITED, ("a", at, 1))


@bug("ended")
def a_run_leaves_its_order_twice(patch: Patch) -> None:
    world = running()
    world.preempt(("a", 0, 1), ("a", 1, 1))
    world.machine.orders.table[1].open = 1
    world.machine.orders.ended(np.flatnonzero(world.machine.tasks.arena["order"]))


@bug("give_back")
def a_job_gives_its_slots_back_twice(patch: Patch) -> None:
    def twice(old: Any, self: Arena, base: int, tasks: int) -> None:
        old(self, base, tasks)
        old(self, base, tasks)

    planted(patch, Arena, "give_back", twice)
    world = running(1)
    world.report(RunReport.EXITED, ("a", 0, 1))


@bug("give_back")
def more_tasks_give_a_shape_back_than_have_it(patch: Patch) -> None:
    planted(patch, Shapes, "give_back", lambda old, self, number, tasks: old(self, number, tasks + 1))
    world = host_with(1)
    world.end(("a", 0, 1))
    world.peer("lifecycle", JobChanged(job_id="a", state="SUCCEEDED"))


def host_with(tasks: int) -> placement.World:
    world = placement.World()
    world.host("h1", cpu=4000)
    world.run("a", tasks, shapes=(TaskShape({"cpu": 1000}),))
    return world


@bug("_hold")
def a_run_gives_back_less_than_it_took(patch: Patch) -> None:
    world = host_with(2)
    planted(patch, Hosts, "keep", lambda old, self, at, needs, sign=1: old(self, at, needs // 2, sign))
    world.end(("a", 0, 1), ("a", 1, 1))


@bug("hold")
def a_run_gives_its_place_back_twice(patch: Patch) -> None:
    def twice(old: Any, self: Runs, slots: Any, sign: int) -> None:
        for _ in range(1 if sign > 0 else 2):
            old(self, slots, sign)

    planted(patch, Runs, "_hold", twice)
    host_with(1).end(("a", 0, 1))


@bug("add")
def a_task_waits_at_no_rank(patch: Patch) -> None:
    planted(
        patch, Admissions, "_wait", lambda old, self, event, named, rank, now: old(self, event, named, 0 * rank, now)
    )
    host_with(1)


@bug("remove")
def a_task_stops_waiting_twice(patch: Patch) -> None:
    world = host_with(1)
    world.run("b", 6, shapes=(TaskShape({"cpu": 4000}),))
    waits = world.machine.runs.waits
    slots = np.flatnonzero(world.machine.runs.arena["waiting"])
    waits.remove(slots[:4])
    waits.remove(slots[:4])


@bug("_count_shapes")
def a_job_has_fewer_tasks_of_a_shape_than_none(patch: Patch) -> None:
    runs = host_with(1).machine.runs
    runs._count_shapes("a", runs.jobs["a"], dict.fromkeys(runs.jobs["a"].shapes, -2))


@bug("_hold")
def a_task_leaves_its_home_twice(patch: Patch) -> None:
    world = host_with(1)
    world.end(("a", 0, 1), kept=1, hold=1)
    homes = world.machine.runs.homes
    slots = np.flatnonzero(world.machine.runs.arena["home"])
    homes.tasks["a"] = 0
    homes.leave(slots)


@bug("reserved")
def a_host_is_reserved_for_two_units(patch: Patch) -> None:
    reservations, one = host_with(1).machine.sharing.reservations, pack_ints([1])
    named: dict[str, Any] = {
        "first": 0,
        "count": 1,
        "run": 1,
        "host_ids": ("h1",),
        "tasks": one,
        "shape": one,
        "kept": {},
    }
    for job in ("a", "other"):
        reservations.reserved(HostsReserved(job_id=job, state="RESERVED", until_ms=1, **named), 0)


@bug("add")
def a_pool_holds_less_than_one_below_it(patch: Patch) -> None:
    world = entitlement.World({"cpu": 4})
    world.define("/p")
    world.submit("a", pool="/p", instances=2)
    world.machine.usage.change("/").allocation = world.machine.queues.nothing
    world.submit("b", pool="/p")


@bug("_allowed")
def sla_allows_more_than_it_may(patch: Patch) -> None:
    world = sla.World()
    world.service("a", 3, 1)
    planted(patch, Room, "take", lambda old, self, unit: None)
    world.ask(("a", 0, 1), ("a", 1, 1))


@bug("_taken")
def an_update_takes_more_instances_than_are_left(patch: Patch) -> None:
    world = lifecycle.World()
    world.submit("a", kind="stateless", instances=2)
    updates = world.machine.updates
    world.place(("a", 0, 1), ("a", 1, 1))
    spec = JobSubmitted(
        job_id="a", pool="/p", kind="stateless", instances=2, command=("false",), update=UpdatePolicy(start_paused=True)
    )
    world.fact("paceline.jobs", JobUpdateRequested(job_id="a", command_id="u", spec=encode(spec)))
    updates.table["a"].pending = 0
    updates._taken(InstancesTaken.pack(job_id="a", number=1, first=[0], count=[2]), world.now)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: Patch) -> None:
    found_in, history = BUGS[name]
    with pytest.raises(AssertionError) as error:
        history(monkeypatch)
    assert error.traceback[-1].name == found_in
