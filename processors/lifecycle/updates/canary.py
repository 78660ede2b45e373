"""The canary of an update: the first instances, which are to prove themselves before others follow."""

import numpy as np

from events.columns import I64, distinct
from processors.lifecycle.causes import Goal
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.rows import UpdateRow
from processors.lifecycle.updates.steps import STEP, Step
from processors.lifecycle.updates.updates import Updates


def is_open(update: UpdateRow) -> bool:
    """Whether an update has a canary, and it isn't promoted."""
    return update.policy.canary > 0 and not update.promoted


class Canaries:
    """Looks at the updates; changes nothing."""

    def __init__(self, updates: Updates, tasks: Tasks, jobs: Jobs) -> None:
        self._updates = updates
        self._tasks = tasks
        self._jobs = jobs

    def is_done(self, job_id: str, update: UpdateRow) -> bool:
        """Whether as many instances as the canary has are done, and others are still to come."""
        if not is_open(update) or not update.pending:
            return False
        tried = update.done - self.stopped(job_id)
        return not update.flight and not update.bad and tried >= update.policy.canary

    def stopped(self, job_id: str) -> int:
        """Counts the instances that are done because they are stopped, which tells nothing about the new version."""
        done = self._updates.column(job_id, "step") & STEP == Step.DONE
        return int(np.count_nonzero(done & (self._updates.column(job_id, "goal") == Goal.STOP)))

    def proof_ms(self, slots: I64, least: int) -> I64:
        """The milliseconds for which runs must go on until failures before them count no more: those of a canary for as
        long as that is to be healthy.
        """
        proof = np.full(len(slots), least, dtype=np.int64)
        if not len(self._updates.table):
            return proof
        owner, step = self._tasks.arena["owner"][slots], self._tasks.arena["step"][slots] & STEP
        for base in distinct(owner[step > 0] - 1).tolist():
            update = self._updates.table.get(self._jobs.at[base])
            if update is not None and is_open(update):
                proof[(owner == base + 1) & (step > 0)] = max(least, update.policy.promote_after_ms)
        return proof
