"""Checks gangs that are near each other, after each round of placement; shares no code with placement."""

import re
from collections import Counter
from collections.abc import Iterator

from events.records.lifecycle import JobAccepted
from events.records.parts import PlacementRules, TaskShape
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, places_of
from paceline.simulate.checker.plans import Plans


class Nearness:
    """Follows placement; `hosts` has taken each round of it, and `plans` hasn't yet."""

    def __init__(self, hosts: Hosts, plans: Plans) -> None:
        self._hosts, self._plans = hosts, plans

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
        values = {self._value(self._hosts.host_of(task), level) for task in tasks}
        if len(values) > 1:
            raise Violation(f"{what}, whose tasks {tasks[0][1]} to {tasks[-1][1]} are in several of {level}: {values}")

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

    def _are_few(self, gang: list[Task], job: JobAccepted, shape: TaskShape, rules: PlacementRules, what: str) -> None:
        """No fewer groups had room for the gang, as far as nothing but amounts matters."""
        level = rules.near or (rules.within if rules.segments else "")
        plain = PlacementRules(
            tolerations=rules.tolerations,
            stays=rules.stays,
            near=rules.near,
            within=rules.within,
            segments=rules.segments,
        )
        if not level or rules != plain or shape.ports or job.labels or job.longest_ms:
            return
        used = {self._value(self._hosts.host_of(task), level) for task in gang}
        fits = self._fits(gang, shape)
        whole = rules.within if rules.near else ""
        for part in {self._value(host, whole) for host in fits} if whole else {""}:
            room: Counter[str] = Counter()
            for host, tasks in fits.items():
                if not whole or self._value(host, whole) == part:
                    room[self._value(host, level)] += tasks
            segments = sorted((tasks // (rules.segments or 1) for tasks in room.values()), reverse=True)
            fewer = segments[: len(used) - 1]
            if sum(fewer) >= len(gang) // (rules.segments or 1):
                raise Violation(f"{what} in {sorted(used)} of {level}, and {len(fewer)} would do: {room}")

    def _fits(self, gang: list[Task], shape: TaskShape) -> dict[str, int]:
        """The number of tasks of a gang that each host holds beside all others, and what is kept for some."""
        planned, claimed = self._plans.kept(), self._hosts.claimed()
        reserved = {host_id for each in self._plans.reserved.values() for host_id in each.host_ids}
        mine = Counter(self._hosts.host_of(task) for task in gang)
        fits: dict[str, int] = {}
        for host_id, host in self._hosts.hosts.items():
            if host_id in reserved | claimed or host.offer is None or not self._hosts.is_up(host_id):
                continue
            if not self._hosts.allows(gang[0][0], shape, host_id):
                continue
            free = Counter(host.offer.capacity)
            free.subtract(host.used)
            free.subtract(planned.get(host_id, Counter()))
            needs = [(free[name] + mine[host_id] * one, one) for name, one in shape.resources.items() if one]
            fits[host_id] = max(0, min((have // one for have, one in needs if have or one), default=0))
        return fits

    def _value(self, host_id: str, level: str) -> str:
        if level == "host":
            return host_id
        offer = self._hosts.hosts[host_id].offer
        return offer.attributes.get(level, "") if offer is not None else ""


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A text by its parts that are numbers, by their size, and those that are not."""
    parts = re.findall("[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), "") if part[0].isdigit() else (1, 0, part) for part in parts)
