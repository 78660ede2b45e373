"""The values of pools in series: their amounts by entitlement, and the number of their tasks by lifecycle."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache

from sqlalchemy import Connection, select

from events.pool_paths import ROOT, levels_of
from events.resources import Amounts
from projections.views import tables
from projections.views.cache import Cache
from projections.views.rows import PoolRow, amounts_in
from projections.views.series_rows import PoolNumberRow, PoolTasksRow
from projections.views.series_table import SHARES

PATHS_CACHED = 20_000
Values = tuple[list[str], list[list[int] | None]]
"""Names, and for each of some pools the values of these in each series; None: the topic has said nothing of it, or no
more.
"""


class PoolNumbers:
    """The numbers of pools, given in the order in which they are defined: the keys of their series."""

    def __init__(self, cache: Cache) -> None:
        self._rows = cache.pool_numbers
        self.paths = [ROOT]
        """By number."""
        self.of = {ROOT: 0}

    def restore(self, connection: Connection) -> None:
        """Finds the numbers again."""
        rows = tables.pool_numbers.c
        self.paths[1:] = connection.scalars(select(rows.path).order_by(rows.number))
        self.of = {path: number for number, path in enumerate(self.paths)}

    def define(self, path: str) -> None:
        """A pool is defined, by whatever will be answered."""
        if path not in self.of:
            self.of[path] = len(self.paths)
            self._rows.put(PoolNumberRow(path, len(self.paths)))
            self.paths.append(path)


class PoolSource(ABC):
    """The values of pools that one topic says, in the order of its series of pools in `SERIES`."""

    def __init__(self, numbers: PoolNumbers) -> None:
        self.numbers = numbers
        self.changed: set[str] = set()
        """Paths of pools that have changed."""

    def take_changed(self) -> set[int]:
        """The numbers of pools that have changed since this was called last, but for those that were never defined."""
        keys = {self.numbers.of[path] for path in self.changed if path in self.numbers.of}
        self.changed.clear()
        return keys

    @abstractmethod
    def values(self, paths: Sequence[str]) -> Values:
        """The values of pools as they stand."""


class PoolShares(PoolSource):
    """Entitlement's amounts of pools: they stand in the rows of pools."""

    def __init__(self, cache: Cache, numbers: PoolNumbers) -> None:
        super().__init__(numbers)
        self._rows = cache.pools

    def values(self, paths: Sequence[str]) -> Values:
        """Implements `PoolSource.values`."""
        amounts = [_amounts(row) for row in self._rows.get_all(paths)]
        names = sorted({name for pool in amounts for each in pool or () for name in each})
        return names, [
            None if pool is None else [each.get(name, 0) for each in pool for name in names] for pool in amounts
        ]


def _amounts(row: PoolRow | None) -> list[Amounts] | None:
    return None if row is None else [amounts_in(getattr(row, share)) for share in SHARES]


class PoolTasks(PoolSource):
    """The number of tasks of pools and of those below them, as lifecycle says."""

    def __init__(self, cache: Cache, numbers: PoolNumbers) -> None:
        super().__init__(numbers)
        self._rows = cache.pool_tasks

    def add(self, pool: str, queued: int, live: int) -> None:
        """A pool has so many more tasks."""
        for path in lineage(pool):
            row = self._rows.change(path) or self._rows.put(PoolTasksRow(path))
            row.queued, row.live = row.queued + queued, row.live + live
        self.changed.update(lineage(pool))

    def values(self, paths: Sequence[str]) -> Values:
        """Implements `PoolSource.values`."""
        return [""], [None if row is None else [row.queued, row.live] for row in self._rows.get_all(paths)]


@lru_cache(PATHS_CACHED)
def lineage(path: str) -> tuple[str, ...]:
    """A pool and those above it, the root first."""
    return tuple(reversed(levels_of(path)))
