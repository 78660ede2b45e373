"""Checks what tasks ask of the tasks beside them, after each round of placement; shares no code with placement."""

from collections import Counter
from collections.abc import Mapping

from events.records.lifecycle import JobAccepted
from events.records.parts import PlacementRules, TaskShape
from events.records.placement import TasksPlaced
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, places_of


class Beside:
    """Follows placement; `hosts` has taken each round of it."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        if not self._hosts.any_ruled():
            return
        placed = [
            (task, host_id)
            for event in round_.decisions
            if isinstance(event, TasksPlaced)
            for task, _, host_id, _, _ in places_of(event)
            if not self._hosts.bound_to(task)
        ]
        at = {task: host_id for task, (_, host_id, _) in self._hosts.held.items()}
        new = {task: order for order, (task, _) in enumerate(placed)}
        for task, host_id in placed:
            self._look(task, host_id, at, new, round_)

    def forbids(self, task: Task, host_id: str, other: Task) -> bool:
        """Whether a task may not be on a host because of where another one is."""
        _, there, _ = self._hosts.held[other]
        over = self._apart(task, other)
        if over and self._group(there, over) == self._group(host_id, over):
            return True
        return there == host_id and self._alone(task, other)

    def _alone(self, task: Task, other: Task) -> bool:
        """Whether one of two tasks wants its host for itself, which the other may not share."""
        daemon = "daemon" in (self._hosts.jobs[task[0]].kind, self._hosts.jobs[other[0]].kind)
        return task[0] != other[0] and not daemon and (self._rules(task).exclusive or self._rules(other).exclusive)

    def _look(self, task: Task, host_id: str, at: Mapping[Task, str], new: Mapping[Task, int], round_: Round) -> None:
        """`new`: the tasks of the round, numbered as they were placed: who comes later goes by the limit of its own
        version.
        """
        job = self._hosts.jobs[task[0]]
        shape = shape_of(job, task[1])
        rules, what = shape.rules or PlacementRules(), f"{round_} places {task} on {host_id}"
        here = [other for other, there in at.items() if there == host_id]
        mine = [other for other in here if other[0] == task[0] and new.get(other, -1) <= new[task]]
        if rules.host_limit and len(mine) > rules.host_limit:
            raise Violation(f"{what}, the {len(mine)}th of its job there, {rules.host_limit} are allowed")
        for other in here:
            if self._alone(task, other):
                raise Violation(f"{what} beside {other}, which is of another job")
        for other, there in at.items():
            if (
                other != task
                and (over := self._apart(task, other))
                and self._group(there, over) == self._group(host_id, over)
            ):
                raise Violation(f"{what} beside {other} on {there}, which are kept apart by {over}")
        for term in (each for each in rules.affinity if not each.apart and not each.weight):
            having = [other for other in at if other != task and self._has(other, term.label, term.value)]
            near = [each for each in having if self._group(at[each], term.over) == self._group(host_id, term.over)]
            first = job.labels.get(term.label) == term.value and all(other in new for other in having)
            if not near and not first:
                raise Violation(f"{what}, which isn't beside {term}")
        if rules.spread_over:
            self._spread(task, job, rules, shape, at, what)

    def _spread(
        self, task: Task, job: JobAccepted, rules: PlacementRules, shape: TaskShape, at: Mapping[Task, str], what: str
    ) -> None:
        over = rules.spread_over
        counts = Counter(self._group(there, over) for other, there in at.items() if other[0] == task[0])
        mine = counts[self._group(at[task], over)]
        eligible = {
            self._group(host_id, over)
            for host_id, host in self._hosts.hosts.items()
            if self._hosts.is_up(host_id)
            and self._hosts.allows(task[0], shape, host_id)
            and self._hosts.holds_one(shape, host)
        }
        if rules.skew and mine - min((counts[each] for each in eligible), default=0) > rules.skew:
            raise Violation(f"{what}: {mine} of {counts}, with a skew of {rules.skew}")
        if rules.most and mine > rules.most:
            raise Violation(f"{what}: {mine} of {counts}, at most {rules.most} may be")
        percent = {each.value: each.percent for each in rules.targets}.get(self._group(at[task], over) or "")
        if rules.hard and percent is not None and (mine - 1) * 100 >= percent * job.instances:
            raise Violation(f"{what}: {mine} of {job.instances} are more than {percent} percent")

    def _apart(self, task: Task, other: Task) -> str:
        """Over what two tasks are kept apart, by the one or the other; empty: they aren't."""
        for one, two in ((task, other), (other, task)):
            for term in self._rules(one).affinity:
                if term.apart and not term.weight and self._has(two, term.label, term.value):
                    return term.over
        return ""

    def _rules(self, task: Task) -> PlacementRules:
        return shape_of(self._hosts.jobs[task[0]], task[1]).rules or PlacementRules()

    def _has(self, task: Task, label: str, value: str) -> bool:
        return self._hosts.jobs[task[0]].labels.get(label) == value

    def _group(self, host_id: str, over: str) -> str | None:
        if over == "host":
            return host_id
        offer = self._hosts.hosts[host_id].offer
        return offer.attributes.get(over) if offer is not None else None
