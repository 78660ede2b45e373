"""The model of queues against plain loops over time."""

from itertools import pairwise
from random import Random

import pytest

from paceline.forecast.queue_model import Busy, Queue, Unit, World, _Path, path

MOST = 1 << 62


def drawn(seed: int, lendable: bool) -> tuple[World, list[float], list[float]]:
    random = Random(seed)
    capacity, queues = 10, [Queue((MOST,)), Queue((random.choice((10, 6, MOST)),))]
    running, free = [], capacity
    for _ in range(random.randrange(4)):
        need = random.randint(1, 4)
        if need <= free:
            running.append(Busy(random.choice((-1, 0, 1)), (need,)))
            free -= need
    units = [Unit(at, 1, (random.randint(1, 6),), lendable) for at in range(random.randint(1, 12))]
    world = World((capacity,), queues, running, units, len(units))
    return world, [random.randint(1, 30) * 1.0 for _ in running], [random.randint(1, 30) * 1.0 for _ in units]


@pytest.mark.parametrize("seed", range(60))
def test_one_queue_is_served_as_by_the_model_of_all(seed: int) -> None:
    world, ends, lengths = drawn(seed, lendable=False)
    assert path(world, 0.0, ends, lengths) == _Path(world, 0.0, ends, lengths).run()


@pytest.mark.parametrize("seed", range(60))
def test_one_queue_is_first_come_first_served(seed: int) -> None:
    world, ends, lengths = drawn(seed, lendable=False)
    begun = [each for each in path(world, 0.0, ends, lengths) if each is not None]
    busy = [(0.0, end, work.need[0], work.queue) for work, end in zip(world.running, ends, strict=True)]
    expected: list[float] = []
    for unit, length in zip(world.waiting, lengths, strict=True):
        now = expected[-1] if expected else 0.0
        while True:  # at each whole second: is there room?
            there = [(need, queue) for start, end, need, queue in busy if start <= now < end]
            held = sum(need for need, queue in there if queue == 1)
            if sum(need for need, _ in there) + unit.need[0] <= 10 and held + unit.need[0] <= world.queues[1].most[0]:
                break
            now += 1
        busy.append((now, now + length, unit.need[0], 1))
        expected.append(now)
    assert begun == expected


@pytest.mark.parametrize("seed", range(60))
def test_what_is_lent_delays_no_head(seed: int) -> None:
    """Work behind a blocked head may begin before its turn, and the turn comes for nobody later than without that."""
    world, ends, lengths = drawn(seed, lendable=True)
    strict, _, _ = drawn(seed, lendable=False)
    lent, turns = path(world, 0.0, ends, lengths), path(strict, 0.0, ends, lengths)
    assert all(
        early is not None and turn is not None and early <= turn for early, turn in zip(lent, turns, strict=True)
    )


def test_the_queue_that_holds_least_for_its_weight_is_served_first() -> None:
    units = [Unit(at, queue, (1,)) for at, queue in enumerate((0, 0, 0, 0, 1, 1, 1, 1))]
    world = World((4,), [Queue((4,), 3.0), Queue((4,), 1.0)], [Busy(-1, (4,))], units, 8)
    begun = path(world, 0.0, [10.0], [5.0] * 8)
    assert begun == [10.0, 10.0, 10.0, 15.0, 10.0, 15.0, 15.0, 15.0]


def test_what_never_ends_is_never_followed() -> None:
    world = World((4,), [Queue((4,))], [Busy(0, (3,))], [Unit(0, 0, (1,)), Unit(1, 0, (2,))], 2)
    assert path(world, 0.0, [float("inf")], [float("inf"), 1.0]) == [0.0, None]


def test_heads_begin_in_the_order_of_their_queue() -> None:
    world, ends, lengths = drawn(3, lendable=False)
    begun = [each for each in path(world, 0.0, ends, lengths) if each is not None]
    assert all(first <= second for first, second in pairwise(begun))


@pytest.mark.parametrize("seed", range(60))
def test_no_path_holds_more_than_there_is(seed: int) -> None:
    world, ends, lengths = drawn(seed, lendable=True)
    model = _Path(world, 0.0, ends, lengths)
    frees: list[int] = []
    serve = model._serve
    model._serve = lambda: (serve(), frees.append(model._free[0]))[0]  # type: ignore[method-assign]
    model.run()
    assert min(frees) >= 0
    assert max(frees) <= world.capacity[0]
