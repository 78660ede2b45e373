"""Tasks that were preempted lately, and those that are spared for a time: the basis of caps, slices and refusals.

Entitlement and placement each fold it from the same records: orders, their answers, ends of runs. A task has a row only
while something is to be remembered: for an hour after it was preempted, while it is spared, while an order for it is
open; and once it used up its slice, until it is removed or its job ends, for that doubles the next one.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from events.bounds import INT_MAX
from events.codes import Code, Outcome
from events.columns import same_length
from events.instance_changes import instance_change
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import InstancesChanged, PreemptionAnswered, RunsEnded
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

HOUR_MS = 3_600_000
Task = tuple[str, int]
"""A job and an instance of it."""


class DisplacedRow(msgspec.Struct, array_like=True):
    """The displacements of a task. `order`, `run`, `by_slice`: the open order for it; 0: none."""

    times: list[int] = []
    """When it was preempted, within the last hour, ascending."""
    slices: int = 0
    """The number of times that it was preempted for others after its slice was over."""
    spared_ms: int = 0
    """Until when sla's refusal spares it."""
    order: int = 0
    run: int = 0
    by_slice: bool = False

    @property
    def until_ms(self) -> int:
        """When something of it is over by time alone; 0: nothing is."""
        return min((at for at in (self.times[0] + HOUR_MS if self.times else 0, self.spared_ms) if at), default=0)


class Displacements:
    """The table `displaced`. Times are logical milliseconds; instances are those of one unit: a gang's, or one."""

    def __init__(self) -> None:
        self.table: Table[Task, DisplacedRow] = struct_table("displaced", DisplacedRow, tuple[str, int])
        self._of_job: dict[str, dict[int, None]] = {}
        self._of_order: dict[int, dict[Task, None]] = {}
        self._ends: Deadlines[Task] = Deadlines()
        """When something of a row is over by time alone."""

    def restored(self) -> None:
        """Finds again what is derived."""
        self._of_job, self._of_order = {}, {}
        for task, row in self.table.items():
            self._of_job.setdefault(task[0], {})[task[1]] = None
            if row.order:
                self._of_order.setdefault(row.order, {})[task] = None
        self._ends.restore((task, row.until_ms) for task, row in self.table.items() if row.until_ms)

    # What is asked.

    def capped_ms(self, job_id: str, instances: Iterable[int], now: int, per_hour: int) -> int:
        """Until when a unit was preempted as often within an hour as the cell allows; 0: it wasn't."""
        if not per_hour:
            return INT_MAX * HOUR_MS
        until = 0
        for row in self._rows(job_id, instances):
            times = row.times
            if len(times) >= per_hour and times[-per_hour] + HOUR_MS > now:
                until = max(until, times[-per_hour] + HOUR_MS)
        return until

    def spared_ms(self, job_id: str, instances: Iterable[int], now: int) -> int:
        """Until when a unit is spared because sla refused; 0: it isn't."""
        until = max((row.spared_ms for row in self._rows(job_id, instances)), default=0)
        return until if until > now else 0

    def slices(self, job_id: str, instances: Iterable[int]) -> int:
        """The number of slices that a unit has used up: the most of its tasks."""
        return max((row.slices for row in self._rows(job_id, instances)), default=0)

    def remembered(self, job_id: str, instances: Iterable[int]) -> list[int]:
        """Those of some instances of which anything is remembered."""
        mine = self._of_job.get(job_id, ())
        return [instance for instance in instances if instance in mine]

    def count(self, job_id: str, instance: int) -> int:
        """The number of times that a task was preempted within an hour."""
        row = self.table.get((job_id, instance))
        return len(row.times) if row else 0

    def last(self, job_id: str) -> dict[int, int]:
        """When instances of a job were preempted last, within an hour."""
        mine = self._of_job.get(job_id, ())
        return {instance: row.times[-1] for instance in mine if (row := self.table[job_id, instance]).times}

    def __contains__(self, job_id: str) -> bool:
        """Whether anything is remembered of a job."""
        return job_id in self._of_job

    # What is folded.

    def ordered(self, event: PreemptionsOrdered) -> None:
        """Runs were ordered to leave."""
        if not same_length(event.job_ids, event.job, event.instance, event.run, event.slice):
            return
        columns = (event.job_array, event.instance_array, event.run_array, event.slice_array)
        for job, instance, run, by_slice in zip(*(column.tolist() for column in columns), strict=True):
            task = (event.job_ids[job], instance)
            self._close(task)
            row = self._change(task)
            row.order, row.run, row.by_slice = event.order, run, by_slice == 1
            self._of_order.setdefault(event.order, {})[task] = None

    def answered(self, event: PreemptionAnswered, now: int, defer_for_ms: int) -> None:
        """An order has its answer: runs of it that aren't over stay; those that sla refused are spared for a time."""
        if event.code == Code.DEFERRED and same_length(event.job_ids, event.job, event.instance, event.run):
            for job, instance in zip(event.job_array.tolist(), event.instance_array.tolist(), strict=True):
                task = (event.job_ids[job], instance)
                if self.table.get(task) is not None:
                    self._change(task).spared_ms = now + defer_for_ms
                    self._remember(task)
        for task in list(self._of_order.get(event.number, ())):
            self._close(task)

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over; of those that were ordered to leave, who left because of that was preempted."""
        own_jobs = [index for index, job_id in enumerate(event.job_ids) if job_id in self._of_job]
        if not own_jobs or not same_length(event.job_ids, event.job, event.instance, event.run, event.outcome):
            return
        jobs, instances, runs = event.items()
        outcomes = event.outcome_array
        for at in np.flatnonzero(np.isin(jobs, own_jobs)).tolist():
            task = (event.job_ids[jobs[at]], int(instances[at]))
            row = self.table.get(task)
            if row is None or not row.order or row.run != runs[at]:
                continue
            if outcomes[at] == Outcome.PREEMPTED:
                row = self._change(task)
                row.times = [*row.times, now]
                row.slices += row.by_slice
                self._remember(task)
            self._close(task)

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        for instance in list(self._of_job.get(job_id, ())):
            self._drop((job_id, instance))

    def instances_changed(self, event: InstancesChanged) -> None:
        """Instances of a job were removed, or are new."""
        mine = self._of_job.get(event.job_id)
        if mine:
            added, removed, _ = instance_change(event)
            changed = {*added.tolist(), *removed.tolist()}
            for instance in [each for each in mine if each in changed or each >= event.instances]:
                self._drop((event.job_id, instance))

    def _rows(self, job_id: str, instances: Iterable[int]) -> Iterator[DisplacedRow]:
        mine = self._of_job.get(job_id)
        if mine:
            for instance in instances:
                if instance in mine:
                    yield self.table[job_id, instance]

    def _change(self, task: Task) -> DisplacedRow:
        if task not in self.table:
            self._of_job.setdefault(task[0], {})[task[1]] = None
            return self.table.put(task, DisplacedRow())
        return self.table.change(task)

    def _remember(self, task: Task) -> None:
        self._ends.set(task, self.table[task].until_ms or None)

    def _close(self, task: Task) -> None:
        """No order for a task is open any more."""
        row = self.table.get(task)
        if row is None or not row.order:
            return
        mine = self._of_order[row.order]
        del mine[task]
        if not mine:
            del self._of_order[row.order]
        row = self.table.change(task)
        row.order, row.run, row.by_slice = 0, 0, False
        self._forget(task)

    def expire(self, now: int) -> None:
        """Forgets what is over; a TimerPassed of one's own does. What is folded doesn't: its time is that of who wrote
        it, whose clock may be ahead.
        """
        for task in self._ends.due(now):
            row = self.table.change(task)
            row.times = [time for time in row.times if time + HOUR_MS > now]
            row.spared_ms = row.spared_ms if row.spared_ms > now else 0
            self._remember(task)
            self._forget(task)

    def _forget(self, task: Task) -> None:
        """Drops a row of which nothing is left."""
        row = self.table[task]
        if not (row.times or row.slices or row.spared_ms or row.order):
            self._drop(task)

    def _drop(self, task: Task) -> None:
        order = self.table[task].order
        if order:
            del self._of_order[order][task]
            if not self._of_order[order]:
                del self._of_order[order]
        self.table.remove(task)
        self._ends.clear(task)
        mine = self._of_job[task[0]]
        del mine[task[1]]
        if not mine:
            del self._of_job[task[0]]
