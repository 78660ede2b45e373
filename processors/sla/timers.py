"""Time: runs ripen, hours pass, patience ends, units have waited for too long. It is written into rows when TimerPassed
is applied, so that verdicts follow from rows alone.
"""

import numpy as np

from events.columns import I64
from processors.sla.availability import RIPE, Availability, Flag
from processors.sla.budgets import HOUR_MS, Budgets
from processors.sla.rows import JobRow
from processors.sla.windows import next_ms
from processors.state.calendar import Calendar
from processors.state.deadlines import Deadline, Deadlines, earliest
from processors.state.seconds import elapsed, milliseconds, second
from processors.state.table import Table

_PATIENT, _AGED = int(Flag.PATIENT), int(Flag.AGED)
AGED_MS = HOUR_MS
"""A unit that has waited for so long reserves what it needs."""


class Timers:
    """The times of slots and jobs."""

    def __init__(self, jobs: Table[str, JobRow], available: Availability, budgets: Budgets) -> None:
        self._jobs = jobs
        self._available = available
        self._budgets = budgets
        self._ripening = Calendar(available.arena, "ripe_at", lambda slots: available.arena["ripe_at"][slots] > 0)
        self._due: Deadlines[str] = Deadlines()
        """The next time of each job, of all but ripening."""
        self.deadlines = (Deadline("ripening", self._ripe_ms), Deadline("asks", self._due.first))

    def restored(self) -> None:
        """Rebuilds what follows from the rows."""
        self._ripening.clear()
        self._ripening.note(np.flatnonzero(self._available.arena["ripe_at"]))
        self._due.restore(())
        for job_id in self._jobs:
            self.look(job_id)

    def ripen(self, slots: I64) -> None:
        """The column of times of slots was set."""
        if len(slots):
            self._ripening.note(slots)

    def moved(self, job_id: str) -> None:
        """The slots of a job are others."""
        slots = self._available.slots_of(job_id)
        self.ripen(slots[self._available.arena["ripe_at"][slots] > 0])

    def look(self, job_id: str) -> None:
        """A job has changed: its next time may be another one."""
        row, counts = self._jobs[job_id], self._available.counts[job_id]
        if not counts.waiting or not (row.hour or counts.in_units or row.rules.replace or row.rules.windows):
            self._due.clear(job_id)
            return
        at = earliest(self._budgets.hour_over_ms(job_id), next_ms(row))
        patient, old = self._waiting(job_id)
        if len(patient):
            at = earliest(at, self._over_ms(patient, row.rules.replace_wait_ms))
        if len(old):
            at = earliest(at, self._over_ms(old, AGED_MS))
        self._due.set(job_id, at)

    def forget(self, job_id: str) -> None:
        """A job is over."""
        self._due.clear(job_id)

    def passed(self, now: int) -> tuple[I64, list[str]]:
        """Writes what is over into rows; returns the slots that are ripe, and the jobs in which something else is."""
        arena = self._available.arena
        ripe = self._ripening.until(elapsed(now))
        if len(ripe):
            self._available.change(ripe, ripe_at=0, flags=arena["flags"][ripe] | RIPE)
        due = self._due.due(now)
        for job_id in due:
            self._budgets.forget_hour(job_id, now)
            self._budgets.look_at_windows(job_id, now)
            patient, old = self._waiting(job_id)
            wait_ms = self._jobs[job_id].rules.replace_wait_ms
            self._available.flag(patient[self._is_over(patient, wait_ms, now)], off=_PATIENT)
            self._available.flag(old[self._is_over(old, AGED_MS, now)], on=_AGED)
            self.look(job_id)
        return ripe, due

    def _waiting(self, job_id: str) -> tuple[I64, I64]:
        """The slots that wait for replacements, and those in units that haven't waited for long."""
        slots, arena = self._available.waiting(job_id), self._available.arena
        flags = arena["flags"][slots]
        return slots[flags & _PATIENT > 0], slots[(arena["unit"][slots] != 0) & (flags & _AGED == 0)]

    def _over_ms(self, slots: I64, wait_ms: int) -> int:
        return milliseconds(int(self._available.arena["asked_at"][slots].min())) + wait_ms

    def _is_over(self, slots: I64, wait_ms: int, now: int) -> I64:
        return np.flatnonzero(milliseconds(self._available.arena["asked_at"][slots].astype(np.int64)) + wait_ms <= now)

    def _ripe_ms(self) -> int | None:
        at = self._ripening.after()
        return None if at is None else milliseconds(at)


def ripe_at(now: int, wait_ms: int) -> int:
    """The second at which a run counts that is available from now on."""
    return second(now + wait_ms)
