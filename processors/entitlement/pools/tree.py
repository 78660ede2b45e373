"""The pool tree as its rules look at it: what is below a pool is kept up, so that no fact goes through all pools."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sortedcontainers import SortedDict, SortedList

from events.resources import Kinds, Vector, add, subtract
from processors.entitlement.rows import UNLIMITED, ConfiguredRow, DefinedRow, PoolFact, PoolRow, parent_of


def pool_row(fact: DefinedRow, kinds: Kinds) -> PoolRow:
    """The row of a definition. Raises `UnknownResource`."""
    return PoolRow(
        kinds.vector(fact.reservation),
        kinds.vector(fact.limit, UNLIMITED),
        kinds.vector(fact.share, fact.share_default),
        fact.share_default,
        fact.open_jobs_max,
        fact.open_tasks_max,
        tuple(name for name in kinds.names if name in fact.static),
        fact.preemption_delay_ms,
        fact.controllers_percent,
        fact.closed,
        fact.owners,
        fact.description,
    )


class Entry(NamedTuple):
    """What a path stands for: a pool of this cell, one of another, or nothing."""

    path: str
    row: PoolRow | None = None
    cell: int | None = None


class Tree:
    """The pools as a cell knows them: its own with their rows as they were defined, the others by path and cell."""

    def __init__(self, cell: int, kinds: Kinds, entries: Iterable[Entry]) -> None:
        self.cell = cell
        self.kinds = kinds
        self.pools: dict[str, PoolRow] = {}
        self.foreign: SortedDict[str, int] = SortedDict()
        self._below: dict[str, SortedList[str]] = {}
        self._reserved: dict[str, Vector] = {}
        for entry in entries:
            self.put(entry)

    def __len__(self) -> int:
        """How many pools there are, but for the root."""
        return len(self.pools) - 1 + len(self.foreign)

    def cell_of(self, path: str) -> int | None:
        """The cell of a pool; None: there is no such pool, or it is the root, which each cell has."""
        if path == "/":
            return None
        return self.cell if path in self.pools else self.foreign.get(path)

    def children(self, path: str) -> Sequence[str]:
        """The pools right below one of this cell, by path."""
        below: Sequence[str] = self._below.get(path, ())
        return below

    def reserved(self, path: str) -> Vector:
        """What the pools right below one reserve together."""
        return self._reserved.get(path, (0,) * len(self.kinds))

    def foreign_below(self, path: str) -> Iterable[str]:
        """The pools of other cells below a path, by path."""
        below: Iterable[str] = self.foreign.irange(f"{path}/", f"{path}0", inclusive=(True, False))
        return below

    def take(self, fact: PoolFact) -> Entry | None:
        """Follows a fact that was answered DONE; returns what to `put` so that it is as before."""
        if isinstance(fact, ConfiguredRow):
            return None
        before = Entry(fact.path, self.pools.get(fact.path), self.foreign.get(fact.path))
        if not isinstance(fact, DefinedRow):
            self.put(Entry(fact.path))
        elif fact.cell == self.cell:
            self.put(Entry(fact.path, row=pool_row(fact, self.kinds)))
        else:
            self.put(Entry(fact.path, cell=fact.cell))
        return before

    def put(self, entry: Entry) -> None:
        """Lets a path stand for something else."""
        path, row, cell = entry
        old = self.pools.pop(path, None)
        self.foreign.pop(path, None)
        if row is not None:
            self.pools[path] = row
        if cell is not None:
            self.foreign[path] = cell
        if path == "/":
            return
        parent = parent_of(path)
        if old is not None:
            self._below[parent].remove(path)
            self._reserved[parent] = subtract(self.reserved(parent), old.reservation)
        if row is not None:
            if parent not in self._below:
                self._below[parent] = SortedList()
            self._below[parent].add(path)
            self._reserved[parent] = add(self.reserved(parent), row.reservation)
