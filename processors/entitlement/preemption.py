"""Who must leave: runs of pools above their entitlement, for a pool below its reservation with work that waits.

Lowest priority first, then the newest admission, the newest job, its highest instance; gangs whole. Never from a pool
that is at or below its entitlement in what is short, and no more than is short when what is leaving already has come
free. Nor from a job whose SLA has just deferred an order: others give instead.
"""

from collections.abc import Mapping
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np

from events.codes import Code
from events.columns import I64, Names, counted, distinct, pack_ints
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from processors.entitlement.admission import levels_of
from processors.entitlement.queues import Queues
from processors.entitlement.rows import DEFERRED, NOTHING, Amount4, JobRow, PoolRow, fits, plus
from processors.state.causes import recorded
from processors.state.table import Table

QUEUE_LOOKED_AT = 1000
"""Jobs of a queue that one round makes room for; what is behind them gets its turn when they have gone."""


class Unit(NamedTuple):
    """Runs that are alike: the tasks of a job admitted at once that stand alone, or its gang."""

    job_id: str
    row: JobRow
    slots: I64
    gang: bool


class Preemption:
    """The preemptions of one round. `entitlement` and `allocation` are per pool, inner ones included; `budget` is how
    many runs may still be ordered to leave, but for a gang, which leaves whole.
    """

    def __init__(
        self,
        queues: Queues,
        pools: Table[str, PoolRow],
        entitlement: Mapping[str, Amount4],
        allocation: Mapping[str, Amount4],
        budget: int,
    ) -> None:
        self.budget = budget
        self._queues = queues
        self._pools = pools
        self._entitlement = entitlement
        self._allocation = allocation
        self._leaving = self._needs_leaving()

    def decide(self, pool: str) -> list[Event]:
        """Orders for one pool, one per pool that gives; nothing where nobody can give."""
        level, short = self._shortage(pool)
        if not any(each > 0 for each in short):
            return []
        chosen: dict[str, list[tuple[str, I64]]] = {}
        for unit in self._candidates(level, pool):
            slots = self._wanted(unit, short)
            if not len(slots):
                continue
            if unit.gang and len(slots) > self.budget and chosen:
                self.budget = 0
                break
            if not unit.gang:
                slots = slots[-self.budget :]
            self.budget -= len(slots)
            chosen.setdefault(unit.row.pool, []).append((unit.job_id, slots))
            short = plus(short, unit.row.need, -len(slots))
            for above in levels_of(unit.row.pool):
                self._leaving[above] = plus(self._leaving.get(above, NOTHING), unit.row.need, len(slots))
            if self.budget <= 0 or not any(each > 0 for each in short):
                break
        partial = self.budget <= 0
        return [self._order(runs, pool, giver, partial) for giver, runs in sorted(chosen.items())]

    def _shortage(self, pool: str) -> tuple[str, Amount4]:
        """What must come free for the pool, and under which pool: the lowest above it that has not enough left."""
        due = self._due(pool)
        for level in levels_of(pool)[1:]:
            short = plus(due, self._free(level), -1)
            if any(lack > 0 and want > 0 for lack, want in zip(short, due, strict=True)):
                wanted = [lack if want > 0 else 0 for lack, want in zip(short, due, strict=True)]
                return level, (wanted[0], wanted[1], wanted[2], wanted[3])
        return "/", NOTHING

    def _due(self, pool: str) -> Amount4:
        """What the first gangs in line need that would be admitted if the pool had its reservation."""
        room, due = list(self._room(pool)), NOTHING
        lines = (self._queues.order.get(pool, []), self._queues.firm_order.get(pool, []))
        for _, _, job_id in islice(merge(*lines), QUEUE_LOOKED_AT):
            job = self._queues.jobs[job_id]
            gang, alone = self._queues.units(job)
            for slots in (gang, alone):
                step = len(gang) if slots is gang else 1
                times = min(len(slots), fits(plus(NOTHING, job.need, step), room) * step) if len(slots) else 0
                due, room = plus(due, job.need, times), list(plus(room, job.need, -times))
                if times < len(slots):
                    return due
        return due

    def _room(self, pool: str) -> Amount4:
        """What the pool may get: what its reservation still promises, or what is free anyway."""
        row, entitlement = self._pools[pool], self._entitlement.get(pool, NOTHING)
        free = [self._free(level) for level in levels_of(pool)]
        held = self._allocation.get(pool, NOTHING)
        found = [
            max(min(row.reservation[at], entitlement[at]) - held[at], min(each[at] for each in free))
            for at in range(len(NOTHING))
        ]
        return found[0], found[1], found[2], found[3]

    def _free(self, pool: str) -> Amount4:
        """What the pool has left when all that is leaving has left."""
        left = plus(self._entitlement.get(pool, NOTHING), self._allocation.get(pool, NOTHING), -1)
        return plus(left, self._leaving.get(pool, NOTHING))

    def _needs_leaving(self) -> dict[str, Amount4]:
        """What is leaving already, per pool, inner ones included."""
        total: dict[str, Amount4] = {}
        arena = self._queues.arena
        slots = np.flatnonzero(arena["leaving"])
        bases, counts = counted(arena["owner"][slots] - 1)
        for base, count in zip(bases.tolist(), counts.tolist(), strict=True):
            row = self._queues.jobs[self._queues.at[base]]
            for pool in levels_of(row.pool):
                total[pool] = plus(total.get(pool, NOTHING), row.need, count)
        return total

    def _excess(self, pool: str) -> Amount4:
        return plus(NOTHING, self._free(pool), -1)

    def _candidates(self, level: str, but: str) -> list[Unit]:
        """The units of pools under `level` that are above their entitlement, in the order in which they must go."""
        prefix = level if level == "/" else level + "/"
        givers = {
            pool
            for pool in self._queues.allocation
            if pool.startswith(prefix) and pool != but and any(each > 0 for each in self._excess(pool))
        }
        units = [
            (row.priority, -since, -row.number, -int(slots[0]), Unit(job_id, row, slots, gang))
            for job_id, row in self._queues.jobs.items()
            if row.held and row.preemptible and row.pool in givers and row.preempting != DEFERRED
            for since, slots, gang in self._units(row)
        ]
        units.sort(key=lambda each: each[:4])
        return [unit for *_, unit in units]

    def _units(self, row: JobRow) -> list[tuple[int, I64, bool]]:
        """The runs of a job that may be asked to leave, as (admission, slots, whether they are its gang)."""
        arena = self._queues.arena
        stretch = slice(row.base, row.base + row.instances)
        slots = np.flatnonzero((arena["held"][stretch] > 0) & (arena["leaving"][stretch] == 0)) + row.base
        members = int(np.searchsorted(slots, row.base + row.gang_min))
        gang, alone = slots[:members], slots[members:]
        since = arena["since"][alone]
        found = [(each, alone[since == each], False) for each in distinct(since).tolist()]
        return found + ([(int(arena["since"][gang[0]]), gang, True)] if members else [])

    def _wanted(self, unit: Unit, short: Amount4) -> I64:
        """The slots of a unit that must go: as many as give back what is short while its pool has it in excess."""
        excess, times = self._excess(unit.row.pool), 0
        for want, lack, above in zip(unit.row.need, short, excess, strict=True):
            if want > 0 and lack > 0 and above > 0:
                times = max(times, min(-(-lack // want), -(-above // want)))
        if not times or unit.gang:
            return unit.slots[: len(unit.slots) * bool(times)]
        return unit.slots[-times:]

    def _order(self, runs: list[tuple[str, I64]], for_pool: str, from_pool: str, partial: bool) -> PreemptionsOrdered:
        names = Names()
        job = np.concatenate([np.full(len(slots), names[job_id]) for job_id, slots in runs])
        slots = np.concatenate([slots for _, slots in runs])
        bases = np.concatenate([np.full(len(slots), self._queues.jobs[job_id].base) for job_id, slots in runs])
        return PreemptionsOrdered(
            job_ids=names.all(),
            job=pack_ints(job),
            instance=pack_ints(slots - bases),
            run=pack_ints(self._queues.arena["held"][slots]),
            for_pool=for_pool,
            from_pool=from_pool,
            code=Code.BELOW_RESERVATION,
            partial=partial,
            cause=recorded(self._pools[for_pool].starving_by),
        )
