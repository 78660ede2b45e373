"""Checks the order in which placement serves what waits: entitled before borrowed, of either jobs that are bound to
hosts before others, then services that come back from lost hosts, then as it was admitted.

Only tasks that are placed alone are compared: one that needs no more than another, with the same conditions on hosts,
would have found a place where that was placed, if it may use the host pool and tolerates the taints of that host.
"""

from typing import NamedTuple

from events.codes import Outcome
from events.columns import ints
from events.records.entitlement import GangsAdmitted
from events.records.lifecycle import GangsQueued, RunsEnded
from events.records.placement import HostPoolChanged, HostsPooled, HostTainted, TasksPlaced
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, flags_of, places_of, ranges_of, runs_of
from paceline.simulate.checker.plans import Plans
from paceline.simulate.checker.pools import Pools

CLOSE_OR_OPEN = (HostPoolChanged, HostsPooled, HostTainted)


class _Rank(NamedTuple):
    borrowed: bool
    free: bool
    """Whether no task of its job is bound to a host."""
    new: bool
    """Whether it isn't an instance of a service that was lost with its host and kept its admission."""
    number: int


class Serving:
    """Follows admissions and places. `hosts` and `plans` have taken the round before."""

    def __init__(self, hosts: Hosts, plans: Plans, pools: Pools) -> None:
        self._hosts, self._plans, self._units = hosts, plans, pools.units
        self._numbers: dict[Task, int] = {}
        self._admissions = 0
        self._back: set[Task] = set()
        """Instances of services that keep the admission of a run that was lost."""
        self._bound: set[str] = set()
        """Jobs of which tasks were ever bound to hosts."""
        self._kept: set[Task] = set()
        """Tasks that had a plan or reserved hosts before the round."""

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, _, event, _ in round_.inputs:
            if isinstance(event, GangsAdmitted):
                for gangs, _ in flags_of(event):
                    for task in gangs.tasks():
                        self._admissions += 1
                        self._numbers[task] = self._admissions
                        self._back.discard(task)
            elif isinstance(event, RunsEnded):
                columns = zip(runs_of(event), ints(event.outcome).tolist(), ints(event.kept).tolist(), strict=True)
                for (task, _), outcome, keeps in columns:
                    lost = keeps == 1 and outcome == Outcome.LOST and self._units.jobs[task[0]].kind != "batch"
                    (self._back.add if lost else self._back.discard)(task)
            elif isinstance(event, GangsQueued):
                bound = {task for each in ranges_of(event) for task in each.tasks() if self._hosts.bound_to(task)}
                self._bound |= {job_id for job_id, _ in bound}
        placed = [
            (task, run, host_id)
            for event in round_.decisions
            if isinstance(event, TasksPlaced)
            for task, run, host_id, _, _ in places_of(event)
        ]
        if any(isinstance(event, CLOSE_OR_OPEN) for event in round_.decisions):
            placed = []  # whom a host was closed to when they were placed isn't known any more
        last = max((self._rank(task) for task, *_ in placed if self._is_plain(task)), default=None)
        if last is not None:
            for task, run in self._hosts.waiting():
                if self._is_plain(task) and self._rank(task) < last and not self._hosts.waits_for_home(task):
                    self._compare(task, run, placed, round_)
        self._kept = {task for unit in (*self._plans.plans, *self._plans.reserved) for task in unit.tasks()}

    def _is_plain(self, task: Task) -> bool:
        if self._units.jobs[task[0]].kind == "daemon":  # these go first
            return False
        if self._hosts.is_ruled(task[0]):
            return False
        alone = task not in self._units.gangs and task not in self._kept
        alone = alone and task not in self._units.parking and task not in self._units.parked
        return alone and task in self._numbers and not shape_of(self._units.jobs[task[0]], task[1]).ports

    def _rank(self, task: Task) -> _Rank:
        borrowed, free = not self._hosts.is_entitled(task), task[0] not in self._bound
        return _Rank(borrowed, free, task not in self._back, self._numbers[task])

    def _compare(self, task: Task, run: int, placed: list[tuple[Task, int, str]], round_: Round) -> None:
        shape, mine = shape_of(self._units.jobs[task[0]], task[1]), self._hosts.bound_to(task)
        for other, _, host_id in placed:
            if not self._is_plain(other) or self._rank(other) <= self._rank(task) or other in self._hosts.at_home:
                continue
            if mine and mine != host_id:
                continue
            its = shape_of(self._units.jobs[other[0]], other[1])
            smaller = all(amount <= its.resources.get(name, 0) for name, amount in shape.resources.items())
            may = bool(mine) or self._hosts.allows(task[0], shape, host_id)
            if smaller and may and shape.constraints == its.constraints:
                raise Violation(f"{round_} places {other} on {host_id} before {task} run {run}, which was to go first")
