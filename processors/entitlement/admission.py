"""Who may go on: pool by pool, in the order of each queue, as far as entitlement, limits and reservation reach.

Deciding changes nothing, so what is admitted within one round is counted in a copy of the allocations.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from events.codes import Code
from events.columns import I64, Names, pack_ints
from events.records.base import Event
from events.records.entitlement import GangsAdmitted, GangsHeld
from events.records.parts import Amounts
from processors.entitlement.answers import parent_of
from processors.entitlement.queues import Queues, stretches
from processors.entitlement.rows import NO_LIMIT, NOTHING, Amount4, CellRow, JobRow, PoolRow, fits, plus
from processors.table import Table

EXPLAINED_BEHIND = 10
"""So many jobs behind the first that waits are told so; the others can see their place from it."""


class Why(NamedTuple):
    """Why a gang can't be admitted: code, the pool that says no, what that pool has left. `blocks`: those behind it
    in the queue wait too.
    """

    code: Code
    pool: str
    free: Amount4
    blocks: bool


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
        self._firm = dict(queues.firm)
        self._slots: list[tuple[str, int, I64]] = []
        self._held: list[Event] = []

    def decide(self, budget: int) -> list[Event]:
        """What is admitted, and what is held and why where that is news; at most `budget` tasks."""
        left = budget
        for pool in sorted(self._queues.order):
            if left <= 0:
                break
            left = self._pool(pool, left)
        admitted = [self._columns()] if self._slots else []
        return [*admitted, *self._held]

    def _pool(self, pool: str, budget: int) -> int:
        blocker: Why | None = None
        ahead = behind = 0
        for _, _, job_id in self._queues.order[pool]:
            if budget <= 0 or behind >= EXPLAINED_BEHIND:
                break
            row = self._queues.jobs[job_id]
            if blocker is not None:
                behind += 1
                self._hold(job_id, row, row.queued, blocker._replace(code=Code.BEHIND_IN_QUEUE), ahead)
                ahead += row.queued
                continue
            taken, why = self._job(job_id, row, budget)
            budget -= taken
            if why is not None:
                self._hold(job_id, row, row.queued - taken, why, ahead)
                blocker = why if why.blocks else None
            ahead += row.queued - taken
        return budget

    def _job(self, job_id: str, row: JobRow, budget: int) -> tuple[int, Why | None]:
        """Admits what it can of a job; returns how many tasks, and why not more."""
        slots = self._queues.queued_slots(row)
        taken = 0
        if row.gang_min and len(slots) and slots[0] == row.base:
            why = self._refusal(row, plus(NOTHING, row.need, row.gang_min))
            if why is not None:
                return 0, why
            self._take(job_id, row, slots[: row.gang_min], gang=1)
            taken, slots = row.gang_min, slots[row.gang_min :]
        if not len(slots):
            return taken, None
        count = min(len(slots), max(0, budget - taken), self._room(row))
        if count:
            self._take(job_id, row, slots[:count], gang=0)
        if count == len(slots) or taken + count >= budget:
            return taken + count, None
        return taken + count, self._refusal(row, row.need)

    def _levels(self, pool: str) -> list[str]:
        levels = [pool]
        while levels[-1] != "/":
            levels.append(parent_of(levels[-1]))
        return levels

    def _free(self, pool: str) -> Amount4:
        return plus(self._entitlement.get(pool, NOTHING), self._allocation.get(pool, NOTHING), -1)

    def _firm_free(self, pool: str) -> Amount4:
        return plus(self._pools[pool].reservation, self._firm.get(pool, NOTHING), -1)

    def _room(self, row: JobRow) -> int:
        if row.pool not in self._pools:
            return 0
        rooms = [fits(row.need, self._free(level)) for level in self._levels(row.pool)]
        if not row.preemptible:
            rooms.append(fits(row.need, self._firm_free(row.pool)))
        return min(rooms)

    def _refusal(self, row: JobRow, asked: Amount4) -> Why | None:
        """Why `asked` can't be admitted now; None: it can."""
        pool = row.pool
        if pool not in self._pools:
            return Why(Code.NO_SUCH_POOL, pool, NOTHING, False)
        if not self._cell.hosts:
            return Why(Code.NO_HOSTS, "/", NOTHING, True)
        if not fits(asked, self._cell.capacity):
            return Why(Code.NEVER_FITS, "/", self._cell.capacity, False)
        for level in self._levels(pool):
            limit = self._pools[level].limit
            bounded = [have if have >= 0 else want for have, want in zip(limit, asked, strict=True)]
            if limit != NO_LIMIT and not fits(asked, bounded):
                return Why(Code.LIMIT_REACHED, level, limit, False)
        if not row.preemptible and not fits(asked, self._firm_free(pool)):
            return Why(Code.RESERVATION_REACHED, pool, self._firm_free(pool), False)
        for level in self._levels(pool):
            free = self._free(level)
            if not fits(asked, free):
                return Why(self._code(pool, level, asked), level, free, True)
        return None

    def _code(self, pool: str, level: str, asked: Amount4) -> Code:
        free = self._free(level)
        short = [at for at, want in enumerate(asked) if want > 0 and free[at] < want]
        if level != pool:
            reserved = plus(self._pools[pool].reservation, self._allocation.get(pool, NOTHING), -1)
            below = any(reserved[at] > 0 for at in short)
            return Code.WAITING_FOR_PREEMPTION if below else Code.ENTITLEMENT_REACHED
        entitlement, limit = self._entitlement.get(pool, NOTHING), self._pools[pool].limit
        return Code.LIMIT_REACHED if all(limit[at] == entitlement[at] for at in short) else Code.ENTITLEMENT_REACHED

    def _take(self, job_id: str, row: JobRow, slots: I64, gang: int) -> None:
        self._slots.append((job_id, gang, slots))
        for level in self._levels(row.pool):
            self._allocation[level] = plus(self._allocation.get(level, NOTHING), row.need, len(slots))
        if not row.preemptible:
            self._firm[row.pool] = plus(self._firm.get(row.pool, NOTHING), row.need, len(slots))

    def _hold(self, job_id: str, row: JobRow, tasks: int, why: Why, ahead: int) -> None:
        if row.said == why.code:
            return
        times = row.gang_min if row.gang_min and self._queues.arena["queued"][row.base] else 1
        self._held.append(held(job_id, row, tasks, why, ahead, times))

    def _columns(self) -> GangsAdmitted:
        names = Names()
        parts: list[tuple[I64, I64, I64, I64, I64]] = []
        for job_id, gang, slots in self._slots:
            run = self._queues.arena["queued"][slots]
            first, count = stretches(slots, run)
            base = self._queues.jobs[job_id].base
            fill = np.ones(len(first), dtype=np.int64)
            parts.append((fill * names[job_id], slots[first] - base, count, run[first].astype(np.int64), fill * gang))
        job, first, count, run_, gang_ = (np.concatenate(column) for column in zip(*parts, strict=True))
        return GangsAdmitted(
            job_ids=names.all(),
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run_),
            gang=pack_ints(gang_),
        )


def held(job_id: str, row: JobRow, tasks: int, why: Why, ahead: int, times: int = 1) -> GangsHeld:
    """The explanation of a wait; `times`: how many tasks the first waiting gang has."""
    asked = plus(NOTHING, row.need, times)
    return GangsHeld(
        job_id=job_id,
        pool=why.pool,
        code=why.code,
        tasks=tasks,
        asked=Amounts(*asked),
        free=Amounts(*(max(0, each) for each in why.free)),
        ahead=ahead,
        not_before_ms=row.not_before_ms,
    )
