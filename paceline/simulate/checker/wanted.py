"""Checks that the wishes of users hold: instances that are stopped stay so, tasks of a job that is held don't go to the
queue, no more than `max_running` of a job are queued or run, and the instances of a stateful job start one after
another.
"""

from events.columns import ints
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.base import Event
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobHeld,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    UpdateStarted,
)
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, ranges_of, runs_of


class Wanted:
    """Follows what lifecycle decides."""

    def __init__(self) -> None:
        self._instances: dict[str, int] = {}
        self._stopped: set[Task] = set()
        """Instances that shall not run."""
        self._held: set[str] = set()
        self._most: dict[str, int] = {}
        """The most tasks of a job that may be queued or run at a time; only jobs that were never updated."""
        self._busy: dict[str, set[int]] = {}
        """Those of such jobs that are."""
        self._stateful: set[str] = set()
        self._begun: set[Task] = set()
        """Instances of stateful jobs that were available, or of which a run has ended."""

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle. Raises `Violation`."""
        for event in round_.decisions:
            self._decided(event, round_)

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case JobAccepted():
                self._instances[event.job_id] = event.instances
                if event.max_running:
                    self._most[event.job_id], self._busy[event.job_id] = event.max_running, set()
                if event.kind == "stateful":
                    self._stateful.add(event.job_id)
            case InstancesChanged():
                self._instances[event.job_id] = event.instances
                for instance in instance_change(event).added.tolist():
                    self._stopped.discard((event.job_id, instance))
                    self._begun.discard((event.job_id, instance))
            case InstancesWanted():
                (self._stopped.difference_update if event.wanted else self._stopped.update)(self._named(event))
            case JobHeld():
                (self._held.add if event.held else self._held.discard)(event.job_id)
            case UpdateStarted():
                self._most.pop(event.job_id, None)
            case JobChanged() if is_over(event):
                self._forget(event.job_id)
            case GangsQueued():
                for each in ranges_of(event):
                    for task in each.tasks():
                        self._may_run(task, each.run, round_)
                        self._goes(task, each.gang, round_)
            case RunsOrdered():
                for task, run in runs_of(event):
                    self._may_run(task, run, round_)
                    self._may_begin(task, run, round_)
            case RunsAvailable() | RunsEnded():
                if isinstance(event, RunsEnded):
                    for (job_id, instance), _ in runs_of(event):
                        self._busy.get(job_id, set()).discard(instance)
                self._begun.update(task for task, _ in runs_of(event) if task[0] in self._stateful)

    def _named(self, event: InstancesWanted) -> set[Task]:
        if not event.first:
            return {(event.job_id, instance) for instance in range(self._instances[event.job_id])}
        pairs = zip(ints(event.first).tolist(), ints(event.count).tolist(), strict=True)
        return {(event.job_id, at) for first, count in pairs for at in range(first, first + count)}

    def _may_run(self, task: Task, run: int, round_: Round) -> None:
        if task in self._stopped:
            raise Violation(f"{round_} goes on with {task} run {run}, which a user has stopped")
        if task[0] in self._held:
            raise Violation(f"{round_} goes on with {task} run {run}, whose job is held")

    def _goes(self, task: Task, gang: bool, round_: Round) -> None:
        """A task goes to the queue; those of a gang do so together, whoever else is on the way."""
        job_id, instance = task
        if job_id in self._most:
            self._busy[job_id].add(instance)
            if not gang and len(self._busy[job_id]) > self._most[job_id]:
                raise Violation(
                    f"{round_} has {len(self._busy[job_id])} tasks of {job_id} go, not {self._most[job_id]}"
                )

    def _may_begin(self, task: Task, run: int, round_: Round) -> None:
        job_id, instance = task
        before = job_id, instance - 1
        if job_id not in self._stateful or not instance or task in self._begun or before in self._begun:
            return
        if before not in self._stopped:
            raise Violation(f"{round_} orders the first run of {task}, and {before} hasn't been available")

    def _forget(self, job_id: str) -> None:
        self._held.discard(job_id)
        self._most.pop(job_id, None)
        self._busy.pop(job_id, None)
        self._stateful.discard(job_id)
        self._stopped = {task for task in self._stopped if task[0] != job_id}
        self._begun = {task for task in self._begun if task[0] != job_id}
