"""The fewest tasks are moved for a job for which room was asked: checked against all sets and all places elsewhere."""

from itertools import combinations
from random import Random

import pytest

from events.codes import Way
from processors.placement.gang_search import Part
from processors.placement.room import fewest_moves
from processors.placement.room.board import Taker, Unit
from processors.placement.room.search import WAYS
from processors.state.preemption_rules import Flag, Right
from tests.processors.placement.test_plan_search import World, numbered, plan, unit, wanted

MOVES = Right((0, 0), (9, 9), Flag.MOVE | Flag.MOVES_ALONE)


def draw(random: Random, hosts: int = 4) -> World:
    """Single tasks on four hosts, each with little room."""
    free = [[random.randint(0, 2), random.randint(0, 2), 0] for _ in range(hosts)]
    units = [
        unit(
            key,
            random.choice(["/own", "/a"]),
            {random.randrange(hosts): [random.randint(1, 2), random.randint(0, 1), 0]},
            priority=random.randint(0, 1),
            preemptible=random.random() < 0.9,
            lost=random.randint(0, 50),
        )
        for key in range(random.randint(2, 8))
    ]
    return World(free, numbered(units), {}, Taker("/own", 1, (0, 0), MOVES))


def find_places(free: list[list[int]], units: list[Unit]) -> bool:
    """Whether all have places on hosts that aren't theirs, whatever the order and the hosts."""
    if not units:
        return True
    [(home, amounts)] = units[0].at.items()
    for host, room in enumerate(free):
        if host != home and all(have >= ask for have, ask in zip(room, amounts, strict=True)):
            rest = [list(each) for each in free]
            rest[host] = [have - ask for have, ask in zip(room, amounts, strict=True)]
            if find_places(rest, units[1:]):
                return True
    return False


def fewest(world: World, part: Part) -> int | None:
    """The fewest moves after which a task fits on some host; None: it never does."""
    best = None
    for host in range(len(world.free)):
        here = [each for each in world.units if host in each.at and each.preemptible]
        for size in range(len(here) + 1) if part.open_[host] else ():
            for chosen in combinations(here, size):
                room = [sum(parts) for parts in zip(world.free[host], *(each.at[host] for each in chosen), strict=True)]
                fits = all(have >= ask for have, ask in zip(room, part.need, strict=True))
                if fits and (best is None or size < best) and find_places(world.free, [*chosen]):
                    best = size
    return best


def test_no_fewer_tasks_could_be_moved() -> None:
    moved = missed = 0
    for seed in range(600):
        random = Random(seed)
        world, part = wanted(random, draw(random), 1)
        best, found = fewest(world, part), plan(world, [part], WAYS[1])
        if found is not None:
            assert all(pick.way == Way.MOVE and pick.places for pick in found.picks)
            assert best is not None
            assert len(found.picks) >= best, "the twin knows better"
            moved += best > 0
        # Moved tasks take the fullest hosts one after another; other places for all of them are missed now and then.
        missed += (None if found is None else len(found.picks)) != best
    assert moved > 100
    assert missed <= 6


def test_when_there_are_too_many_sets_the_search_by_cost_finds_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewest_moves, "SETS_MAX", 0)
    found = 0
    for seed in range(100):
        random = Random(seed)
        world, part = wanted(random, draw(random), 1)
        plan_ = plan(world, [part], WAYS[1])
        found += plan_ is not None and len(plan_.picks) > 0
        if plan_ is not None:
            assert fewest(world, part) is not None
    assert found > 10
