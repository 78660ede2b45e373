"""Checks gangs that are near each other, after each round of placement; shares no code with placement."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from events.records.lifecycle import JobAccepted
from events.records.parts import PlacementRules, TaskShape
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from events.resources import is_gpu
from events.task_shapes import shape_of
from events.topology import HOST, LINK_GROUP
from paceline.simulate.checker.device_room import asks_devices
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, places_of
from paceline.simulate.checker.plans import Plans


class Nearness:
    """Follows placement; `hosts` and `devices` have taken each round of it, and `plans` hasn't yet."""

    def __init__(self, hosts: Hosts, plans: Plans, devices: Devices) -> None:
        self._hosts, self._plans, self._devices = hosts, plans, devices

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        plain = all(isinstance(event, TasksPlaced | GangsUnplaced | GangsReturned) for event in round_.decisions)
        for gang in self._placed(round_):
            job = self._hosts.jobs[gang[0][0]]
            shapes = {str(shape_of(job, instance)): shape_of(job, instance) for _, instance in gang}
            rules = shape_of(job, gang[0][1]).rules or PlacementRules()
            what = f"{round_} places the gang of {job.job_id}"
            if rules.within and (rules.near or not rules.segments):
                self._are_together(gang, rules.within, what)
            if rules.segments:
                for first in range(0, len(gang), rules.segments):
                    self._are_together(gang[first : first + rules.segments], rules.near or rules.within, what)
            if len(shapes) == 1:
                self._are_in_order(gang, rules, what)
                if plain:  # else room may have been kept, or freed, in between
                    self._are_few(gang, job, next(iter(shapes.values())), rules, what)

    def _placed(self, round_: Round) -> Iterator[list[Task]]:
        """The gangs that a round places, each by rank."""
        seen: set[Task] = set()
        for event in round_.decisions:
            for task, *_ in places_of(event) if isinstance(event, TasksPlaced) else ():
                if task not in seen and task in self._hosts.held and len(gang := self._hosts.gang_of(task)) > 1:
                    seen |= {*gang}
                    yield sorted(gang)

    def _are_together(self, tasks: list[Task], level: str, what: str) -> None:
        groups = set().union(*(self._groups(task, level) for task in tasks))
        hosts = {self._hosts.host_of(task) for task in tasks} if level == LINK_GROUP else {""}
        if len(groups) > 1 or len(hosts) > 1:
            raise Violation(f"{what}, whose tasks {tasks[0][1]} to {tasks[-1][1]} are in several of {level}: {groups}")

    def _groups(self, task: Task, level: str) -> set[tuple[str, str]]:
        """The groups of a level in which a task is: of link groups those of its cards, and none for one without."""
        if level == LINK_GROUP:
            return self._devices.link_groups(task)
        return {("", self._value(self._hosts.host_of(task), level))}

    def _are_in_order(self, gang: list[Task], rules: PlacementRules, what: str) -> None:
        """Ranks follow the tree of hosts, but where groups that stay whole are in several parts of it."""
        levels, level = list(self._hosts.topology), rules.near or rules.within
        if level and level not in levels:
            levels.insert(0, level)
        hosts = [self._hosts.host_of(task) for task in gang]
        paths = [tuple(_natural(self._value(host, each)) for each in (*levels, "host")) for host in hosts]
        at = levels.index(level) if level else 0
        parents = {(path[at], path[:at]) for path in paths}
        if levels and len({value for value, _ in parents}) == len(parents) and paths != sorted(paths):
            raise Violation(f"{what} on {hosts}, which don't follow {levels}")
        if LINK_GROUP in levels:
            self._are_in_order_on_hosts(gang, what)

    def _are_in_order_on_hosts(self, gang: list[Task], what: str) -> None:
        """Ranks on a host follow its link groups; of tasks with cards of several nothing is said."""
        last: dict[str, tuple[tuple[int, int, str], ...]] = {}
        for task in gang:
            groups = [*self._devices.link_groups(task)]
            if len(groups) != 1 or not groups[0][1].startswith("group "):
                continue
            host_id, group = groups[0]
            if _natural(group) < last.get(host_id, ()):
                raise Violation(f"{what}, whose task {task[1]} is in {group} of {host_id}, behind one of a later group")
            last[host_id] = _natural(group)

    def _are_few(self, gang: list[Task], job: JobAccepted, shape: TaskShape, rules: PlacementRules, what: str) -> None:
        """No fewer groups had room for the gang, as far as nothing but amounts matters."""
        level = rules.near or (rules.within if rules.segments else "")
        plain = PlacementRules(
            tolerations=rules.tolerations,
            stays=rules.stays,
            near=rules.near,
            within=rules.within,
            segments=rules.segments,
            devices=rules.devices,
            devices_within=rules.devices_within,
            cores=rules.cores,
        )
        if not level or rules != plain or shape.ports or job.labels or job.longest_ms:
            return
        used = {group for task in gang for group in self._groups(task, level)}
        fits = self._fits(gang, shape)
        whole = rules.within if rules.near else ""
        for part in {self._value(host, whole) for host in fits} if whole else {""}:
            there = {host: tasks for host, tasks in fits.items() if not whole or self._value(host, whole) == part}
            if level == LINK_GROUP and used:
                room = self._segments_by_link_group(gang, shape, there, rules.segments or 1)
            else:
                room = self._segments(there, level, rules.segments or 1)
            fewer = sorted(room, reverse=True)[: len(used) - 1]
            if sum(fewer) >= len(gang) // (rules.segments or 1):
                raise Violation(f"{what} in {sorted(used)} of {level}, and {len(fewer)} would do: {there}")

    def _segments(self, fits: Mapping[str, int], level: str, segment: int) -> list[int]:
        """The segments for which each group of hosts has room, by the tasks that these hold."""
        room: Counter[str] = Counter()
        for host_id, tasks in fits.items():
            room[self._value(host_id, level)] += tasks
        return [tasks // segment for tasks in room.values()]

    def _segments_by_link_group(
        self, gang: list[Task], shape: TaskShape, fits: Mapping[str, int], segment: int
    ) -> list[int]:
        """The segments for which each link group has room, the first of each host as much as it can, the next ones
        what is left of what the host holds.
        """
        room: list[int] = []
        for host_id, tasks in fits.items():
            rest = tasks // segment
            by_group = self._devices.count_by_link_group(shape, host_id, len(gang), gang)
            for each in sorted(by_group.values(), reverse=True):
                room.append(min(each // segment, rest))
                rest -= room[-1]
        return room

    def _fits(self, gang: list[Task], shape: TaskShape) -> dict[str, int]:
        """The number of tasks of a gang that each host holds beside all others, and what is kept for some; devices are
        counted one by one, and no hosts where some are kept.
        """
        planned, claimed, asks = self._plans.kept(), self._hosts.claimed(), asks_devices(shape)
        reserved = {host_id for each in self._plans.reserved.values() for host_id in each.host_ids}
        claimed |= self._hosts.homes | (planned.keys() if asks else set())
        mine = Counter(self._hosts.host_of(task) for task in gang)
        amounts = {name: one for name, one in shape.resources.items() if one and not (asks and _is_of_devices(name))}
        fits: dict[str, int] = {}
        for host_id, host in self._hosts.hosts.items():
            if host_id in reserved | claimed or host.offer is None or not self._hosts.is_up(host_id):
                continue
            if not self._hosts.allows(gang[0][0], shape, host_id):
                continue
            free = Counter(host.offer.capacity)
            free.subtract(host.used)
            free.subtract(planned.get(host_id, Counter()))
            rooms = [(free[name] + mine[host_id] * one) // one for name, one in amounts.items()]
            fits[host_id] = max(0, min(rooms, default=len(gang) if asks else 0))
            if asks and fits[host_id]:
                fits[host_id] = self._devices.count(shape, host_id, min(fits[host_id], len(gang)), gang)
        return fits

    def _value(self, host_id: str, level: str) -> str:
        if level in (HOST, LINK_GROUP):
            return host_id
        offer = self._hosts.hosts[host_id].offer
        return offer.attributes.get(level, "") if offer is not None else ""


def _is_of_devices(name: str) -> bool:
    return is_gpu(name) or name == "gpu_memory"


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A text by its parts that are numbers, by their size, and those that are not."""
    parts = re.findall("[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), "") if part[0].isdigit() else (1, 0, part) for part in parts)
