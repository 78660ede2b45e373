"""Surplus: instances beyond those that are wanted, so that a replacement is up before what it replaces stops."""

from events.codes import RunCause
from processors.sla.availability import ORDINARY, Availability
from processors.sla.budgets import Budgets
from processors.sla.rows import JobRow
from processors.state.table import Table


class Surplus:
    """Surplus is set as runs wait for it, up to the surge of the job, and given up only when nobody needs it and
    nothing is missing: not by and by, since which instance goes would depend on who is up first.
    """

    def __init__(self, jobs: Table[str, JobRow], available: Availability, budgets: Budgets) -> None:
        self._jobs = jobs
        self._available = available
        self._budgets = budgets

    def wanted(self, job_id: str) -> int:
        """The surplus that a job is to have now."""
        row, counts = self._jobs[job_id], self._available.counts[job_id]
        surge = row.rules.surge if self._budgets.replaces_first(job_id) else 0
        waiting = self._updates(job_id) if self._budgets.is_closed(job_id) else counts.replaceable
        need = min(surge, waiting + counts.holding)
        if not need and not counts.missing:
            return 0
        return max(row.surplus, need)

    def _updates(self, job_id: str) -> int:
        """The number of runs of a job that wait for their replacement, and go outside windows."""
        slots = self._available.waiting(job_id)
        why, available, flags = (self._available.arena[column][slots] for column in ("why", "available", "flags"))
        return int(((why == RunCause.UPDATE) & (available > 0) & (flags & ORDINARY == 0)).sum())

    def changes(self, job_ids: list[str]) -> list[tuple[str, int, int]]:
        """Jobs with the surplus that they are to have, where that is another one, and its serial."""
        changes = []
        for job_id in job_ids:
            row, surplus = self._jobs[job_id], self.wanted(job_id)
            if surplus != row.surplus:
                changes.append((job_id, surplus, row.serial + (not row.surplus)))
        return changes
