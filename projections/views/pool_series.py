"""The series of pools: rows of the pools that changed in a step, 64 of neighbouring numbers together, so that the
plot of one pool reads few others.

A row of the finest resolution is written while its step is open; coarser ones when theirs is over, from what changed in
the finer ones.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import msgspec
from sqlalchemy import Connection, select

from events.resources import Amounts
from projections.views import tables
from projections.views.cache import Cache, Lines
from projections.views.rows import amounts_in
from projections.views.series_columns import Stretch
from projections.views.series_rows import (
    POOLS_IN_PART,
    RESOLUTIONS,
    SHARES,
    TASKS_OF_POOL,
    PoolNumberRow,
    PoolStep,
    PoolTasksRow,
    Resolution,
    SeriesRow,
)

ROOT = "/"
PATHS_CACHED = 20_000
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(PoolStep).decode

Named = tuple[list[str], list[list[int] | None]]
"""The names of columns, and for each of some pools their values; None: the topic has said nothing of it, or no more."""


class PoolNumbers:
    """The numbers of pools, given in the order in which they are defined."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._numbers = {ROOT: 0}
        self.paths = [ROOT]
        """By number."""

    def restore(self, connection: Connection) -> None:
        """Finds the numbers again."""
        rows = tables.pool_numbers.c
        self.paths = [ROOT, *connection.scalars(select(rows.path).order_by(rows.number))]
        self._numbers = {path: number for number, path in enumerate(self.paths)}

    def define(self, path: str) -> None:
        """A pool is defined, by whatever will be answered."""
        if path not in self._numbers:
            self._numbers[path] = len(self.paths)
            self._cache.pool_numbers.put(PoolNumberRow(path, len(self.paths)))
            self.paths.append(path)

    def of(self, path: str) -> int | None:
        """The number of a pool; None: it was never defined."""
        return self._numbers.get(path)


class _Steps:
    """The open step of a resolution: in which second it began, and which pools have changed since, by part."""

    def __init__(self, lines: Lines[SeriesRow], topic: int, resolution: Resolution) -> None:
        self.resolution = resolution
        self.start = 0
        self.changed: dict[int, set[int]] = {}
        self._lines = lines
        self._topic = topic
        self._stretches: dict[int, Stretch] = {}

    def stretch(self, part: int) -> Stretch:
        """The rows of a part."""
        stretch = self._stretches.get(part)
        if stretch is None:
            stretch = self._stretches[part] = Stretch(self._lines, self._topic, part, self.resolution)
        return stretch


class PoolSeries:
    """The columns of pools that one topic says. `values` gives the names of the columns and the values of pools, by
    path, as they stand.
    """

    def __init__(
        self, cache: Cache, topic: int, numbers: PoolNumbers, values: Callable[[Sequence[str]], Named]
    ) -> None:
        self._topic = topic
        self._numbers = numbers
        self._values = values
        self._steps = [_Steps(cache.series, topic, each) for each in RESOLUTIONS]
        self._changed: set[str] = set()
        """Paths of pools whose row of the finest step isn't written as it stands."""

    def restore(self, connection: Connection, second: int) -> None:
        """Finds again what changed in the steps that are open at a second of the topic."""
        rows = tables.series.c
        for step in self._steps:
            step.start = second // step.resolution.step_s * step.resolution.step_s
        for part in range(1, 2 + len(self._numbers.paths) // POOLS_IN_PART):
            for at, step in enumerate(self._steps):
                mine = (rows.topic == self._topic) & (rows.part == part) & (rows.step_s == step.resolution.step_s)
                last = select(rows.step, rows.whole).where(mine).order_by(rows.step.desc()).limit(1)
                for begun, whole in connection.execute(last):
                    step.stretch(part).step, step.stretch(part).whole = begun, bool(whole)
                for coarse in self._steps[at:]:
                    since = select(rows.data).where(mine, rows.step >= coarse.start)
                    for data in connection.scalars(since):
                        row = _decode(data)
                        coarse.changed.setdefault(part, set()).update(row.numbers[: row.changed], row.removed)

    def go_to(self, at_ms: int) -> None:
        """The time of the topic; steps that are over are written."""
        second = at_ms // 1000
        if second < self._steps[0].start + self._steps[0].resolution.step_s:
            return
        self.flush()
        for step in self._steps:
            length = step.resolution.step_s
            if second < step.start + length:
                return
            for part in step.changed if step is not self._steps[0] else ():
                self._write(step, part)
            step.start = second // length * length
            step.changed = {}

    def changed(self, paths: Iterable[str]) -> None:
        """The values of these pools have changed."""
        self._changed.update(paths)

    def flush(self) -> None:
        """Writes the open step of the finest resolution as it stands."""
        parts = set()
        for path in self._changed:
            number = self._numbers.of(path)
            if number is not None:
                part = 1 + number // POOLS_IN_PART
                parts.add(part)
                for step in self._steps:
                    step.changed.setdefault(part, set()).add(number)
        self._changed.clear()
        for part in sorted(parts):
            self._write(self._steps[0], part)

    def _write(self, step: _Steps, part: int) -> None:
        stretch, changed = step.stretch(part), step.changed[part]
        if stretch.step != step.start:
            stretch.begin(step.start)
        numbers = sorted(changed)
        if stretch.whole:
            first = (part - 1) * POOLS_IN_PART
            last = min(first + POOLS_IN_PART, len(self._numbers.paths))
            numbers += [number for number in range(first, last) if number not in changed]
        names, values = self._values([self._numbers.paths[number] for number in numbers])
        present = [at for at, row in enumerate(values) if row is not None]
        flat = [each for at in present for each in values[at] or ()]
        removed = [numbers[at] for at in range(len(changed)) if values[at] is None]
        stretch.write(
            _encode(PoolStep(names, removed, len(changed) - len(removed), [numbers[at] for at in present], flat))
        )


class ShareSeries(PoolSeries):
    """The series of entitlement's amounts of pools."""

    def __init__(self, cache: Cache, topic: int, numbers: PoolNumbers) -> None:
        self._pools = cache.pools
        super().__init__(cache, topic, numbers, self._shares)

    def _shares(self, paths: Sequence[str]) -> Named:
        self._pools.load(paths)
        rows = [self._pools.get(path) for path in paths]
        amounts_of_rows = [row and [amounts_in(getattr(row, kind)) for kind in SHARES] for row in rows]
        names = sorted({name for amounts in amounts_of_rows for each in amounts or () for name in each})
        return names, [_flat(amounts, names) if amounts else None for amounts in amounts_of_rows]


class PoolTaskSeries(PoolSeries):
    """The series of the number of tasks of pools, as lifecycle says: those of the pools below too."""

    def __init__(self, cache: Cache, topic: int, numbers: PoolNumbers) -> None:
        self._tasks = cache.pool_tasks
        super().__init__(cache, topic, numbers, self._counts)

    def add(self, pool: str, queued: int, live: int) -> None:
        """A pool has so many more tasks."""
        for path in lineage(pool):
            row = self._tasks.change(path) or self._tasks.put(PoolTasksRow(path))
            row.queued, row.live = row.queued + queued, row.live + live
        self.changed(lineage(pool))

    def _counts(self, paths: Sequence[str]) -> Named:
        self._tasks.load(paths)
        rows = [self._tasks.get(path) for path in paths]
        return list(TASKS_OF_POOL), [None if row is None else [row.queued, row.live] for row in rows]


@lru_cache(PATHS_CACHED)
def lineage(path: str) -> tuple[str, ...]:
    """A pool and those above it, the root first."""
    parts = path.strip("/").split("/")
    return ROOT, *("/" + "/".join(parts[: at + 1]) for at in range(len(parts)))


def _flat(amounts: Iterable[Amounts], names: Sequence[str]) -> list[int]:
    return [each.get(name, 0) for each in amounts for name in names]
