"""Checks the strategies by which tasks are placed: that of the job, or of its pool when they were admitted; shares no
code with placement.
"""

from collections.abc import Mapping

from events.columns import ints
from events.records.entitlement import GangsAdmitted
from events.records.placement import TasksPlaced
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import ranges_of, runs_of, upwards
from paceline.simulate.checker.pools import Pools

NAMES = ("pack", "spread", "balanced", "load-aware", "fragmentation", "adaptive")
"""The strategies as columns have them."""


class AdmittedStrategies:
    """Follows entitlement; `pools` has taken each round of it."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        for event in round_.decisions:
            if isinstance(event, GangsAdmitted):
                for job_id, name in _told(event).items():
                    pool = self._pools.units.jobs[job_id].pool
                    if name != (has := self._of(pool)):
                        raise Violation(f"{round_} admits {job_id} to be placed by {name}, {pool} has {has}")

    def _of(self, path: str) -> str:
        """The strategy of a pool, or of the first above that has one; else that of new pools where hosts have GPUs."""
        own = [self._pools.defined[each].strategy for each in upwards(path) if each in self._pools.defined]
        names = [name for name in own if name not in ("", "default")]
        if names:
            return names[-1]
        return "adaptive" if own[-1:] == ["default"] and self._pools.capacity.get("gpu") else NAMES[0]


class PlacedStrategies:
    """Follows placement; `hosts` has taken each round of it."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._of_pool: dict[str, str] = {}
        """By job the strategy of its pool when tasks of it were admitted last."""

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for each in round_.inputs:
            if isinstance(each.event, GangsAdmitted):
                self._of_pool |= dict(_told(each.event))
        for event in round_.decisions:
            if isinstance(event, TasksPlaced) and event.score:
                self._look(event, self._hosts, round_)

    def _look(self, event: TasksPlaced, hosts: Hosts, round_: Round) -> None:
        of_items = _of_items(event)
        if len(of_items) != len(runs_of(event)):
            raise Violation(f"{round_} has {len(of_items)} strategies for {len(runs_of(event))} tasks")
        for (task, run), name in zip(runs_of(event), of_items, strict=True):
            own = shape_of(hosts.jobs[task[0]], task[1]).strategy
            right_name = own or self._of_pool.get(task[0], NAMES[0])
            if name != right_name:
                raise Violation(f"{round_} places {task} run {run} by {name}, it asks {own or 'nothing'}: {right_name}")


def _told(event: GangsAdmitted) -> Mapping[str, str]:
    """By job the strategy of its pool, as an admission says it."""
    ranges = ranges_of(event)
    numbers = ints(event.strategy).tolist() or [0] * len(ranges)
    return {each.job_id: NAMES[number] for each, number in zip(ranges, numbers, strict=True)}


def _of_items(event: TasksPlaced) -> list[str]:
    """The strategy of each item of a placement."""
    choices = len(ints(event.score))
    counts = ints(event.choice_count).tolist() or [1] * choices
    numbers = ints(event.strategy).tolist() or [0] * choices
    return [NAMES[number] for number, count in zip(numbers, counts, strict=True) for _ in range(count)]
