"""Checks plans at placement's positions: the gang fits on the hosts that others are to leave, no victim is needless,
what they leave is the gang's, and no two gangs each hold half of what they need.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from events.columns import ints
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, PreemptionRefused, PreemptionsOrdered
from events.records.lifecycle import GangsQueued, PreemptionAnswered, RunsEnded
from events.records.parts import TaskShape
from events.records.placement import GangsReturned, HostsPooled, HostsReserved, PreemptionAsked, TasksPlaced
from events.records.rounds import TimerPassed
from events.task_shapes import shape_of
from paceline.simulate.checker.alternatives import by_alternative
from paceline.simulate.checker.beside import Beside
from paceline.simulate.checker.device_room import asks_devices
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Range, Task, flags_of, places_of, ranges_of, runs_of
from paceline.simulate.checker.orders import SECOND_MS, Unit
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.rules import MOVE

TENTH = 10
"""Several gangs may reserve hosts at once, if all together reserve no more than this part of the hosts."""


class Plan(NamedTuple):
    """The hosts that others are to leave for a unit, each with what the unit is to hold there, and the victims."""

    unit: Unit
    hosts: dict[str, Counter[str]]
    victims: dict[Task, int]
    until_ms: int


class Plans:
    """Follows plans and reservations. `hosts` and `devices` have taken the round before; `pools` knows jobs, gangs and
    settings.
    """

    def __init__(self, hosts: Hosts, pools: Pools, devices: Devices) -> None:
        self._hosts = hosts
        self._devices = devices
        self._pools = pools
        self._beside = Beside(hosts)
        self.plans: dict[Unit, Plan] = {}
        self.reserved: dict[Unit, HostsReserved] = {}
        self._of_order: dict[int, Unit] = {}
        self._leaving: dict[int, dict[Task, int]] = {}
        """The runs that leave for orders without an answer: what they hold is free for the next plan."""
        self._until_ms: dict[int, int] = {}
        """Until when they count as about to leave: then others are asked."""
        self._overdue: set[int] = set()
        self._relied: set[Unit] = set()
        """Units planned where an ask or order came to nothing: what they need may not come free."""
        self._moved: set[Task] = set()
        """The victims of this round that are to have a place elsewhere: later asks of it leave them that."""

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, _, event, now in round_.inputs:
            self._take(event, now)
        self._late(round_.now_ms)
        self._forget(0)
        self._moved = set()
        for event in round_.decisions:
            self._decided(event, round_)
        self._forget(round_.now_ms)
        for plan in self.plans.values():
            self._check_held(plan, round_)

    def kept(self) -> dict[str, Counter[str]]:
        """The amounts of hosts that plans keep: what their units need, less what their victims hold there yet."""
        by_host: dict[str, Counter[str]] = {}
        for plan in self.plans.values():
            for host_id in plan.hosts:
                mine = plan.hosts[host_id].copy()
                mine.subtract(self._held(plan.victims.items(), host_id))
                by_host.setdefault(host_id, Counter()).update(+mine)
        return by_host

    def _take(self, event: Event, now: int) -> None:
        match event:
            case PreemptionRefused():
                self._end(Unit(event.job_id, event.first, event.count, event.run))
            case PreemptionsOrdered() if event.for_job:
                unit = Unit(event.for_job, event.for_first, event.for_count, event.for_run)
                asked_until = self.plans[unit].until_ms if unit in self.plans else 0
                self._of_order[event.order] = unit
                self._until_ms[event.order] = max(asked_until, now + self._pools.settings.hold_for_ms)
                self._leaving[event.order] = {task: run for task, run, *_ in runs_of(event)}
            case PreemptionAnswered():
                of = self._of_order.pop(event.number, None)
                stay = self._leaving.pop(event.number, {})
                self._overdue.discard(event.number)
                if event.code != "LEFT" and of is not None:
                    self.plans.pop(of, None)
                    self._stay(stay)
            case AdmissionsRanked():
                self._drop([gangs for gangs, entitled in flags_of(event) if not entitled])
            case RunsEnded():
                goes = {
                    task
                    for runs in (*self._leaving.values(), *(each.victims for each in self.plans.values()))
                    for task in runs
                }
                again = [task for task, _ in runs_of(event) if task in goes]  # at home, perhaps in this very round
                self._stay_at(
                    {host for task in again for host in (self._hosts.home_of(task), self._hosts.host_of(task))}
                )
            case GangsQueued() if event.shapes:  # what is kept at home for a task that asks more now comes first
                tasks = (task for each in ranges_of(event) for task in each.tasks())
                self._stay_at({home for task in tasks if (home := self._hosts.home_of(task))})

    def _late(self, now: int) -> None:
        """Drops the victims that haven't left in time from the counts."""
        overdue = {order for order in self._leaving if self._until_ms[order] <= now}
        for order in overdue - self._overdue:
            self._stay(self._leaving[order])
        self._overdue = overdue

    def _end(self, unit: Unit) -> None:
        """A plan is over; whom it asked for and has no order for stays."""
        plan = self.plans.pop(unit, None)
        if plan is not None:
            leaving = {task for tasks in self._leaving.values() for task in tasks}
            self._stay(plan.victims.keys() - leaving)

    def _stay(self, victims: Iterable[Task]) -> None:
        """Nobody of these leaves: plans on their hosts may have counted on it."""
        self._stay_at({self._hosts.host_of(task) for task in victims})

    def _stay_at(self, hosts: set[str]) -> None:
        """Notes that room on these hosts may not come free, as where a run has ended and its host is kept for
        the next.
        """
        self._relied |= {plan.unit for plan in self.plans.values() if not hosts.isdisjoint(plan.hosts)}

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case TasksPlaced():
                placed = {task for task, *_ in places_of(event)}
                for unit in [unit for unit in (*self.plans, *self.reserved) if placed & {*unit.tasks()}]:
                    self._end(unit)
            case GangsReturned():
                self._drop(ranges_of(event))
            case PreemptionAsked():
                self._asked(event, round_)
            case HostsReserved():
                self._reserve(event, round_)
            case HostsPooled():  # the unit may perhaps not use that host pool
                self._stay_at({*event.host_ids})
            case TimerPassed():
                for unit in [unit for unit, plan in self.plans.items() if plan.until_ms <= event.due_ms]:
                    self._end(unit)

    def _drop(self, gangs: list[Range]) -> None:
        tasks = {task for each in gangs for task in each.tasks()}
        for unit in [unit for unit in self.plans if tasks & {*unit.tasks()}]:
            self._end(unit)

    def _forget(self, now: int) -> None:
        """Plans end with their units, and with their time."""
        for unit, plan in list(self.plans.items()):
            waits = [task for task in unit.tasks() if self._hosts.waits(task) == unit.run]
            if not waits or plan.until_ms <= now:
                self._end(unit)
        self._relied &= self.plans.keys()

    def _asked(self, event: PreemptionAsked, round_: Round) -> None:
        if not event.job_id:
            return  # it is for no unit: `Shrunk`
        unit = Unit(event.job_id, event.first, event.count, event.run)
        what = f"{round_} asks others to leave for {unit}"
        jobs = [event.job_ids[at] for at in ints(event.job).tolist()]
        tasks = zip(jobs, ints(event.instance).tolist(), strict=True)
        victims = dict(zip(tasks, ints(event.victim_run).tolist(), strict=True))
        waits = [task for task in unit.tasks() if self._hosts.waits(task) == unit.run]
        hosts = self._needs(event, unit)
        if not waits and self._is_placed(unit, round_):
            return
        if len(waits) != sum(ints(event.tasks).tolist()):
            raise Violation(f"{what}, of which {len(waits)} wait, on hosts for {sum(ints(event.tasks).tolist())}")
        if not self._hosts.is_entitled(waits[0]):
            raise Violation(f"{what}, which is borrowed")
        for task, run in victims.items():
            if self._hosts.run_of(task) != run:
                raise Violation(f"{what}: {task} run {run} has no place")
        self._moved |= {task for task, way in zip(victims, ints(event.way).tolist(), strict=True) if way == MOVE}
        plan = Plan(unit, hosts, victims, round_.now_ms + self._pools.settings.hold_for_ms)
        self._relied.discard(unit)
        for host_id in hosts:
            if short := self._short(plan, host_id, ()):
                raise Violation(f"{what}: {host_id} would lack {short}")
        others = {host_id for other, each in self.reserved.items() if other != unit for host_id in each.host_ids}
        shape = by_alternative(shape_of(self._pools.units.jobs[unit.job_id], unit.first), event.alternative)
        judged = others.isdisjoint(hosts) and not shape.ports
        judged = judged and (not asks_devices(shape) or self._are_devices_known(plan))
        for unneeded in self._victim_units(plan) if judged else ():
            if any(self._short(plan, host_id, unneeded) for host_id in hosts) or self._keeps_out(plan, unneeded):
                continue
            if asks_devices(shape) and not self._find_devices(plan, shape, unneeded):
                continue
            if not self._may_count_on(plan):
                raise Violation(f"{what}, and {unneeded[0]} isn't in the way")
        self.plans[unit] = plan

    def _are_devices_known(self, plan: Plan) -> bool:
        """Whether it is known which devices a unit finds when its victims have left: of one task on a host where
        nobody else's plan or home takes some.
        """
        (host_id, *others), homes = plan.hosts, self._hosts.homes
        planned = any(host_id in other.hosts for other in self.plans.values() if other.unit != plan.unit)
        return len(plan.unit.tasks()) == 1 and not others and not planned and host_id not in homes

    def _find_devices(self, plan: Plan, shape: TaskShape, stay: tuple[Task, ...]) -> bool:
        """Whether a unit finds its devices on the host of its plan if some of its victims stayed."""
        in_time = (runs for order, runs in self._leaving.items() if order not in self._overdue)
        victims = (other.victims for other in self.plans.values())
        leave = {task for runs in (plan.victims, *victims, *in_time) for task in runs} - {*stay}
        return self._devices.fit(shape, next(iter(plan.hosts)), leave)

    def _is_placed(self, unit: Unit, round_: Round) -> bool:
        """Whether a round that asks for a unit places it too: with its plan it comes before later ones, for whom what
        is free there was kept until then. The ask is void.
        """
        places = [places_of(event) for event in round_.decisions if isinstance(event, TasksPlaced)]
        return {*unit.tasks()} <= {task for each in places for task, *_ in each}

    def _victim_units(self, plan: Plan) -> list[tuple[Task, ...]]:
        return sorted({self._pools.units.unit(task) for task in plan.victims})

    def _may_count_on(self, plan: Plan) -> bool:
        """Whether others may count on what comes free on these hosts without this plan: claims that need nobody else to
        leave ask for nobody, and are planned for before later ones all the same; and victims that move there.
        """
        planned = {task for other in self.plans for task in other.tasks()} | {*plan.unit.tasks()}
        counting = [task for task, _ in self._hosts.waiting() if self._hosts.is_entitled(task) and task not in planned]
        return any(
            all(
                amount <= room[name] or name in self._pools.licences
                for name, amount in self._pools.units.need(task).items()
            )
            for host_id in plan.hosts
            for room in [self._room(plan, host_id, tuple(plan.victims))]
            for task in (*counting, *(task for task in self._moved if self._hosts.host_of(task) != host_id))
        )

    def _keeps_out(self, plan: Plan, victims: tuple[Task, ...]) -> bool:
        """Whether rules about neighbours forbid the unit a host of its plan as long as these are where they are."""
        there = [task for task in victims if task in self._hosts.held]
        pairs = ((host_id, one) for host_id in plan.hosts for one in there)
        return any(self._beside.forbids(task, *pair) for pair in pairs for task in plan.unit.tasks())

    def _short(self, plan: Plan, host_id: str, stays: tuple[Task, ...]) -> dict[str, int]:
        """The amounts that a host would lack for the tasks that are planned there if these victims stayed, and all
        others that are to be preempted had left; devices that the host names one by one aren't judged by amounts.
        """
        room, need = self._room(plan, host_id, stays), plan.hosts[host_id]
        lacks = {name: amount - room[name] for name, amount in need.items() if amount > room[name]}
        return {name: amount for name, amount in lacks.items() if name not in self._hosts.hosts[host_id].one_by_one}

    def _room(self, plan: Plan, host_id: str, stays: tuple[Task, ...]) -> Counter[str]:
        """The amounts that a host would have for a plan."""
        host = self._hosts.hosts[host_id]
        room = Counter(host.offer.capacity if host.offer is not None else {})
        room.subtract(host.used)
        others = [other for other in self.plans.values() if other.unit != plan.unit]
        for other in others:
            room.subtract(other.hosts.get(host_id, Counter()))
        in_time = (runs for order, runs in self._leaving.items() if order not in self._overdue)
        victims = (plan.victims, *(other.victims for other in others), *in_time)
        leaving = {run for runs in victims for run in runs.items() if run[0] not in stays}
        room.update(self._held(leaving, host_id))
        return room

    def _needs(self, event: PreemptionAsked, unit: Unit) -> dict[str, Counter[str]]:
        """The needs of the tasks that are planned on each host, without licences."""
        job = self._pools.units.jobs[unit.job_id]
        shapes = list(dict.fromkeys(str(shape_of(job, instance)) for _, instance in unit.tasks()))
        first = {str(shape_of(job, instance)): instance for _, instance in reversed(unit.tasks())}
        which = ints(event.shape).tolist() or [0] * len(event.host_ids)
        by_host: dict[str, Counter[str]] = {}
        for host_id, count, at in zip(event.host_ids, ints(event.tasks).tolist(), which, strict=True):
            need = by_alternative(shape_of(job, first[shapes[at]]), event.alternative).resources
            amounts = {name: count * amount for name, amount in need.items() if name not in self._pools.licences}
            by_host.setdefault(host_id, Counter()).update(amounts)
        return by_host

    def _held(self, runs: Iterable[tuple[Task, int]], host_id: str) -> Counter[str]:
        """The amounts that these runs still hold on a host. Each run of a task that is placed again counts by
        itself.
        """
        return self._pools.units.needs(
            task for task, run in runs if self._hosts.host_of(task) == host_id and self._hosts.run_of(task) == run
        )

    def _check_held(self, plan: Plan, round_: Round) -> None:
        """Nobody takes what others leave for a unit, as long as its hosts are there."""
        if plan.unit in self._relied or not all(self._hosts.is_up(host_id) for host_id in plan.hosts):
            return
        for host_id in plan.hosts:
            if short := self._short(plan, host_id, ()):
                raise Violation(f"{round_} gives others what is kept on {host_id} for {plan.unit}: it lacks {short}")

    def _reserve(self, event: HostsReserved, round_: Round) -> None:
        unit, settings = Unit(event.job_id, event.first, event.count, event.run), self._pools.settings
        what = f"{round_} reserves hosts for {unit}"
        if event.state != "RESERVED":
            if self.reserved.pop(unit, None) is None:
                raise Violation(f"{round_} gives up hosts for {unit}, which has reserved none: {event.state}")
            return
        new = unit not in self.reserved
        self.reserved[unit] = event
        if not new:
            return
        if all(self._hosts.run_of(task) == unit.run for task in unit.tasks()):
            return  # they got a place in the same round, after all
        waits = [task for task in unit.tasks() if self._hosts.waits(task) == unit.run]
        if not waits or not self._hosts.is_entitled(waits[0]):
            raise Violation(f"{what}, which isn't entitled and without a place")
        if len(waits) != sum(ints(event.tasks).tolist()):
            raise Violation(f"{what}, of which {len(waits)} wait, for {sum(ints(event.tasks).tolist())} tasks")
        waited = round_.now_ms - self._hosts.since_ms(waits[0])
        if waited + SECOND_MS < settings.reserve_after_ms:
            raise Violation(f"{what}, which waits for {waited} ms")
        if event.until_ms > round_.now_ms + settings.reserve_for_ms + SECOND_MS:
            raise Violation(f"{what} until {event.until_ms}, longer than they may be")
        hosts = [host_id for each in self.reserved.values() for host_id in each.host_ids]
        up = sum(map(self._hosts.is_up, self._hosts.hosts))
        if len(self.reserved) > 1 and (len({*hosts}) < len(hosts) or len(hosts) * TENTH > up):
            raise Violation(f"{what}, and {len(self.reserved) - 1} others have some: {len(hosts)} of {up}")
