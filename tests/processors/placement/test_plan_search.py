"""Who leaves for a gang: checked against all sets of victims that there are, on small clusters."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from events.codes import Way
from processors.placement.gang_search import Part
from processors.placement.packing import Weights, fits
from processors.placement.room.board import (
    Board,
    Draft,
    Pick,
    Taker,
    Unit,
    cost_of,
    order_of,
)
from processors.placement.room.search import WAYS, Plan, Search, find_plan
from processors.state.preemption_rules import BATCH, CONTROLLER, SERVICE, Flag, Giver, Protection, Right

MOVES = Right((9, 9), (9, 9), Flag.MOVE)


class World(NamedTuple):
    """A small cluster: what is free on each host (kinds, ports), and who has places there."""

    free: list[list[int]]
    units: list[Unit]
    givers: dict[str, Giver]
    taker: Taker

    def board(self) -> Board:
        free = np.array(self.free, dtype=np.int64).T.copy()
        everywhere = np.ones(len(self.free), dtype=np.bool_)
        shapes = [(unit, host) for unit in self.units for host in unit.at]

        def task_of(number: int, slots: object) -> tuple[list[int], np.ndarray, None]:
            unit, host = shapes[number]
            return unit.at[host], everywhere, None

        return Board(
            free,
            free.copy(),
            Weights(np.array([1, 1]), np.array([0, 0])),
            {**self.givers},
            lambda host: [unit for unit in self.units if host in unit.at],
            task_of,
            lambda host, ports: [],
        )


def unit(key: int, pool: str, at: dict[int, list[int]], **fields: object) -> Unit:
    found = Unit(key, pool)
    found.at = at
    found.amount = tuple(map(sum, zip(*(amounts[:-1] for amounts in at.values()), strict=True)))
    found.slots = [key] * len(at)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def pick(one: Unit, way: int) -> Pick:
    return Pick(one, way, order_of(one, way))


def numbered(units: list[Unit]) -> list[Unit]:
    """Each task has a shape of its own."""
    at = 0
    for one in units:
        one.shapes = list(range(at, at + len(one.at)))
        at += len(one.at)
    return units


def draw(random: Random, gangs: bool, limits: bool, hosts: int = 3) -> World:
    free = [[random.randint(0, 2), random.randint(0, 2), 0] for _ in range(hosts)]
    units = []
    for key in range(random.randint(1, 7)):
        places = random.sample(range(hosts), random.randint(1, 2) if gangs else 1)
        at = {host: [random.randint(1, 3), random.randint(0, 2), 0] for host in places}
        units.append(
            unit(
                key,
                random.choice(["/a", "/b", "/c"]) if limits else "/own",
                at,
                priority=random.randint(0, 2),
                kind=random.choice([BATCH, SERVICE, CONTROLLER]),
                preemptible=random.random() < 0.8,
                borrowed=random.random() < 0.2,
                protection=Protection(random.random() < 0.1, random.random() < 0.5),
                lost=random.randint(0, 50),
            )
        )
    givers = {
        pool: Giver((random.randint(0, 6), random.randint(-1, 4)), (random.randint(1, 6), 2), (4, 4))
        for pool in ("/a", "/b")
    }
    right = Right((random.randint(1, 5), random.randint(-1, 4)) if limits else (0, 0), (6, 6), random.choice([0, 1]))
    return World(free, numbered(units), givers, Taker("/own", random.randint(1, 3), (0, 0), right))


def wanted(random: Random, world: World, tasks: int, spread: bool = False) -> tuple[World, Part]:
    need = [random.randint(1, 4), random.randint(0, 3), 0]
    open_ = np.array([random.random() < 0.9 for _ in world.free])
    taker = world.taker._replace(need=(need[0] * tasks, need[1] * tasks))
    return world._replace(taker=taker), Part((*need,), open_, sum(need), spread, tasks)


def plan(world: World, parts: Sequence[Part], ways: tuple[int, ...] = WAYS[0]) -> Plan | None:
    board = world.board()
    before = board.free.copy()
    draft = Draft(board, world.taker)
    level = np.arange(len(world.free)) % 2
    searches = [
        Search(board, part, at, np.flatnonzero(part.open_).tolist(), ways, level) for at, part in enumerate(parts)
    ]
    found = find_plan(draft, parts, searches)
    if found is None:
        assert np.array_equal(board.free, before)
        assert not board.gone
    else:
        assert board.gone.keys() == {pick.unit.key for pick in found.picks}
    return found


def room(world: World, picks: Iterable[Pick], part: Part, hosts: Iterable[int]) -> int:
    """How many tasks of a part fit on some hosts when these have left."""
    free = np.array(world.free, dtype=np.int64).T.copy()
    for pick in picks:
        for host, amounts in pick.unit.at.items():
            free[:, host] += amounts
        for place in pick.places:
            free[:, place.host] -= place.amounts
    among = np.array([host for host in dict.fromkeys(hosts) if part.open_[host]], dtype=np.int64)
    return int(fits(free, part.need, among, part.size).sum())


def may(world: World, picks: Sequence[Pick]) -> bool:
    """Whether these may leave one after another."""
    return Draft(world.board(), world.taker).judge(picks)


def sets(world: World) -> Iterator[tuple[Pick, ...]]:
    """All sets of victims, in all orders in which they may go, smallest first."""
    own = [pick(one, Way.OWN if one.pool == world.taker.pool else Way.GIVE) for one in world.units if not one.code]
    for size in range(len(own) + 1):
        for chosen in combinations(own, size):
            for order in permutations(chosen) if size < 5 else [chosen]:
                if may(world, order):
                    yield order
                    break


def check(world: World, part: Part, found: Plan) -> None:
    """What holds for each plan for equal tasks."""
    hosts = [host for host, _, _ in found.places]
    assert sum(tasks for _, _, tasks in found.places) == part.size
    for host, _, tasks in found.places:
        assert room(world, found.picks, part, [host]) >= tasks
    assert may(world, found.picks)
    assert all(pick.unit.preemptible for pick in found.picks)
    assert len({pick.unit.key for pick in found.picks}) == len(found.picks)
    for pick in found.picks:
        rest = [one for one in found.picks if one is not pick]
        assert room(world, rest, part, hosts) < part.size or not may(world, rest), "somebody leaves for nothing"


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_whoever_may_leave_does_if_the_gang_fits_and_nobody_leaves_for_nothing(tasks: int) -> None:
    found = 0
    for seed in range(400):
        random = Random(seed)
        world, part = wanted(random, draw(random, gangs=seed % 2 == 1, limits=False), tasks, spread=seed % 3 == 0)
        plan_ = plan(world, [part])
        everybody = [one for one in (pick(each, Way.OWN) for each in world.units) if may(world, [one])]
        possible = room(world, everybody, part, range(len(world.free))) >= tasks
        assert (plan_ is not None) == possible, seed
        if plan_ is not None:
            found += 1
            check(world, part, plan_)
    assert found > 80


def test_the_cheapest_set_of_victims_is_found_for_a_task() -> None:
    """Of all sets that make room on some host. Where several leave, a better one is missed now and then."""
    missed = plans = 0
    for seed in range(400):
        random = Random(seed)
        world, part = wanted(random, draw(random, gangs=False, limits=False), 1)
        plan_ = plan(world, [part])
        if plan_ is None or not plan_.picks:
            continue
        plans += 1
        best = min(cost_of(each) for each in sets(world) if room(world, each, part, range(len(world.free))))
        missed += cost_of(plan_.picks) != best
        assert cost_of(plan_.picks)[0][0] == best[0][0], "the last class that leaves is the least possible"
    assert plans > 100
    assert missed <= plans // 20


@pytest.mark.parametrize("ways", WAYS)
def test_a_host_on_which_one_victim_is_enough_is_judged_as_if_all_were_looked_at(
    ways: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def plans() -> list[tuple[list[tuple[int, int, int]], list[tuple[int, int]]] | None]:
        found = []
        for seed in range(300):
            random = Random(2000 + seed)
            world = draw(random, gangs=seed % 3 == 2, limits=seed % 2 == 1)
            flags = random.choice([Flag(0), Flag.MOVE, Flag.MOVE | Flag.CLEAR, Flag.DAEMON])
            taker = world.taker._replace(right=world.taker.right._replace(flags=flags))
            world, part = wanted(random, world._replace(taker=taker), 1 + seed % 3)
            one = plan(world, [part], ways)
            found.append(one and (one.places, [(each.unit.key, each.way) for each in one.picks]))
        return found

    quick = plans()
    monkeypatch.setattr(Search, "_first", lambda self, draft, host, lack: None)
    assert quick == plans()
    assert sum(one is not None and len(one[1]) > 0 for one in quick) > 60


@pytest.mark.parametrize("tasks", [1, 2])
def test_within_the_numbers_of_a_right_a_plan_is_rarely_missed_and_never_against_the_rules(tasks: int) -> None:
    missed = possible = 0
    for seed in range(400):
        random = Random(1000 + seed)
        world, part = wanted(random, draw(random, gangs=seed % 2 == 1, limits=True), tasks)
        plan_ = plan(world, [part])
        can = any(room(world, each, part, range(len(world.free))) >= tasks for each in sets(world))
        possible += can
        missed += can and plan_ is None
        if plan_ is not None:
            check(world, part, plan_)
    assert possible > 100
    assert missed <= possible // 7


def test_moved_tasks_never_count_on_the_same_room() -> None:
    """They leave several hosts, each for one task of a gang, and room elsewhere is found for each host by itself."""
    moved = 0
    for seed in range(400):
        random = Random(3000 + seed)
        full = [unit(key, "/own", {key: [random.randint(1, 3), 0, 0]}, lost=random.randint(0, 9)) for key in range(4)]
        free = [[0, 0, 0]] * len(full) + [[random.randint(0, 4), 0, 0] for _ in range(2)]
        gang = Part((1, 0, 0), np.arange(len(free)) < len(full), 1, True, random.randint(2, 3))
        found = plan(World(free, numbered(full), {}, Taker("/own", 1, (9, 0), MOVES)), [gang], (Way.MOVE,))
        taken = [0] * len(free)
        for place in (place for each in found.picks for place in each.places) if found is not None else ():
            taken[place.host] += place.amounts[0]
        assert all(one <= room for one, (room, _, _) in zip(taken, free, strict=True)), seed
        moved += found is not None
    assert moved > 100
