"""Who leaves so that a limit or a licence has room: by amounts, for hosts may have room already.

Own work of lower priority or borrowed, and work of pools above their entitlement, below the level that is full: lowest
priority first, batch before services, controllers last, then who has run least and was preempted least; gangs whole.
Then each whose leaving isn't needed is spared, the dearest first. Units that are alike are counted, not gone through.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.codes import Way
from events.columns import I64, Names
from events.ranks import Rank
from events.resources import Vector, add, scale, subtract
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import BOUNDLESS, LIMITS, Ask
from processors.entitlement.preemption.unplaced import Claims
from processors.entitlement.queues.parts import GANG, ROLES
from processors.entitlement.queues.placed_runs import LaneKey, PlacedRuns
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.preemption_rules import Right, Victim, may_go, protection, times, yields

Lacks = dict[tuple[str, int], int]
"""How much of a kind is to be freed below a level."""


Entry = tuple[LaneKey, int, str, I64, Iterator[tuple[int, I64]]]
"""A stretch of runs: its lane, since when they have a place, negative, their pool, they, those after them."""


class Taker(NamedTuple):
    """For whom: its pool and priority, what one unit of it needs, what it may take from others."""

    pool: str
    priority: int
    need: Vector
    right: Right


class Chosen(NamedTuple):
    """Units that are alike: `size` tasks each, which hold `amount` together."""

    pool: str
    slots: I64
    size: int
    amount: Vector
    by_slice: bool

    def first(self, units: int) -> "Chosen":
        """Only so many of them."""
        return self._replace(slots=self.slots[: units * self.size])

    @property
    def units(self) -> int:
        """How many they are."""
        return len(self.slots) // self.size


class LimitVictims:
    """The victims of one pass, in which nothing is applied: who was chosen for one isn't chosen for the next."""

    def __init__(self, state: State, claims: Claims, runs: PlacedRuns, now: int) -> None:
        self._queues = state.queues
        self._settings = state.cell.settings
        self._claims = claims
        self._displacements = state.displacements
        self._runs = runs
        self._now = now
        self._given: dict[str, Vector] = {}
        self._gone = np.zeros(len(state.queues.arena["leaving"]), dtype=np.bool_)
        self._ordered: list[tuple[str, I64, Vector]] = []

    def find(self, taker: Taker, pools: Iterable[str], lacks: Lacks, budget: int) -> list[Chosen]:
        """Who leaves of these pools, as far as it helps, at most `budget` tasks but for one gang. What is lacking
        still is left in `lacks`, what is too much is below 0 there.
        """
        search = _Search(self, taker, lacks, budget)
        heap: list[Entry] = []
        for pool in pools:
            for lane in self._runs.lanes(pool):
                if pool != taker.pool or lane.priority < taker.priority or self._has_borrowed(pool):
                    self._push(heap, lane, pool, self._runs.stretches(pool, lane))
        heapify(heap)
        while heap and search.goes_on():
            lane, _, pool, slots, later = heappop(heap)
            search.look(pool, slots[~self._gone[slots]])
            self._push(heap, lane, pool, later)
        return search.chosen

    def room_for(self, taker: Taker, units: int, usage: PassUsage, budget: int) -> tuple[int, list[Chosen]]:
        """For how many units, at most so many, others can leave so that limits have room, and who has to; 0: not
        enough can be freed for one. What is leaving already, for nobody else, is counted in.
        """
        need, room = taker.need, self._room(taker, usage)
        lacks = {name: need[name[1]] * units - have for name, have in room.items() if need[name[1]] * units > have}
        if not lacks:
            return units, []
        levels = self._queues.usage.levels
        top = max((level for level, _ in lacks), key=levels(taker.pool).index)
        self._runs.build()
        left = dict(lacks)
        chosen = self.find(taker, self._pools_below(top), left, budget)
        for name, lack in lacks.items():
            room[name] += lack - left[name]
        units = min(units, *(have // need[name[1]] for name, have in room.items()))
        if units < 1:
            return 0, []
        left = {name: need[name[1]] * units - room[name] for name in lacks}
        chosen = spared(chosen, left, {each.pool: levels(each.pool) for each in chosen})
        for each in chosen:
            self.leave(each.pool, each.slots, scale(each.amount, each.units))
        return units, chosen

    def given(self, pool: str) -> Vector:
        """What those hold that were ordered to leave a pool."""
        return self._given.get(pool, self._queues.nothing)

    def are_gone(self, slots: I64) -> NDArray[np.bool_]:
        """Which of these were ordered to leave."""
        return self._gone[slots]

    def mark(self) -> int:
        """Up to where orders were given until now."""
        return len(self._ordered)

    def back_to(self, mark: int) -> None:
        """What was ordered since isn't after all."""
        for pool, slots, amount in self._ordered[mark:]:
            self._given[pool] = subtract(self._given[pool], amount)
            self._gone[slots] = False
        del self._ordered[mark:]

    def leave(self, pool: str, slots: I64, amount: Vector) -> None:
        """These were ordered to leave."""
        self._given[pool] = add(self.given(pool), amount)
        self._gone[slots] = True
        self._ordered.append((pool, slots, amount))

    def _room(self, taker: Taker, usage: PassUsage) -> dict[tuple[str, int], int]:
        """What is left at each level that has a limit, of the kinds that are needed, when all has left that is leaving
        for nobody else, of the same pool or not.
        """
        room: dict[tuple[str, int], int] = {}
        ask = Ask(taker.pool, 0, taker.priority, taker.need, lent=True)
        for level in self._queues.usage.levels(taker.pool):
            left = LIMITS.room(usage, level, ask)
            if left is None:
                continue
            left = add(left, self._queues.usage[level].leaving)
            for pool, given in self._given.items():
                left = add(left, given) if level in self._queues.usage.levels(pool) else left
            room |= {
                (level, kind): left[kind]
                for kind, want in enumerate(taker.need)
                if want > 0 and left[kind] < BOUNDLESS // 2
            }
        return room

    def _pools_below(self, level: str) -> list[str]:
        """The pools at or below a level in which anything runs."""
        return sorted(pool for pool in self._runs.pools() if level in self._queues.usage.levels(pool))

    def _has_borrowed(self, pool: str) -> bool:
        return bool(self._queues.order[pool].borrowed)

    def _push(self, heap: list[Entry], lane: LaneKey, pool: str, stretches: Iterator[tuple[int, I64]]) -> None:
        since, slots = next(stretches, (0, None))
        if slots is not None:
            heappush(heap, (lane, -since, pool, slots, stretches))


class _Search:
    """One search for victims."""

    def __init__(self, pass_: LimitVictims, taker: Taker, lacks: Lacks, budget: int) -> None:
        self._pass = pass_
        self._queues = pass_._queues
        self._taker = taker
        self._lacks = lacks
        self._budget = budget
        self._givers = dict[str, Vector]()
        self._taken = self._queues.nothing
        self.chosen: list[Chosen] = []

    def goes_on(self) -> bool:
        """Whether more is lacking, and the budget allows more."""
        return self._budget > 0 and any(lack > 0 for lack in self._lacks.values())

    def look(self, pool: str, slots: I64) -> None:
        """Takes what helps of runs that have a place since the same second."""
        found = [(-row.number, -key, job_id, row, mine) for job_id, row, key, mine in self._queues.split(slots)]
        for _, key, job_id, row, mine in sorted(found, key=lambda each: each[:2]):
            if -key % ROLES == GANG:
                placed = self._queues.arena["placed"][row.base : row.base + row.gang_min] > 0
                if int(placed.sum()) == len(mine):
                    self._look_at(pool, job_id, row, mine, len(mine))
                continue
            for alike in self._alike(job_id, row, mine[::-1]):
                self._look_at(pool, job_id, row, alike, 1)

    def _alike(self, job_id: str, row: JobRow, slots: I64) -> Iterator[I64]:
        """Single tasks of a part that aren't spared, those that are alike together, least preempted first."""
        borrowed = self._queues.arena["rank"][slots] == Rank.BORROWED
        remembered = self._pass._displacements
        if job_id in remembered:
            tasks = [(job_id, slot - row.base) for slot in slots.tolist()]
            times = np.array([remembered.count(*task) for task in tasks])
            free = np.array([not remembered.spared_ms(name, [each], self._pass._now) for name, each in tasks])
            again = np.flatnonzero(free & (times > 0))
            yield from self._split(slots[free & (times == 0)], borrowed[free & (times == 0)])
            yield from (slots[at : at + 1] for at in again[np.argsort(times[again], kind="stable")].tolist())
        else:
            yield from self._split(slots, borrowed)

    def _split(self, slots: I64, borrowed: NDArray[np.bool_]) -> Iterator[I64]:
        yield from (mine for mine in (slots[borrowed], slots[~borrowed]) if len(mine))

    def _look_at(self, pool: str, job_id: str, row: JobRow, slots: I64, size: int) -> None:
        """Takes as many as help of units that are alike: so many slots each."""
        amount, left = self._queues.asked(row, slots[:size]), slots
        victim = self._victim(job_id, row, slots[:size], amount)
        while len(left) and self.goes_on():
            units = min(self._needed(pool, amount), max(1, self._budget // size))
            if not units:
                return
            giver = self._pass._claims.giver(pool).less(self._given(pool))
            way = Way.OWN if victim.own else Way.GIVE
            verdict = may_go(way, victim, self._taker.need, giver, self._taker.right, self._taken)
            if not verdict.goes:
                return
            units = min(units, times(way, amount, self._taker.need, giver, self._taker.right, self._taken))
            one = Chosen(pool, left, size, amount, verdict.slice).first(units)
            self._take(one, way)
            left = left[len(one.slots) :]

    def _victim(self, job_id: str, row: JobRow, slots: I64, amount: Vector) -> Victim:
        settings, displacements, now = self._pass._settings, self._pass._displacements, self._pass._now
        instances, arena = (slots - row.base).tolist(), self._queues.arena
        placed_s, borrowed = int(arena["placed_s"][slots[0]]), bool((arena["rank"][slots] == Rank.BORROWED).any())
        return Victim(
            amount,
            row.pool == self._taker.pool,
            yields(row.priority, borrowed, self._taker.priority),
            row.preemptible and not displacements.spared_ms(job_id, instances, now),
            *protection(displacements, job_id, instances, placed_s, settings, now),
        )

    def _given(self, pool: str) -> Vector:
        nothing = self._queues.nothing
        return add(self._pass._given.get(pool, nothing), self._givers.get(pool, nothing))

    def _needed(self, pool: str, amount: Vector) -> int:
        """How many units that hold so much are needed; 0: none of them helps."""
        levels = self._queues.usage.levels(pool)
        return max(
            (
                -(-lack // amount[kind])
                for (level, kind), lack in self._lacks.items()
                if lack > 0 and amount[kind] > 0 and level in levels
            ),
            default=0,
        )

    def _take(self, chosen: Chosen, way: Way) -> None:
        amount = scale(chosen.amount, chosen.units)
        self._budget -= len(chosen.slots)
        self.chosen.append(chosen)
        self._givers[chosen.pool] = add(self._givers.get(chosen.pool, self._queues.nothing), amount)
        if way == Way.GIVE:
            self._taken = add(self._taken, amount)
        free(self._lacks, self._queues.usage.levels(chosen.pool), amount, 1)


def free(lacks: Lacks, levels: tuple[str, ...], amount: Vector, sign: int) -> None:
    """So much is freed below these levels; `sign` -1: it isn't after all."""
    for level, kind in lacks:
        if level in levels:
            lacks[level, kind] -= sign * amount[kind]


def spared(chosen: list[Chosen], lacks: Lacks, levels: Mapping[str, tuple[str, ...]]) -> list[Chosen]:
    """Who has to go of those that were chosen when each who isn't needed stays, the dearest first. Nothing may be
    lacking. `levels`: of each pool it and those above.
    """
    kept: list[Chosen] = []
    for each in reversed(chosen):
        above = levels[each.pool]
        spare = min(
            (
                -lack // each.amount[kind]
                for (level, kind), lack in lacks.items()
                if each.amount[kind] > 0 and level in above
            ),
            default=each.units,
        )
        stay = min(each.units, spare)
        free(lacks, above, scale(each.amount, stay), -1)
        if stay < each.units:
            kept.append(each.first(each.units - stay))
    return kept[::-1]


def columns(queues: Queues, slots: I64, ways: I64, slices: I64) -> dict[str, Any]:
    """The columns of an order about runs, in this order."""
    jobs, pools = Names(), Names()
    bases = queues.arena["owner"][slots].astype(np.int64) - 1
    starts = np.flatnonzero(np.diff(bases, prepend=-1))
    sizes = np.diff(np.append(starts, len(slots)))
    names = [queues.at[base] for base in bases[starts].tolist()]
    return {
        "job": np.repeat([jobs[name] for name in names], sizes),
        "instance": slots - bases,
        "run": queues.arena["placed"][slots],
        "way": ways,
        "slice": slices,
        "from_pool": np.repeat([pools[queues.jobs[name].pool] for name in names], sizes),
        "job_ids": jobs.all(),
        "from_pools": pools.all(),
    }
