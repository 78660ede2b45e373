"""Checks capacity over time: none is idle for long that waiting work could use.

For each host the least that was free there in a window of time is known, for each pool the least room under its limits.
What some preemptible work that waited all the time would have found room in all the time was idle. Exceptions: what is
held or reserved for others, static reservations, closed pools, controllers beyond their limit. Room that only work
could use which may not be preempted isn't looked at.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from events.records.lifecycle import JobAccepted
from events.records.parts import TaskShape
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, upwards
from paceline.simulate.checker.plans import Plans
from paceline.simulate.checker.pools import Pools

IDLE_MS = 900_000
STEPS = 30
"""The window moves on by so many parts."""
NO_LIMIT = 1 << 62
Amounts = Mapping[str, int]


class _Seen(NamedTuple):
    """The free amounts at a time: of hosts, under limits of pools, and of licences and beyond static reservations."""

    at_ms: int
    hosts: dict[str, Counter[str]]
    rooms: dict[str, Counter[str]]


class Idle:
    """Looks at a cell from time to time."""

    def __init__(self, hosts: Hosts, plans: Plans, pools: Pools) -> None:
        self._hosts, self._plans, self._pools = hosts, plans, pools
        self._seen: deque[_Seen] = deque()

    def look(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where something was idle all the time."""
        seen = _Seen(now, self._free(), self._rooms(now))
        if self._seen and now - self._seen[-1].at_ms < IDLE_MS // STEPS:
            last = self._seen.pop()
            seen = _Seen(last.at_ms, _least(last.hosts, seen.hosts), _least(last.rooms, seen.rooms))
            self._seen.append(seen)
            return
        self._judge(now)
        self._seen.append(seen)
        while self._seen and self._seen[0].at_ms < now - IDLE_MS - IDLE_MS // STEPS:
            self._seen.popleft()

    def _judge(self, now: int) -> None:
        if not self._seen or self._seen[0].at_ms > now - IDLE_MS:
            return
        hosts, rooms = self._seen[0].hosts, self._seen[0].rooms
        for each in self._seen:
            hosts, rooms = _least(hosts, each.hosts), _least(rooms, each.rooms)
        for job, shape, tasks in self._waiting(now - IDLE_MS):
            if not self._has_room(job, shape, tasks, rooms, now - IDLE_MS):
                continue
            claimed = self._hosts.claimed()
            free = {host_id: room for host_id, room in hosts.items() if host_id not in claimed}
            where = [] if self._hosts.is_ruled(tasks[0][0]) else self._where(job, shape, len(tasks), free)
            if where:
                raise Violation(
                    f"for {IDLE_MS // 1000} s up to {now}, {tasks[0]} of {job.pool} waits and would fit on {where}"
                )

    def _waiting(self, since: int) -> Iterator[tuple[JobAccepted, TaskShape, tuple[Task, ...]]]:
        """One unit of each kind that has waited since a time: its job, its shape, which tasks go together."""
        units, kinds, hosts = self._pools.units, set(), self._hosts
        has_none = (
            task
            for task, admission in units.held.items()
            if hosts.run_of(task) != admission.run and not hosts.is_over(task, admission.run)
        )
        for task in (task for task in (*units.queued, *has_none) if not hosts.waits_for_home(task)):
            job = units.jobs[task[0]]
            shape = shape_of(job, task[1])
            tasks = units.unit(task)
            kind = (job.pool, job.kind, job.controller, len(tasks), str(shape), task in units.held)
            if (
                not job.preemptible
                or shape.ports
                or kind in kinds
                or any(units.queued_ms[each] > since for each in tasks)
            ):
                continue
            if len({str(shape_of(job, instance)) for _, instance in tasks}) == 1:
                kinds.add(kind)
                yield job, shape, tasks

    def _has_room(
        self,
        job: JobAccepted,
        shape: TaskShape,
        tasks: tuple[Task, ...],
        rooms: dict[str, Counter[str]],
        since: int,
    ) -> bool:
        """Whether a gang had room in its pools all the time since then. A claim holds its licences itself."""
        if job.controller and self._limits_controllers(job.pool):
            return False
        admissions = [self._pools.units.held.get(task) for task in tasks]
        claimed = all(each is not None and each.entitled and each.due_ms <= since for each in admissions)
        for path in ("/", *upwards(job.pool)):
            room = rooms.get(path)
            if room is None:
                return False
            for name, amount in shape.resources.items():
                if room[name] < len(tasks) * amount and not (claimed and name in self._pools.licences):
                    return False
        return True

    def _where(self, job: JobAccepted, shape: TaskShape, size: int, hosts: dict[str, Counter[str]]) -> list[str]:
        """Some hosts on which a gang would have fitted all the time; none: it wouldn't."""
        host_ids: list[str] = []
        for host_id, free in hosts.items():
            host = self._hosts.hosts.get(host_id)
            if host is None or host.offer is None:
                continue
            if self._hosts.allows(job.job_id, shape, host_id):
                host_ids += [host_id] * min(size, _times(free, shape.resources, self._pools.licences))
        return host_ids[:size] if len(host_ids) >= size else []

    def _limits_controllers(self, path: str) -> bool:
        defined = self._pools.defined
        return any(each in defined and defined[each].controllers_percent < 100 for each in upwards(path))

    def _free(self) -> dict[str, Counter[str]]:
        """The free amounts of hosts that take tasks, without what is kept for plans; reserved hosts have nothing."""
        planned = self._plans.kept()
        reserved = {host_id for each in self._plans.reserved.values() for host_id in each.host_ids}
        by_host: dict[str, Counter[str]] = {}
        for host_id, host in self._hosts.hosts.items():
            if host_id in reserved or host.offer is None or not self._hosts.is_up(host_id):
                continue
            free = Counter(host.offer.capacity)
            free.subtract(host.used)
            free.subtract(planned.get(host_id, Counter()))
            by_host[host_id] = free
        return by_host

    def _rooms(self, now: int) -> dict[str, Counter[str]]:
        """The room of each open pool under its limit beside what has a place; for the root that of licences, and beyond
        static reservations.
        """
        pools = self._pools
        names = {name for host in self._hosts.hosts.values() if host.offer for name in host.offer.capacity}
        names |= {*pools.licences}
        used: dict[str, Counter[str]] = {path: Counter() for path in pools.defined}
        for task, _ in self._hosts.placed():
            for path in upwards(pools.units.jobs[task[0]].pool):
                used.setdefault(path, Counter()).update(pools.units.need(task))
        rooms = {
            path: Counter({name: pool.limit.get(name, NO_LIMIT) - used[path][name] for name in names})
            for path, pool in pools.defined.items()
            if not pool.closed
        }
        rooms["/"] = Counter(dict.fromkeys(names, NO_LIMIT))
        tops = [path for path in pools.defined if path.count("/") == 1]
        for name, amount in pools.licences.items():
            rooms["/"][name] = amount - sum(pools.allocated.get(path, {}).get(name, 0) for path in tops)
        for name in {name for pool in pools.defined.values() for name in pool.static}:
            rooms["/"][name] = min(rooms["/"][name], self._beyond_static(name, now))
        return rooms

    def _beyond_static(self, name: str, now: int) -> int:
        """The free amount of a resource in the cell, less what static reservations keep of it."""
        hosts = [host for host_id, host in self._hosts.hosts.items() if self._hosts.is_up(host_id) and host.offer]
        free = sum(host.offer.capacity.get(name, 0) - host.used[name] for host in hosts if host.offer)
        for path, pool in self._pools.defined.items():
            if name in pool.static:
                free -= max(0, pool.reservation.get(name, 0) - self._pools.units.placed(path, now)[name])
        return free


def _least(one: dict[str, Counter[str]], other: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    """The smaller amount of both, by key."""
    return {
        key: Counter({name: min(one[key][name], other[key][name]) for name in _names(one[key], other[key])})
        for key in one
        if key in other
    }


def _names(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*one, *other)))


def _times(free: Counter[str], need: Amounts, licences: Amounts) -> int:
    """The number of times that a need fits."""
    return min(
        (max(0, free[name]) // amount for name, amount in need.items() if amount and name not in licences), default=0
    )
