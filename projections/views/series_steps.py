"""Folds the values of series into rows of steps, in each resolution; the table of series is `series_table.SERIES`.

The row of the open step of the finest resolution is written with every batch, so that a restart goes on from the rows
and a plot ends with the present. Coarser rows are written when their step is over; until then finer ones say the same,
to a restart and to plots. A topic without records has no rows: what stands keeps standing.
"""

from collections.abc import Iterable, Mapping

import msgspec
from sqlalchemy import Connection, bindparam, select

from events.topics import RANK
from projections.views import tables
from projections.views.cache import Lines
from projections.views.pool_series import PoolSource
from projections.views.series_rows import CELL, KEYS_IN_PART, SeriesRow, Step, part_of
from projections.views.series_table import RESOLUTIONS, SERIES, Merge, Resolution, merge_of

_encode = msgspec.msgpack.encode
decode_step = msgspec.msgpack.Decoder(Step).decode
CELL_PART = part_of(CELL)
FINEST = RESOLUTIONS[0]
_LARGEST = frozenset(series.name for series in SERIES if series.merge is Merge.LARGEST)
_rows = tables.series.c
SERIES_KEY = (
    (_rows.topic == bindparam("topic")) & (_rows.step_s == bindparam("step_s")) & (_rows.part == bindparam("part"))
)
"""The rows of one part, resolution and topic: of a statement that is made once."""
_NEWEST = select(tables.series).where(SERIES_KEY).order_by(_rows.step.desc()).limit(1)
_SINCE = select(tables.series).where(SERIES_KEY, _rows.step >= bindparam("start")).order_by(_rows.step)


class _OpenStep:
    """The open step of a resolution: which keys have changed in it, by part, and what has happened in the cell. And the
    rows of that resolution: when one is whole, and when older ones go.
    """

    def __init__(self, lines: Lines[SeriesRow], topic: int, resolution: Resolution) -> None:
        self.resolution = resolution
        self._lines = lines
        self._topic = topic
        self._rows: dict[int, tuple[int, bool]] = {}
        """By part the second in which the last row begins, and whether it is whole."""
        self.begin(0)

    def begin(self, second: int) -> None:
        """The step that a second is in begins."""
        self.start = second // self.resolution.step_s * self.resolution.step_s
        self.end = self.start + self.resolution.step_s
        self.changed: dict[int, set[int]] = {}
        self.events: dict[str, int] = {}

    def key(self, part: int) -> dict[str, int]:
        """The key of the rows of a part, for statements."""
        return {"topic": self._topic, "step_s": self.resolution.step_s, "part": part}

    def restore(self, connection: Connection, part: int) -> None:
        """Finds the last row of a part again."""
        for row in connection.execute(_NEWEST, self.key(part)):
            self._rows[part] = row.step, bool(row.whole)

    def take(self, part: int, keys: Iterable[int], events: Mapping[str, int]) -> None:
        """Keys have changed, and things have happened."""
        self.changed.setdefault(part, set()).update(keys)
        if not self.events:
            self.events = dict(events)
            return
        mine = self.events
        for name, value in events.items():
            if name not in mine:
                mine[name] = value
            elif name not in _LARGEST:
                mine[name] += value
            elif value > mine[name]:
                mine[name] = value

    def is_whole(self, part: int) -> bool:
        """Whether the row of a part is whole. With the first of a stretch of time older ones go, back to the last whole
        one that is old enough.
        """
        last, whole = self._rows.get(part, (-1, True))
        if last == self.start:
            return whole
        length_s, kept_s = self.resolution.whole_s, self.resolution.kept_s
        first = last < 0 or last // length_s < self.start // length_s
        if first and kept_s:
            same = "topic = ? AND step_s = ? AND part = ?"
            newest = f"(SELECT max(step) FROM series WHERE {same} AND whole AND step <= ?)"
            key = self.key(part).values()
            self._lines.delete(f"{same} AND step < {newest}", [(*key, *key, self.start - kept_s)])
        self._rows[part] = self.start, first or part == CELL_PART
        return self._rows[part][1]

    def write(self, part: int, step: Step) -> None:
        """Writes the row of a part, in place of what it was."""
        self._lines.add(*self.key(part).values(), self.start, int(self._rows[part][1]), _encode(step))


class TopicSteps:
    """The steps of all series that a topic says, those of `pools` too. `go_to` comes before what happens then."""

    def __init__(self, lines: Lines[SeriesRow], topic: str, pools: PoolSource | None) -> None:
        self._pools = pools
        self._steps = [_OpenStep(lines, RANK[topic], each) for each in RESOLUTIONS]
        self._levels: dict[str, int] = {}
        """The values that stand, of the cell."""
        self._events: dict[str, int] = {}
        self._changed = False
        """Whether the row of the cell in the finest step isn't written as it stands."""

    def restore(self, connection: Connection) -> None:
        """Finds again what stands, and what the open steps have."""
        finest, coarsest = self._steps[0], self._steps[-1]
        newest = connection.execute(_NEWEST, finest.key(CELL_PART)).first()
        if newest is None:
            return
        self._levels = _split(decode_step(newest.data))[0]
        for each in self._steps:
            each.begin(newest.step)
        for part in range(1 + part_of(len(self._pools.numbers.paths) - 1 if self._pools else CELL)):
            for each in self._steps:
                each.restore(connection, part)
            for row in connection.execute(_SINCE, finest.key(part) | {"start": coarsest.start}):
                step = decode_step(row.data)
                events = _split(step)[1] if part == CELL_PART else {}
                keys = [*step.keys[: step.changed], *step.removed]
                for each in self._steps if row.step < finest.start else (finest,):
                    if row.step >= each.start:
                        each.take(part, keys, events)

    def go_to(self, at_ms: int) -> None:
        """The time of the topic, which never goes back; steps that are over are written."""
        second, finest = at_ms // 1000, self._steps[0]
        if second < finest.end:
            return
        self.flush()
        for coarse in self._steps[1:]:
            for part, keys in finest.changed.items():
                coarse.take(part, keys, finest.events if part == CELL_PART else {})
        for step in self._steps:
            if second < step.end:
                return
            for part in sorted(step.changed) if step is not finest else ():
                self._write(step, part)
            step.begin(second)

    def names(self, series: str) -> list[str]:
        """The names of the values of a series that stand, without its own."""
        return [name.removeprefix(f"{series}/") for name in self._levels if name.startswith(f"{series}/")]

    def level(self, name: str) -> int:
        """The value that stands."""
        return self._levels.get(name, 0)

    def set(self, name: str, value: int) -> None:
        """A value stands from now on."""
        if self._levels.get(name) != value:
            self._levels[name] = value
            self._changed = True

    def add(self, name: str, more: int) -> None:
        """A value that stands is so much more from now on."""
        levels = self._levels
        levels[name] = levels[name] + more if name in levels else more
        self._changed = True

    def count(self, name: str, times: int = 1) -> None:
        """Something happened so often."""
        events = self._events
        events[name] = events[name] + times if name in events else times

    def peak(self, name: str, value: int) -> None:
        """Something was so large."""
        if value >= self._events.get(name, 0):
            self._events[name] = value

    def flush(self) -> None:
        """Writes the open step of the finest resolution as it stands."""
        parts: dict[int, list[int]] = {CELL_PART: [CELL]} if self._changed or self._events else {}
        for key in self._pools.take_changed() if self._pools and self._pools.changed else ():
            parts.setdefault(part_of(key), []).append(key)
        for part, keys in parts.items():
            self._steps[0].take(part, keys, self._events if part == CELL_PART else {})
        self._events, self._changed = {}, False
        for part in sorted(parts):
            self._write(self._steps[0], part)

    def _write(self, step: _OpenStep, part: int) -> None:
        whole = step.is_whole(part)
        if part == CELL_PART:
            values = self._levels | step.events
            step.write(part, Step(list(values), [], 1, [CELL], list(values.values())))
            return
        assert self._pools is not None, "the topic has no series of pools"
        changed, paths = step.changed[part], self._pools.numbers.paths
        keys = sorted(changed)
        if whole:
            first = (part - 1) * KEYS_IN_PART
            keys += [key for key in range(first, min(first + KEYS_IN_PART, len(paths))) if key not in changed]
        names, rows = self._pools.values([paths[key] for key in keys])
        present = [key for key, row in zip(keys, rows, strict=True) if row is not None]
        removed = [key for key in sorted(changed) if key not in present]
        flat = [value for row in rows for value in row or ()]
        step.write(part, Step(names, removed, len(changed) - len(removed), present, flat))


def _split(step: Step) -> tuple[dict[str, int], dict[str, int]]:
    """The values of the cell in a step: what stood at its end, and what happened in it."""
    values = dict(zip(step.names, step.values, strict=True))
    levels = {name: value for name, value in values.items() if merge_of(name) is Merge.LAST}
    return levels, {name: value for name, value in values.items() if name not in levels}
