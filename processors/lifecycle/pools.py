"""The pools, as far as lifecycle needs them: which there are, and how many jobs and tasks may be open in each."""

from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.pools import PoolDefined, PoolRemoved
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.rows import PoolFactRow, PoolRow
from processors.state.causes import CurrentInput
from processors.state.table import Table, struct_table


class Pools:
    """The tables of pools; a fact about one counts when entitlement has answered it."""

    def __init__(self, cell: int, current: CurrentInput) -> None:
        self._cell = cell
        self._input = current
        self.table: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.foreign: Table[str, int] = struct_table("foreign", int)
        """The pools of other cells: the cell of each."""
        self.facts: Table[int, PoolFactRow] = struct_table("pool_facts", PoolFactRow, int)

    def fact(self, event: PoolDefined | PoolRemoved, now: int) -> None:
        """A fact about a pool has come."""
        if isinstance(event, PoolRemoved):
            row = PoolFactRow(event.path, True)
        else:
            row = PoolFactRow(event.path, False, event.open_jobs_max, event.open_tasks_max, event.cell)
        self.facts.put(self._input.offset, row)

    def answered(self, answer: PoolAnswered, jobs: Jobs) -> None:
        """Entitlement has answered a fact; `jobs` are those that are open in the pools."""
        fact = self.facts.get(answer.pools_offset)
        if fact is None:
            return
        self.facts.remove(answer.pools_offset)
        if answer.code != Code.DONE:
            return
        if fact.removed:
            self._removed(fact.path, jobs)
        elif fact.cell != self._cell:
            self.foreign.put(fact.path, fact.cell)
        elif fact.path in self.table:
            row = self.table.change(fact.path)
            row.open_jobs_max, row.open_tasks_max = fact.open_jobs_max, fact.open_tasks_max
        else:
            jobs.pool_defined(fact.path, fact.open_jobs_max, fact.open_tasks_max)
            self._count_child(fact.path, 1)

    def _removed(self, path: str, jobs: Jobs) -> None:
        if path in self.table:
            jobs.pool_removed(path)
            self._count_child(path, -1)
        elif path in self.foreign:
            self.foreign.remove(path)

    def _count_child(self, path: str, by: int) -> None:
        parent = path.rpartition("/")[0]
        if parent in self.table:
            self.table.change(parent).children += by
