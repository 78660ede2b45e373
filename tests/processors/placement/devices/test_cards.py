"""Tasks whose strategy looks at cards go where the board of decision 106 says, in the machine as on a board alone."""

import random
from typing import Any

import numpy as np
import pytest

from events.columns import I64
from events.device_columns import devices_of
from events.records.base import Event
from events.records.parts import DeviceModels, HostDevice, PlacementRules, TaskShape
from events.records.placement import TasksPlaced
from processors.placement.devices.cards import RULES
from processors.placement.devices.mix import Mix, MixRow
from processors.placement.devices.mix import TaskShape as Counted
from processors.placement.devices.strategies import GpuBoard
from tests.helpers.drawn import seeds
from tests.processors.placement.harness import World, hosts_of

MODELS = "a100", "t4"
STRATEGIES = {"fragmentation": 4, "adaptive": 5}


def with_cards(world: World, host: str, count: int, model: str, cpu: int = 32_000) -> None:
    devices = tuple(HostDevice(str(number), "gpu", model=model) for number in range(count))
    more = {"gpu": 1000 * count} if count else {}
    world.host(host, cpu=cpu, memory=65_536, more=more, devices=devices)


def shape(task: Counted, strategy: str) -> TaskShape:
    amounts = {"cpu": task.cpu, "memory": task.memory, "gpu": task.number * task.milli}
    rules = PlacementRules(devices=(DeviceModels("gpu", task.models),)) if task.models else None
    return TaskShape({name: amount for name, amount in amounts.items() if amount}, strategy=strategy, rules=rules)


def place_of(said: list[Event]) -> tuple[str, list[str]] | None:
    """The host and the devices of the one task that was placed; None: it waits."""
    hosts = hosts_of(said)
    if not hosts:
        return None
    (held,) = [each for event in said if isinstance(event, TasksPlaced) for _, each in devices_of(event)] or [()]
    return next(iter(hosts.values())), [name for name, _, _ in held]


def drawn_task(draw: random.Random) -> Counted:
    cpu, memory = draw.choice((500, 2_000, 8_000)), draw.choice((1_024, 8_192))
    kind, models = draw.random(), tuple(draw.sample(MODELS, draw.choice((0, 0, 1))))
    if kind < 0.2:
        return Counted(cpu, memory)
    if kind < 0.6:
        return Counted(cpu, memory, 1, draw.choice((200, 300, 500)), models)
    return Counted(cpu, memory, draw.choice((1, 1, 2)), 1000, models)


@pytest.mark.parametrize("strategy", [*STRATEGIES])
@seeds(60, suite=2)
def test_a_machine_places_each_task_as_a_board_alone_would(seed: int, strategy: str) -> None:
    draw, world = random.Random(seed), World()
    counts = [draw.choice((1, 2, 4)) for _ in range(5)]
    board, mix, open_ = GpuBoard(5), Mix(MixRow()), np.ones(5, dtype=np.bool_)
    for host, count in enumerate(counts):
        with_cards(world, f"h{host}", count, MODELS[host % 2])
        board.set_host(host, 32_000, 65_536, [1000] * count, MODELS[host % 2])
    for number in range(24):
        task = drawn_task(draw)
        mix.seen(task)
        if mix.is_due:
            board.refresh(mix)
        choice = board.best(task, RULES[STRATEGIES[strategy]], open_)
        place = place_of(world.run(f"job-{number}", shapes=(shape(task, strategy),)))
        if choice is None:
            assert place is None
            continue
        assert place is not None
        cards = board.cards(task, choice)
        assert place[0] == f"h{choice.host}", (number, task)
        assert sorted(place[1]) == sorted(map(str, cards)), (number, task)
        board.put(task, choice.host, cards)


def test_a_scarce_model_is_left_to_those_that_need_it() -> None:
    """Packed, the tasks that take any card would fill the one host that others need."""
    for strategy, right in (("pack", {"h0"}), ("adaptive", {"h1"})):
        world = World()
        with_cards(world, "h0", 2, "a100")
        for host in ("h1", "h2", "h3"):
            with_cards(world, host, 4, "t4", 64_000)
        needs_it = Counted(500, 512, 1, 200, ("a100",))
        for number in range(4):
            world.run(f"known-{number}", shapes=(shape(needs_it, strategy),))
        said = world.run("any", shapes=(shape(Counted(500, 512, 1, 500), strategy),))
        assert {*hosts_of(said).values()} == right


def test_without_gpus_adaptive_packs_and_nothing_is_learned() -> None:
    worlds = [World(), World()]
    for world, strategy in zip(worlds, ("pack", "adaptive"), strict=True):
        for host in range(3):
            world.host(f"h{host}", cpu=8_000, memory=65_536)
        said = world.run("job", 12, shapes=(TaskShape({"cpu": 1500}, strategy=strategy),))
        assert len(hosts_of(said)) == 12
        assert not world.machine.hosts.expected.table
    counts: list[I64] = [world.machine.hosts.used[0] for world in worlds]
    assert counts[0].tolist() == counts[1].tolist()


def test_a_host_whose_number_is_free_again_is_worth_nothing() -> None:
    """As after a restart, where the board has never seen it."""
    world = World()
    for host, model in enumerate(("t4", "t4", "a100")):
        with_cards(world, f"h{host}", 2, model)
    hosts = world.machine.hosts
    free, column = hosts.capacity - hosts.used, hosts.devices.column
    kept = hosts.expected.board(free[0], free[1], column, hosts.devices.states)
    assert kept.board.models == ["a100", "t4"]
    fewer = hosts.expected.board(free[0, :2], free[1, :2], column[:2], hosts.devices.states)
    assert fewer is kept
    assert kept.board.models == ["t4"]
    assert not kept.board.hosts.levels[2].any()
    again = hosts.expected.board(free[0], free[1], column, hosts.devices.states)
    assert again.board.models == ["a100", "t4"]


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    world = World()
    for host in range(3):
        with_cards(world, f"h{host}", 2, "t4")
    two: dict[str, Any] = {"gang_min": 3, "shapes": (shape(Counted(500, 512, 2, 1000), "adaptive"),)}
    assert len({*hosts_of(world.run("gang", 3, **two)).values()}) == 3
    assert not hosts_of(world.run("more", 3, **two))
