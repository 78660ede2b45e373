"""Differences that a new version makes: the instances that change, how many are lacking, and the versions that nothing
needs any more.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from events.codes import TaskState
from events.columns import I64, distinct
from events.words import plural
from processors.lifecycle.causes import EndCause, Goal
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import JobRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.updates.rows import VersionRow
from processors.lifecycle.updates.steps import OPEN, STEP
from processors.lifecycle.updates.versions import KEPT, contents
from processors.lifecycle.updates.window import UP
from processors.state.table import Table


class Differences:
    """Looks at jobs, their versions and the columns of their tasks; changes nothing."""

    def __init__(
        self,
        jobs: Table[str, JobRow],
        versions: Table[str, dict[int, VersionRow]],
        column: Callable[[str, str], Any],
    ) -> None:
        self._jobs = jobs
        self._versions = versions
        self._column = column

    def changed(self, job_id: str, version: VersionRow, restarted: I64 | None = None) -> Mask:
        """True for instances of a job that must be taken to come to a version, or of those that are named to be
        restarted.
        """
        there: Mask = self.there(job_id)
        if restarted is not None:
            restarting = np.zeros(len(there), dtype=np.bool_)
            restarting[restarted] = True
            restarting &= there & (self._column(job_id, "goal") == Goal.RUN)
            return restarting
        target, versions, new_contents = self._targets(job_id), self._versions[job_id], contents(version, len(there))
        differs = np.ones(len(there), dtype=np.bool_)
        for number in distinct(target).tolist():
            if number in versions:
                mine = target == number
                differs[mine] = contents(versions[number], len(there))[mine] != new_contents[mine]
        differs |= np.arange(len(there)) >= version.instances
        return differs & there

    def batch_fault(self, job_id: str, version: VersionRow, changed: Mask) -> str:
        """Why a batch job can't come to a version, if it can't: it would lose instances, or some would change that have
        begun, or that are a gang, which is planned as one.
        """
        if version.instances < (have := self._jobs[job_id].instances):
            return f"instances of a batch job can be added to its {have} only"
        begun = np.flatnonzero(changed & (self._column(job_id, "traits") & Trait.BEGUN > 0))
        if len(begun):
            return f"{plural(len(begun), 'instance')} would change that began before, the first is {begun[0]}"
        members = self._jobs[job_id].gang_min
        return f"the {members} instances of the gang can't be changed" if changed[:members].any() else ""

    def _targets(self, job_id: str) -> I64:
        """The versions that instances would come to if the update in progress ended now."""
        staying = self.staying(job_id)
        target: I64 = self._column(job_id, "target").astype(np.int64)
        target[staying] = self._column(job_id, "version")[staying]
        return target

    def staying(self, job_id: str) -> I64:
        """Instances that an update has taken and that were not told to stop: with it they would stay as they are."""
        step, state = self._column(job_id, "step") & STEP, self._column(job_id, "state")
        causes = self._column(job_id, "causes") & EndCause.UPDATE
        return np.flatnonzero(among(step, OPEN) & among(state, UP) & (causes > 0))

    def completed(self, job_id: str) -> list[int]:
        """The versions that updates have completed, and the first, ascending: roll-backs go to the last."""
        return [number for number, each in sorted(self._versions[job_id].items()) if each.completed]

    def before(self, job_id: str) -> int:
        """The newest version that an update has completed and that isn't equal to the present one; 0: there is none."""
        versions = self._versions[job_id]
        fields = versions[self._jobs[job_id].version].fields
        return max((number for number in self.completed(job_id) if versions[number].fields != fields), default=0)

    def forgettable(self, job_id: str) -> list[int]:
        """Versions that leave when there is one more: neither among the newest, nor is any run of them or to be, nor
        would a roll-back go there.
        """
        versions = sorted(self._versions[job_id])
        used = {
            self.completed(job_id)[-1],
            *np.unique(self._column(job_id, "version")).tolist(),
            *np.unique(self._column(job_id, "target")).tolist(),
        }
        return [each for each in versions[: 1 - KEPT] if each not in used]

    def there(self, job_id: str) -> Mask:
        """True for instances of a job that are wanted and aren't being removed."""
        there: Mask = (self._column(job_id, "state") != TaskState.NONE) & (self._column(job_id, "goal") != Goal.REMOVE)
        there &= self._column(job_id, "surplus") == 0
        return there

    def adopted(self, job_id: str, instances: int) -> int:
        """Counts the surplus instances whose numbers a job is to have, which become wanted."""
        stays = self._column(job_id, "goal")[:instances] != Goal.REMOVE
        return int(np.count_nonzero(self._column(job_id, "surplus")[:instances] * stays))

    def lacking(self, job_id: str, instances: int) -> int:
        """Counts the instances that a job is to get to have so many; a daemon gets its own by hosts."""
        if self._jobs[job_id].kind == "daemon":
            return 0
        return instances - int(np.count_nonzero(self.there(job_id)[:instances]))

    def missing(self, job_id: str, instances: int) -> I64:
        """The instances, of so many, that a job hasn't, not even such as are about to go; a daemon lacks none here."""
        if self._jobs[job_id].kind == "daemon":
            return np.zeros(0, dtype=np.int64)
        state = self._column(job_id, "state")[:instances]
        holes = np.flatnonzero((state == TaskState.NONE) & (self._column(job_id, "goal")[:instances] != Goal.REMOVE))
        return np.concatenate((holes, np.arange(len(state), instances)))
