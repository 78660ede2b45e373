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
from events.columns import I64, Names, distinct, pack_ints
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.resources import Vector, add, fits, scale, subtract
from processors.entitlement.admission import least, levels_of
from processors.entitlement.queues import Queues
from processors.entitlement.rows import DEFERRED, JobRow, PoolRow
from processors.state.causes import recorded
from processors.state.table import Table

QUEUE_LOOKED_AT = 1000
"""Parts of a queue that one round makes room for; what is behind them gets its turn when they have gone."""


class Unit(NamedTuple):
    """Runs that are alike: the tasks of a job of one shape, admitted at once, that stand alone; or its gang. `need` is
    what one of the tasks holds, or the gang.
    """

    job_id: str
    row: JobRow
    slots: I64
    gang: bool
    need: Vector


class Preemption:
    """The preemptions of one round. `entitlement` and `allocation` are per pool, inner ones included; `budget` is how
    many runs may still be ordered to leave, but for a gang, which leaves whole.
    """

    def __init__(
        self,
        queues: Queues,
        pools: Table[str, PoolRow],
        entitlement: Mapping[str, Vector],
        allocation: Mapping[str, Vector],
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
            freed = unit.need if unit.gang else scale(unit.need, len(slots))
            short = subtract(short, freed)
            for above in levels_of(unit.row.pool):
                self._leaving[above] = add(self._leaving.get(above, self._queues.nothing), freed)
            if self.budget <= 0 or not any(each > 0 for each in short):
                break
        partial = self.budget <= 0
        return [self._order(runs, pool, giver, partial) for giver, runs in sorted(chosen.items())]

    def _shortage(self, pool: str) -> tuple[str, Vector]:
        """What must come free for the pool, and under which pool: the lowest above it that has not enough left."""
        due = self._due(pool)
        for level in levels_of(pool)[1:]:
            short = subtract(due, self._free(level))
            if any(lack > 0 and want > 0 for lack, want in zip(short, due, strict=True)):
                return level, tuple(lack if want > 0 else 0 for lack, want in zip(short, due, strict=True))
        return "/", self._queues.nothing

    def _due(self, pool: str) -> Vector:
        """What the first gangs in line need that would be admitted if the pool had its reservation."""
        queues = self._queues
        room, due = self._room(pool), queues.nothing
        lines = (queues.order.get(pool, []), queues.non_preemptible_order.get(pool, []))
        for *_, (job_id, shape) in islice(merge(*lines), QUEUE_LOOKED_AT):
            job = queues.jobs[job_id]
            gang, alone = queues.units(job, shape)
            units = [(1, queues.asks(job, gang))] if len(gang) else []
            for tasks, need in [*units, (len(alone), queues.need(shape))]:
                times = min(tasks, fits(need, room))
                due, room = add(due, need, times), add(room, need, -times)
                if times < tasks:
                    return due
        return due

    def _room(self, pool: str) -> Vector:
        """What the pool may get: what its reservation still promises, or what is free anyway."""
        nothing = self._queues.nothing
        promised = least([self._pools[pool].reservation, self._entitlement.get(pool, nothing)])
        promised = subtract(promised, self._allocation.get(pool, nothing))
        return tuple(map(max, promised, least([self._free(level) for level in levels_of(pool)])))

    def _free(self, pool: str) -> Vector:
        """What the pool has left when all that is leaving has left."""
        nothing = self._queues.nothing
        left = subtract(self._entitlement.get(pool, nothing), self._allocation.get(pool, nothing))
        return add(left, self._leaving.get(pool, nothing))

    def _needs_leaving(self) -> dict[str, Vector]:
        """What is leaving already, per pool, inner ones included."""
        total: dict[str, Vector] = {}
        arena = self._queues.arena
        slots = np.flatnonzero(arena["leaving"])
        owners = arena["owner"][slots]
        for mine in np.split(slots, np.flatnonzero(np.diff(owners)) + 1) if len(slots) else ():
            row = self._queues.jobs[self._queues.at[int(arena["owner"][mine[0]]) - 1]]
            leaving = self._queues.asks(row, mine)
            for pool in levels_of(row.pool):
                total[pool] = add(total.get(pool, self._queues.nothing), leaving)
        return total

    def _excess(self, pool: str) -> Vector:
        return subtract(self._queues.nothing, self._free(pool))

    def _candidates(self, level: str, but: str) -> list[Unit]:
        """The units of pools under `level` that are above their entitlement, in the order in which they must go."""
        prefix = level if level == "/" else level + "/"
        givers = {
            pool
            for pool in self._queues.allocation
            if pool.startswith(prefix) and pool != but and any(each > 0 for each in self._excess(pool))
        }
        units = [
            (row.priority, -since, -row.number, -int(unit.slots[0]), unit)
            for job_id, row in self._queues.jobs.items()
            if row.preemptible and row.pool in givers and row.preempting != DEFERRED
            if any(part.held for part in row.parts.values())
            for since, unit in self._units(job_id, row)
        ]
        units.sort(key=lambda each: each[:4])
        return [unit for *_, unit in units]

    def _units(self, job_id: str, row: JobRow) -> list[tuple[int, Unit]]:
        """The runs of a job that may be asked to leave, with the number of their admission."""
        arena = self._queues.arena
        stretch = slice(row.base, row.base + row.instances)
        slots = np.flatnonzero((arena["held"][stretch] > 0) & (arena["leaving"][stretch] == 0)) + row.base
        members = int(np.searchsorted(slots, row.base + row.gang_min))
        gang, alone = slots[:members], slots[members:]
        found = []
        for shape, part in self._queues.split(row, alone):
            since, need = arena["since"][part], self._queues.need(shape)
            for each in distinct(since).tolist():
                found.append((each, Unit(job_id, row, part[since == each], False, need)))
        if members:
            found.append((int(arena["since"][gang[0]]), Unit(job_id, row, gang, True, self._queues.asks(row, gang))))
        return found

    def _wanted(self, unit: Unit, short: Vector) -> I64:
        """The slots of a unit that must go: as many as give back what is short while its pool has it in excess."""
        excess, times = self._excess(unit.row.pool), 0
        for want, lack, above in zip(unit.need, short, excess, strict=True):
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
