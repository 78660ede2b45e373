"""For how long instances of services wait for nothing but a place.

It stands in the column `ready` of tasks that are queued: above 0 the second since when, later by the time that they
waited for their pools meanwhile; below 0 they wait for their pools now, and have waited for a place for so many seconds
and one. It is 0 where nobody counts: of batch jobs, and of what a release before 0.4.0 queued.
"""

from collections.abc import Callable

import numpy as np

from events.codes import TaskState
from events.columns import I64
from events.reasons import EITHER, HOST, REASONS
from events.records.entitlement import GangsAdmitted, GangsHeld
from events.records.lifecycle import GangsQueued
from events.records.placement import GangsReturned
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.tasks import Tasks
from processors.state.arena import locate_ranges
from processors.state.handlers import Row
from processors.state.seconds import second

NOT_BY_POLICY = tuple(row.code for row in REASONS.values() if row.waits in (HOST, EITHER))
"""Reasons of entitlement that a pool could do nothing about."""

NONE: I64 = np.zeros(0, dtype=np.int64)


class PlaceWaits:
    """Counts it. `changed` is called with tasks that wait for a place from now on, or for their pools again."""

    def __init__(self, tasks: Tasks, jobs: Jobs, changed: Callable[[I64], None]) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._changed = changed
        self.rows: tuple[Row, ...] = (
            (GangsAdmitted, self._lacks_a_place),
            (GangsReturned, self._lacks_a_place),
            (GangsHeld, self._held),
        )

    def queued(self, event: GangsQueued, slots: I64, index: I64, now: int) -> None:
        """Tasks are queued; those that keep their admission lack a place at once."""
        services = self._tasks.arena["traits"][slots] & Trait.STATELESS != 0
        self._tasks.arena.set("ready", slots[services], -1)
        self._begin(slots[services & (event.admitted_array[index] > 0)], now)

    def _lacks_a_place(self, event: GangsAdmitted | GangsReturned | GangsHeld, now: int) -> None:
        if len(slots := self._counted(event)):
            self._begin(slots, now)

    def _held(self, event: GangsHeld, now: int) -> None:
        if event.code in NOT_BY_POLICY:
            self._lacks_a_place(event, now)
            return
        slots, arena = self._counted(event), self._tasks.arena
        slots = slots[arena["ready"][slots] > 0]
        arena.set("ready", slots, arena["ready"][slots] - second(now) - 1)
        if len(slots):
            self._changed(slots)

    def _counted(self, event: GangsAdmitted | GangsReturned | GangsHeld) -> I64:
        """The tasks of a record of which somebody counts, and that wait with the runs that it names."""
        for job_id in event.job_ids:  # most often they are batch jobs
            if (row := self._jobs.table.get(job_id)) is not None and row.kind != "batch":
                break
        else:
            return NONE
        slots, index = locate_ranges(event, self._jobs.table)
        arena = self._tasks.arena
        counted = (arena["run"][slots] == event.run_array[index]) & (arena["state"][slots] == TaskState.QUEUED)
        waiting: I64 = slots[counted & (arena["ready"][slots] != 0)]
        return waiting

    def _begin(self, slots: I64, now: int) -> None:
        arena = self._tasks.arena
        slots = slots[arena["ready"][slots] < 0]
        arena.set("ready", slots, second(now) + arena["ready"][slots] + 1)
        if len(slots):
            self._changed(slots)

    def begin_anew(self, slots: I64, now: int) -> None:
        """Starts the time over for which these tasks wait for a place."""
        ready, arena = self._tasks.arena["ready"][slots], self._tasks.arena
        waits = (arena["state"][slots] == TaskState.QUEUED) & (ready != 0)
        arena.set("ready", slots[waits], np.where(ready > 0, second(now), -1)[waits])
