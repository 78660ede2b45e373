"""The plots of the overview, from the series of a cell; `plots.js` says what they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from events.codes import Code
from events.pool_paths import ROOT
from events.resources import Unit
from paceline.client.cell_models import CellSeries, PoolSeries, Values
from projections.queries.resources import kinds_of
from projections.queries.series import pool_series
from projections.queries.series_points import Times
from projections.ui.colours import PALETTE, REASONS, REST, TASKS
from projections.ui.page_values import PageValues
from projections.ui.pool_plots import WITHOUT_HOSTS, without_hosts
from projections.views import tables

REASONS_MAX = 8
"""The most reasons with a colour of their own, the largest."""
POOLS_MAX = 7
"""The most pools of the first level with a colour of their own, the largest."""
Plot = PageValues


def resources(connection: Connection, day: CellSeries) -> dict[str, str]:
    """The resources that hosts have, and the unit that a plot counts each in."""
    return {
        name: "GiB" if unit is Unit.MIB else {"cpu": "cores"}.get(name, "")
        for name, unit in kinds_of(connection).units.items()
        if any(day["capacity"].get(name, ()))
    }


def waiting(times: Times, day: CellSeries) -> Plot:
    """Waiting tasks by reason: the largest apart, in the order and colours of `REASONS` and then by size; the others
    are one series, on top.
    """
    peaks = {code: max((value or 0 for value in values), default=0) for code, values in day["waiting"].items()}
    largest = sorted((code for code in peaks if peaks[code]), key=lambda code: (-peaks[code], code))
    coloured = {code: REASONS[code] for code in REASONS if code in largest[:REASONS_MAX]}
    free = [colour for colour in PALETTE if colour not in coloured.values()]
    coloured |= dict(zip((code for code in largest[:REASONS_MAX] if code not in coloured), free, strict=False))
    rest = [code for code in largest if code not in coloured]
    series = [{"name": code, "colour": coloured[code], "values": day["waiting"][code]} for code in reversed(coloured)]
    if rest:
        name = rest[0] if len(rest) == 1 else "other reasons"
        series.insert(0, {"name": name, "colour": REST, "values": total([day["waiting"][code] for code in rest])})
    return _stacked(times, series)


def tasks(times: Times, day: CellSeries) -> Plot:
    """Tasks by state; those in backoff whose job is held apart from others."""
    levels = {**day["tasks"], "backoff": day["waiting"][Code.BACKOFF], "held": day["waiting"][Code.HELD]}
    series = [{"name": state, "colour": colour, "values": levels[state]} for state, colour in TASKS.items()]
    return _stacked(times, series)


def pools_of_day(connection: Connection, times: Times) -> dict[str, PoolSeries]:
    """The series of the root and of the pools of the first level."""
    paths = tables.pools.c.path
    first_level = select(paths).where(paths != ROOT, func.instr(func.substr(paths, 2), "/") == 0)
    names = [ROOT, *connection.execute(first_level).scalars()]
    return pool_series(connection, names, times)


def pools(times: Times, day: CellSeries, all_pools: Mapping[str, PoolSeries], resource: str, unit: str) -> Plot:
    """The plot of what pools of the first level hold of a resource on hosts, against the capacity of the cell; and of
    what is admitted and has no host yet.
    """
    allocated = {name: pool["placed"][resource] for name, pool in all_pools.items() if resource in pool["placed"]}
    of_all = allocated.pop(ROOT, None)
    largest = sorted(allocated, key=lambda name: (-max(value or 0 for value in allocated[name]), name))[:POOLS_MAX]
    series: list[PageValues] = [
        {"name": name, "colour": f"s{place}", "values": _written(allocated[name], unit)}
        for place, name in enumerate(largest, 1)
    ]
    if of_all is not None and len(allocated) > len(largest):
        stacked = total([allocated[name] for name in largest])
        rest: Values = [
            None if all_ is None else all_ - (part or 0) for all_, part in zip(of_all, stacked, strict=True)
        ]
        series.append({"name": "other pools", "colour": REST, "values": _written(rest, unit)})
    series.reverse()
    if resource in day["capacity"]:
        capacity = {"name": "capacity", "colour": "ink", "values": _written(day["capacity"][resource], unit)}
        series.append(capacity | {"line": True})
    without = without_hosts(all_pools[ROOT], resource) if ROOT in all_pools else []
    if any(without):
        values = _written(without, unit)
        series.append({"name": WITHOUT_HOSTS, "colour": "backoff", "values": values, "line": True})
    return _stacked(times, series)


def total(rows: Sequence[Values]) -> Values:
    """The sum of values; None where none is known."""
    return [sum(value or 0 for value in at) if set(at) != {None} else None for at in zip(*rows, strict=True)]


def _stacked(times: Times, series: Sequence[Mapping[str, Any]]) -> Plot:
    """A plot, to the end of its last point."""
    stepped = [{**each, "values": [*each["values"], each["values"][-1]]} for each in series]
    return {"times": [*(at // 1000 for at in times.times), times.end_s], "stacked": True, "series": stepped}


def _written(values: Values, unit: str) -> list[float | None]:
    """Amounts of records in the unit of a plot."""
    per = 1024 if unit == "GiB" else 1000
    return [None if value is None else round(value / per, 2) for value in values]
