"""The rules of budgets by plain loops: whether something may go is seen by letting it go and counting anew."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from events.codes import Code, RunCause
from events.records.parts import SlaPolicy

HOUR_MS = 3_600_000
NO_POLICY = SlaPolicy()


@dataclass(eq=False)
class Ask:
    """A disruption that waits."""

    since_ms: int
    why: RunCause
    unit: str
    """What leaves with it; empty: nothing."""


@dataclass(eq=False)
class Instance:
    """An instance, as users see it."""

    run: int = 1
    up: bool = False
    ripe_ms: int = 0
    host: int = 0
    ordered: bool = True
    held: int = 0
    ask: Ask | None = None
    wanted: bool = True
    surplus: bool = False
    leftover: bool = False
    hour_ms: int = -HOUR_MS

    @property
    def ready(self) -> bool:
        return self.up and not self.held and self.wanted and not self.leftover


@dataclass(eq=False)
class Job:
    """A job, and what its SLA says."""

    job_id: str
    instances: list[Instance]
    max_unavailable: int | None = None
    policy: SlaPolicy = NO_POLICY
    priority: int = 0
    hour: list[int] = field(default_factory=list)
    """When others were allowed to disrupt it."""

    def wanted(self) -> int:
        return sum(each.wanted and not each.surplus for each in self.instances)

    def limit(self) -> int:
        return limit(self.wanted(), self.max_unavailable, self.policy)

    def rate(self) -> float:
        policy, wanted = self.policy, self.wanted()
        of_percent = math.inf
        if policy.per_hour_percent is not None:
            of_percent = max(min(1, policy.per_hour_percent), math.floor(wanted * policy.per_hour_percent / 100))
        return min(math.inf if policy.per_hour is None else policy.per_hour, of_percent)


def limit(wanted: int, most: int | None, policy: SlaPolicy) -> int:
    """How many of so many may be unavailable."""
    bounds = [wanted]
    if most is not None:
        bounds.append(most)
    if policy.max_unavailable_percent is not None:
        part = math.floor(wanted * policy.max_unavailable_percent / 100)
        bounds.append(max(1, part) if policy.max_unavailable_percent else 0)
    if policy.min_available is not None:
        bounds.append(wanted - policy.min_available)
    if policy.min_available_percent is not None:
        bounds.append(wanted - math.ceil(wanted * policy.min_available_percent / 100))
    return max(0, min(bounds))


@dataclass(eq=False)
class Unit:
    """What goes together."""

    members: list[tuple[Job, Instance]]

    @property
    def order(self) -> tuple[int, int, str, int]:
        first = min((job.job_id, job.instances.index(one)) for job, one in self.members)
        return (
            min(one.ask.since_ms for _, one in self.members if one.ask),
            min(j.priority for j, _ in self.members),
            *first,
        )

    @property
    def single(self) -> bool:
        return not any(one.ask and one.ask.unit for _, one in self.members)

    def jobs(self) -> list[Job]:
        return [*{job.job_id: job for job, one in self.members if one.ready}.values()]


class Twin:
    """All jobs and hosts."""

    def __init__(self, jobs: list[Job], now: int) -> None:
        self.jobs = jobs
        self.now = now
        self.silent: set[int] = set()
        self.groups: dict[str, SlaPolicy] = {}
        self.keeper: Instance | None = None

    def healthy(self, one: Instance) -> bool:
        return one.up and not one.held and one.ripe_ms <= self.now and one.host not in self.silent

    def missing(self, job: Job) -> int:
        return sum(one.wanted and not one.surplus and not self.healthy(one) for one in job.instances)

    def extra(self, job: Job) -> int:
        return sum(one.surplus and not one.leftover and one.wanted and self.healthy(one) for one in job.instances)

    def over(self, job: Job) -> int:
        """How many more are down than may be."""
        return self.missing(job) - self.extra(job) - job.limit()

    def of_group(self, job: Job) -> tuple[str, list[Job], int]:
        group = job.policy.group if job.policy.group in self.groups else ""
        jobs = [each for each in self.jobs if each.policy.group == group]
        return group, jobs, limit(sum(each.wanted() for each in jobs), None, self.groups[group]) if group else 0

    def used(self, job: Job) -> int:
        return sum(at + HOUR_MS > self.now for at in job.hour)

    def units(self) -> list[Unit]:
        units: dict[tuple[str, str, int], list[tuple[Job, Instance]]] = {}
        for job in self.jobs:
            for at, one in enumerate(job.instances):
                if one.ask and one.ask.unit:
                    units.setdefault((one.ask.unit, "", 0), []).append((job, one))
                elif one.ask:
                    units[("", job.job_id, at)] = [(job, one)]
        return sorted((Unit(members) for members in units.values()), key=lambda unit: unit.order)

    def patient(self, unit: Unit) -> bool:
        return any(self.is_patient(job, one) for job, one in unit.members)

    def is_patient(self, job: Job, one: Instance) -> bool:
        assert one.ask is not None
        return (
            job.policy.replace == "before"
            and one.ask.why != RunCause.PREEMPT
            and self.now < one.ask.since_ms + job.policy.replace_wait_ms
            and one.ready
            and self.healthy(one)
        )

    def settle(self) -> set[tuple[str, int]]:
        """Lets go what may go, and returns it."""
        gone: set[tuple[str, int]] = set()
        barred: set[str] = set()
        reserved: set[str] = set()
        self.oldest_seen, self.keeper = False, None
        for patient in (False, True):
            for unit in self.units():
                if self.patient(unit) != patient:
                    continue
                code = self.refusal(unit, barred, reserved)
                if code is None:
                    gone.update((job.job_id, job.instances.index(one)) for job, one in unit.members)
                    self.let_go(unit)
                    continue
                if unit.single:
                    continue
                if code in (Code.SLA_BUDGET_SPENT, Code.SLA_RATE_REACHED, Code.SLA_GROUP_SPENT):
                    barred.update(job.job_id for job in unit.jobs() if self.short(unit, job))
                    old = any(one.ask and self.now >= one.ask.since_ms + HOUR_MS for _, one in unit.members)
                    if old and not self.oldest_seen:
                        self.keeper = unit.members[0][1]
                        reserved.update(f"hour {job.job_id}" for job in unit.jobs())
                        if code is not Code.SLA_RATE_REACHED:
                            reserved.update(job.job_id for job in unit.jobs())
                            reserved.update(f"group {self.of_group(job)[0]}" for job in unit.jobs())
                self.oldest_seen |= code not in (Code.SLA_NEVER_ALLOWS, Code.OUTSIDE_WINDOW)
        self.barred, self.reserved = barred, reserved
        return gone

    def codes(self) -> dict[tuple[str, int], Code]:
        """What those are told that wait."""
        return {
            (job.job_id, job.instances.index(one)): self.refusal(unit, self.barred, self.reserved)
            or Code.SLA_BUDGET_SPENT
            for unit in self.units()
            for job, one in unit.members
        }

    def gone_if(self, unit: Unit) -> Iterator[None]:
        """While all of a unit are away."""
        for _, one in unit.members:
            if one.ready:
                one.held = -1
        yield
        for _, one in unit.members:
            if one.held == -1:
                one.held = 0

    def short(self, unit: Unit, job: Job) -> bool:
        (over,) = (self.over(job) for _ in self.gone_if(unit))
        return over > 0

    def healthy_in(self, unit: Unit, job: Job) -> int:
        return sum(one.ready and self.healthy(one) for each, one in unit.members if each is job)

    def by_others(self, unit: Unit, job: Job) -> int:
        return sum(
            one.ready and one.ask is not None and one.ask.why != RunCause.UPDATE
            for each, one in unit.members
            if each is job
        )

    def refusal(self, unit: Unit, barred: set[str], reserved: set[str]) -> Code | None:
        jobs = unit.jobs()
        groups = {group: (members, most) for job in jobs for group, members, most in [self.of_group(job)] if group}
        for job in jobs:
            need = max(1, self.healthy_in(unit, job))
            if (need > job.limit() and job.policy.replace != "before") or self.by_others(unit, job) > job.rate():
                return Code.SLA_NEVER_ALLOWS
        for members, most in groups.values():
            if sum(self.healthy_in(unit, job) for job in members) > most:
                return Code.SLA_NEVER_ALLOWS
        for job in jobs:
            if job.policy.windows and self.now // 1000 % 3600 >= 1800 and self.by_others(unit, job):
                return Code.OUTSIDE_WINDOW
        for job, one in unit.members:
            waits = job.policy.replace == "before" and one.ready and self.healthy(one) and one.ask is not None
            waits = waits and (self.is_patient(job, one) or (not job.limit() and one.ask.why != RunCause.PREEMPT))
            if waits and self.extra(job) <= self.missing(job):
                return Code.WAITS_FOR_REPLACEMENT
        if self.keeper is unit.members[0][1]:
            reserved = set()
        kept = reserved | barred if unit.single else reserved
        if any(self.short(unit, job) or (job.job_id in kept and self.healthy_in(unit, job)) for job in jobs):
            return Code.SLA_BUDGET_SPENT
        if any(self.used(job) + self.by_others(unit, job) > job.rate() for job in jobs):
            return Code.SLA_RATE_REACHED
        if any(
            f"hour {job.job_id}" in reserved and self.by_others(unit, job) and job.rate() < math.inf for job in jobs
        ):
            return Code.SLA_RATE_REACHED
        for group, (members, most) in groups.items():
            if f"group {group}" in reserved and any(self.healthy_in(unit, job) for job in members):
                return Code.SLA_GROUP_SPENT
            (over,) = (sum(self.missing(job) - self.extra(job) for job in members) - most for _ in self.gone_if(unit))
            if over > 0:
                return Code.SLA_GROUP_SPENT
        return None

    def let_go(self, unit: Unit) -> None:
        for job, one in unit.members:
            assert one.ask is not None
            if one.ready and one.ask.why != RunCause.UPDATE and job.rate() < math.inf:
                job.hour.append(self.now)
                one.hour_ms = self.now
            one.held, one.ask = one.run, None

    def surplus(self, job: Job, before: int) -> int:
        """How many more instances a job is to have."""
        closed = bool(job.policy.windows) and self.now // 1000 % 3600 >= 1800
        waits = sum(
            one.ask is not None
            and one.up
            and one.wanted
            and not one.surplus
            and one.ask.why != RunCause.PREEMPT
            and (one.ask.why == RunCause.UPDATE or not closed)
            for one in job.instances
        )
        holds = sum(one.held > 0 and one.wanted and not one.surplus for one in job.instances)
        need = min(job.policy.surge, waits + holds) if job.policy.replace == "before" else 0
        return 0 if not need and not self.missing(job) else max(need, before)
