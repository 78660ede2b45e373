"""Columns of time series: levels, counts and peaks over steps of log time, in each resolution.

The row of the step that is open is written with every batch, so that a restart goes on from the rows, and a plot ends
with the present. A topic without records has no rows: its levels stand still.
"""

import msgspec
from sqlalchemy import Connection, bindparam, select

from projections.views import tables
from projections.views.cache import Lines
from projections.views.series_rows import CELL_PART, RESOLUTIONS, CellStep, Resolution, SeriesRow

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(CellStep).decode
LAST_S = 1 << 40
"""A second after all others."""
_rows = tables.series.c
SERIES_KEY = (
    (_rows.topic == bindparam("topic")) & (_rows.step_s == bindparam("step_s")) & (_rows.part == bindparam("part"))
)
"""The rows of one part, resolution and topic: of a statement that is made once."""
_UNTIL = SERIES_KEY & (_rows.step <= bindparam("until"))
_WHOLE = select(_rows.step).where(_UNTIL, _rows.whole == 1).order_by(_rows.step.desc()).limit(1).scalar_subquery()
_LAST_ROWS = select(tables.series).where(_UNTIL, _rows.step >= _WHOLE).order_by(_rows.step)


class Stretch:
    """When a row of one part and resolution is whole, and when older ones go."""

    def __init__(self, lines: Lines[SeriesRow], topic: int, part: int, resolution: Resolution) -> None:
        self.resolution = resolution
        self._lines = lines
        self._key = (topic, resolution.step_s, part)
        self.step = -1
        """The second in which the last row begins; -1: there is none."""
        self.whole = False

    def begin(self, second: int) -> None:
        """A row begins; if it is whole, rows that are too old go, back to the last whole one before that time."""
        last, self.step = self.step, second // self.resolution.step_s * self.resolution.step_s
        self.whole = last < 0 or last // self.resolution.whole_s < self.step // self.resolution.whole_s
        if self.whole and self.resolution.kept_s:
            same = "topic = ? AND step_s = ? AND part = ?"
            newest = f"(SELECT max(step) FROM series WHERE {same} AND whole AND step <= ?)"
            limit = self.step - self.resolution.kept_s
            self._lines.delete(f"{same} AND step < {newest}", [(*self._key, *self._key, limit)])

    def ends_before(self, second: int) -> bool:
        """Whether its step is over at a second."""
        return second >= self.step + self.resolution.step_s

    def write(self, data: bytes) -> None:
        """Writes the row that has begun, in place of what it was."""
        self._lines.add(*self._key, self.step, int(self.whole), data)


class _Step:
    """The step of a resolution that is open."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.clear()

    def clear(self) -> None:
        self.open = self.dirty = False
        self.levels: set[str] = set()
        self.counts: dict[str, int] = {}
        self.peaks: dict[str, int] = {}


class Columns:
    """The columns of a topic about the cell as a whole. `go_to` comes before what happens at that time."""

    def __init__(self, lines: Lines[SeriesRow], topic: int) -> None:
        self._topic = topic
        self._levels: dict[str, int] = {}
        self._steps = [_Step(Stretch(lines, topic, CELL_PART, each)) for each in RESOLUTIONS]
        self._second = 0
        self._changed: set[str] = set()
        self._counts: dict[str, int] = {}
        self._peaks: dict[str, int] = {}

    def restore(self, connection: Connection) -> None:
        """Finds the levels and the open steps again."""
        for step in self._steps:
            rows = last_rows(connection, self._topic, step.stretch.resolution.step_s, CELL_PART)
            if not rows:
                return
            for row in rows:
                self._levels.update(_decode(row.data).levels)
            last = rows[-1]
            data = _decode(last.data)
            step.stretch.step, step.stretch.whole, step.open = last.step, bool(last.whole), True
            step.levels, step.counts, step.peaks = set(data.levels), data.counts, data.peaks
        self._second = self._steps[0].stretch.step

    def go_to(self, at_ms: int) -> None:
        """The time of the topic; it never goes back."""
        second = at_ms // 1000
        if second < self._second + RESOLUTIONS[0].step_s:
            return
        self._merge()
        self._second = second // RESOLUTIONS[0].step_s * RESOLUTIONS[0].step_s
        for step in self._steps:
            if step.open and step.stretch.ends_before(second):
                self._write(step)
                step.clear()

    @property
    def second(self) -> int:
        """The second in which the open step of the finest resolution began."""
        return self._second

    def level(self, name: str) -> int:
        """The value of a level."""
        return self._levels.get(name, 0)

    def names(self, prefix: str) -> list[str]:
        """The names of the levels that begin so, without that."""
        return [name.removeprefix(prefix) for name in self._levels if name.startswith(prefix)]

    def set(self, name: str, value: int) -> None:
        """A level stands so high from now on."""
        if self._levels.get(name) != value:
            self._levels[name] = value
            self._changed.add(name)

    def count(self, name: str, times: int = 1) -> None:
        """Something happened so often."""
        self._counts[name] = self._counts.get(name, 0) + times

    def peak(self, name: str, value: int) -> None:
        """Something was so large."""
        if value >= self._peaks.get(name, 0):
            self._peaks[name] = value

    def flush(self) -> None:
        """Writes the open steps as they stand."""
        self._merge()
        for step in self._steps:
            self._write(step)

    def _merge(self) -> None:
        """Takes what is new into the open steps."""
        if not (self._changed or self._counts or self._peaks):
            return
        for step in self._steps:
            if not step.open:
                step.stretch.begin(self._second)
                step.open = True
            step.dirty = True
            step.levels |= self._changed
            for name, times in self._counts.items():
                step.counts[name] = step.counts.get(name, 0) + times
            for name, value in self._peaks.items():
                step.peaks[name] = max(value, step.peaks.get(name, 0))
        self._changed, self._counts, self._peaks = set(), {}, {}

    def _write(self, step: _Step) -> None:
        if step.dirty:
            names = self._levels if step.stretch.whole else step.levels
            levels = {name: self._levels[name] for name in names}
            step.stretch.write(_encode(CellStep(levels, step.counts, step.peaks)))
            step.dirty = False


def last_rows(connection: Connection, topic: int, step_s: int, part: int, until: int = LAST_S) -> list[SeriesRow]:
    """The last whole row of a part that begins at a second at the latest, and those between; empty: there is none."""
    key = {"topic": topic, "step_s": step_s, "part": part, "until": until}
    cursor = connection.execute(_LAST_ROWS, key)
    return [SeriesRow(*row) for row in cursor]
