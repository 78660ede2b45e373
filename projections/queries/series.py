"""Time series of a cell for plots, read from the rows that the projector folds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from events.topics import ALL, MACHINES, RANK, rounds_of
from projections.views import tables
from projections.views.series_columns import last_rows
from projections.views.series_rows import CELL_PART, RESOLUTIONS, CellStep, Resolution, SeriesRow
from projections.views.task_series import OLDEST, OPEN

POINTS = 300
"""Points of a plot, unless it asks for another number."""
ROWS_MAX = 1_500
"""Rows of a topic read for a plot, about."""
_decode = msgspec.msgpack.Decoder(CellStep).decode

Values = list[int | None]
"""One for each time of a plot; None: not known, or there is none."""


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


@dataclass(slots=True)
class MachineSeries:
    """Of one machine: rounds and decisions within each point, and the largest lag, see `CellSeries`."""

    rounds: list[int] = field(default_factory=list)
    decisions: list[int] = field(default_factory=list)
    lag_ms: Values = field(default_factory=list)


@dataclass(slots=True)
class CellSeries:
    """Of a cell. All lists have one value for each of `times`, which are milliseconds; a point is `step_ms` long.

    `tasks` by state: queued, ordered, running, stopping, backoff. `ended` within each point: succeeded, failed, killed.
    `oldest_wait_ms`: how long the task waits that waits longest, 0 where none does. `lag_ms`: how much later than the
    newest record that its machine had read a round was written; None where it wrote none. `events`: records within
    each point by topic (paceline.jobs).
    """

    times: list[int]
    step_ms: int
    tasks: dict[str, Values]
    ended: dict[str, list[int]]
    oldest_wait_ms: Values
    machines: dict[str, MachineSeries]
    events: dict[str, list[int]]


class _Columns:
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
            at = (row.step - times.start_s) * 1000 // times.step_ms
            self._first = min(self._first, max(0, at))
            for name, level in step.levels.items():
                self._levels.setdefault(name, []).append((max(0, at), level))
            if at < 0:
                continue
            for name, count in step.counts.items():
                self._counts.setdefault(name, [0] * size)[at] += count
            for name, peak in step.peaks.items():
                peaks = self._peaks.setdefault(name, [None] * size)
                peaks[at] = max(peak, peaks[at] or 0)

    def level(self, name: str) -> Values:
        """A level at the end of each point; None before the topic has rows."""
        values: Values = [None] * self._size
        changes = [(self._first, 0), *self._levels.get(name, [])]
        for (at, level), (until, _) in zip(changes, [*changes[1:], (self._size, 0)], strict=True):
            values[at:until] = [level] * (until - at)
            if at < self._size:
                values[at] = level
        return values

    def count(self, name: str) -> list[int]:
        """How often something happened within each point."""
        return self._counts.get(name) or [0] * self._size

    def peak(self, name: str) -> Values:
        """The largest within each point."""
        return self._peaks.get(name) or [None] * self._size

    def levels(self, prefix: str) -> dict[str, Values]:
        """The levels whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): self.level(name) for name in sorted(self._levels) if name.startswith(prefix)}


def times_of(connection: Connection, from_ms: int, to_ms: int, points: int = POINTS) -> Times:
    """About so many points from one time to another, in the finest resolution that reaches so far back and isn't too
    much to read.
    """
    age_s, length_s = newest_s(connection) - from_ms // 1000, (to_ms - from_ms) // 1000
    fitting = (each for each in RESOLUTIONS if age_s <= each.kept_s and length_s <= ROWS_MAX * each.step_s)
    resolution = next(fitting, RESOLUTIONS[-1])
    shortest = resolution.step_s * 1000
    step_ms = max(1, round((to_ms - from_ms) / points / shortest)) * shortest
    start = from_ms // step_ms * step_ms
    return Times(resolution, step_ms, list(range(start, max(to_ms, start + 1), step_ms)))


def newest_s(connection: Connection) -> int:
    """The second in which the newest step begins; 0: there is none."""
    rows = tables.series.c
    newest = select(func.max(rows.step)).where(rows.step_s == RESOLUTIONS[0].step_s, rows.part == CELL_PART)
    each = [connection.execute(newest.where(rows.topic == topic)).scalar() for topic in RANK.values()]
    return max((step for step in each if step is not None), default=0)


def rows_in(connection: Connection, topic: str, part: int, times: Times) -> list[SeriesRow]:
    """The rows of a part of a topic from the last whole one before a plot to its end."""
    step_s, rows = times.resolution.step_s, tables.series.c
    before = last_rows(connection, RANK[topic], step_s, part, times.start_s - 1)
    found = select(tables.series).where(rows.topic == RANK[topic], rows.step_s == step_s, rows.part == part)
    found = found.where(rows.step >= times.start_s, rows.step < times.end_s).order_by(rows.step)
    return [*before, *(SeriesRow(*row) for row in connection.execute(found))]


def cell_series(connection: Connection, from_ms: int, to_ms: int, points: int = POINTS) -> CellSeries:
    """The series of the cell from one time to another, in about so many points."""
    times = times_of(connection, from_ms, to_ms, points)
    topics = {topic.name: _Columns(rows_in(connection, topic.name, CELL_PART, times), times) for topic in ALL}
    lifecycle = topics[rounds_of("lifecycle")]
    return CellSeries(
        times=times.times,
        step_ms=times.step_ms,
        tasks={state.name.lower(): lifecycle.level(state.name.lower()) for state in OPEN},
        ended={name: lifecycle.count(name) for name in ("succeeded", "failed", "killed")},
        oldest_wait_ms=_waits(times, lifecycle.level(OLDEST)),
        machines={machine: _machine(topics[rounds_of(machine)]) for machine in MACHINES},
        events={name: columns.count("records") for name, columns in topics.items()},
    )


def _machine(columns: _Columns) -> MachineSeries:
    return MachineSeries(columns.count("rounds"), columns.count("decisions"), columns.peak("lag_ms"))


def _waits(times: Times, oldest: Values) -> Values:
    ends = (at + times.step_ms for at in times.times)
    return [
        None if since is None else max(0, end - since * 1000) if since else 0
        for end, since in zip(ends, oldest, strict=True)
    ]
