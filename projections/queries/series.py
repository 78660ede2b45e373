"""Time series of a cell and of its pools for plots. All lists have one value for each of `times`."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select

from events.codes import ENDED_TASKS, Code
from events.pool_paths import ROOT
from events.topics import ALL, MACHINES, rounds_of
from paceline.client.cell_models import CellSeries, MachineSeries, PoolSeries, Values
from projections.queries.series_points import Points, Times, points_of
from projections.views import tables
from projections.views.series_rows import CELL
from projections.views.series_table import ENTITLEMENT, LIFECYCLE, PLACEMENT, SHARES
from projections.views.task_series import NAMES, OLDEST, ON_HOLD, OPEN


def cell_series(connection: Connection, times: Times) -> CellSeries:
    """The series of the cell."""
    topics = {topic.name: points_of(connection, topic.name, [CELL], times)[CELL] for topic in ALL}
    lifecycle, placement = topics[LIFECYCLE], topics[PLACEMENT]
    [hosts], [capacity] = placement.values("hosts"), placement.values("capacity")
    return {
        "times": times.texts,
        "step_ms": times.step_ms,
        "tasks": {state.name.lower(): lifecycle.value(NAMES[state]) for state in OPEN},
        "ended": {state.name.lower(): lifecycle.count(NAMES[state]) for state in ENDED_TASKS},
        "waiting": _waiting(topics),
        "oldest_wait_ms": _waits(times, lifecycle.value(OLDEST)),
        "hosts": hosts,
        "machines": {machine: _machine(topics[rounds_of(machine)]) for machine in MACHINES},
        "events": {name: points.count("records") for name, points in topics.items()},
        "capacity": capacity,
    }


def _machine(points: Points) -> MachineSeries:
    return {"rounds": points.count("rounds"), "decisions": points.count("decisions"), "lag_ms": points.peak("lag_ms")}


def _waits(times: Times, oldest: Values) -> Values:
    ends = (at + times.step_ms for at in times.times)
    return [
        None if since is None else max(0, end - since * 1000) if since else 0
        for end, since in zip(ends, oldest, strict=True)
    ]


def _waiting(topics: Mapping[str, Points]) -> dict[str, Values]:
    """Waiting tasks by code: what machines said, and the rest of those that are queued."""
    lifecycle = topics[LIFECYCLE]
    [by_code] = topics[ENTITLEMENT].values("held")
    for code, values in topics[PLACEMENT].values("unplaced")[0].items():
        by_code[code] = [_sum(pair) for pair in zip(by_code[code], values, strict=True)] if code in by_code else values
    queued, backoff, on_hold = (lifecycle.value(name) for name in ("tasks/queued", "tasks/backoff", ON_HOLD))
    rest = [_less(tasks, *counts) for tasks, *counts in zip(queued, *by_code.values(), strict=True)]
    others = [_less(*pair) for pair in zip(backoff, on_hold, strict=True)]
    more = {Code.NOT_YET_EVALUATED: rest, Code.BACKOFF: others, Code.HELD: on_hold}
    return by_code | {str(code): values for code, values in more.items()}


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


def _less(whole: int | None, *parts: int | None) -> int | None:
    return None if whole is None else max(0, whole - sum(part or 0 for part in parts))


def pool_series(connection: Connection, paths: Collection[str], times: Times) -> dict[str, PoolSeries]:
    """The series of pools by path; those that were never defined are left out."""
    rows = tables.pool_numbers.c
    numbers = dict(map(tuple, connection.execute(select(rows.path, rows.number).where(rows.path.in_(paths)))))
    numbers |= {ROOT: 0} if ROOT in paths else {}
    shares, tasks = (points_of(connection, topic, numbers.values(), times) for topic in (ENTITLEMENT, LIFECYCLE))
    return {path: _pool(path, times, shares[number], tasks[number]) for path, number in numbers.items()}


def _pool(path: str, times: Times, shares: Points, tasks: Points) -> PoolSeries:
    entitlement, demand, allocation, placed = shares.values(*SHARES)
    return {
        "path": path,
        "times": times.texts,
        "step_ms": times.step_ms,
        "entitlement": entitlement,
        "demand": demand,
        "allocation": allocation,
        "placed": placed,
        "queued": tasks.value("queued"),
        "live": tasks.value("live"),
    }
