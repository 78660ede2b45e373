"""Checks claims over time: no entitled work waits long for hosts that others would have to leave.

Two bounds. A task for which some host has what it needs, once those there have left who must, gets it soon after its
right began; that is checked each time, and counts only while it held all the time. And where all work may be
preempted and nothing has a limit, no claim waits longer than clearing hosts and the longest slice take.
"""

from collections import Counter

from events.records.lifecycle import JobAccepted
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, is_guarded, upwards
from paceline.simulate.checker.orders import Orders
from paceline.simulate.checker.plans import Plans
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.revocations import REVOCABLE
from paceline.simulate.checker.rules import Giver, Taker, slice_ms, why_not

SOON_MS = 180_000
"""So long two rounds and a grace period may take."""
LONG_MS = 3_600_000
"""So much longer than clearing hosts and the longest slice no claim waits."""


class Claims:
    """Looks at a cell from time to time."""

    def __init__(self, hosts: Hosts, plans: Plans, pools: Pools, orders: Orders) -> None:
        self._hosts, self._plans, self._pools, self._orders = hosts, plans, pools, orders
        self._since: dict[tuple[Task, int], int] = {}
        """Since when tasks could have had a place by others' leaving, at each look."""
        self._there: dict[str, Counter[str]] = {}
        """The amounts that `_placed` has found for pools in this look."""

    def look(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where a claim has waited too long."""
        self._there.clear()
        units = self._pools.units
        planned = {task for unit in self._plans.plans for task in unit.tasks()}
        could: dict[tuple[Task, int], int] = {}
        bounded = self._all_may_go()
        settings = self._pools.settings
        longest = slice_ms(settings.turn_for_ms, settings.turn_doublings, settings.turn_doublings)
        for task, admission in units.held.items():
            if units.jobs[task[0]].kind == "daemon":
                continue
            if not admission.due_ms or self._hosts.run_of(task) == admission.run:
                continue  # it has a place: entitlement may not have written a round since
            waits_ms = now - admission.due_ms
            if bounded and waits_ms > settings.clear_after_ms + longest + LONG_MS and self._fits_somewhere(task):
                raise Violation(f"at {now}, {task} is entitled and waits for a place since {waits_ms // 1000} s")
            if task in planned or task in units.gangs or waits_ms < self._delay_ms(task, now):
                continue
            at = (task, admission.run)
            if host_id := self._where(task, now):
                could[at] = self._since.get(at, now)
                if now - could[at] > SOON_MS:
                    raise Violation(f"at {now}, {task} has a right since long, and others on {host_id} needn't leave")
        self._since = could

    def _all_may_go(self) -> bool:
        jobs = self._pools.units.jobs.values()
        pools = self._pools.defined.values()
        soft = all(job.preemptible and not is_guarded(job) for job in jobs)
        soft = soft and not any(REVOCABLE in shape.resources for job in jobs for shape in job.shapes)
        return soft and not any(pool.limit or pool.closed or pool.controllers_percent < 100 for pool in pools)

    def _fits_somewhere(self, task: Task) -> bool:
        """Whether the gang of a task fits on the hosts that are there, if they were empty."""
        tasks = self._pools.units.unit(task)
        shape = shape_of(self._pools.units.jobs[task[0]], task[1])
        if self._hosts.is_ruled(task[0]):
            return False
        room = 0
        for host_id, host in self._hosts.hosts.items():
            offer = host.offer
            if offer is None or not self._hosts.is_up(host_id):
                continue
            if self._hosts.allows(task[0], shape, host_id):
                room += min(
                    (offer.capacity.get(name, 0) // amount for name, amount in shape.resources.items() if amount),
                    default=0,
                )
        return room >= len(tasks)

    def _delay_ms(self, task: Task, now: int) -> int:
        """From when on it has a right, counted from when it was entitled."""
        pool = self._pools.defined.get(self._pools.units.jobs[task[0]].pool)
        delay = pool.preemption_delay_ms if pool is not None else None
        delay = self._pools.settings.preemption_delay_ms if delay is None else delay
        lately = self._pools.units.displaced(task, now)
        settled = self._pools.settings.settle_ms if lately else 0
        return max(delay, settled) if delay >= 0 else now

    def _where(self, task: Task, now: int) -> str:
        """A host on which the task fits once those have left who must; empty: there is none."""
        units = self._pools.units
        job = units.jobs[task[0]]
        shape = shape_of(job, task[1])
        reserved = {host_id for each in self._plans.reserved.values() for host_id in each.host_ids}
        planned = self._plans.kept()
        if shape.ports or any(name in self._pools.licences for name in shape.resources):
            return ""
        if self._hosts.waits_for_home(task) or self._hosts.is_ruled(task[0]):
            return ""
        reserved |= self._hosts.claimed()
        if task in units.parked and not self._pools.within_limits(job, shape.resources):
            return ""
        bound = self._hosts.bound_to(task)
        for host_id, host in self._hosts.hosts.items():
            offer = host.offer
            if (
                bound not in ("", host_id)
                or host_id in reserved
                or host_id in planned
                or offer is None
                or not self._hosts.is_up(host_id)
            ):
                continue
            if not self._hosts.allows(task[0], shape, host_id) or self._hosts.bound_to(task) not in ("", host_id):
                continue
            free = Counter(offer.capacity)
            free.subtract(host.used)
            free.update(self._leaves(job, task, host_id, now))
            if all(free[name] >= amount for name, amount in shape.resources.items()):
                return host_id
        return ""

    def _leaves(self, job: JobAccepted, task: Task, host_id: str, now: int) -> Counter[str]:
        """The amounts of the work on a host that would have to leave it, each unit considered alone."""
        units = self._pools.units
        need, from_others, from_pool = units.need(task), Counter[str](), Counter[str]()
        mine = self._orders.entitled.get(job.pool)
        by_pool: dict[str, Counter[str]] = {}
        for victim in self._hosts.on(host_id):
            its = units.jobs[victim[0]]
            admission = units.held.get(victim)
            if admission is None or victim in units.leaving or victim in units.gangs:
                continue
            if not its.preemptible or is_guarded(its) or self._is_spared(victim, now):
                continue
            if its.pool == job.pool:
                if units.priority[victim[0]] < units.priority[job.job_id] or not admission.entitled:
                    from_pool.update(units.need(victim))
                continue
            entitled = self._orders.entitled.get(its.pool)
            if entitled is None or mine is None:
                continue
            less = by_pool.setdefault(its.pool, Counter())
            placed = self._placed(its.pool)
            placed.subtract(less)
            amount = units.need(victim)
            giver = Giver(placed, entitled, {})
            if not why_not(amount, giver, Taker(need, self._placed(job.pool), mine, False), from_others, False):
                less.update(amount)
                from_others.update(amount)
                from_pool.update(amount)
        return from_pool

    def _placed(self, pool: str) -> Counter[str]:
        """The amounts of a pool that have a place and aren't leaving."""
        units = self._pools.units
        if pool not in self._there:
            tasks = (task for task, _ in self._hosts.placed() if task not in units.leaving)
            self._there[pool] = units.needs(task for task in tasks if pool in upwards(units.jobs[task[0]].pool))
        return self._there[pool].copy()

    def _is_spared(self, task: Task, now: int) -> bool:
        units = self._pools.units
        often = len(units.displaced(task, now)) >= self._pools.settings.preemptions_per_hour
        return often or units.spared_ms.get(task, 0) > now
