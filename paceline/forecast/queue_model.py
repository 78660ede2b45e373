"""A cheap model of how a cell serves its queues: one path ahead, from what runs and what waits now (decision 128).

The head of each queue waits until it fits, and all behind it with it; of several queues the one that holds least for
its weight is served first. What may be preempted also starts behind a blocked head where it fits, and leaves again for
one. Hosts are one sum of resources: fragments, conditions and later arrivals aren't in it.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

Amounts = tuple[int, ...]
"""One for each resource that is modelled."""
INFINITE = float("inf")
LENT_DEPTH = 20
"""So many units behind a blocked head are looked at."""
STEPS_MAX = 1_000_000


class Queue(NamedTuple):
    """A queue: the most that its work may hold, and its weight among the others."""

    most: Amounts
    weight: float = 1.0


class Unit(NamedTuple):
    """Work that starts and ends as one. `job`: which of the jobs that are forecast it belongs to."""

    job: int
    queue: int
    need: Amounts
    lendable: bool = False


class Busy(NamedTuple):
    """The amounts that a run holds. `queue` -1: beside all queues."""

    queue: int
    need: Amounts


class World(NamedTuple):
    """The present of a cell. `waiting`: in the order of each queue."""

    capacity: Amounts
    queues: Sequence[Queue]
    running: Sequence[Busy]
    waiting: Sequence[Unit]
    jobs: int


def fits(need: Sequence[int], room: Sequence[int]) -> bool:
    """Whether there is room for all that is needed."""
    return all(map(int.__le__, need, room))


def path(world: World, now: float, ends: Sequence[float], lengths: Sequence[float]) -> list[float | None]:
    """When each job begins, if runs end as `ends` says and units last for `lengths`; None: it never does."""
    if len(world.capacity) == 1 and not any(
        unit.lendable or unit.queue != world.waiting[0].queue for unit in world.waiting
    ):
        return _in_order(world, now, ends, lengths)
    return _Path(world, now, ends, lengths).run()


def _in_order(world: World, now: float, ends: Sequence[float], lengths: Sequence[float]) -> list[float | None]:
    """The same where all wait in one queue, behind its head, for one resource: ten times as fast."""
    begun: list[float | None] = [None] * world.jobs
    queue = world.waiting[0].queue if world.waiting else -1
    due = [(max(end, now), busy.need[0], busy.queue == queue) for busy, end in zip(world.running, ends, strict=True)]
    heapify(due)
    free = world.capacity[0] - sum(need for _, need, _ in due)
    most = world.queues[queue].most[0] if queue >= 0 else 0
    room = most - sum(need for _, need, own in due if own)
    for unit, length in zip(world.waiting, lengths, strict=True):
        need = unit.need[0]
        while (free < need or room < need) and due:
            end, back, own = heappop(due)
            now, free, room = max(now, end), free + back, room + back * own
        if free < need or room < need or now == INFINITE:
            break
        if begun[unit.job] is None:
            begun[unit.job] = now
        heappush(due, (now + length, need, True))
        free, room = free - need, room - need
    return begun


class _Path:
    """One path. Waiting units are known by their index, what runs by a negative number."""

    def __init__(self, world: World, now: float, ends: Sequence[float], lengths: Sequence[float]) -> None:
        self._world, self._now, self._lengths = world, now, lengths
        self._free = list(world.capacity)
        self._lent_need = [0] * len(world.capacity)
        self._held = [[0] * len(world.capacity) for _ in world.queues]
        self._loads = [0.0] * len(world.queues)
        """The largest part of the cell that each queue holds, for its weight."""
        self._lines: list[list[int]] = [[] for _ in world.queues]
        for index, unit in enumerate(world.waiting):
            self._lines[unit.queue].append(index)
        self._heads = [0] * len(world.queues)
        self._least = [min(needs) for needs in zip(*(unit.need for unit in world.waiting), strict=True)]
        """No unit needs less."""
        self._lent: dict[int, float] = {}
        """Units that run on what stands idle, the newest last, and when each ends."""
        self._own: dict[int, float] = {}
        """Units that run within what their queue may hold, and when each ends."""
        self._gone: set[int] = set()
        """Units that wait no more: they run in their turn, or have ended."""
        self._begun: list[float | None] = [None] * world.jobs
        self._missing = world.jobs
        self._due: list[tuple[float, int]] = []
        for number, (busy, end) in enumerate(zip(world.running, ends, strict=True)):
            self._take(busy.need, busy.queue, 1)
            self._due.append((max(end, now), -1 - number))
        heapify(self._due)

    def run(self) -> list[float | None]:
        for _ in range(STEPS_MAX):
            self._serve()
            if not self._missing or not self._due:
                break
            self._now = self._due[0][0]
            if self._now == INFINITE:
                break
            while self._due and self._due[0][0] <= self._now:
                self._end(*heappop(self._due))
        return self._begun

    def _take(self, need: Amounts, queue: int, sign: int) -> None:
        of_queue = self._held[queue] if queue >= 0 else None
        for at, amount in enumerate(need):
            self._free[at] -= sign * amount
            if of_queue is not None:
                of_queue[at] += sign * amount
        if of_queue is not None:
            parts = zip(of_queue, self._world.capacity, strict=True)
            part = max((amount / most for amount, most in parts if most), default=0.0)
            self._loads[queue] = part / self._world.queues[queue].weight

    def _lend(self, number: int, sign: int) -> None:
        need = self._world.waiting[number].need
        self._take(need, -1, sign)
        for at, amount in enumerate(need):
            self._lent_need[at] += sign * amount

    def _end(self, end: float, number: int) -> None:
        if number < 0:
            busy = self._world.running[-1 - number]
            self._take(busy.need, busy.queue, -1)
        elif self._lent.get(number) == end:
            del self._lent[number]
            self._gone.add(number)
            self._lend(number, -1)
        elif self._own.get(number) == end:  # else it has left, and has begun again
            del self._own[number]
            unit = self._world.waiting[number]
            self._take(unit.need, unit.queue, -1)

    def _serve(self) -> None:
        order = [
            (self._loads[queue], queue) for queue, line in enumerate(self._lines) if self._heads[queue] < len(line)
        ]
        heapify(order)
        while order:
            queue = order[0][1]
            if self._admit(queue):
                heapreplace(order, (self._loads[queue], queue))
            else:
                heappop(order)
        for queue, line in enumerate(self._lines):
            if not fits(self._least, self._free):
                return
            head = self._heads[queue]
            for number in line[head : head + LENT_DEPTH]:
                unit = self._world.waiting[number]
                if unit.lendable and number not in self._lent and number not in self._gone and self._has(unit.need):
                    self._lend(number, 1)
                    self._lent[number] = self._start(number)

    def _has(self, need: Amounts) -> bool:
        return fits(need, self._free)

    def _admit(self, queue: int) -> bool:
        """Serves the head of a queue; whether there may be more to serve in it."""
        line, at = self._lines[queue], self._heads[queue]
        while at < len(line) and line[at] in self._gone:
            at += 1
        self._heads[queue] = at
        if at == len(line):
            return False
        number = line[at]
        unit = self._world.waiting[number]
        most = self._world.queues[queue].most
        if any(holds + amount > bound for holds, amount, bound in zip(self._held[queue], unit.need, most, strict=True)):
            return False
        if number in self._lent:  # its turn has come while it runs
            self._own[number] = self._lent.pop(number)
            self._lend(number, -1)
        elif not self._make_room(unit.need):
            return False
        else:
            self._own[number] = self._start(number)
        self._take(unit.need, queue, 1)
        self._gone.add(number)
        self._heads[queue] = at + 1
        return True

    def _make_room(self, need: Amounts) -> bool:
        """Whether there is room, once the newest of what is lent has left for it."""
        if self._has(need):
            return True
        if not fits(need, [free + lent for free, lent in zip(self._free, self._lent_need, strict=True)]):
            return False
        while not self._has(need):
            number, _ = self._lent.popitem()
            self._lend(number, -1)
        return True

    def _start(self, number: int) -> float:
        """Starts a unit; returns when it ends."""
        end = self._now + self._lengths[number]
        heappush(self._due, (end, number))
        job = self._world.waiting[number].job
        if self._begun[job] is None:
            self._begun[job] = self._now
            self._missing -= 1
        return end
