"""Who may go on: pool by pool, in the order of each queue, as far as entitlement, limits and reservation reach.

The first job that must wait holds up those behind it, but for two kinds: work that isn't preemptible and waits for its
reservation holds up only its like, and a gang that could not be admitted even to an empty cell holds up nobody. What
no pool can use because a whole gang is more than what is left of its entitlement goes to one gang more of the pool that
was served longest ago, else five pools with tasks of a core each would leave four cores idle for ever.

Deciding changes nothing, so what is admitted within one round is counted in copies.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from events.codes import Code
from events.columns import I64, Names, pack_ints
from events.records.base import Event
from events.records.entitlement import GangsAdmitted, GangsHeld
from events.resources import Vector, add, fits, scale, subtract
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.queues import Part, Place, Queues, stretches
from processors.entitlement.rows import CellRow, JobRow, PoolRow
from processors.state.causes import recorded
from processors.state.table import Table

EXPLAINED_BEHIND = 3
"""So many jobs behind the first that waits are told so; the others can see their place from it."""


class Refusal(NamedTuple):
    """Why a gang can't be admitted: code, the pool that says no, what that pool has left, if that is why."""

    code: Code
    pool: str
    free: Vector | None = None
    for_good: bool = False
    """It would be refused by an empty cell too."""


class BlockedPart(NamedTuple):
    """A part of a job whose first gang must wait, its tasks that wait, and what right behind it is held up by it."""

    part: Part
    why: Refusal
    slots: I64
    ahead: int
    behind: Sequence[Place]


class Admission:
    """The admissions of one round. `entitlement` and `allocation` are per pool, inner ones included."""

    def __init__(
        self,
        queues: Queues,
        pools: Table[str, PoolRow],
        cell: CellRow,
        entitlement: Mapping[str, Vector],
        allocation: Mapping[str, Vector],
    ) -> None:
        self._queues = queues
        self._pools = pools
        self._cell = cell
        self._entitlement = entitlement
        self._allocation = dict(allocation)
        self._above: dict[str, list[str]] = {}
        self._non_preemptible: dict[str, Vector] = {}
        for pool, held_ in queues.non_preemptible.items():
            self._hold_non_preemptible(pool, held_)
        self._taken: list[tuple[str, int, I64]] = []
        self._waits: dict[str, list[BlockedPart]] = {}
        self._room_left = queues.nothing
        """What the pool that is served, and all above it, have left."""

    def decide(self, budget: int) -> tuple[list[Event], int]:
        """What is admitted, and what is held and why where that has changed: at most `budget` tasks and jobs
        told, but for a gang, which isn't divided. Returns also what is left of the budget.
        """
        left = budget
        pools = sorted(self._queues.in_line(), key=self._longest_ago)
        for pool in pools:
            if left > 0:
                left = self._pool(pool, left)
        for pool in pools:
            if left > 0:
                left -= self._one_more(pool)
        admitted: list[Event] = [self._columns()] if self._taken else []
        changed = (event for waits in self._waits.values() for wait in waits for event in self._changed_reasons(wait))
        explained = list(islice(changed, max(0, left)))
        return admitted + explained, left - len(explained)

    def _longest_ago(self, pool: str) -> tuple[int, str]:
        row = self._pools.get(pool)
        return (row.served if row else 0, pool)

    def _pool(self, pool: str, budget: int) -> int:
        """Serves a queue until its first job must wait or `budget` tasks are admitted; returns what is left of it."""
        preemptible, strict = self._queues.order.get(pool, []), self._queues.non_preemptible_order.get(pool, [])
        waits = self._waits[pool] = []
        levels = self._levels(pool) if pool in self._pools else []
        self._room_left = least([self._free(level) for level in levels]) if levels else self._queues.nothing
        at = strict_at = ahead = 0
        while budget > 0 and (at < len(preemptible) or strict_at < len(strict)):
            is_strict = at == len(preemptible) or (strict_at < len(strict) and strict[strict_at] < preemptible[at])
            part = (strict[strict_at] if is_strict else preemptible[at])[-1]
            strict_at, at = strict_at + is_strict, at + (not is_strict)
            taken, why, rest = self._part(part, self._queues.jobs[part[0]], budget)
            budget -= taken
            if why is None:
                continue
            behind: list[Place] = []
            if not why.for_good:
                behind = strict[strict_at : strict_at + EXPLAINED_BEHIND]
                if why.code != Code.RESERVATION_REACHED:
                    behind = sorted(behind + preemptible[at : at + EXPLAINED_BEHIND])[:EXPLAINED_BEHIND]
                    preemptible = []
                strict = []
            waits.append(BlockedPart(part, why, rest, ahead, behind))
            ahead += len(rest)
        return budget

    def _part(self, part: Part, row: JobRow, budget: int) -> tuple[int, Refusal | None, I64]:
        """Admits what it can of a part of a job; returns how many tasks, why not more, and those that wait for that."""
        gang, slots = self._queues.units(row, part[1])
        taken, need = len(gang), self._queues.need(part[1])
        if taken:
            asked = self._queues.asks(row, gang)
            why = self._refusal(row, asked)
            if why is not None:
                return 0, why, np.concatenate((gang, slots))
            self._take(part[0], row, gang, asked, 1)
        if not len(slots):
            return taken, None, slots
        count = min(len(slots), max(0, budget - taken), self._room(row, need))
        if count:
            self._take(part[0], row, slots[:count], scale(need, count), 0)
        taken, rest = taken + count, slots[count:]
        if not len(rest) or taken >= budget:
            return taken, None, rest
        return taken, self._refusal(row, need), rest

    def _levels(self, pool: str) -> list[str]:
        """The pool and those above it, up to the root."""
        levels = self._above.get(pool)
        if levels is None:
            levels = self._above[pool] = levels_of(pool)
        return levels

    def _free(self, pool: str) -> Vector:
        nothing = self._queues.nothing
        return subtract(self._entitlement.get(pool, nothing), self._allocation.get(pool, nothing))

    def _reservation_left(self, pool: str) -> Vector:
        """What a pool has left of its reservation, and those above it of theirs."""
        levels = [level for level in self._levels(pool) if level != "/"]
        nothing, holds = self._queues.nothing, self._non_preemptible
        return least([subtract(self._pools[level].reservation, holds.get(level, nothing)) for level in levels])

    def _hold_non_preemptible(self, pool: str, amount: Vector) -> None:
        for level in self._levels(pool):
            self._non_preemptible[level] = add(self._non_preemptible.get(level, self._queues.nothing), amount)

    def _room(self, row: JobRow, need: Vector) -> int:
        room = fits(need, self._room_left) if row.pool in self._pools else 0
        return room if row.preemptible or not room else min(room, fits(need, self._reservation_left(row.pool)))

    def _refusal(self, row: JobRow, asked: Vector) -> Refusal | None:
        """Why `asked` can't be admitted now; None: it can."""
        why = refused_for_good(self._pools, self._cell, row, asked)
        if why is not None:
            return why
        if not self._cell.hosts:
            return Refusal(Code.NO_HOSTS, "/")
        if not row.preemptible and not fits(asked, self._reservation_left(row.pool)):
            return Refusal(Code.RESERVATION_REACHED, row.pool, self._reservation_left(row.pool))
        for level in self._levels(row.pool):
            if not self._within_limit(level, asked):
                return Refusal(Code.LIMIT_REACHED, level, self._free(level))
        for level in self._levels(row.pool):
            free = self._free(level)
            if not fits(asked, free):
                return Refusal(self._code(row.pool, level, asked), level, free)
        return None

    def _within_limit(self, pool: str, asked: Vector) -> bool:
        held, limit = self._allocation.get(pool, self._queues.nothing), self._pools[pool].limit
        return all(limit[at] < 0 or held[at] + want <= limit[at] for at, want in enumerate(asked) if want > 0)

    def _code(self, pool: str, level: str, asked: Vector) -> Code:
        """The code for a `level` that has not enough left for a gang of `pool`."""
        free = self._free(level)
        short = [at for at, want in enumerate(asked) if want > 0 and free[at] < want]
        lacks = subtract(self._pools[pool].reservation, self._allocation.get(pool, self._queues.nothing))
        below = level != pool and all(lacks[at] >= asked[at] for at in short)
        return Code.WAITING_FOR_PREEMPTION if below else Code.ENTITLEMENT_REACHED

    def _one_more(self, pool: str) -> int:
        """Admits the first gang of a pool that can't use the rest of its entitlement, where capacity is free; returns
        how many tasks that are.
        """
        for index, wait in enumerate(self._waits.get(pool, ())):
            if wait.why.code not in (Code.ENTITLEMENT_REACHED, Code.WAITING_FOR_PREEMPTION):
                continue
            row = self._queues.jobs[wait.part[0]]
            first, asked = self._first(row, wait)
            if not all(self._bears(level, asked) for level in self._levels(pool)):
                return 0
            self._take(wait.part[0], row, first, asked, int(len(first) > 1))
            self._waits[pool][index] = wait._replace(slots=wait.slots[len(first) :])
            return len(first)
        return 0

    def _bears(self, pool: str, asked: Vector) -> bool:
        """Whether a pool may go above its entitlement by a part of `asked`: it has not used up what it is short of."""
        if pool == "/":
            return fits(asked, self._free(pool)) > 0
        free = self._free(pool)
        short_of_none = all(have > 0 for have, want in zip(free, asked, strict=True) if want > 0)
        return short_of_none and self._within_limit(pool, asked)

    def _first(self, row: JobRow, wait: BlockedPart) -> tuple[I64, Vector]:
        """The first gang of a part that waits, or its first task, and what it asks."""
        gang, _ = self._queues.units(row, wait.part[1])
        first = gang if len(gang) and gang[0] == wait.slots[0] else wait.slots[:1]
        return first, self._queues.asks(row, first)

    def _take(self, job_id: str, row: JobRow, slots: I64, asked: Vector, gang: int) -> None:
        self._taken.append((job_id, gang, slots))
        self._room_left = subtract(self._room_left, asked)
        for level in self._levels(row.pool):
            self._allocation[level] = add(self._allocation.get(level, self._queues.nothing), asked)
        if not row.preemptible:
            self._hold_non_preemptible(row.pool, asked)

    def _changed_reasons(self, wait: BlockedPart) -> list[Event]:
        """What is said of a part that waits and of those behind it, where it wasn't said before. Of other parts of the
        same job that is not said: it waits for what is said already.
        """
        if not len(wait.slots):
            return []
        row = self._queues.jobs[wait.part[0]]
        changed_reasons: list[Event] = []
        if row.parts[wait.part[1]].reported_code != wait.why.code:
            _, asked = self._first(row, wait)
            changed_reasons.append(held(self._queues, self._cell, wait.part, wait.slots, wait.why, asked, wait.ahead))
        ahead = wait.ahead + len(wait.slots)
        why = wait.why._replace(code=Code.BEHIND_IN_QUEUE)
        for *_, part in wait.behind:
            what = self._queues.jobs[part[0]].parts[part[1]]
            if what.reported_code != why.code and part[0] != wait.part[0]:
                slots = self._queues.queued_slots(self._queues.jobs[part[0]], part[1])
                need = self._queues.need(part[1])
                changed_reasons.append(held(self._queues, self._cell, part, slots, why, need, ahead))
            ahead += what.queued
        return changed_reasons

    def _columns(self) -> GangsAdmitted:
        names = Names()
        jobs = [names[job_id] for job_id, _, _ in self._taken]
        bases = [self._queues.jobs[job_id].base for job_id, _, _ in self._taken]
        sizes = [len(slots) for _, _, slots in self._taken]
        slots = np.concatenate([slots for _, _, slots in self._taken])
        part = np.repeat(np.arange(len(sizes)), sizes)
        run = self._queues.arena["queued"][slots]
        first, count = stretches(slots, run, part)
        part = part[first]
        return GangsAdmitted(
            job_ids=names.all(),
            job=pack_ints(np.array(jobs)[part]),
            first=pack_ints(slots[first] - np.array(bases)[part]),
            count=pack_ints(count),
            run=pack_ints(run[first]),
            gang=pack_ints(np.array([gang for _, gang, _ in self._taken])[part]),
            cause=recorded(self._cell.room_by),
        )


def levels_of(pool: str) -> list[str]:
    """The pool and those above it, up to the root."""
    levels = [pool]
    while levels[-1] != "/":
        levels.append(parent_of(levels[-1]))
    return levels


def least(vectors: Sequence[Vector]) -> Vector:
    """Of each kind the least amount."""
    return tuple(map(min, zip(*vectors, strict=True)))


def refused_for_good(pools: Table[str, PoolRow], cell: CellRow, row: JobRow, asked: Vector) -> Refusal | None:
    """Why `asked` can't be admitted before hosts or pools change, whoever leaves; None: it can."""
    if row.pool not in pools:
        return Refusal(Code.NO_SUCH_POOL, row.pool, None, True)
    if cell.hosts and not fits(asked, cell.capacity):
        return Refusal(Code.NEVER_FITS, "/", cell.capacity, True)
    for level in levels_of(row.pool):
        limit = pools[level].limit
        if any(0 <= most < want for most, want in zip(limit, asked, strict=True)):
            return Refusal(Code.LIMIT_REACHED, level, limit, True)
    reservation = pools[row.pool].reservation
    if not row.preemptible and not fits(asked, reservation):
        return Refusal(Code.RESERVATION_REACHED, row.pool, reservation, True)
    return None


def held(
    queues: Queues, cell: CellRow, part: Part, slots: I64, why: Refusal, asked: Vector, ahead: int = 0
) -> GangsHeld:
    """The explanation of a wait; `slots` are the tasks that wait, `asked` is what the first gang of them asks."""
    row = queues.jobs[part[0]]
    what = row.parts[part[1]]
    return GangsHeld(
        job_id=part[0],
        pool=why.pool,
        code=why.code,
        tasks=len(slots),
        instance=int(slots[0]) - row.base,
        run=int(queues.arena["queued"][slots[0]]),
        asked=queues.kinds.amounts(asked),
        free=queues.kinds.amounts([max(0, each) for each in why.free or queues.nothing]),
        ahead=ahead,
        not_before_ms=what.not_before_ms,
        cause=recorded(cell.last_by) if what.reported_code else None,
    )
