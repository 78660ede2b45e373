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
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, runs_of
from paceline.simulate.checker.orders import victims_of
from paceline.simulate.checker.units import Units

Runs = set[tuple[Task, int]]
Ask = tuple[Task, int] | str
"""A unit's first task and the run that it is at, or a host."""


class Shrunk:
    """Follows asks, orders and answers. `hosts` and `devices` have taken the round before; `units` knows the needs of
    tasks.
    """

    def __init__(self, hosts: Hosts, units: Units, devices: Devices) -> None:
        self._hosts = hosts
        self._devices = devices
        self._units = units
        self._priority: dict[str, int] = {}
        self._asked: dict[Ask, Runs] = {}
        """The victims of asks that have no answer, by the unit that asks or the host that offers less."""
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
                by = ((event.job_id, event.first), event.run) if event.job_id else event.host_ids[0]
                self._asked[by] = victims_of(event)

    def _take(self, event: Event) -> None:
        match event:
            case JobPriorityChanged():
                self._priority[event.job_id] = event.priority
            case PreemptionsOrdered():
                self._orders[event.order] = {(task, run) for task, run, *_ in runs_of(event)}
                for_unit = ((event.for_job, event.for_first), event.for_run)
                self._asked.pop(for_unit if event.for_job else event.host_ids[0], None)
            case PreemptionRefused():
                victim = ((event.victim_job_id, event.victim_instance), event.victim_run)
                self._spared.add(victim[0])
                unit: Ask = ((event.job_id, event.first), event.run)
                void = {unit} if event.job_id else {by for by, victims in self._asked.items() if victim in victims}
                for by in void & {*self._asked}:  # all of the ask, whichever victim may stay
                    del self._asked[by]
            case PreemptionAnswered():
                victims = self._orders.pop(event.number, set())
                if event.code == Code.DEFERRED:
                    self._spared |= {task for task, _ in victims}

    def _check(self, event: PreemptionAsked, round_: Round) -> None:
        host_id, victims = event.host_ids[0], dict(victims_of(event))
        what = f"{round_} asks {sorted(victims)[:3]} to leave {host_id}"
        surplus: Counter[str] = Counter(self._hosts.surplus(host_id))
        on_host = self._hosts.on(host_id)
        for task in on_host:
            if self._leaves(task):
                surplus.subtract(self._units.need(task))
        gangs = {task: self._hosts.gang_of(task) or [task] for task in victims}
        vacate = {task for task, gang in gangs.items() if any(map(self._devices.is_to_leave, gang))}
        if not +surplus and vacate != {*victims}:
            raise Violation(f"{what}, which holds the rest of its runs")
        for task, run in victims.items():
            if self._hosts.run_of(task) != run or self._leaves(task):
                raise Violation(f"{what}: {task} run {run} has no place, or leaves already")
            if not self._hosts.jobs[task[0]].preemptible:
                raise Violation(f"{what}: {task} isn't preemptible")
        there = [task for task in on_host if task in victims and task not in vacate]
        for task in there:
            if not self._hosts.gang_of(task) and not _helps(self._units.need(task), self._hosts.surplus(host_id)):
                raise Violation(f"{what}: {task} holds nothing of what lacks")
        if not vacate:
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
        run = self._hosts.run_of(task)
        return any((task, run) in victims for victims in (*self._asked.values(), *self._orders.values()))

    def _priority_of(self, task: Task) -> int:
        return self._priority.get(task[0], self._hosts.jobs[task[0]].priority)


def _helps(need: Mapping[str, int], surplus: Mapping[str, int]) -> bool:
    return any(amount and surplus.get(name, 0) > 0 for name, amount in need.items())
