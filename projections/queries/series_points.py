"""Reads the rows of time series into the points of a plot, whatever the series."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from sqlalchemy import Connection, bindparam, func, select

from events.topics import RANK
from paceline.client.cell_models import Values
from projections.record_json import at
from projections.views import tables
from projections.views.series_rows import SeriesRow, part_of
from projections.views.series_steps import CELL_PART, FINEST, SERIES_KEY, decode_step
from projections.views.series_table import RESOLUTIONS, Resolution, of_pools

POINTS = 300
"""Points of a plot, unless it asks for another number."""
ROWS_MAX = 1_500
"""Rows of a topic read for a plot, about."""
_series = tables.series.c
# Each plot asks these many times: making the statements again would take longer than all the rest.
_NEWEST = select(func.max(_series.step)).where(SERIES_KEY)
_INSIDE = SERIES_KEY & (_series.step >= bindparam("start")) & (_series.step < bindparam("end"))
_ROWS = select(tables.series).where(_INSIDE).order_by(_series.step)
_BEFORE = SERIES_KEY & (_series.step < bindparam("until"))
_WHOLE = select(_series.step).where(_BEFORE, _series.whole == 1).order_by(_series.step.desc()).limit(1)
_LAST = select(tables.series).where(_BEFORE, _series.step >= _WHOLE.scalar_subquery()).order_by(_series.step)


class Times:
    """The points of a plot: each is `step_ms` of log time, beginning at its time. What stands is as at the end of a
    point, what is counted happened within it.
    """

    def __init__(self, newest: Mapping[str, int], resolution: Resolution, step_ms: int, times: list[int]) -> None:
        self.newest = newest
        """By topic the second in which its newest step begins; -1: it has none."""
        self.resolution = resolution
        self.step_ms = step_ms
        self.times = times
        self.start_s = times[0] // 1000
        self.end_s = (times[-1] + step_ms) // 1000

    @cached_property
    def texts(self) -> list[str | None]:
        """The times as answers have them."""
        return [at(ms) for ms in self.times]

    def point(self, second: int) -> int:
        """The number of the point that a second is in, 0 for those before the first."""
        return max(0, (second - self.start_s) * 1000 // self.step_ms)


class Points:
    """The values of one key at the points of a plot."""

    def __init__(self, times: Times) -> None:
        self._size = len(times.times)
        self._standing: dict[int, Mapping[str, int]] = {}
        """By point, the values in the last step that is in it."""
        self._inside: list[tuple[int, Mapping[str, int]]] = []
        """The values in each step, with its point."""
        self._names: set[str] = set()

    def add(self, point: int, inside: bool, values: Mapping[str, int]) -> None:
        """Adds a step; `inside`: it is in the point, not before the first."""
        self._standing[point] = values
        self._names.update(values)
        if inside:
            self._inside.append((point, values))

    def value(self, name: str) -> Values:
        """What stood at the end of each point, 0 where a step says nothing of it, None before the first step."""
        values: Values = [None] * self._size
        starts = [*self._standing, self._size]
        for start, end, step in zip(starts, starts[1:], self._standing.values(), strict=False):
            values[start:end] = [step.get(name, 0)] * (end - start)
        return values

    def count(self, name: str) -> list[int]:
        """How often something happened within each point."""
        counts = [0] * self._size
        for point, values in self._inside:
            counts[point] += values.get(name, 0)
        return counts

    def peak(self, name: str) -> Values:
        """The largest within each point; None where there is none."""
        peaks: Values = [None] * self._size
        for point, values in self._inside:
            if name in values:
                peaks[point] = max(values[name], peaks[point] or 0)
        return peaks

    def values(self, *series: str) -> list[dict[str, Values]]:
        """What stood of series, each by state, reason or resource: of all that a step names in one of them."""
        pairs = [name.partition("/") for name in self._names]
        names = sorted({of for name, _, of in pairs if of and name in series})
        return [{name: self.value(f"{each}/{name}") for name in names} for each in series]


def points_of(connection: Connection, topic: str, keys: Collection[int], times: Times) -> dict[int, Points]:
    """What a topic says of keys, at the points of a plot."""
    found = {key: Points(times) for key in keys}
    for part in sorted(set(map(part_of, keys))):
        mine = {key for key in keys if part_of(key) == part}
        for row in _rows(connection, topic, part, times):
            step = decode_step(row.data)
            point, inside = times.point(row.step), row.step >= times.start_s
            names = step.names if part == CELL_PART else _full_names(topic, step.names)
            for key in mine.intersection(step.keys):
                first = step.keys.index(key) * len(names)
                values = step.values[first : first + len(names)]
                found[key].add(point, inside, dict(zip(names, values, strict=True)))
            for key in mine.intersection(step.removed):
                found[key].add(point, inside, {})
    return found


def _full_names(topic: str, names: Sequence[str]) -> list[str]:
    return [f"{series}/{name}" if name else series for series in of_pools(topic) for name in names]


def _rows(connection: Connection, topic: str, part: int, times: Times) -> Iterator[SeriesRow]:
    """The rows of a part of a topic from the last whole one before a plot to its end: finer ones where the step of a
    coarse one isn't over.
    """
    newest = times.newest[topic]
    if newest < 0:
        return
    start = times.start_s
    for resolution in reversed(RESOLUTIONS[: 1 + RESOLUTIONS.index(times.resolution)]):
        key = {"topic": RANK[topic], "step_s": resolution.step_s, "part": part}
        if resolution is times.resolution:
            yield from (SeriesRow(*row) for row in connection.execute(_LAST, key | {"until": start}))
        if start < times.end_s:
            inside = key | {"start": start, "end": times.end_s}
            yield from (SeriesRow(*row) for row in connection.execute(_ROWS, inside))
        start = newest // resolution.step_s * resolution.step_s


def end_ms(newest: Mapping[str, int]) -> int:
    """When the newest step of any topic ends; plots of the present end there."""
    return (max(newest.values()) + FINEST.step_s) * 1000


def resolution_of(newest: Mapping[str, int], from_ms: int, to_ms: int, rows_max: int = ROWS_MAX) -> Resolution:
    """The finest that reaches so far back and has no more than so many steps between two times."""
    age_s, length_s = max(newest.values()) - from_ms // 1000, (to_ms - from_ms) // 1000
    fitting = (each for each in RESOLUTIONS if age_s <= each.kept_s and length_s <= rows_max * each.step_s)
    return next(fitting, RESOLUTIONS[-1])


def times_of(connection: Connection, from_ms: int, to_ms: int, points: int = POINTS) -> Times:
    """About so many points from one time to another."""
    newest = newest_s(connection)
    resolution = resolution_of(newest, from_ms, to_ms)
    shortest = resolution.step_s * 1000
    step_ms = max(1, round((to_ms - from_ms) / points / shortest)) * shortest
    start = from_ms // step_ms * step_ms
    return Times(newest, resolution, step_ms, list(range(start, max(to_ms, start + 1), step_ms)))


def newest_s(connection: Connection) -> dict[str, int]:
    """By topic the second in which its newest step begins; -1: it has none."""
    keys = {topic: {"topic": RANK[topic], "step_s": FINEST.step_s, "part": CELL_PART} for topic in RANK}
    steps = {topic: connection.execute(_NEWEST, key).scalar() for topic, key in keys.items()}
    return {topic: -1 if step is None else step for topic, step in steps.items()}
