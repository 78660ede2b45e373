"""The amounts that are idle, and that are claimed, all along: beside steady claims idle capacity is lent.

Of idle capacity the least in each of a few stretches of time is kept as a row, of claims the most, as it was reported
with the entitlements. A stream of tasks has its claims placed and others in their stead from one moment to the next, so
it is the amount that counts, and neither the age of a claim nor what is claimed between two rounds.
"""

from collections.abc import Sequence

from events.resources import Vector
from processors.entitlement.rows import IdleRow, SteadyRow
from processors.entitlement.state import State
from processors.state.table import Table, struct_table

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


KEY = "cell"
KEPT = STRETCHES + 1


class SteadyClaims:
    """The sliding minimum, over the setting `lend_after_ms`, of what claims of all pools ask."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.table: Table[str, SteadyRow] = struct_table("steady", SteadyRow)
        """One row, where anything was claimed lately."""

    def said(self, claims: Vector, now: int) -> None:
        """So much is claimed now."""
        row = self._advanced(now) if KEY in self.table else SteadyRow(now // self._stretch_ms(), [(0,) * len(claims)])
        most = [*row.most[:-1], tuple(map(max, row.most[-1], claims))]
        self._keep(SteadyRow(row.number, most, claims))

    def pass_time(self, now: int) -> None:
        """Nothing else was claimed until now."""
        if KEY in self.table:
            self._keep(self._advanced(now))

    def resized(self) -> None:
        """The stretches are others: what was claimed lately isn't known."""
        if KEY in self.table:
            self.table.remove(KEY)

    def beyond(self, claims: Vector, now: int) -> Vector:
        """What of the claims there are wasn't asked all along."""
        most = self._advanced(now).most if KEY in self.table else []
        if len(most) < KEPT:
            return claims
        return tuple([max(0, each - min(of)) for each, of in zip(claims, zip(*most, strict=True), strict=True)])

    def next_ms(self) -> int | None:
        """When more may have been asked all along, by time alone; None: it won't."""
        row = self.table.get(KEY)
        if row is None or (len(row.most) == KEPT and all(each == row.last for each in row.most)):
            return None
        return (row.number + 1) * self._stretch_ms()

    def _keep(self, row: SteadyRow) -> None:
        if any(map(any, row.most)):
            self.table.put(KEY, row)
        else:
            self.resized()

    def _advanced(self, now: int) -> SteadyRow:
        """The row as it is when nothing else was claimed since what was said last."""
        row = self.table[KEY]
        number = max(row.number, now // self._stretch_ms())
        new: Sequence[Vector] = [row.last] * min(number - row.number, KEPT)
        return SteadyRow(number, [*row.most, *new][-KEPT:], row.last)

    def _stretch_ms(self) -> int:
        return max(1, self._state.cell.settings.lend_after_ms // STRETCHES)
