"""Runs that leave so that a limit or a licence has room: chosen by amounts, for hosts may have room already.

Own work of lower priority or borrowed, and work of pools above their entitlement, below the level that is full: lowest
priority first, batch before services, controllers last, then the runs that lose least work and were preempted least;
gangs whole. Then each run stays that nobody needs to leave, the dearest first. Units that are alike are counted, so the
work is in proportion to groups of runs, not to runs.

Runs that may be preempted are found without a look at all: `PlacedRuns` has them by pool, in the order in which they
would go.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from events.codes import Way
from events.columns import I64, Names, distinct
from events.ranks import Rank
from events.resources import Vector, add, scale, subtract
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import BOUNDLESS, LIMITS, Ask
from processors.entitlement.preemption.rights import Claims
from processors.entitlement.queues.parts import CONTROLLER, GANG, ROLES, by
from processors.entitlement.queues.queues import Queues
from processors.entitlement.queues.usage import Usages
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.preemption_rules import (
    Protection,
    Right,
    may_go,
    protection,
    staying,
    times,
    victim_kind,
    victim_of,
    yields,
)

SLACK = 1024
"""So many slots of a lane may be out of date before it is cleared up, beside as many as it had the last time."""


class LaneKey(NamedTuple):
    """Runs with an equal one are alike in whether they go first."""

    priority: int
    kind: int
    """The `victim_kind` of their units."""


class Lane:
    """Runs of a pool that are alike in that, by the second since when they have a place, the latest first."""

    __slots__ = ("kept", "runs", "stored")

    def __init__(self) -> None:
        self.runs: SortedDict[int, list[I64]] = SortedDict()
        self.stored = 0
        self.kept = 0


class PlacedRuns:
    """The lanes of all pools."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._pools: dict[str, SortedDict[LaneKey, Lane]] = {}
        self._built = False

    def forget(self) -> None:
        """They are built when they are asked for next; a cell in which nobody asks keeps none."""
        self._pools.clear()
        self._built = False

    def build(self) -> None:
        """Finds all of them, if they aren't known."""
        if not self._built:
            self._built = True
            self.placed(np.flatnonzero(self._queues.arena["placed"]))

    def job_changed(self, job_id: str) -> None:
        """A job has another priority, or other slots."""
        row = self._queues.jobs.get(job_id)
        if row is not None and self._built:
            stretch = self._queues.arena["placed"][row.base : row.base + row.instances]
            self.placed(np.flatnonzero(stretch) + row.base)

    def placed(self, slots: I64) -> None:
        """Runs have a place, or are to be found in another lane."""
        if not self._built:
            return
        for _, row, key, mine in self._queues.split(slots):
            if not row.preemptible:
                continue
            lanes = self._pools.get(row.pool)
            if lanes is None:
                lanes = self._pools[row.pool] = SortedDict()
            name = _lane(row, key)
            lane = lanes.get(name)
            if lane is None:
                lane = lanes[name] = Lane()
            for since, part in by(mine, self._queues.arena["placed_s"][mine].astype(np.int64)):
                lane.runs.setdefault(-since, []).append(part)
            lane.stored += len(mine)
            if lane.stored > 2 * lane.kept + SLACK:
                self._clear_up(row.pool, name, lane)

    def pools(self) -> list[str]:
        """The pools that had such runs."""
        return list(self._pools)

    def lanes(self, pool: str) -> list[LaneKey]:
        """The lanes of a pool, in the order in which their runs go."""
        return list(self._pools.get(pool, ()))

    def stretches(self, pool: str, lane: LaneKey) -> Iterator[tuple[int, I64]]:
        """The runs of a lane that aren't leaving: who has run least first, those of one second together, ascending."""
        runs = self._pools[pool][lane].runs
        for since in list(runs):
            slots = self._current(pool, lane, -since, runs[since])
            if len(slots):
                yield -since, slots[self._queues.arena["leaving"][slots] == 0]

    def _current(self, pool: str, lane: LaneKey, since: int, parts: list[I64]) -> I64:
        """The runs that are in a lane since a second, as the columns are now."""
        arena = self._queues.arena
        slots = distinct(np.concatenate(parts)) if len(parts) > 1 else parts[0]
        slots = slots[slots < len(arena["placed"])]
        slots = slots[(arena["placed"][slots] > 0) & (arena["placed_s"][slots] == since)]
        runs = [
            mine
            for _, row, key, mine in self._queues.split(slots)
            if row.preemptible and row.pool == pool and _lane(row, key) == lane
        ]
        return np.sort(np.concatenate(runs)) if runs else slots[:0]

    def _clear_up(self, pool: str, name: LaneKey, lane: Lane) -> None:
        lane.kept = 0
        for since in list(lane.runs):
            slots = self._current(pool, name, -since, lane.runs[since])
            if len(slots):
                lane.runs[since] = [slots]
                lane.kept += len(slots)
            else:
                del lane.runs[since]
        lane.stored = lane.kept


def _lane(row: JobRow, key: int) -> LaneKey:
    return LaneKey(row.priority, victim_kind(row.service, key % ROLES == CONTROLLER))


Level = tuple[str, int]
"""A pool with a limit, and a kind that it limits."""
Lacks = dict[Level, int]
"""The amount of a kind that is to be freed below a level."""
Stretch = tuple[LaneKey, int, str, I64, Iterator[tuple[int, I64]]]
"""Runs of a lane placed in one second: lane, that second, negative, pool, runs, the stretches after it."""


class Taker(NamedTuple):
    """The units for which others leave: pool and priority, what one of them needs, what it may take from others."""

    pool: str
    priority: int
    need: Vector
    right: Right


class UnitRow(NamedTuple):
    """Implements `preemption_rules.PlacedUnit`."""

    pool: str
    priority: int
    amount: Vector
    borrowed: bool
    preemptible: bool
    revocable: bool
    protection: Protection


class Victims(NamedTuple):
    """Units that are alike and leave: `size` tasks each, which hold `amount` together."""

    pool: str
    slots: I64
    size: int
    amount: Vector
    by_slice: bool

    def first(self, units: int) -> "Victims":
        """Only so many of them."""
        return self._replace(slots=self.slots[: units * self.size])

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.slots) // self.size


class Departures:
    """The runs that are ordered to leave in one pass: decisions change nothing, so they are noted here."""

    def __init__(self, queues: Queues, usage: Usages) -> None:
        self._nothing = queues.nothing
        self._levels = usage.levels
        self._amounts: dict[str, Vector] = {}
        self._leaves = np.zeros(len(queues.arena["leaving"]), dtype=np.bool_)
        self._log: list[tuple[str, I64, Vector]] = []

    def of_pool(self, pool: str) -> Vector:
        """The amount that runs of a pool free which leave."""
        return self._amounts.get(pool, self._nothing)

    def below(self, level: str) -> Vector:
        """The amount that runs at or below a pool free which leave."""
        total = self._nothing
        for pool, amount in self._amounts.items():
            total = add(total, amount) if level in self._levels(pool) else total
        return total

    def leave(self, slots: I64) -> NDArray[np.bool_]:
        """Whether each of some runs leaves."""
        return self._leaves[slots]

    def add(self, pool: str, slots: I64, amount: Vector) -> None:
        """Runs of a pool are ordered to leave."""
        self._amounts[pool] = add(self.of_pool(pool), amount)
        self._leaves[slots] = True
        self._log.append((pool, slots, amount))

    def mark(self) -> int:
        """A point to which `undo` goes back."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Runs that were ordered to leave since a mark stay."""
        for pool, slots, amount in self._log[mark:]:
            self._amounts[pool] = subtract(self._amounts[pool], amount)
            self._leaves[slots] = False
        del self._log[mark:]


class LimitVictims:
    """Finds victims under limits in one pass: a run that was chosen for one unit isn't chosen for the next."""

    def __init__(self, state: State, claims: Claims, runs: PlacedRuns, now: int) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._claims = claims
        self._runs = runs
        self._now = now
        self.departures = Departures(state.queues, state.usage)

    def choose(self, taker: Taker, pools: Iterable[str], lacks: Lacks, budget: int) -> list[Victims]:
        """Return runs of these pools that leave, as far as it helps, at most `budget` tasks but for one gang. The rest
        that is lacking remains in `lacks`; what is too much is below 0 there.
        """
        search = Search(self._state, self._claims, self.departures, taker, lacks, budget, self._now)
        heap: list[Stretch] = []
        for_revocable = self._queues.kinds.is_revocable(taker.need)
        for pool in pools:
            for lane in self._runs.lanes(pool):
                borrows, lends = len(self._order[pool].borrowed) > 0, any(self._usage[pool].revocable)
                if pool != taker.pool or yields(lane.priority, borrows, lends, taker.priority, for_revocable):
                    _push(heap, lane, pool, self._runs.stretches(pool, lane))
        while heap and search.goes_on():
            lane, _, pool, slots, later = heappop(heap)
            search.take_from(pool, slots[~self.departures.leave(slots)])
            _push(heap, lane, pool, later)
        return search.victims

    def make_room(self, taker: Taker, units: int, usage: PassUsage, budget: int) -> tuple[int, list[Victims]]:
        """Orders others to leave so that limits have room for at most so many units; returns for how many, and the
        victims. 0: not enough can be freed for one. Runs that are leaving already, for nobody else, are counted in.
        """
        need, room = taker.need, self._room(taker, usage)
        lacks = {name: need[name[1]] * units - have for name, have in room.items() if need[name[1]] * units > have}
        if not lacks:
            return units, []
        levels = self._usage.levels
        top = max((level for level, _ in lacks), key=levels(taker.pool).index)
        self._runs.build()
        pools = sorted(pool for pool in self._runs.pools() if top in levels(pool))
        rest = dict(lacks)
        victims = self.choose(taker, pools, rest, budget)
        for name, lack in lacks.items():
            room[name] += lack - rest[name]
        units = min(units, *(have // need[name[1]] for name, have in room.items()))
        if units < 1:
            return 0, []
        surplus = {name: room[name] - need[name[1]] * units for name in lacks}
        victims = needed(victims, surplus, {each.pool: levels(each.pool) for each in victims})
        for each in victims:
            self.departures.add(each.pool, each.slots, scale(each.amount, each.units))
        return units, victims

    def _room(self, taker: Taker, usage: PassUsage) -> dict[Level, int]:
        """The room at each level that has a limit, of the kinds that are needed, when all runs have left that are
        leaving for nobody else, of the same pool or not.
        """
        room: dict[Level, int] = {}
        ask = Ask(taker.pool, 0, taker.priority, taker.need, lent=True)
        for level in self._usage.levels(taker.pool):
            free = LIMITS.room(usage, level, ask)
            if free is None:
                continue
            free = add(add(free, self._usage[level].leaving), self.departures.below(level))
            room |= {
                (level, kind): free[kind]
                for kind, want in enumerate(taker.need)
                if want > 0 and free[kind] < BOUNDLESS // 2  # a kind without a limit, whatever was added to that
            }
        return room


class Search:
    """One search for victims."""

    def __init__(
        self, state: State, claims: Claims, departures: Departures, taker: Taker, lacks: Lacks, budget: int, now: int
    ) -> None:
        self._state = state
        self._queues = state.queues
        self._usage = state.usage
        self._claims = claims
        self._departures = departures
        self._taker = taker
        self._lacks = lacks
        self._budget = budget
        self._now = now
        self._freed = dict[str, Vector]()
        """By pool the amount that the victims hold."""
        self._taken = self._queues.nothing
        self.victims: list[Victims] = []

    def goes_on(self) -> bool:
        """Whether more is lacking, and the budget allows more."""
        return self._budget > 0 and any(lack > 0 for lack in self._lacks.values())

    def take_from(self, pool: str, slots: I64) -> None:
        """Takes what helps of runs that have a place since the same second: the youngest job first, its gang last."""
        parts = [(-row.number, -key, job_id, row, mine) for job_id, row, key, mine in self._queues.split(slots)]
        for _, key, job_id, row, mine in sorted(parts, key=lambda each: each[:2]):
            if -key % ROLES == GANG:
                placed = self._queues.arena["placed"][row.base : row.base + row.gang_min] > 0
                instances = (mine - row.base).tolist()
                is_spared = self._state.displacements.spared_ms(job_id, instances, self._now)
                if int(placed.sum()) == len(mine) and not is_spared:
                    self._take_units(pool, job_id, row, mine, len(mine))
                continue
            for alike in self._split_alike(job_id, row, mine[::-1]):
                self._take_units(pool, job_id, row, alike, 1)

    def _split_alike(self, job_id: str, row: JobRow, slots: I64) -> Iterator[I64]:
        """Single tasks of a part that aren't spared, those that are alike together, least preempted first."""
        borrowed = self._queues.arena["rank"][slots] == Rank.BORROWED
        displacements = self._state.displacements
        if job_id not in displacements:
            yield from _split(slots, borrowed)
            return
        instances = (slots - row.base).tolist()
        counts = np.array([displacements.count(job_id, each) for each in instances])
        free = np.array([not displacements.spared_ms(job_id, [each], self._now) for each in instances])
        again = np.flatnonzero(free & (counts > 0))
        yield from _split(slots[free & (counts == 0)], borrowed[free & (counts == 0)])
        yield from (slots[at : at + 1] for at in again[np.argsort(counts[again], kind="stable")].tolist())

    def _take_units(self, pool: str, job_id: str, row: JobRow, slots: I64, size: int) -> None:
        """Takes as many as help of units that are alike, with `size` slots each."""
        unit, taker, rest = placed_unit(self._state, job_id, row, slots[:size], self._now), self._taker, slots
        for_revocable = self._queues.kinds.is_revocable(taker.need)
        victim = victim_of(unit, taker.pool, taker.priority, for_revocable)
        way = Way.OWN if victim.own else Way.GIVE
        while len(rest) and self.goes_on():
            units = min(self._units_needed(pool, unit.amount), max(1, self._budget // size))
            if not units:
                return
            giver = self._claims.giver(pool).less(add(self._departures.of_pool(pool), self._freed_by(pool)))
            verdict = may_go(way, victim, taker.need, giver, taker.right, self._taken)
            if not verdict.goes:
                return
            units = min(units, times(way, unit.amount, taker.need, giver, taker.right, self._taken))
            victims = Victims(pool, rest, size, unit.amount, verdict.slice).first(units)
            self._take(victims, way)
            rest = rest[len(victims.slots) :]

    def _freed_by(self, pool: str) -> Vector:
        return self._freed.get(pool, self._queues.nothing)

    def _units_needed(self, pool: str, amount: Vector) -> int:
        """The number of units needed that hold so much; 0: none of them helps."""
        levels = self._usage.levels(pool)
        return max(
            (
                -(-lack // amount[kind])
                for (level, kind), lack in self._lacks.items()
                if lack > 0 and amount[kind] > 0 and level in levels
            ),
            default=0,
        )

    def _take(self, victims: Victims, way: Way) -> None:
        amount, levels = scale(victims.amount, victims.units), self._usage.levels(victims.pool)
        self._budget -= len(victims.slots)
        self.victims.append(victims)
        self._freed[victims.pool] = add(self._freed_by(victims.pool), amount)
        if way == Way.GIVE:
            self._taken = add(self._taken, amount)
        for level, kind in self._lacks:
            if level in levels:
                self._lacks[level, kind] -= amount[kind]


def placed_unit(state: State, job_id: str, row: JobRow, slots: I64, now: int) -> UnitRow:
    """The unit of a job that has these runs."""
    arena, settings = state.queues.arena, state.cell.settings
    placed_s, borrowed = int(arena["placed_s"][slots].max()), bool((arena["rank"][slots] == Rank.BORROWED).any())
    past = protection(state.displacements, job_id, (slots - row.base).tolist(), placed_s, settings, now)
    amount, kinds = state.queues.total_need(row, slots), state.queues.kinds
    return UnitRow(row.pool, row.priority, amount, borrowed, row.preemptible, kinds.is_revocable(amount), past)


def needed(victims: list[Victims], surplus: Lacks, levels: dict[str, tuple[str, ...]]) -> list[Victims]:
    """Those of some victims who must leave, in the order in which they were chosen. `surplus`: what all of them free
    beyond what is needed, at least 0; `levels`: of each pool it and those above.
    """
    dearest = victims[::-1]
    frees = [
        (each.units, [each.amount[kind] if level in levels[each.pool] else 0 for level, kind in surplus])
        for each in dearest
    ]
    stay = staying(frees, [*surplus.values()])
    return [each.first(each.units - spared) for each, spared in zip(dearest, stay, strict=True) if spared < each.units][
        ::-1
    ]


def order_columns(queues: Queues, slots: I64, ways: I64, slices: I64) -> dict[str, Any]:
    """The columns of an order about runs, in this order."""
    bases = queues.arena["owner"][slots].astype(np.int64) - 1
    if len(slots) == 1:
        name = queues.at[int(bases[0])]
        of_one = {"job_ids": (name,), "job": [0], "from_pools": (queues.jobs[name].pool,), "from_pool": [0]}
        return {**of_one, "instance": slots - bases, "run": queues.arena["placed"][slots], "way": ways, "slice": slices}
    jobs, pools = Names(), Names()
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


def _push(heap: list[Stretch], lane: LaneKey, pool: str, stretches: Iterator[tuple[int, I64]]) -> None:
    since, slots = next(stretches, (0, None))
    if slots is not None:
        heappush(heap, (lane, -since, pool, slots, stretches))


def _split(slots: I64, borrowed: NDArray[np.bool_]) -> Iterator[I64]:
    return (mine for mine in (slots[borrowed], slots[~borrowed]) if len(mine))
