"""Jobs and their instances as sla may know them, counted one by one from the records that it has taken in."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from events.codes import ENDED_TASKS, RunCause
from events.columns import ints, longs
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.base import Event
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    InstancesChanged,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobReopened,
    JobSlaChanged,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    SlaGroupSet,
)
from events.records.parts import SlaPolicy
from paceline.simulate.checker.history import Taken
from paceline.simulate.checker.items import Task, places_of, runs_of

HOUR_MS = 3_600_000
FOR_OTHERS = (RunCause.PREEMPT, RunCause.DRAIN)
"""The causes that the hour of a job counts: others ask for them."""
ALONE, GANG = 0, -1
"""The unit of a run that leaves by itself, and of one that leaves with its gang; those above 0 are hosts."""


class Ask(NamedTuple):
    """A disruption that waits for a verdict. `host_id`: it leaves with what is bound to this host; empty: with none."""

    run: int
    since_s: int
    why: int = 0
    unit: int = ALONE
    host_id: str = ""

    @property
    def for_others(self) -> bool:
        """Whether the hour of its job counts it."""
        return self.why in FOR_OTHERS


class Bounds(NamedTuple):
    """The bounds of a job or a group, as numbers and in percent."""

    max_unavailable: int | None = None
    max_percent: int | None = None
    min_available: int | None = None
    min_percent: int | None = None

    def limit(self, count: int) -> int | None:
        """The number of so many that may be unavailable on purpose; None: all."""
        limits = [each for each in (self.max_unavailable,) if each is not None]
        if self.max_percent is not None:
            limits.append(max(1, count * self.max_percent // 100) if self.max_percent > 0 else 0)
        least = [each for each in (self.min_available,) if each is not None]
        if self.min_percent is not None:
            least.append(-(-count * self.min_percent // 100))
        limits += [max(0, count - each) for each in least]
        return min(count, *limits) if limits else None


@dataclass
class Service:
    """A job as sla may know it. `instances`: those that there are."""

    kind: str
    instances: set[int]
    max_unavailable: int | None = None
    sla: SlaPolicy | None = None
    gang: int = 0
    """So many of its first instances are a gang."""
    unwanted: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    """Tasks of a batch job that are over."""
    begun: set[int] = field(default_factory=set)
    """Tasks of a batch job that have been available: only they count."""
    away: set[int] = field(default_factory=set)
    """Instances of a daemon that have left with their hosts: they count once they are ordered there again."""
    surplus: dict[int, int] = field(default_factory=dict)
    """Surplus instances, and the serial of the surplus that each belongs to."""
    serial: int = 0
    """The newest serial."""
    by_others_ms: dict[tuple[int, int], int] = field(default_factory=dict)
    """When it was disrupted for others, by instance and run."""

    @property
    def guarded(self) -> bool:
        """Whether it has an SLA."""
        return self.max_unavailable is not None or self.sla is not None

    @property
    def policy(self) -> SlaPolicy:
        """Its SLA beside `max_unavailable`."""
        return self.sla or SlaPolicy()

    @property
    def bounds(self) -> Bounds:
        """Its own bounds."""
        sla = self.policy
        return Bounds(self.max_unavailable, sla.max_unavailable_percent, sla.min_available, sla.min_available_percent)

    def wanted_instances(self) -> set[int]:
        """The instances that it should have available."""
        counting = self.begun - self.over if self.kind == "batch" else self.instances - self.away
        return (self.instances & counting) - self.unwanted - self.surplus.keys()

    def per_hour(self) -> int | None:
        """The number that may be disrupted in an hour for others; None: all."""
        sla, rates = self.policy, []
        if sla.per_hour is not None:
            rates.append(sla.per_hour)
        if sla.per_hour_percent is not None:
            rates.append(max(1, len(self.wanted_instances()) * sla.per_hour_percent // 100))
        return min(rates) if rates else None


class Services:
    """Follows what sla takes in."""

    def __init__(self) -> None:
        self.jobs: dict[str, Service] = {}
        self.groups: dict[str, Bounds] = {}
        self.available: dict[Task, tuple[int, int]] = {}
        """The run by which each instance is available, and since when it is known to be."""
        self.ended: dict[Task, int] = {}
        self.held: dict[Task, int] = {}
        """Runs that were allowed to go, until a later one is available."""
        self.asked: dict[Task, Ask] = {}
        self._hosts: dict[Task, str] = {}
        self._silent: set[str] = set()
        self._sessions: dict[str, int] = {}

    # What is counted

    def is_there(self, task: Task, now: int) -> bool:
        """Whether an instance counts as available: for long enough, on a host that is heard, and it isn't leaving."""
        if task not in self.available or task in self.held or self._hosts.get(task) in self._silent:
            return False
        wait_ms = self.jobs[task[0]].policy.min_healthy_ms
        return not wait_ms or now - self.available[task][1] >= wait_ms

    def missing(self, job_id: str, now: int) -> int:
        """The wanted instances of a job that aren't there."""
        return sum(not self.is_there((job_id, each), now) for each in self.jobs[job_id].wanted_instances())

    def extra(self, job_id: str, now: int) -> int:
        """Its surplus instances that are there; those of an older serial count nowhere."""
        job = self.jobs[job_id]
        return sum(
            serial == job.serial and each not in job.unwanted and self.is_there((job_id, each), now)
            for each, serial in job.surplus.items()
        )

    def limit(self, job_id: str) -> int | None:
        """The number of a job that may be unavailable on purpose; None: it has no such bound."""
        return self.jobs[job_id].bounds.limit(len(self.jobs[job_id].wanted_instances()))

    def slack(self, job_id: str, now: int) -> int | None:
        """The number of a job that may still go; below 0: more are missing already. None: there is no bound."""
        limit = self.limit(job_id)
        return None if limit is None else limit - self.missing(job_id, now) + self.extra(job_id, now)

    def of_group(self, group: str) -> list[str]:
        """The jobs that share a budget."""
        return [job_id for job_id, job in self.jobs.items() if job.policy.group == group]

    def group_slack(self, group: str, now: int) -> int | None:
        """The number of a group that may still go. None: there is no such group, or it has no bound."""
        job_ids = self.of_group(group)
        bounds = self.groups.get(group)
        limit = bounds.limit(sum(len(self.jobs[each].wanted_instances()) for each in job_ids)) if bounds else None
        if limit is None:
            return None
        return limit - sum(self.missing(each, now) - self.extra(each, now) for each in job_ids)

    def in_last_hour(self, job_id: str, now: int) -> int:
        """The number of a job that were disrupted for others in the hour up to now."""
        return sum(now - at < HOUR_MS for at in self.jobs[job_id].by_others_ms.values())

    # What happens

    def take(self, input_: Taken, now: int) -> None:
        """Takes an input of a round at a time."""
        event = input_.event
        match event:
            case JobAccepted():
                self._accepted(event)
            case JobReopened():
                job = self.jobs[event.job_id]
                job.over.update(event.named_instances().tolist())
            case JobChanged() if is_over(event) and event.job_id in self.jobs:
                self._forget((event.job_id, each) for each in self.jobs.pop(event.job_id).instances)
            case JobSlaChanged() if event.job_id in self.jobs:
                self._sla(event, now)
            case SlaGroupSet():
                self._group(event)
            case InstancesChanged() if event.job_id in self.jobs:
                self._instances(event)
            case InstancesWanted() if event.job_id in self.jobs:
                job = self.jobs[event.job_id]
                instances = {*event.named_instances().tolist()} if event.first else {*job.instances}
                job.unwanted = job.unwanted - instances if event.wanted else job.unwanted | instances
            case HostSilent() | HostBack() | HostConnected():
                self._hear(event)
            case _:
                self._take_of_runs(event, input_.now_ms)

    def let_go(self, task: Task, run: int, counts: bool, now: int) -> None:
        """A disruption is allowed; `counts`: it is one for others that the hour counts."""
        self.held[task] = run
        self.asked.pop(task, None)
        if counts:
            job = self.jobs[task[0]]
            job.by_others_ms[task[1], run] = now

    def _accepted(self, event: JobAccepted) -> None:
        self.jobs[event.job_id] = Service(
            event.kind,
            {*range(event.instances)},
            event.max_unavailable,
            event.sla,
            event.gang_min,
        )
        self.ended |= {(event.job_id, each): event.first_run - 1 for each in range(event.instances)}

    def _sla(self, event: JobSlaChanged, now: int) -> None:
        """An instance that counts goes on to count, whatever the time to be healthy is now."""
        job, job_id = self.jobs[event.job_id], event.job_id
        rate, wait_ms = job.per_hour(), job.policy.min_healthy_ms
        up = {task: up for each in job.instances if (up := self.available.get(task := (job_id, each))) is not None}
        if job.guarded:
            self.available |= {task: (run, 0) for task, (run, at) in up.items() if now - at >= wait_ms}
        else:  # it is said since when they are up
            counts = ints(event.count).tolist()
            since = [at for at, count in zip(longs(event.since).tolist(), counts, strict=False) for _ in range(count)]
            for each, since_s in zip(event.named_instances().tolist(), since, strict=False):
                if since_s and (job_id, each) in up:
                    self.available[job_id, each] = up[job_id, each][0], since_s * 1000
        job.max_unavailable, job.sla = event.max_unavailable, event.sla
        if rate is None:  # nobody has counted
            job.by_others_ms.clear()

    def _group(self, event: SlaGroupSet) -> None:
        if event.removed:
            self.groups.pop(event.group, None)
        else:
            self.groups[event.group] = Bounds(
                event.max_unavailable,
                event.max_unavailable_percent,
                event.min_available,
                event.min_available_percent,
            )

    def _instances(self, event: InstancesChanged) -> None:
        job, change = self.jobs[event.job_id], instance_change(event)
        added, removed = {*change.added.tolist()}, {*change.removed.tolist()}
        job.instances = (job.instances - removed) | added
        for instances in (job.unwanted, job.over, job.begun, job.away):
            instances.difference_update(removed | added)
        for each in sorted(job.surplus)[: event.adopted]:
            del job.surplus[each]
        job.surplus = {each: serial for each, serial in job.surplus.items() if each not in removed}
        if event.surplus:
            job.serial = max(job.serial, event.surplus)
            job.surplus |= dict.fromkeys(added, event.surplus)
        self._forget((event.job_id, each) for each in removed)
        self.ended |= {(event.job_id, each): event.first_run - 1 for each in added}

    def _hear(self, event: HostSilent | HostBack | HostConnected) -> None:
        if isinstance(event, HostConnected):
            if event.session > self._sessions.get(event.host_id, 0):
                self._sessions[event.host_id] = event.session
                self._silent.discard(event.host_id)
        elif event.session == self._sessions.get(event.host_id, 0):
            (self._silent.add if isinstance(event, HostSilent) else self._silent.discard)(event.host_id)

    def _take_of_runs(self, event: Event, now: int) -> None:
        match event:
            case RunsOrdered():
                for task, run, host_id, _, _ in places_of(event):
                    self._hosts[task] = host_id
                    if task[0] in self.jobs and self.ended.get(task, 0) < run:
                        self.jobs[task[0]].away.discard(task[1])
            case RunsAvailable():
                for task, run in runs_of(event):
                    self._available(task, run, now)
            case RunsStopping():
                for task, run in runs_of(event):
                    if self.available.get(task, (0, 0))[0] == run:
                        del self.available[task]
            case RunsEnded():
                runs = runs_of(event)
                none = [0] * len(runs)
                columns = zip(runs, ints(event.next).tolist() or none, ints(event.why).tolist() or none, strict=True)
                for (task, run), state, why in columns:
                    self._ended(task, run, state, why)
            case DisruptionAsked():
                self._asked(event, now)
            case DisruptionWithdrawn():
                for task, run in runs_of(event):
                    if self.held.get(task) == run:
                        del self.held[task]
                    if task[0] in self.jobs:
                        self.jobs[task[0]].by_others_ms.pop((task[1], run), None)
                    if task in self.asked and self.asked[task].run == run:
                        del self.asked[task]

    def _available(self, task: Task, run: int, now: int) -> None:
        job = self.jobs.get(task[0])
        if job is None or task[1] not in job.instances or self.ended.get(task, 0) >= run:
            return
        if self.available.get(task, (0, 0))[0] < run:
            self.available[task] = run, now
        job.begun.add(task[1])
        job.away.discard(task[1])
        if self.held.get(task, run) < run:
            del self.held[task]

    def _ended(self, task: Task, run: int, state: int, why: int) -> None:
        self.ended[task] = max(run, self.ended.get(task, 0))
        if self.available.get(task, (0, 0))[0] == run:
            del self.available[task]
        if task in self.asked and self.asked[task].run == run:
            del self.asked[task]
        job = self.jobs.get(task[0])
        if job is not None and state in ENDED_TASKS:
            job.over.add(task[1])
        if job is not None and job.kind == "daemon" and why in (RunCause.DRAIN, RunCause.EVICT):
            job.away.add(task[1])

    def _asked(self, event: DisruptionAsked, now: int) -> None:
        runs = runs_of(event)
        none = [0] * len(runs)
        columns = zip(
            runs,
            longs(event.since).tolist() or [now // 1000] * len(runs),
            ints(event.why).tolist() or none,
            ints(event.unit).tolist() or none,
            strict=True,
        )
        for (task, run), since_s, why, unit in columns:
            job = self.jobs.get(task[0])
            if job is not None and task[1] in job.instances and self.ended.get(task, 0) < run:
                host_id = event.host_ids[unit - 1] if unit > 0 else ""
                self.asked[task] = Ask(run, since_s, why, unit, host_id)

    def _forget(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            for by_task in (self.available, self.ended, self.held, self._hosts):
                by_task.pop(task, None)
            self.asked.pop(task, None)
