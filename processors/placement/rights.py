"""The last rights, from entitlement: which units without a place may preempt others, and which pools give.

A right is tried at once. Where no plan comes of it, it is tried again after 1 s, then after longer times, up to
`RETRIES_S`: victims become available with time too, when the hour of a cap, the time of a refusal or a slice is over.
Rights that were tried without success are spread over time, so that each of many has its turn.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from events.columns import I64
from events.records.entitlement import RightsSet
from events.resources import Vector
from processors.placement.hosts import Hosts
from processors.state.causes import CauseRow, CurrentInput
from processors.state.deadlines import Deadlines
from processors.state.preemption_rules import Giver, Right
from processors.state.table import Table, struct_table

RETRIES_S = (1, 2, 4, 8, 15)
PER_MS = 16
"""So many rights that were tried without success are tried again in the same millisecond."""

Task = tuple[str, int]
"""A job, and the first instance of a range or unit."""


class RightRow(msgspec.Struct, array_like=True):
    """The right of a range of units: a gang, or tasks one by one. Vectors are over the kinds that the cell knew."""

    pool: str
    count: int
    run: int
    gang: bool
    others: Vector
    """The amounts that the first unit may take from others; each further one: less by what those before it need."""
    entitlement: Vector
    flags: int
    by: CauseRow
    """The record that set it last."""
    try_ms: int
    """When it is to be tried next, if a unit has no plan then."""
    tries: int = 0
    """The number of tries without success."""


class GiverRow(msgspec.Struct, frozen=True, array_like=True):
    """The amounts that a pool may have to give."""

    excess: Vector
    entitlement: Vector
    spare: Vector


class Rights:
    """Two tables. `planned`: how many units of a range have a plan: its job, first instance and count."""

    def __init__(self, hosts: Hosts, current: CurrentInput, planned: Callable[[str, int, int], int]) -> None:
        self.table: Table[Task, RightRow] = struct_table("rights", RightRow, Task)
        self.givers: Table[str, GiverRow] = struct_table("givers", GiverRow)
        self._hosts = hosts
        self._input = current
        self._planned = planned
        self._of_job: dict[str, dict[int, None]] = {}
        self.tries: Deadlines[Task] = Deadlines()
        """When the ranges in which a unit has no plan are tried next."""

    def restored(self) -> None:
        """Finds again what is derived."""
        self._of_job = {}
        for job_id, first in self.table:
            self._of_job.setdefault(job_id, {})[first] = None
        self.tries.restore((task, row.try_ms) for task, row in self.table.items() if self._is_open(task, row))

    def plan_changed(self, job_id: str, unit: int) -> None:
        """Sets the deadlines of the ranges of a unit that has a plan now, or none any more."""
        for task in self._ranges_of(job_id, unit):
            self._schedule(task, self.table[task])

    def set(self, event: RightsSet, now: int) -> None:
        """Entitlement says what has changed."""
        jobs, firsts, counts = event.removed_job_array, event.removed_first_array, event.removed_count_array
        for job, first, count in zip(jobs.tolist(), firsts.tolist(), counts.tolist(), strict=True):
            mine = self._of_job.get(event.job_ids[job], ())
            for start in [start for start in mine if first <= start < first + count]:
                self._remove((event.job_ids[job], start))
        others, entitlement = self._vectors(event, event.others_array), self._vectors(event, event.entitlement_array)
        ranges = (event.job_array, event.first_array, event.count_array, event.run_array, event.gang_array)
        columns = (column.tolist() for column in (*ranges, event.pool_array, event.flags_array))
        rows = zip(*columns, others, entitlement, strict=True)
        for at, (job, first, count, run, gang, pool, flags, other, entitled) in enumerate(rows):
            row = RightRow(event.pools[pool], count, run, gang == 1, other, entitled, flags, self._input.cause, 0)
            self._set((event.job_ids[job], first), row, now + at // PER_MS)
        columns_of = (event.excess_array, event.giver_entitlement_array, event.spare_array)
        givers = zip(event.givers, *(self._vectors(event, column) for column in columns_of), strict=True)
        for pool, excess, pool_entitlement, spare in givers:
            if any(excess) or any(spare):
                self.givers.put(pool, GiverRow(excess, pool_entitlement, spare))
            elif pool in self.givers:
                self.givers.remove(pool)

    def passed(self, due_ms: int, now: int) -> None:
        """A deadline passed: rights that were due were tried, those of units without a plan without success."""
        for at, (_, task) in enumerate(self.due(due_ms)):
            wait_s = RETRIES_S[min(self.table[task].tries, len(RETRIES_S) - 1)]
            self._put_off(task, now + wait_s * 1000 + at // PER_MS).tries += 1

    def again(self, tasks: Sequence[Task], now: int) -> None:
        """Plans for units came to nothing: the rights of their ranges are tried again."""
        ranges = {task for job_id, unit in tasks for task in self._ranges_of(job_id, unit)}
        for at, task in enumerate(sorted(ranges)):
            self._put_off(task, now + at // PER_MS)

    def due(self, now: int) -> list[tuple[int, Task]]:
        """The rights to be tried now, since when and of which range; those of units that all have plans left out."""
        return [(self.table[task].try_ms, task) for task in self.tries.due(now)]

    def right(self, row: RightRow, ahead: int, need: Vector) -> Right:
        """The right of a unit with so many of its range ahead of it."""
        others = zip(self._wide(row.others), need, strict=True)
        return Right(tuple([have - ahead * one for have, one in others]), self._wide(row.entitlement), row.flags)

    def all_givers(self, requested: dict[str, Vector]) -> dict[str, Giver]:
        """The pools that may be asked to give, less what each is asked for and hasn't answered."""
        nothing = self._wide(())
        return {
            pool: Giver(self._wide(row.excess), self._wide(row.entitlement), self._wide(row.spare)).less(
                requested.get(pool, nothing)
            )
            for pool, row in self.givers.items()
        }

    def _is_open(self, task: Task, row: RightRow) -> bool:
        """Whether a unit of a range has no plan."""
        return self._planned(*task, row.count) < row.count

    def _ranges_of(self, job_id: str, unit: int) -> Iterator[Task]:
        """The ranges that a unit is in."""
        for first in self._of_job.get(job_id, ()):
            if first <= unit < first + self.table[job_id, first].count:
                yield job_id, first

    def _schedule(self, task: Task, row: RightRow) -> None:
        """Sets the deadline of a range."""
        self.tries.set(task, row.try_ms if self._is_open(task, row) else None)

    def _set(self, task: Task, row: RightRow, now: int) -> None:
        had = self.table.get(task)
        row.try_ms = now
        if had is not None and (had.count, had.run) == (row.count, row.run) and not row.flags & ~had.flags:
            row.try_ms, row.tries = had.try_ms, had.tries
        self.table.put(task, row)
        self._of_job.setdefault(task[0], {})[task[1]] = None
        self._schedule(task, row)

    def _put_off(self, task: Task, at_ms: int) -> RightRow:
        row = self.table.change(task)
        row.try_ms = at_ms
        self._schedule(task, row)
        return row

    def _remove(self, task: Task) -> None:
        self.table.remove(task)
        self.tries.clear(task)
        mine = self._of_job[task[0]]
        del mine[task[1]]
        if not mine:
            del self._of_job[task[0]]

    def _vectors(self, event: RightsSet, column: I64) -> list[Vector]:
        """The vectors of a column, over the kinds that the cell knows."""
        at = {name: index for index, name in enumerate(event.resources)}
        order = [at.get(name, -1) for name in self._hosts.kinds.names]
        rows = column.tolist()
        return [tuple([row[index] if index >= 0 else 0 for index in order]) for row in rows]

    def _wide(self, vector: Vector) -> Vector:
        return self._hosts.kinds.widened(vector)
