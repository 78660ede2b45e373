"""Port numbers of tasks: kept by slot, given back once, and the same after a restart or an upgrade."""

from random import Random
from typing import Any

import numpy as np
import pytest

from events.records.parts import TaskShape
from processors.placement.ports import BLOCK, TaskPorts
from processors.state.table import Table
from tests.helpers.machines import instances_changed, mixed
from tests.processors.placement.harness import World, places

ONE, TWO = TaskShape({"cpu": 1}, 1), TaskShape({"cpu": 1}, 2)
NAMED = TaskShape({"cpu": 1}, 3, (), "pack", (0, 31_900, 0))


def restored(ports: TaskPorts, store: dict[tuple[str, bytes], bytes | None]) -> TaskPorts:
    """What a store gives back that is kept up with each change."""
    other, mine = TaskPorts(), list[Table[Any, Any]](ports.tables)
    theirs: dict[str, Table[Any, Any]] = {table.name: table for table in other.tables}
    store.update({(row.table, row.key): row.row for table in mine for row in table.take_changes()[0]})
    for (name, key), packed in store.items():
        if packed is not None:
            theirs[name].load(key, packed)
    return other


@pytest.mark.parametrize("seed", range(20))
def test_ports_by_slot_are_as_in_a_dictionary(seed: int) -> None:
    store: dict[tuple[str, bytes], bytes | None] = {}
    random, ports, plain = Random(seed), TaskPorts(), dict[int, list[int]]()
    for _ in range(60):
        slots = random.sample(range(5 * BLOCK), random.choice([1, 3, 40]))
        for slot in slots if random.random() < 0.6 else ():
            if slot not in plain:
                first, count = random.randint(1, 65_000), random.randint(1, 4)
                plain[slot] = [first + random.choice([1, 1, 1, 7]) * each for each in range(count)]
                ports.put(slot, plain[slot])
        if random.random() < 0.5:
            had = {slot: [*given] for slot, given in ports.take_away(np.sort(np.array(slots)))}
            assert had == {slot: plain.pop(slot) for slot in sorted(slots) if slot in plain}
        for each in (ports, restored(ports, store)):
            assert {slot: [*given] for slot, given in each.items()} == plain
            assert [[*each[slot]] for slot in slots] == [plain.get(slot, []) for slot in slots]
    ports.take_away(np.arange(5 * BLOCK))
    assert (len(ports), [*restored(ports, store).items()]) == (0, [])


def test_a_job_that_moves_as_it_grows_keeps_its_ports_and_gives_them_back() -> None:
    world = World()
    world.host("h", cpu=2000)
    found = places(world.run("j", **mixed((1, NAMED), (2, TWO))))
    world.run("behind")
    base = world.machine.runs.jobs["j"].base
    world.peer("lifecycle", instances_changed("j", range(3), range(3, 300), first_run=1, shapes=(ONE,)))
    row = world.machine.runs.jobs["j"]
    assert row.base != base
    kept = {instance: tuple(world.machine.runs.ports[row.base + instance]) for instance in range(3)}
    assert kept == {instance: ports for (_, instance, _), (_, ports) in found.items()}
    world.end(*((*run[:2], 1) for run in found))
    assert (len(world.machine.runs.ports), world.machine.hosts.ports.taken) == (0, [{}])


def test_what_is_free_between_others_is_given_out_and_given_back() -> None:
    world = World()
    world.host("h", cpu=2000, port_first=31_000, port_last=31_009)
    world.run("a", 4, shapes=(ONE,))
    world.end(("a", 1, 1), ("a", 3, 1))
    assert places(world.run("b", shapes=(TWO,))) == {("b", 0, 1): ("h", (31_001, 31_003))}
    world.end(("b", 0, 1))
    assert places(world.run("c", shapes=(ONE,))) == {("c", 0, 1): ("h", (31_001,))}
