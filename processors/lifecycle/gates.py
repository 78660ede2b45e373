"""Jobs whose tasks don't go to the queue by themselves: at most so many are queued or run at a time, or none while the
job is held.
"""

import numpy as np

from events.codes import TaskState
from events.columns import I64
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.rows import JobRow
from processors.lifecycle.tasks import NO_SLOTS, Tasks
from processors.state.deadlines import Deadlines
from processors.state.seconds import elapsed, milliseconds


class Gates:
    """The tasks of such jobs that go to the queue, ascending, and the times when they do. All of it is derived."""

    def __init__(self, tasks: Tasks, jobs: Jobs) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._ready: Deadlines[str] = Deadlines()
        """When the next task of a job may go; 0: at once."""

    def restored(self) -> None:
        """Finds again what is derived."""
        self._ready.restore(())

    def next_due_ms(self) -> int | None:
        """When the next task may go."""
        self._look()
        return self._ready.first()

    def open(self, now: int, limit: int) -> I64:
        """At most `limit` tasks that go to the queue now."""
        self._look()
        ready = self._ready.due(now)
        if not ready:
            return NO_SLOTS
        slots = [NO_SLOTS]
        for job_id in sorted(ready, key=lambda job_id: self._jobs.table[job_id].number):
            if limit <= 0:
                break
            row = self._jobs.table[job_id]
            waiting = self._waiting(row)
            may = waiting[self._tasks.arena["due"][waiting] <= max(0, elapsed(now))]
            slots.append(may[: min(self._room(row), limit)])
            limit -= len(slots[-1])
        return np.concatenate(slots)

    def _look(self) -> None:
        """Looks at the jobs that have changed."""
        for job_id in self._jobs.changed_gates():
            row = self._jobs.table.get(job_id)
            waiting = self._waiting(row) if row is not None and row.gated and self._room(row) > 0 else ()
            due = int(self._tasks.arena["due"][waiting].min()) if len(waiting) else 0
            self._ready.set(job_id, milliseconds(due) if due else 0 if len(waiting) else None)

    def _room(self, row: JobRow) -> int:
        if row.on_hold:
            return 0
        return row.max_running - self._jobs.gangs.in_use(row)

    def _waiting(self, row: JobRow) -> I64:
        """The tasks that wait, ascending. Those that shall end do so first."""
        arena, stretch = self._tasks.arena, slice(row.base, row.base + row.instances)
        waits = (arena["state"][stretch] == TaskState.BACKOFF) & (arena["causes"][stretch] == 0)
        slots: I64 = row.base + np.flatnonzero(waits)
        return slots
