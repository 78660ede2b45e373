"""Reads the rows of time series into the points of a plot."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, func, select

from events.topics import RANK
from projections.views import tables
from projections.views.series_columns import SERIES_KEY, last_rows
from projections.views.series_rows import CELL_PART, RESOLUTIONS, CellStep, Resolution, SeriesRow

POINTS = 300
"""Points of a plot, unless it asks for another number."""
ROWS_MAX = 1_500
"""Rows of a topic read for a plot, about."""
_series = tables.series.c
# Each plot asks these many times: making the statements anew would take longer than all the rest.
_NEWEST = select(func.max(_series.step)).where(SERIES_KEY)
_ROWS = (
    select(tables.series)
    .where(SERIES_KEY, _series.step >= bindparam("start"), _series.step < bindparam("end"))
    .order_by(_series.step)
)
_decode = msgspec.msgpack.Decoder(CellStep).decode

Values = list[int | None]
"""One for each point of a plot; None: not known, or there is none."""
Changes = list[tuple[int, int]]
"""What a level became, each in the point of that number, in order; several in one: the last counts."""


class Times(NamedTuple):
    """The points of a plot: each is `step_ms` of log time, beginning at its time. Levels are as at the end of a point,
    counts are those within it.
    """

    resolution: Resolution
    step_ms: int
    times: list[int]

    @property
    def start_s(self) -> int:
        """The second in which the first point begins."""
        return self.times[0] // 1000

    @property
    def end_s(self) -> int:
        """The second in which the last point ends."""
        return (self.times[-1] + self.step_ms) // 1000

    def point(self, second: int) -> int:
        """The number of the point that a second is in, 0 for those before the first."""
        return max(0, (second - self.start_s) * 1000 // self.step_ms)


class CellColumns:
    """The columns of one topic at the points of a plot."""

    def __init__(self, rows: Sequence[SeriesRow], times: Times) -> None:
        size = len(times.times)
        self._levels: dict[str, list[tuple[int, int]]] = {}
        self._counts: dict[str, list[int]] = {}
        self._peaks: dict[str, Values] = {}
        self._size = size
        self._first = size
        for row in rows:
            step = _decode(row.data)
            at = times.point(row.step)
            self._first = min(self._first, at)
            for name, level in step.levels.items():
                self._levels.setdefault(name, []).append((at, level))
            if row.step < times.start_s:
                continue
            for name, count in step.counts.items():
                self._counts.setdefault(name, [0] * size)[at] += count
            for name, peak in step.peaks.items():
                peaks = self._peaks.setdefault(name, [None] * size)
                peaks[at] = max(peak, peaks[at] or 0)

    def level(self, name: str) -> Values:
        """A level at the end of each point; None before the topic has rows."""
        return held(self._levels.get(name, []), self._first, self._size)

    def count(self, name: str) -> list[int]:
        """How often something happened within each point."""
        return self._counts.get(name) or [0] * self._size

    def peak(self, name: str) -> Values:
        """The largest within each point."""
        return self._peaks.get(name) or [None] * self._size

    def levels(self, prefix: str) -> dict[str, Values]:
        """The levels whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): self.level(name) for name in sorted(self._levels) if name.startswith(prefix)}


def held(changes: Changes, first: int, size: int) -> Values:
    """A level at the end of each of so many points: it is as it became last, 0 from the first known point on before
    that, and None before that.
    """
    values: Values = [None] * size
    steps = [(first, 0), *changes]
    for (at, level), (until, _) in zip(steps, [*steps[1:], (size, 0)], strict=True):
        values[at:until] = [level] * (until - at)
    return values


def end_ms(connection: Connection) -> int:
    """When the newest step of any topic ends; plots of the present end there."""
    return (max(newest_s(connection, topic) for topic in RANK) + RESOLUTIONS[0].step_s) * 1000


def resolution_of(connection: Connection, from_ms: int, to_ms: int, rows_max: int = ROWS_MAX) -> Resolution:
    """The finest that reaches so far back and has no more than so many steps between two times."""
    newest = max(newest_s(connection, topic) for topic in RANK)
    age_s, length_s = newest - from_ms // 1000, (to_ms - from_ms) // 1000
    fitting = (each for each in RESOLUTIONS if age_s <= each.kept_s and length_s <= rows_max * each.step_s)
    return next(fitting, RESOLUTIONS[-1])


def times_of(connection: Connection, from_ms: int, to_ms: int, points: int = POINTS) -> Times:
    """About so many points from one time to another."""
    resolution = resolution_of(connection, from_ms, to_ms)
    shortest = resolution.step_s * 1000
    step_ms = max(1, round((to_ms - from_ms) / points / shortest)) * shortest
    start = from_ms // step_ms * step_ms
    return Times(resolution, step_ms, list(range(start, max(to_ms, start + 1), step_ms)))


def newest_s(connection: Connection, topic: str) -> int:
    """The second in which the newest step of a topic begins; -1: it has none."""
    key = {"topic": RANK[topic], "step_s": RESOLUTIONS[0].step_s, "part": CELL_PART}
    newest = connection.execute(_NEWEST, key).scalar()
    return -1 if newest is None else newest


def rows_in(connection: Connection, topic: str, part: int, times: Times) -> list[SeriesRow]:
    """The rows of a part of a topic from the last whole one before a plot to its end."""
    key = {"topic": RANK[topic], "step_s": times.resolution.step_s, "part": part}
    before = last_rows(connection, key["topic"], key["step_s"], part, times.start_s - 1)
    found = connection.execute(_ROWS, key | {"start": times.start_s, "end": times.end_s})
    return [*before, *(SeriesRow(*row) for row in found)]
