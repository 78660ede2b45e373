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
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.queues import Place, Queues, stretches
from processors.entitlement.rows import NOTHING, Amount4, CellRow, JobRow, PoolRow, fits, named, plus
from processors.state.causes import recorded
from processors.state.table import Table

EXPLAINED_BEHIND = 3
"""So many jobs behind the first that waits are told so; the others can see their place from it."""


class Why(NamedTuple):
    """Why a gang can't be admitted: code, the pool that says no, what that pool has left."""

    code: Code
    pool: str
    free: Amount4
    for_good: bool = False
    """It would be refused by an empty cell too."""


class Wait(NamedTuple):
    """A job whose first gang must wait, its tasks that wait, and the jobs right behind it that it holds up."""

    job_id: str
    why: Why
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
        entitlement: Mapping[str, Amount4],
        allocation: Mapping[str, Amount4],
    ) -> None:
        self._queues = queues
        self._pools = pools
        self._cell = cell
        self._entitlement = entitlement
        self._allocation = dict(allocation)
        self._above: dict[str, list[str]] = {}
        self._firm: dict[str, Amount4] = {}
        for pool, held_ in queues.firm.items():
            self._hold_firm(pool, held_)
        self._taken: list[tuple[str, int, I64]] = []
        self._waits: dict[str, list[Wait]] = {}
        self._left = NOTHING
        """What the pool that is served, and all above it, have left."""

    def decide(self, budget: int) -> tuple[list[Event], int]:
        """What is admitted, and what is held and why where that is news: at most `budget` tasks and jobs told, but
        for a gang, which isn't divided. Returns also what is left of the budget.
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
        news = (event for waits in self._waits.values() for wait in waits for event in self._news(wait))
        told = list(islice(news, max(0, left)))
        return admitted + told, left - len(told)

    def _longest_ago(self, pool: str) -> tuple[int, str]:
        row = self._pools.get(pool)
        return (row.served if row else 0, pool)

    def _pool(self, pool: str, budget: int) -> int:
        """Serves a queue until its first job must wait or `budget` tasks are admitted; returns what is left of it."""
        soft, firm = self._queues.order.get(pool, []), self._queues.firm_order.get(pool, [])
        waits = self._waits[pool] = []
        free = [self._free(level) for level in self._levels(pool)] if pool in self._pools else [NOTHING]
        cpu, memory, disk, gpu = (min(column) for column in zip(*free, strict=True))
        self._left = (cpu, memory, disk, gpu)
        at = firm_at = ahead = 0
        while budget > 0 and (at < len(soft) or firm_at < len(firm)):
            is_firm = at == len(soft) or (firm_at < len(firm) and firm[firm_at] < soft[at])
            job_id = (firm[firm_at] if is_firm else soft[at])[2]
            firm_at, at = firm_at + is_firm, at + (not is_firm)
            taken, why, rest = self._job(job_id, self._queues.jobs[job_id], budget)
            budget -= taken
            if why is None:
                continue
            behind: list[Place] = []
            if not why.for_good:
                behind = firm[firm_at : firm_at + EXPLAINED_BEHIND]
                if why.code != Code.RESERVATION_REACHED:
                    behind = sorted(behind + soft[at : at + EXPLAINED_BEHIND])[:EXPLAINED_BEHIND]
                    soft = []
                firm = []
            waits.append(Wait(job_id, why, rest, ahead, behind))
            ahead += len(rest)
        return budget

    def _job(self, job_id: str, row: JobRow, budget: int) -> tuple[int, Why | None, I64]:
        """Admits what it can of a job; returns how many tasks, why not more, and the tasks that wait for that."""
        gang, slots = self._queues.units(row)
        taken = len(gang)
        if taken:
            why = self._refusal(row, plus(NOTHING, row.need, taken))
            if why is not None:
                return 0, why, np.concatenate((gang, slots))
            self._take(job_id, row, gang, 1)
        if not len(slots):
            return taken, None, slots
        count = min(len(slots), max(0, budget - taken), self._room(row))
        if count:
            self._take(job_id, row, slots[:count], 0)
        taken, rest = taken + count, slots[count:]
        if not len(rest) or taken >= budget:
            return taken, None, rest
        return taken, self._refusal(row, row.need), rest

    def _levels(self, pool: str) -> list[str]:
        """The pool and those above it, up to the root."""
        levels = self._above.get(pool)
        if levels is None:
            levels = self._above[pool] = levels_of(pool)
        return levels

    def _free(self, pool: str) -> Amount4:
        return plus(self._entitlement.get(pool, NOTHING), self._allocation.get(pool, NOTHING), -1)

    def _firm_free(self, pool: str) -> Amount4:
        """What a pool has left of its reservation, and those above it of theirs."""
        levels = [level for level in self._levels(pool) if level != "/"]
        free = [plus(self._pools[level].reservation, self._firm.get(level, NOTHING), -1) for level in levels]
        cpu, memory, disk, gpu = (min(column) for column in zip(*free, strict=True))
        return cpu, memory, disk, gpu

    def _hold_firm(self, pool: str, amount: Amount4, times: int = 1) -> None:
        for level in self._levels(pool):
            self._firm[level] = plus(self._firm.get(level, NOTHING), amount, times)

    def _room(self, row: JobRow) -> int:
        room = fits(row.need, self._left) if row.pool in self._pools else 0
        return room if row.preemptible or not room else min(room, fits(row.need, self._firm_free(row.pool)))

    def _refusal(self, row: JobRow, asked: Amount4) -> Why | None:
        """Why `asked` can't be admitted now; None: it can."""
        why = refused_for_good(self._pools, self._cell, row, asked)
        if why is not None:
            return why
        if not self._cell.hosts:
            return Why(Code.NO_HOSTS, "/", NOTHING)
        if not row.preemptible and not fits(asked, self._firm_free(row.pool)):
            return Why(Code.RESERVATION_REACHED, row.pool, self._firm_free(row.pool))
        for level in self._levels(row.pool):
            if not self._within_limit(level, asked):
                return Why(Code.LIMIT_REACHED, level, self._free(level))
        for level in self._levels(row.pool):
            free = self._free(level)
            if not fits(asked, free):
                return Why(self._code(row.pool, level, asked), level, free)
        return None

    def _within_limit(self, pool: str, asked: Amount4) -> bool:
        held, limit = self._allocation.get(pool, NOTHING), self._pools[pool].limit
        return all(limit[at] < 0 or held[at] + want <= limit[at] for at, want in enumerate(asked) if want > 0)

    def _code(self, pool: str, level: str, asked: Amount4) -> Code:
        """The code for a `level` that has not enough left for a gang of `pool`."""
        free = self._free(level)
        short = [at for at, want in enumerate(asked) if want > 0 and free[at] < want]
        lacks = plus(self._pools[pool].reservation, self._allocation.get(pool, NOTHING), -1)
        below = level != pool and all(lacks[at] >= asked[at] for at in short)
        return Code.WAITING_FOR_PREEMPTION if below else Code.ENTITLEMENT_REACHED

    def _one_more(self, pool: str) -> int:
        """Admits the first gang of a pool that can't use the rest of its entitlement, where capacity is free; returns
        how many tasks that are.
        """
        for index, wait in enumerate(self._waits.get(pool, ())):
            if wait.why.code not in (Code.ENTITLEMENT_REACHED, Code.WAITING_FOR_PREEMPTION):
                continue
            row = self._queues.jobs[wait.job_id]
            gang, _ = self._queues.units(row)
            first = gang if len(gang) and gang[0] == wait.slots[0] else wait.slots[:1]
            asked = plus(NOTHING, row.need, len(first))
            if not all(self._bears(level, asked) for level in self._levels(pool)):
                return 0
            self._take(wait.job_id, row, first, int(first is gang))
            self._waits[pool][index] = wait._replace(slots=wait.slots[len(first) :])
            return len(first)
        return 0

    def _bears(self, pool: str, asked: Amount4) -> bool:
        """Whether a pool may go above its entitlement by a part of `asked`: it has not used up what it is short of."""
        if pool == "/":
            return fits(asked, self._free(pool)) > 0
        free = self._free(pool)
        short_of_none = all(have > 0 for have, want in zip(free, asked, strict=True) if want > 0)
        return short_of_none and self._within_limit(pool, asked)

    def _take(self, job_id: str, row: JobRow, slots: I64, gang: int) -> None:
        self._taken.append((job_id, gang, slots))
        self._left = plus(self._left, row.need, -len(slots))
        for level in self._levels(row.pool):
            self._allocation[level] = plus(self._allocation.get(level, NOTHING), row.need, len(slots))
        if not row.preemptible:
            self._hold_firm(row.pool, row.need, len(slots))

    def _news(self, wait: Wait) -> list[Event]:
        """What is said of a job that waits and of those behind it, where it wasn't said before."""
        if not len(wait.slots):
            return []
        row = self._queues.jobs[wait.job_id]
        news: list[Event] = []
        if row.said != wait.why.code:
            gang, _ = self._queues.units(row)
            times = len(gang) if len(gang) and gang[0] == wait.slots[0] else 1
            news.append(self._held(wait.job_id, wait.slots, wait.why, wait.ahead, times))
        ahead = wait.ahead + len(wait.slots)
        why = wait.why._replace(code=Code.BEHIND_IN_QUEUE)
        for _, _, job_id in wait.behind:
            row = self._queues.jobs[job_id]
            if row.said != why.code:
                news.append(self._held(job_id, self._queues.queued_slots(row), why, ahead))
            ahead += row.queued
        return news

    def _held(self, job_id: str, slots: I64, why: Why, ahead: int, times: int = 1) -> GangsHeld:
        return held(self._queues, self._cell, job_id, slots, why, ahead, times)

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


def refused_for_good(pools: Table[str, PoolRow], cell: CellRow, row: JobRow, asked: Amount4) -> Why | None:
    """Why `asked` can't be admitted before hosts or pools change, whoever leaves; None: it can."""
    if row.pool not in pools:
        return Why(Code.NO_SUCH_POOL, row.pool, NOTHING, True)
    if cell.hosts and not fits(asked, cell.capacity):
        return Why(Code.NEVER_FITS, "/", cell.capacity, True)
    for level in levels_of(row.pool):
        limit = pools[level].limit
        if any(0 <= most < want for most, want in zip(limit, asked, strict=True)):
            return Why(Code.LIMIT_REACHED, level, limit, True)
    reservation = pools[row.pool].reservation
    if not row.preemptible and not fits(asked, reservation):
        return Why(Code.RESERVATION_REACHED, row.pool, reservation, True)
    return None


def held(queues: Queues, cell: CellRow, job_id: str, slots: I64, why: Why, ahead: int = 0, times: int = 1) -> GangsHeld:
    """The explanation of the wait of a job's tasks at `slots`; `times`: how many tasks the first waiting gang has."""
    row = queues.jobs[job_id]
    return GangsHeld(
        job_id=job_id,
        pool=why.pool,
        code=why.code,
        tasks=len(slots),
        instance=int(slots[0]) - row.base,
        run=int(queues.arena["queued"][slots[0]]),
        asked=named(plus(NOTHING, row.need, times)),
        free=named([max(0, each) for each in why.free]),
        ahead=ahead,
        not_before_ms=row.not_before_ms,
        cause=recorded(cell.last_by) if row.said else None,
    )
