"""Room under limits that others were ordered to leave: it is kept for the unit that it was made for.

It is kept until that unit is admitted, or a time has passed; else whoever is first in another queue would take it.
"""

import msgspec
import numpy as np

from events.codes import Code
from events.ranks import Rank
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from events.resources import Vector, add
from processors.entitlement.queues.parts import Consumer
from processors.entitlement.queues.queues import Queues
from processors.entitlement.queues.usage import Usages
from processors.state.deadlines import Deadlines
from processors.state.marks import Marks
from processors.state.table import Table, struct_table


class HoldRow(msgspec.Struct, frozen=True, array_like=True):
    """Units that wait for admission, or are parked: a gang, or neighbouring tasks. Others leave for them."""

    pool: str
    job_id: str
    first: int
    count: int
    run: int
    until_ms: int


class LimitHolds:
    """The table `limit_holds`, by the number of the order."""

    def __init__(self, queues: Queues, usage: Usages, marks: Marks[Consumer, str]) -> None:
        self._queues = queues
        self._usage = usage
        self._marks = marks
        self.table: Table[int, HoldRow] = struct_table("limit_holds", HoldRow, int)
        self._ends: Deadlines[int] = Deadlines()
        self._version = -1
        self._at: dict[str, Vector] = {}
        self._of: dict[str, Vector] = {}

    def restored(self) -> None:
        """The table was loaded."""
        self._ends.restore((number, row.until_ms) for number, row in self.table.items())

    def others(self, pool: str, level: str) -> Vector | None:
        """The amount that is kept below a level for other pools than one; None: nothing."""
        if not len(self.table):
            return None
        self._count()
        total, own = self._at.get(level), self._of.get(pool)
        if total is None:
            return None
        return total if own is None else tuple([have - mine for have, mine in zip(total, own, strict=True)])

    def total(self, level: str) -> Vector | None:
        """The amount that is kept below a level; None: nothing."""
        if not len(self.table):
            return None
        self._count()
        return self._at.get(level)

    def has(self, job_id: str) -> bool:
        """Whether anything is kept for a job."""
        return any(row.job_id == job_id and any(self._amount(row)) for row in self.table.values())

    def next_ms(self, after: int) -> int | None:
        """When the next one ends, after a time."""
        return self._ends.first(after)

    def ordered(self, event: PreemptionsOrdered, until_ms: int) -> None:
        """Runs were ordered to leave under a limit."""
        row = HoldRow(event.for_pool, event.for_job, event.for_first, event.for_count, event.for_run, until_ms)
        self.table.put(event.order, row)
        self._ends.set(event.order, until_ms)
        self._changed(row)

    def answered(self, event: PreemptionAnswered) -> None:
        """They have left; or they don't, then nothing is kept."""
        row = self.table.get(event.number)
        if row is not None and event.code != Code.LEFT:
            self._drop(event.number, row)

    def expire(self, now: int) -> None:
        """Drops those whose time is over."""
        for number in self._ends.due(now):
            self._drop(number, self.table[number])

    def _drop(self, number: int, row: HoldRow) -> None:
        self.table.remove(number)
        self._ends.clear(number)
        self._changed(row)

    def _changed(self, row: HoldRow) -> None:
        self._queues.changes += 1
        self._marks.happen(self._usage.levels(row.pool))

    def review(self) -> None:
        """Those for whom something is kept may wait no more, admitted or not: who waits for it is looked at again."""
        if len(self.table):
            self._count()

    def _count(self) -> None:
        if self._version == self._queues.changes:
            return
        before = self._at
        self._version, self._at, self._of = self._queues.changes, {}, {}
        for row in self.table.values():
            amount = self._amount(row)
            if any(amount):
                self._of[row.pool] = add(self._of.get(row.pool, self._queues.nothing), amount)
                for level in self._usage.levels(row.pool):
                    self._at[level] = add(self._at.get(level, self._queues.nothing), amount)
        self._marks.happen(level for level in before if self._at.get(level) != before[level])

    def _amount(self, row: HoldRow) -> Vector:
        """The amount that is kept: the need of those of them that still wait, or are parked."""
        job = self._queues.jobs.get(row.job_id)
        if job is None or row.first + row.count > job.instances:
            return self._queues.nothing
        slots = np.arange(row.first, row.first + row.count) + job.base
        arena = self._queues.arena
        parked = (arena["held"][slots] == row.run) & (arena["rank"][slots] == Rank.PARKED)
        return self._queues.total_need(job, slots[(arena["queued"][slots] == row.run) | parked])
