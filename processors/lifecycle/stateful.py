"""Stateful jobs: their instances start one after another, and each stays on the host where it was first ordered.

An instance waits in BACKOFF, with `HELD` for its time, until the one before it is available or has ended. The host of
an instance is in the column `pin` from its order on, until the host is forgotten.
"""

import numpy as np

from events.codes import ENDED_TASKS, TaskState
from events.columns import I64
from events.records.lifecycle import JobAccepted
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.tasks import HELD, Tasks

STATEFUL = "stateful"


class Stateful:
    """The rules for instances of stateful jobs."""

    def __init__(self, tasks: Tasks, jobs: Jobs) -> None:
        self._tasks = tasks
        self._jobs = jobs

    def accepted(self, event: JobAccepted) -> None:
        """All instances of a job but the first one wait."""
        base = self._jobs.table[event.job_id].base
        slots = np.arange(base + 1, base + event.instances)
        if len(slots):
            self._tasks.arena.put(slots, run=event.first_run, due=HELD)
            self._jobs.move(slots, TaskState.BACKOFF)

    def wait_their_turn(self, slots: I64) -> None:
        """These tasks wait for another run, not because one of theirs failed: each for the one before it, unless that
        is available or has ended.
        """
        arena, mine = self._tasks.arena, self._of(slots)
        mine = mine[(mine > 0) & (arena["owner"][mine] == arena["owner"][mine - 1])]
        down = ~among(arena["state"][mine - 1], (TaskState.NONE, TaskState.RUNNING, *ENDED_TASKS))
        arena.set("due", mine[down], HELD)

    def ordered(self, slots: I64) -> None:
        """Runs are ordered: their tasks belong to these hosts."""
        mine = self._of(slots)
        self._tasks.arena.set("pin", mine, self._tasks.arena["host"][mine])

    def up_or_over(self, slots: I64) -> None:
        """These tasks are available, or their runs have ended: where one won't run again, it doesn't hold up others."""
        arena, mine = self._tasks.arena, self._of(slots)
        mine = mine[among(arena["state"][mine], (TaskState.RUNNING, *ENDED_TASKS))]
        mine = mine[mine + 1 < len(arena["owner"])]
        behind = mine[arena["owner"][mine] == arena["owner"][mine + 1]] + 1
        waiting = behind[(arena["state"][behind] == TaskState.BACKOFF) & (arena["due"][behind] == HELD)]
        self._tasks.note("due", waiting, 0)

    def host_removed(self, number: int) -> None:
        """A host is forgotten: what belongs to it may run anywhere, and nothing is kept from it."""
        pin = self._tasks.arena["pin"]
        for slots in (self._of(np.flatnonzero(pin == number)), np.flatnonzero(pin == -number)):
            self._tasks.arena.set("pin", slots, 0)

    def _of(self, slots: I64) -> I64:
        """The slots, of these, of tasks of stateful jobs."""
        slots = slots[self._tasks.arena["traits"][slots] & Trait.STATELESS != 0]  # most jobs are batch, and not asked
        is_ = self._jobs.of_slots(slots, lambda row: row.kind == STATEFUL) if len(slots) else slots
        of_stateful: I64 = slots[is_ > 0]
        return of_stateful
