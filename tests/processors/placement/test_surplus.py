"""Hosts that offer less than their runs hold: nothing is placed there, who is asked to leave, and when it ends."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from events.codes import Code
from events.columns import ints
from events.records.entitlement import PreemptionRefused
from events.records.hosts import HostDeviceRequested
from events.records.parts import HostDevice
from events.records.placement import PreemptionAsked
from processors.placement.states import Phase
from tests.helpers.machines import of, one, shaped
from tests.processors.placement.harness import World, hosts_of, offered

Asked = list[tuple[str, int, int]]


def offer(world: World, host: str, **more: Any) -> list[Any]:
    """A host offers something else, in the same session."""
    return world.fact(offered(host, world.sessions[host], **more))


def asked(said: Sequence[Any]) -> Asked:
    """The runs that are asked to leave for no job."""
    return [
        (event.job_ids[job], instance, run)
        for event in of(said, PreemptionAsked)
        if not event.job_id
        for job, instance, run in zip(
            ints(event.job).tolist(), ints(event.instance).tolist(), ints(event.victim_run).tolist(), strict=True
        )
    ]


def phase(world: World, host: str) -> Phase:
    hosts = world.machine.hosts
    return Phase(int(hosts.phase[hosts.table[host].number]))


def full(world: World) -> None:
    """A host of 8 cores with 4 of a high priority, then 2 and 2 of a low one."""
    world.host("a", cpu=8000, memory=8000)
    world.run("high", 2, priority=5, **shaped({"cpu": 2000, "memory": 100}))
    world.later(1000)
    world.run("old", 2, **shaped({"cpu": 1000, "memory": 100}))
    world.later(1000)
    world.run("new", 2, **shaped({"cpu": 1000, "memory": 100}))


def leave(world: World, runs: Asked, number: int = 1) -> None:
    """Entitlement orders what was asked for."""
    units = [(job, instance, 1, run, 0) for job, instance, run in runs]
    whom = {"for_job": "", "for_pool": "", "for_count": 0, "for_run": 0, "host_ids": ("a",), "code": Code.HOST_SHRUNK}
    world.order(number, units, **whom)


def test_the_newest_of_the_lowest_priority_leave_until_the_rest_fits() -> None:
    world = World()
    full(world)
    said = offer(world, "a", cpu=5000, memory=8000)
    assert asked(said) == [("new", 1, 1), ("new", 0, 1), ("old", 1, 1)]
    event = one(said, PreemptionAsked)
    assert (event.host_ids, {*ints(event.way).tolist()}) == (("a",), {6})
    assert phase(world, "a") == Phase.SHRUNK
    assert asked(world.later(10_000)) == []  # once
    leave(world, asked(said))
    assert asked(world.later(1000)) == []
    world.end(("new", 1, 1), ("new", 0, 1))
    assert phase(world, "a") == Phase.SHRUNK
    said = world.end(("old", 1, 1))
    assert phase(world, "a") == Phase.UP
    assert asked(said) == []


def test_nothing_is_placed_there_whatever_it_asks_for() -> None:
    world = World()
    world.host("a", cpu=4000, memory=8000)
    world.run("fixed", 4, preemptible=False, **shaped({"cpu": 1000, "memory": 100}))
    said = offer(world, "a", cpu=3000, memory=8000)
    assert (asked(said), phase(world, "a")) == ([], Phase.SHRUNK)
    assert hosts_of(world.run("other", 1, **shaped({"memory": 100}))) == {}
    assert hosts_of(offer(world, "a", cpu=4000, memory=8000)) == {("other", 0, 1): "a"}
    assert phase(world, "a") == Phase.UP


def test_whoever_holds_nothing_of_what_lacks_stays() -> None:
    world = World()
    world.host("a", cpu=4000, memory=8000)
    world.run("cpu", 1, priority=3, **shaped({"cpu": 4000}))
    world.later(1000)
    world.run("memory", 1, **shaped({"memory": 4000}))
    assert asked(offer(world, "a", cpu=2000, memory=8000)) == [("cpu", 0, 1)]


def test_gangs_leave_whole_and_from_all_their_hosts() -> None:
    world = World()
    world.host("a", cpu=2000, memory=8000)
    world.host("b", cpu=2000, memory=8000)
    world.run("gang", 4, gang_min=4, **shaped({"cpu": 1000, "memory": 100}))
    assert sorted(asked(offer(world, "a", cpu=1000, memory=8000))) == [("gang", each, 1) for each in range(4)]


def test_a_refusal_is_followed_by_an_ask_of_others() -> None:
    world = World()
    full(world)
    offer(world, "a", cpu=7000, memory=8000)
    said = world.peer(
        "entitlement",
        PreemptionRefused(
            job_id="", first=0, count=0, run=0, code=Code.DEFERRED,
            victim_job_id="new", victim_instance=1, victim_run=1,
        ),
    )  # fmt: skip
    assert asked(said) == [("new", 0, 1)]


def test_whom_sla_spares_is_passed_over_and_asked_again_later() -> None:
    world = World()
    world.host("a", cpu=2000, memory=8000)
    world.run("j", 2, **shaped({"cpu": 1000, "memory": 100}))
    leave(world, asked(offer(world, "a", cpu=1000, memory=8000)))
    assert asked(world.answer(1, Code.DEFERRED, ("j", 1, 1))) == [("j", 0, 1)]
    leave(world, [("j", 0, 1)], 2)
    assert asked(world.answer(2, Code.DEFERRED, ("j", 0, 1))) == []
    assert asked(world.later(3_600_000)) == [("j", 1, 1)]


def test_it_ends_with_the_host_and_with_a_larger_offer() -> None:
    world = World()
    full(world)
    assert asked(offer(world, "a", cpu=5000, memory=8000))
    world.silence("a")
    assert phase(world, "a") == Phase.SILENT
    world.hear("a")
    assert phase(world, "a") == Phase.SHRUNK
    offer(world, "a", cpu=9000, memory=8000)
    assert phase(world, "a") == Phase.UP
    world.silence("a")
    world.confirm("a")
    assert (phase(world, "a"), dict(world.machine.surplus.table.items())) == (Phase.LOST, {})


def test_an_agent_that_starts_again_with_less_shrinks_its_host_once_its_runs_are_settled() -> None:
    world = World()
    full(world)
    assert asked(world.connect("a", cpu=6000, memory=8000)) == []
    assert phase(world, "a") == Phase.RETURNING
    assert asked(world.reconcile("a")) == [("new", 1, 1), ("new", 0, 1)]


def naive(runs: list[tuple[int, int, int, bool, tuple[int, int], tuple[str, int, int]]], lack: list[int]) -> Asked:
    """The rule in plain words: by priority, the newest first, each that holds some of what lacks, until nothing does.

    A run: its priority, when it was placed, its slot, whether it is preemptible, CPU and memory, its name.
    """
    out: Asked = []
    for _, _, _, preemptible, amounts, name in sorted(runs, key=lambda run: (run[0], -run[1], -run[2])):
        if preemptible and any(have and short > 0 for have, short in zip(amounts, lack, strict=True)):
            out.append(name)
            lack = [short - have for short, have in zip(lack, amounts, strict=True)]
    return out


@pytest.mark.parametrize("seed", range(40))
def test_who_is_asked_is_who_a_plain_rule_names(seed: int) -> None:
    draw = random.Random(seed)
    world, runs = World(), []
    world.host("a", cpu=100_000, memory=100_000)
    for number in range(draw.randint(1, 8)):
        cpu, memory = draw.choice([(0, 50), (1000, 0), (500, 700), (3000, 100)])
        priority, preemptible, count = draw.randint(0, 2), draw.random() < 0.7, draw.randint(1, 3)
        amounts = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
        world.run(f"j{number}", count, priority=priority, preemptible=preemptible, **shaped(amounts))
        base = world.machine.runs.jobs[f"j{number}"].base
        since = int(world.machine.runs.arena["placed_s"][base])
        for at in range(count):
            runs.append((priority, since, base + at, preemptible, (cpu, memory), (f"j{number}", at, 1)))
        world.later(draw.choice([0, 1000, 5000]))
    held = [sum(run[4][kind] for run in runs) for kind in range(2)]
    offers = [draw.randint(0, amount + 500) for amount in held]
    said = offer(world, "a", cpu=offers[0], memory=offers[1])
    lack = [max(0, have - offered_) for have, offered_ in zip(held, offers, strict=True)]
    assert asked(said) == naive(runs, lack)
    assert phase(world, "a") == (Phase.SHRUNK if any(lack) else Phase.UP)


def cards(number: int, first: int = 0) -> dict[str, Any]:
    """An offer of so many cards, by their numbers."""
    devices = tuple(HostDevice(f"{at}", "gpu") for at in range(first, first + number))
    return {"cpu": 9000, "gpu": 1000 * number, "devices": devices}


def test_a_card_that_is_gone_ends_nothing_until_it_is_set_aside() -> None:
    """Its host isn't short of it: the card stays its run's, and no other takes it."""
    world = World()
    world.host("a", **cards(2))
    world.run("j", 2, **shaped({"gpu": 1000}))
    said = offer(world, "a", **cards(1, first=1))
    assert (asked(said), phase(world, "a")) == ([], Phase.UP)
    request = HostDeviceRequested(host_id="a", device="0", disabled=True, ends=True, command_id="d")
    assert asked(world.fact(request)) == [("j", 0, 1)]
