"""What was idle lately, whatever was claimed of it: the least in each of a few stretches of time, kept as a row."""

from events.resources import Vector
from processors.entitlement.rows import IdleRow
from processors.entitlement.state import State

STRETCHES = 6
"""The time for which capacity must be idle is divided into so many stretches; it is looked at with one more."""


class Idle:
    """The sliding minimum of idle capacity over the setting `lend_after_ms`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._last: Vector = ()

    def restored(self) -> None:
        """The tables were loaded."""
        self._last = self._state.idle()

    def note(self, now: int) -> None:
        """What is idle may have changed just now."""
        current = self._state.idle()
        if current == self._last:
            return
        row = self._advanced(now)
        row.least[-1] = tuple(map(min, row.least[-1], current))
        self._last = current
        self._state.change_cell().idle = row

    def pass_time(self, now: int) -> None:
        """Nothing has changed until now."""
        self._state.change_cell().idle = self._advanced(now)

    def resized(self, now: int) -> None:
        """The time for which capacity must be idle is another one."""
        row = self._state.cell.idle
        self._state.change_cell().idle = IdleRow(now // self._stretch_ms(), row.least)

    def least(self, now: int) -> Vector:
        """The least that was idle throughout."""
        return tuple(map(min, zip(*self._advanced(now).least, strict=True)))

    def next_ms(self) -> int | None:
        """When the least may be more, by time alone; None: it won't."""
        row = self._state.cell.idle
        current = self._state.idle()
        if all(each == current for each in row.least):
            return None
        return (row.number + 1) * self._stretch_ms()

    def _stretch_ms(self) -> int:
        return max(1, self._state.cell.settings.lend_after_ms // STRETCHES)

    def _advanced(self, now: int) -> IdleRow:
        """The row as it is when nothing has changed since what was last noted."""
        row, last = self._state.cell.idle, self._last or self._state.idle()
        number = max(row.number, now // self._stretch_ms())
        new = min(number - row.number, STRETCHES + 1)
        least = [*row.least, *[last] * new][-(STRETCHES + 1) :] or [last]
        return IdleRow(number, least)
