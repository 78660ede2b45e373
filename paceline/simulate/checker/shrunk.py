"""Checks which runs are preempted on hosts that offer less than these hold, at placement's positions: the plain
rule, by one look at all runs of a host.
"""

from collections import Counter
from collections.abc import Mapping

from events.codes import Code
from events.records.base import Event
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.records.lifecycle import JobPriorityChanged, PreemptionAnswered
from events.records.placement import PreemptionAsked
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, runs_of
from paceline.simulate.checker.orders import victims_of
from paceline.simulate.checker.units import Units

Runs = set[tuple[Task, int]]


class Shrunk:
    """Follows asks, orders and answers. `hosts` has taken the round before; `units` knows the needs of tasks."""

    def __init__(self, hosts: Hosts, units: Units) -> None:
        self._hosts = hosts
        self._units = units
        self._priority: dict[str, int] = {}
        self._asked: dict[Task, int] = {}
        """The victims of asks and orders, whoever they are for."""
        self._spared: set[Task] = set()
        """Tasks that stayed though they were asked: they may be passed over."""
        self._orders: dict[int, Runs] = {}

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, _, event, _ in round_.inputs:
            self._take(event)
        for event in round_.decisions:
            if isinstance(event, PreemptionAsked):
                if not event.job_id:
                    self._check(event, round_)
                self._asked |= dict(victims_of(event))

    def _take(self, event: Event) -> None:
        match event:
            case JobPriorityChanged():
                self._priority[event.job_id] = event.priority
            case PreemptionsOrdered():
                self._orders[event.order] = {(task, run) for task, run, *_ in runs_of(event)}
                self._asked |= dict(self._orders[event.order])
            case PreemptionRefused():
                task = (event.victim_job_id, event.victim_instance)
                self._spared.add(task)
                self._asked.pop(task, None)
            case PreemptionAnswered():
                for task, _ in self._orders.pop(event.number, ()):
                    self._asked.pop(task, None)
                    if event.code == Code.DEFERRED:
                        self._spared.add(task)

    def _check(self, event: PreemptionAsked, round_: Round) -> None:
        host_id, victims = event.host_ids[0], dict(victims_of(event))
        what = f"{round_} asks {sorted(victims)[:3]} to leave {host_id}"
        surplus: Counter[str] = Counter(self._hosts.surplus(host_id))
        on_host = self._hosts.on(host_id)
        for task in on_host:
            if self._leaves(task):
                surplus.subtract(self._units.need(task))
        if not +surplus:
            raise Violation(f"{what}, which holds the rest of its runs")
        for task, run in victims.items():
            if self._hosts.run_of(task) != run or self._leaves(task):
                raise Violation(f"{what}: {task} run {run} has no place, or leaves already")
            if not self._hosts.jobs[task[0]].preemptible:
                raise Violation(f"{what}: {task} isn't preemptible")
        there = [task for task in on_host if task in victims]
        for task in there:
            if not self._hosts.gang_of(task) and not _helps(self._units.need(task), self._hosts.surplus(host_id)):
                raise Violation(f"{what}: {task} holds nothing of what lacks")
        self._check_order(what, there, on_host, surplus)

    def _check_order(self, what: str, there: list[Task], on_host: list[Task], surplus: Counter[str]) -> None:
        """Nobody of a lower priority is passed over, where all that leave hold the same: else one that comes first may
        hold nothing of what lacks by then. And of these the last one was needed.
        """
        needs = {tuple(sorted(self._units.need(task).items())) for task in there}
        if len(needs) > 1 or any(map(self._hosts.gang_of, there)):
            return
        highest = max(map(self._priority_of, there))
        for task in on_host:
            may = self._hosts.jobs[task[0]].preemptible and not self._hosts.gang_of(task)
            may = may and task not in there and task not in self._spared and not self._leaves(task)
            if may and self._priority_of(task) < highest and _helps(self._units.need(task), surplus):
                raise Violation(f"{what}, and {task} of a lower priority stays")
        rest = surplus.copy()
        for task in there[1:]:
            rest.subtract(self._units.need(task))
        if not _helps(self._units.need(there[0]), rest):
            raise Violation(f"{what}, one more than needed")

    def _leaves(self, task: Task) -> bool:
        return task in self._asked and self._asked[task] == self._hosts.run_of(task)

    def _priority_of(self, task: Task) -> int:
        return self._priority.get(task[0], self._hosts.jobs[task[0]].priority)


def _helps(need: Mapping[str, int], surplus: Mapping[str, int]) -> bool:
    return any(amount and surplus.get(name, 0) > 0 for name, amount in need.items())
