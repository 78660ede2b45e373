"""The jobs with disruptions that wait for a verdict, and which of them are to be looked at again."""

from collections.abc import Iterable

from processors.sla.availability import Availability
from processors.sla.budgets import Budgets
from processors.sla.rows import JobRow
from processors.sla.timers import Timers
from processors.state.causes import CauseRow, CurrentInput
from processors.state.table import Table


class Waiting:
    """Marks, in memory only: a machine that was restored marks all that wait, and decides nothing about those that one
    which has run on doesn't look at.
    """

    def __init__(
        self,
        current: CurrentInput,
        jobs: Table[str, JobRow],
        available: Availability,
        budgets: Budgets,
        timers: Timers,
    ) -> None:
        self._input = current
        self._jobs = jobs
        self._available = available
        self._budgets = budgets
        self._timers = timers
        self.changed: dict[str, None] = {}
        """The jobs that wait, and of which something has changed since they last had no verdict."""
        self.replacing: dict[str, None] = {}
        """The jobs that replace before, and of which something has changed since their surplus was last looked at."""
        self._in_units: dict[str, None] = {}

    def restored(self) -> None:
        """Rebuilds what follows from the rows."""
        counts = self._available.counts
        self.changed = {job_id: None for job_id in self._jobs if counts[job_id].waiting}
        self._in_units = {job_id: None for job_id in self._jobs if counts[job_id].in_units}
        self.replacing = {job_id: None for job_id in self._jobs if self._replaces(job_id)}

    def touch(self, job_ids: Iterable[str]) -> None:
        """Something has changed for jobs."""
        cause = self._input.cause
        for job_id in job_ids:
            self._mark(job_id, cause)
            if self._replaces(job_id):
                self.replacing[job_id] = None
                self._jobs.change(job_id).surplus_by = cause
            if group := self._budgets.group_of(job_id):
                self.touch_group(group)

    def touch_group(self, group: str) -> None:
        """Something has changed for a group."""
        for job_id in self._budgets.members(group):
            self._mark(job_id, self._input.cause)

    def forget(self, job_id: str) -> None:
        """A job is over."""
        self.changed.pop(job_id, None)
        self.replacing.pop(job_id, None)
        if job_id in self._in_units:
            self._leave_units(job_id)

    def related(self, job_ids: Iterable[str]) -> list[str]:
        """The jobs that wait, and whose verdicts are given together with those of some: they share the budget of a
        group, or units.
        """
        related, more = dict[str, None](), list(job_ids)
        counts = self._available.counts
        while more:
            job_id = more.pop()
            if job_id in related or not counts[job_id].waiting:
                continue
            related[job_id] = None
            if group := self._budgets.group_of(job_id):
                more += self._budgets.members(group)
            if counts[job_id].in_units:
                more += self._in_units
        return sorted(related)

    def _mark(self, job_id: str, cause: CauseRow) -> None:
        counts = self._available.counts[job_id]
        if counts.waiting:
            self.changed[job_id] = None
            self._jobs.change(job_id).changed_by = cause
        else:
            self.changed.pop(job_id, None)
        self._timers.look(job_id)
        if counts.in_units:
            self._in_units[job_id] = None
        elif job_id in self._in_units:
            self._leave_units(job_id)

    def _leave_units(self, job_id: str) -> None:
        """Nothing of a job waits in a unit any more: others of the unit may go. All units are looked at together."""
        del self._in_units[job_id]
        if self._in_units:
            self._mark(min(self._in_units), self._input.cause)

    def _replaces(self, job_id: str) -> bool:
        return self._jobs[job_id].surplus > 0 or self._budgets.replaces_first(job_id)
