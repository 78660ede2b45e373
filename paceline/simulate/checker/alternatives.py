"""Follows which alternatives tasks with a place have taken, and so how much they ask."""

from collections import Counter
from functools import reduce
from operator import or_

from msgspec.structs import replace

from events.columns import ints
from events.records.lifecycle import JobAccepted, RunsEnded
from events.records.parts import TaskShape
from events.records.placement import CapacityChanged, TasksPlaced
from events.task_shapes import shape_of
from paceline.simulate.checker.items import Task, runs_of


def by_alternative(shape: TaskShape, number: int) -> TaskShape:
    """The shape of tasks that take one of their alternatives; below 0, or where they have none, as it is."""
    if shape.rules is None or not shape.rules.alternatives or number < 0:
        return shape
    each = shape.rules.alternatives[min(number, len(shape.rules.alternatives) - 1)]
    rules = replace(shape.rules, devices=each.devices, devices_within=each.devices_within, cores=each.cores)
    return replace(shape, resources={one.name: one.amount for one in each.resources}, rules=rules)


class Alternatives:
    """Follows places and ends."""

    def __init__(self) -> None:
        self._took: dict[Task, int] = {}
        self._cell = CapacityChanged(capacity={}, hosts=0, version=0)
        """The capacity of hosts, as it was last said."""

    @staticmethod
    def of(event: TasksPlaced) -> dict[Task, int]:
        """The alternatives of those tasks of a record that have some."""
        numbers = zip(runs_of(event), ints(event.alternative).tolist(), strict=True) if event.alternative else ()
        return {task: number for (task, _), number in numbers if number >= 0}

    def placed(self, event: TasksPlaced) -> None:
        """Tasks have places."""
        self._took |= self.of(event)

    def ended(self, event: RunsEnded) -> None:
        """Runs are over: a task that gives its admission back may take any alternative again."""
        for (task, _), keeps in zip(runs_of(event), ints(event.kept).tolist(), strict=True):
            if not keeps:
                self._took.pop(task, None)

    def shape(self, job: JobAccepted, task: Task) -> TaskShape:
        """The shape by which a task is on its host: the first alternative, or that which it took."""
        return by_alternative(shape_of(job, task[1]), self._took.get(task, -1))

    def choices(self, job: JobAccepted, task: Task) -> list[TaskShape]:
        """The shapes of which a task that waits may take any: of all its alternatives, or the one that it keeps."""
        shape = shape_of(job, task[1])
        if task in self._took or shape.rules is None or not shape.rules.alternatives:
            return [self.shape(job, task)]
        return [by_alternative(shape, number) for number in range(len(shape.rules.alternatives))]

    def need(self, job: JobAccepted, task: Task) -> dict[str, int]:
        """The amounts that a task asks of its pool: while it may take any alternative the most that one asks."""
        shape = shape_of(job, task[1])
        if task in self._took or shape.rules is None or not shape.rules.alternatives:
            return self.shape(job, task).resources
        requests = [Counter({one.name: one.amount for one in each.resources}) for each in shape.rules.alternatives]
        possible = [each for each in requests if self._may_fit(each, max(1, job.gang_min))]
        return dict(reduce(or_, possible or requests))

    def offered(self, event: CapacityChanged) -> None:
        """Hosts offer something else."""
        self._cell = event

    def are_any(self, job: JobAccepted, task: Task) -> bool:
        """Whether a task may take any of several requests."""
        rules = shape_of(job, task[1]).rules
        return rules is not None and bool(rules.alternatives) and task not in self._took

    def _may_fit(self, need: Counter[str], tasks: int) -> bool:
        """Whether hosts could hold so many tasks, were they empty."""
        cell = self._cell
        return not cell.hosts or not any(
            amount * tasks > cell.capacity.get(name, 0) or (cell.largest and amount > cell.largest.get(name, 0))
            for name, amount in need.items()
            if amount
        )
