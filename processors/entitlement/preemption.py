"""Who must leave: runs of pools above their entitlement, for a pool below its reservation with work that waits.

Lowest priority first, then the newest job, then its highest instance, gangs whole; never from a pool that is at or
below its entitlement in what is short, and no more than is short when what is leaving already has been counted.
"""

from collections.abc import Mapping

import numpy as np

from events.codes import Code
from events.columns import I64, Names, pack_ints
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from processors.entitlement.answers import parent_of
from processors.entitlement.queues import Queues
from processors.entitlement.rows import NOTHING, Amount4, JobRow, PoolRow, plus
from processors.table import Table


class Preemption:
    """The preemptions of one round."""

    def __init__(
        self,
        queues: Queues,
        pools: Table[str, PoolRow],
        entitlement: Mapping[str, Amount4],
        allocation: Mapping[str, Amount4],
    ) -> None:
        self._queues = queues
        self._pools = pools
        self._entitlement = entitlement
        self._allocation = dict(allocation)
        self._leaving = self._needs_leaving()

    def decide(self, pool: str) -> list[Event]:
        """Orders for one starving pool, one per pool that gives."""
        level, short = self._shortage(pool)
        orders: list[Event] = []
        if not any(each > 0 for each in short):
            return orders
        for victim in self._above_entitlement(level, pool):
            runs, short = self._victims(victim, short)
            if runs:
                orders.append(self._order(runs, pool, victim))
            if not any(each > 0 for each in short):
                break
        return orders

    def _shortage(self, pool: str) -> tuple[str, Amount4]:
        """What must come free for the pool, and under which pool: the lowest above it that is full."""
        row = self._pools[pool]
        held = self._allocation.get(pool, NOTHING)
        wants = self._queues.waiting.get(pool, NOTHING)
        due = [
            min(want, max(0, reservation - have))
            for want, reservation, have in zip(wants, row.reservation, held, strict=True)
        ]
        level = pool
        while level != "/":
            level = parent_of(level)
            free = plus(self._entitlement.get(level, NOTHING), self._allocation.get(level, NOTHING), -1)
            coming = self._under(level)
            short = [max(0, want - max(0, have) - soon) for want, have, soon in zip(due, free, coming, strict=True)]
            if any(short):
                return level, (short[0], short[1], short[2], short[3])
        return "/", NOTHING

    def _under(self, level: str) -> Amount4:
        prefix = level if level == "/" else level + "/"
        total = NOTHING
        for pool, amount in self._leaving.items():
            if pool == level or pool.startswith(prefix):
                total = plus(total, amount)
        return total

    def _needs_leaving(self) -> dict[str, Amount4]:
        total: dict[str, Amount4] = {}
        slots = np.flatnonzero(self._queues.arena["leaving"])
        bases, counts = np.unique(self._queues.arena["owner"][slots] - 1, return_counts=True)
        for base, count in zip(bases.tolist(), counts.tolist(), strict=True):
            row = self._queues.jobs[self._queues.at[base]]
            total[row.pool] = plus(total.get(row.pool, NOTHING), row.need, count)
        return total

    def _above_entitlement(self, level: str, but: str) -> list[str]:
        prefix = level if level == "/" else level + "/"
        return [
            pool
            for pool in sorted(self._queues.holders)
            if pool.startswith(prefix) and pool != but and any(each > 0 for each in self._excess(pool))
        ]

    def _excess(self, pool: str) -> Amount4:
        above = plus(self._allocation.get(pool, NOTHING), self._entitlement.get(pool, NOTHING), -1)
        return plus(above, self._leaving.get(pool, NOTHING), -1)

    def _victims(self, pool: str, short: Amount4) -> tuple[list[tuple[str, I64]], Amount4]:
        runs: list[tuple[str, I64]] = []
        excess = self._excess(pool)
        for _, _, job_id in reversed(self._queues.holders[pool]):
            row = self._queues.jobs[job_id]
            if not row.preemptible:
                continue
            for slots in self._units(row):
                wanted = min(_times(row.need, short, len(slots)), _times(row.need, excess, len(slots)))
                if not wanted:
                    continue
                taken = slots if _is_gang(row, slots) else slots[-wanted:]
                runs.append((job_id, taken))
                short = plus(short, row.need, -len(taken))
                excess = plus(excess, row.need, -len(taken))
            if not any(each > 0 for each in short):
                break
        return runs, short

    def _units(self, row: JobRow) -> list[I64]:
        """The tasks of a job that may be asked to leave: those that stand alone, then its gang."""
        arena = self._queues.arena
        stretch = slice(row.base, row.base + row.instances)
        slots = np.flatnonzero((arena["held"][stretch] > 0) & (arena["leaving"][stretch] == 0)) + row.base
        alone = slots[slots >= row.base + row.gang_min]
        gang = slots[slots < row.base + row.gang_min]
        return [each for each in (alone, gang) if len(each)]

    def _order(self, runs: list[tuple[str, I64]], for_pool: str, from_pool: str) -> PreemptionsOrdered:
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
        )


def _is_gang(row: JobRow, slots: I64) -> bool:
    return bool(row.gang_min and slots[0] < row.base + row.gang_min)


def _times(need: Amount4, amount: Amount4, most: int) -> int:
    """How many tasks give back what is short; 0 where none of it is what they hold."""
    useful = [-(-have // want) for want, have in zip(need, amount, strict=True) if want > 0 and have > 0]
    return min(most, max(useful, default=0))
