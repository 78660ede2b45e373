"""The model of queues against plain loops over time."""

from itertools import pairwise
from random import Random
from sys import setprofile
from types import FrameType

import pytest

from paceline.forecast.queue_model import LENT_DEPTH, Amounts, Busy, Queue, Unit, World, _Path, path

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


class Plain:
    """The same model with nothing kept: loads, room and what is lent are summed up anew at each look."""

    def __init__(self, world: World, ends: list[float], lengths: list[float]) -> None:
        self.world, self.lengths, self.now = world, lengths, 0.0
        self.begun: list[float | None] = [None] * world.jobs
        self.waits = list(range(len(world.waiting)))
        self.lent: dict[int, float] = {}
        self.busy = [(end, work.queue, work.need) for work, end in zip(world.running, ends, strict=True)]

    def run(self) -> list[float | None]:
        while True:
            self.serve()
            ends = [*self.lent.values(), *(end for end, _, _ in self.busy)]
            if not ends:
                return self.begun
            self.now = min(ends)
            self.busy = [each for each in self.busy if each[0] > self.now]
            self.waits = [each for each in self.waits if self.lent.get(each, self.now + 1) > self.now]
            self.lent = {unit: end for unit, end in self.lent.items() if end > self.now}

    def serve(self) -> None:
        closed: set[int] = set()
        while heads := {each.queue: at for at in reversed(self.waits) if (each := self.unit(at)).queue not in closed}:
            queue = min(heads, key=lambda each: (self.load(each), each))
            if not self.admit(heads[queue], queue):
                closed.add(queue)
        for queue in range(len(self.world.queues)):
            for at in [at for at in self.waits if self.unit(at).queue == queue][:LENT_DEPTH]:
                if self.unit(at).lendable and at not in self.lent and self.has(self.unit(at).need):
                    self.lent[at] = self.begin(at)

    def admit(self, at: int, queue: int) -> bool:
        need, held = self.unit(at).need, self.held(queue)
        if any(map(int.__gt__, map(sum, zip(need, held, strict=True)), self.world.queues[queue].most)):
            return False
        end, lent = self.lent.pop(at, None), dict(self.lent)
        while end is None and not self.has(need) and self.lent:
            self.lent.popitem()
        if end is None and not self.has(need):
            self.lent = lent
            return False
        self.busy.append((self.begin(at) if end is None else end, queue, need))
        self.waits.remove(at)
        return True

    def begin(self, at: int) -> float:
        self.begun[self.unit(at).job] = self.now if (first := self.begun[self.unit(at).job]) is None else first
        return self.now + self.lengths[at]

    def unit(self, at: int) -> Unit:
        return self.world.waiting[at]

    def held(self, queue: int) -> list[int]:
        return [sum(need[at] for _, own, need in self.busy if own == queue) for at in range(len(self.world.capacity))]

    def load(self, queue: int) -> float:
        parts = zip(self.held(queue), self.world.capacity, strict=True)
        return max(amount / most for amount, most in parts) / self.world.queues[queue].weight

    def has(self, need: Amounts) -> bool:
        taken = [*(need for _, _, need in self.busy), *(self.unit(at).need for at in self.lent), need]
        return all(map(int.__le__, map(sum, zip(*taken, strict=True)), self.world.capacity))


@pytest.mark.parametrize("seed", range(100))
def test_many_queues_are_served_as_by_plain_sums(seed: int) -> None:
    random = Random(seed)
    queues = [
        Queue((random.choice((4, 9, MOST)), MOST), random.choice((0.5, 1.0, 3.0))) for _ in range(random.randint(1, 6))
    ]
    running = [Busy(random.randrange(-1, len(queues)), (1, random.randint(0, 2))) for _ in range(random.randint(1, 8))]
    units = [
        Unit(at, random.randrange(len(queues)), (random.randint(1, 5), random.randint(0, 5)), random.random() < 0.7)
        for at in range(random.randint(1, LENT_DEPTH))
    ]
    world = World((10, 20), queues, running, units, len(units))
    ends, lengths = ([random.randint(1, 30) * 1.0 for _ in each] for each in (running, units))
    assert path(world, 0.0, ends, lengths) == Plain(world, ends, lengths).run()


def test_blocked_queues_cost_no_more_than_a_look_each() -> None:
    """Of many queues that all wait, each end has each head looked at once, not all queues for each of them."""
    queues = [Queue((MOST,)) for _ in range(300)]
    units = [Unit(at, at, (10,), lendable=True) for at in range(300)]
    world = World((10,), queues, [Busy(-1, (10,))], units, len(units))
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    setprofile(count)
    try:
        begun = path(world, 0.0, [1.0], [1.0] * 300)
    finally:
        setprofile(None)
    assert begun == [1.0 + at for at in range(300)]
    assert calls < 10 * 300 * 300
