"""Time series of pools for plots, read from the rows that the projector folds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, select

from events.topics import rounds_of
from projections.queries.pages import rows_of
from projections.queries.series_steps import POINTS, Changes, Times, Values, held, newest_s, rows_in, times_of
from projections.views import tables
from projections.views.pool_series import ROOT
from projections.views.rows import PoolRow, amounts_in
from projections.views.series_rows import POOLS_IN_PART, SHARES, TASKS_OF_POOL, PoolStep

_decode = msgspec.msgpack.Decoder(PoolStep).decode


@dataclass(slots=True)
class PoolSeries:
    """Of one pool: what it is entitled to, demands, was allocated (admitted) and has on hosts (placed), by resource, as
    amounts of records; how many tasks of it and of the pools below wait in queues, and how many have a host.
    """

    entitlement: dict[str, Values]
    demand: dict[str, Values]
    allocation: dict[str, Values]
    placed: dict[str, Values]
    queued: Values
    live: Values


@dataclass(slots=True)
class PoolsSeries:
    """Of some pools, by path; those that were never defined are left out. All lists have one value for each of
    `times`, which are milliseconds; a point is `step_ms` long, values are as at its end.
    """

    times: list[int]
    step_ms: int
    pools: dict[str, PoolSeries]


def pool_series(
    connection: Connection, paths: Sequence[str], from_ms: int, to_ms: int, points: int = POINTS
) -> PoolsSeries:
    """The series of pools from one time to another, in about so many points."""
    times = times_of(connection, from_ms, to_ms, points)
    rows = tables.pool_numbers.c
    found = connection.execute(select(rows.path, rows.number).where(rows.path.in_(paths)))
    numbers = dict(map(tuple, found)) | ({ROOT: 0} if ROOT in paths else {})
    shares = _levels(connection, rounds_of("entitlement"), numbers, times, _shares_now)
    tasks = _levels(connection, rounds_of("lifecycle"), numbers, times, _tasks_now)
    pools = {path: _pool(shares[path], tasks[path]) for path in numbers}
    return PoolsSeries(times.times, times.step_ms, pools)


class _Levels:
    """What one topic says of a pool at the points of a plot."""

    def __init__(self, size: int) -> None:
        self._size = self._first = size
        self._changes: dict[str, Changes] = {}

    def stand(self, at: int, levels: Mapping[str, int]) -> None:
        """At a point all levels are these; those that are left out are 0."""
        self._first = min(self._first, at)
        for name in levels.keys() | self._changes.keys():
            self._changes.setdefault(name, []).append((at, levels.get(name, 0)))

    def value(self, name: str) -> Values:
        """A level."""
        return held(self._changes.get(name, []), self._first, self._size)

    def names(self, kinds: Sequence[str]) -> list[str]:
        """What follows these prefixes in the names of levels."""
        return sorted({name.removeprefix(kind) for kind in kinds for name in self._changes if name.startswith(kind)})


def _pool(shares: _Levels, tasks: _Levels) -> PoolSeries:
    names = shares.names([kind + "/" for kind in SHARES])  # a kind may say nothing of a resource: that is 0
    of_kinds = [{name: shares.value(f"{kind}/{name}") for name in names} for kind in SHARES]
    entitlement, demand, allocation, placed = of_kinds
    return PoolSeries(entitlement, demand, allocation, placed, *map(tasks.value, TASKS_OF_POOL))


Now = Callable[[Connection, Sequence[str]], dict[str, dict[str, int]]]


def _levels(
    connection: Connection, topic: str, numbers: Mapping[str, int], times: Times, now: Now
) -> dict[str, _Levels]:
    """What a topic says of pools, up to what stands now: a coarse row is written only when its step is over."""
    found = {path: _Levels(len(times.times)) for path in numbers}
    by_number = {number: found[path] for path, number in numbers.items()}
    kinds = [f"{kind}/" for kind in SHARES] if topic == rounds_of("entitlement") else [""]
    for part in sorted({1 + number // POOLS_IN_PART for number in by_number}):
        mine = {number: each for number, each in by_number.items() if 1 + number // POOLS_IN_PART == part}
        for row in rows_in(connection, topic, part, times):
            step = _decode(row.data)
            names = [kind + name for kind in kinds for name in step.names]
            at = times.point(row.step)
            for number in mine.keys() & step.numbers:
                first = step.numbers.index(number) * len(names)
                mine[number].stand(at, dict(zip(names, step.values[first : first + len(names)], strict=True)))
            for number in mine.keys() & step.removed:
                mine[number].stand(at, {})
    newest = newest_s(connection, topic)
    if 0 <= newest < times.end_s:
        for path, levels in now(connection, list(numbers)).items():
            found[path].stand(times.point(newest), levels)
    return found


def _shares_now(connection: Connection, paths: Sequence[str]) -> dict[str, dict[str, int]]:
    rows = rows_of(connection, PoolRow, select(tables.pools).where(tables.pools.c.path.in_(paths)))
    return {
        row.path: {f"{kind}/{name}": value for kind in SHARES for name, value in amounts_in(getattr(row, kind)).items()}
        for row in rows
    }


def _tasks_now(connection: Connection, paths: Sequence[str]) -> dict[str, dict[str, int]]:
    rows = connection.execute(select(tables.pool_tasks).where(tables.pool_tasks.c.path.in_(paths)))
    return {path: dict(zip(TASKS_OF_POOL, counts, strict=True)) for path, *counts in rows}
