"""The time series of a cell, one row each: whom a series is about, its unit, how its steps become coarser ones, and the
topic that says it.

All else is written once. A source of `series.py` turns records into values, `series_steps.py` folds values into rows of
steps, and `projections/queries/series_points.py` reads the rows into the points of a plot. A new series is a row here
and the call that gives its value where the record is folded: `set` or `add` for what stands, `count` for what happens,
`peak` for the largest. To show it, add a field to its type in `paceline/client/cell_models.py`, filled in
`projections/queries/series.py`.
"""

from enum import Enum
from functools import cache
from typing import NamedTuple

from events.topics import ALL, MACHINES, rounds_of


class Merge(Enum):
    """The way in which values of several steps become the value of a coarser step or of a point."""

    LAST = "the last"
    SUM = "the sum"
    LARGEST = "the largest"


class About(Enum):
    """The things that have a value of their own in each step."""

    CELL = "the cell"
    POOL = "a pool"


class Series(NamedTuple):
    """A series. `by`: it has a value for each of these, named after a slash, such as `hosts/up`."""

    name: str
    about: About
    unit: str
    merge: Merge
    topics: tuple[str, ...]
    by: str = ""


class Resolution(NamedTuple):
    """Steps of one length, in seconds: how long rows are kept (0: for ever), and after how long one is whole again."""

    step_s: int
    kept_s: int
    whole_s: int


MINUTE, HOUR, DAY = 60, 3_600, 86_400
RESOLUTIONS = (
    Resolution(10, DAY, HOUR),
    Resolution(5 * MINUTE, 30 * DAY, DAY),
    Resolution(HOUR, 0, 30 * DAY),
)
"""Those of all series, from fine to coarse."""
LIFECYCLE, ENTITLEMENT, PLACEMENT = map(rounds_of, ("lifecycle", "entitlement", "placement"))
_EVERY, _ROUNDS = tuple(topic.name for topic in ALL), tuple(map(rounds_of, MACHINES))
_CELL, _POOL = About
_LAST, _SUM, _LARGEST = Merge

SERIES = (
    Series("records", _CELL, "records", _SUM, _EVERY),
    Series("rounds", _CELL, "rounds", _SUM, _ROUNDS),
    Series("decisions", _CELL, "decisions", _SUM, _ROUNDS),
    Series("lag_ms", _CELL, "ms", _LARGEST, _ROUNDS),
    Series("tasks", _CELL, "tasks of open jobs", _LAST, (LIFECYCLE,), by="state"),
    Series("ended", _CELL, "tasks", _SUM, (LIFECYCLE,), by="state"),
    Series("on_hold", _CELL, "tasks in BACKOFF of held jobs", _LAST, (LIFECYCLE,)),
    Series("oldest_s", _CELL, "second since which the oldest queued task waits, 0: none", _LAST, (LIFECYCLE,)),
    Series("held", _CELL, "tasks that entitlement holds back", _LAST, (ENTITLEMENT,), by="reason"),
    Series("unplaced", _CELL, "tasks that placement finds no place for", _LAST, (PLACEMENT,), by="reason"),
    Series("hosts", _CELL, "hosts", _LAST, (PLACEMENT,), by="state"),
    Series("capacity", _CELL, "amount of records", _LAST, (PLACEMENT,), by="resource"),
    Series("entitlement", _POOL, "amount of records", _LAST, (ENTITLEMENT,), by="resource"),
    Series("demand", _POOL, "amount of records", _LAST, (ENTITLEMENT,), by="resource"),
    Series("allocation", _POOL, "amount of records", _LAST, (ENTITLEMENT,), by="resource"),
    Series("placed", _POOL, "amount of records", _LAST, (ENTITLEMENT,), by="resource"),
    Series("queued", _POOL, "tasks of the pool and those below it", _LAST, (LIFECYCLE,)),
    Series("live", _POOL, "tasks of the pool and those below it with a host", _LAST, (LIFECYCLE,)),
)
BY_NAME = {series.name: series for series in SERIES}


@cache
def merge_of(name: str) -> Merge:
    """The merge of values of a name, such as `hosts/up`."""
    return BY_NAME[name.partition("/")[0]].merge


def of_pools(topic: str) -> tuple[str, ...]:
    """The names of the series of pools that a topic says."""
    return tuple(series.name for series in SERIES if series.about is About.POOL and topic in series.topics)


SHARES = of_pools(ENTITLEMENT)
"""Amounts of a pool by entitlement, for each resource."""
