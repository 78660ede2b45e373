"""Checks verdicts of sla: no more goes than budgets let, the oldest first, units whole; nothing waits that may go."""

from collections import Counter
from collections.abc import Iterable

from events.columns import ints
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, runs_of
from paceline.simulate.checker.services import ALONE, GANG, Ask, Services

ROUNDS = 10
"""Sla may take so many rounds to allow what may go, as there is a bound on what one round decides."""
NEVER = "SLA_NEVER_ALLOWS"


class Budgets:
    """Follows what sla takes in and decides."""

    def __init__(self) -> None:
        self.services = Services()
        self._could_go: dict[Task, int] = {}
        """Since which round each disruption that waits might have been allowed."""

    def round(self, round_: Round) -> None:
        """Takes a round of sla. Raises `Violation`."""
        now, services = round_.now_ms, self.services
        for each in round_.inputs:
            services.take(each, now)
        allowed = [
            (task, run, free)
            for event in round_.decisions
            if isinstance(event, DisruptionAllowed)
            for (task, run), free in zip(runs_of(event), _free(event), strict=True)
        ]
        for event in round_.decisions:
            if isinstance(event, DisruptionDeferred) and event.code == NEVER:
                self._never(event, round_)
        if allowed:
            self._allowed(allowed, round_)
        self._look_at_waiting(round_)

    def _allowed(self, allowed: list[tuple[Task, int, bool]], round_: Round) -> None:
        now, services = round_.now_ms, self.services
        asks: dict[Task, Ask] = {}
        costs: dict[str, list[Task]] = {}
        """The instances of each job that go and cost something."""
        poor: set[str] = set()
        """Jobs of which something goes that is up, and isn't there."""
        for task, run, free in allowed:
            ask = services.asked.get(task)
            job = services.jobs.get(task[0])
            if job is None or not job.guarded or task[1] not in job.instances:
                continue
            if ask is None or ask.run != run:
                raise Violation(f"{round_} allows {task} run {run}, which nobody asks for: {ask}")
            asks[task] = ask
            there = services.is_there(task, now)
            if free and there and task[1] in job.wanted_instances():
                raise Violation(f"{round_} allows {task} run {run} for nothing, which is available")
            if not free and there and task[1] in job.wanted_instances():
                costs.setdefault(task[0], []).append(task)
            elif task in services.available and task[1] in job.wanted_instances():
                poor.add(task[0])
        for job_id in sorted(costs.keys() | poor):
            self._within(job_id, len(costs.get(job_id, ())), round_)
        self._within_groups(costs, round_)
        self._oldest_first(asks, {task for tasks in costs.values() for task in tasks}, round_)
        self._whole(asks, round_)
        for task, run, _ in allowed:
            ask = asks.get(task)
            goes = task in costs.get(task[0], ())
            services.let_go(task, run, goes and ask is not None and ask.for_others, now)
        by_others = {task[0] for task, ask in asks.items() if ask.for_others and task in costs.get(task[0], ())}
        self._within_hours(by_others, round_)

    def _within(self, job_id: str, cost: int, round_: Round) -> None:
        """No more of a job goes than its budget lets."""
        services, now = self.services, round_.now_ms
        slack = services.slack(job_id, now)
        if slack is not None and cost > slack:
            limit, missing, extra = services.limit(job_id), services.missing(job_id, now), services.extra(job_id, now)
            raise Violation(
                f"{round_} lets {cost} instances of {job_id} go: of {limit} that may be missing, {missing} are, "
                f"and {extra} more than wanted are there"
            )

    def _within_groups(self, costs: dict[str, list[Task]], round_: Round) -> None:
        by_group: Counter[str] = Counter()
        for job_id, tasks in costs.items():
            by_group[self.services.jobs[job_id].policy.group] += len(tasks)
        for group, cost in by_group.items():
            slack = self.services.group_slack(group, round_.now_ms) if group else None
            if slack is not None and cost > slack:
                raise Violation(f"{round_} lets {cost} instances of group {group} go, {slack} may")

    def _within_hours(self, job_ids: Iterable[str], round_: Round) -> None:
        for job_id in job_ids:
            most, count = self.services.jobs[job_id].per_hour(), self.services.in_last_hour(job_id, round_.now_ms)
            if most is not None and count > most:
                raise Violation(f"{round_} disrupts {job_id} for others {count} times in an hour, {most} is the most")

    def _oldest_first(self, asks: dict[Task, Ask], costly: set[Task], round_: Round) -> None:
        """An older disruption doesn't wait while a younger one of its job goes that costs the same."""
        services, now = self.services, round_.now_ms
        for task, other in services.asked.items():
            if task in asks or other.unit != ALONE or not services.is_there(task, now):
                continue
            policy = services.jobs[task[0]].policy
            if policy.replace or policy.windows:
                continue
            for younger in (each for each in costly if each[0] == task[0]):
                ask = asks[younger]
                if ask.unit == ALONE and ask.for_others >= other.for_others and ask.since_s > other.since_s:
                    raise Violation(f"{round_} lets {younger} go, asked at {ask.since_s}, before {task}: {other}")

    def _whole(self, asks: dict[Task, Ask], round_: Round) -> None:
        """Nothing of a unit stays that is asked for."""
        for task, ask in asks.items():
            if ask.unit == ALONE or not self.services.is_there(task, round_.now_ms):
                continue
            for other, other_ask in self.services.asked.items():
                together = other_ask.unit == ask.unit == GANG and other[0] == task[0]
                together |= other_ask.unit > 0 < ask.unit and other_ask.host_id == ask.host_id
                if together and other not in asks and self.services.jobs[other[0]].guarded:
                    raise Violation(f"{round_} lets {task} go, and {other} of its unit stays: {ask}, {other_ask}")

    def _never(self, event: DisruptionDeferred, round_: Round) -> None:
        """A single run never goes only where nothing of its job may be missing, and nothing comes beside it."""
        for task, run in runs_of(event):
            ask = self.services.asked.get(task)
            if ask is None or ask.run != run or ask.unit != ALONE:
                continue
            limit, policy = self.services.limit(task[0]), self.services.jobs[task[0]].policy
            if limit != 0 and not policy.group:
                raise Violation(f"{round_} never allows {task} run {run}, and {limit} of its job may be missing")

    def _look_at_waiting(self, round_: Round) -> None:
        """A disruption doesn't wait for long that may go. Only those count that wait for their job's own budget."""
        services, now = self.services, round_.now_ms
        could_go: dict[Task, int] = {}
        units = self._units()
        for task, ask in services.asked.items():
            job = services.jobs[task[0]]
            policy = job.policy
            if ask.unit != ALONE or policy.replace or policy.group or policy.windows or policy.per_hour is not None:
                continue
            if policy.per_hour_percent is not None:
                continue
            is_there = services.is_there(task, now)
            if is_there and units.get(task[0], ask.since_s + 1) <= ask.since_s:
                continue
            slack = services.slack(task[0], now) if is_there else 1
            if task in services.available and not is_there:
                slack = (services.slack(task[0], now) or 0) + 1
            if slack is None or slack > 0:
                since = could_go[task] = self._could_go.get(task, round_.number)
                if round_.number - since > ROUNDS:
                    raise Violation(f"{round_} lets {task} wait, which may go since round {since}: {ask}")
        self._could_go = could_go

    def _units(self) -> dict[str, int]:
        """Since when the oldest unit waits that has something of each job: what is younger leaves slack to it."""
        since: dict[str, int] = {}
        of_job: dict[str, set[str]] = {}
        for (job_id, _), ask in self.services.asked.items():
            if ask.unit != ALONE:
                unit = f"host {ask.host_id}" if ask.host_id else f"gang {job_id}"
                since[unit] = min(ask.since_s, since.get(unit, ask.since_s))
                of_job.setdefault(job_id, set()).add(unit)
        return {job_id: min(since[unit] for unit in units) for job_id, units in of_job.items()}


def _free(event: DisruptionAllowed) -> list[bool]:
    return [bool(each) for each in ints(event.free).tolist()] or [False] * len(event.job_array)
