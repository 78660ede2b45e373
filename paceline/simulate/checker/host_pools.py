"""Checks host pools: tasks run in those that their pool or kind may use, no pool or kind is entitled to more than these
hold, and no more is lent than they have idle; shares no code with the machines.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, EntitlementsSet, GangsAdmitted, PoolAnswered
from events.records.lifecycle import JobAccepted
from events.records.placement import CapacityChanged, HostPoolChanged, HostRemoved, HostsPooled
from events.records.pools import PoolDefined
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, flags_of, upwards
from paceline.simulate.checker.pools import Pools

SUBSETS_OF = 8
"""All sets of host pools are looked at, of the first ones by name."""


KINDS = ("service", "batch", "batch-non-preemptible")


class HostPools:
    """The host pools that jobs may use, as placement has it."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, ...]] = {}
        self._of_host: dict[str, str] = {}
        self._named: dict[str, tuple[str, ...]] = {}
        self._daemons: dict[str, dict[str, int]] | None = None
        """The amounts of daemons by host pool, by the last report; None: the cell has no host pools."""
        self._differs = False
        """Whether that was no more so after the last round."""

    def take(self, event: Event) -> None:
        """Takes an input or a decision of placement."""
        match event:
            case PoolAnswered() if event.host_pools is not None:
                self._named[event.path] = event.host_pools
            case HostPoolChanged() if event.removed:
                del self._kinds[event.name]
                if event.name in self._of_host.values():
                    raise Violation(f"host pool {event.name} is removed, and has hosts")
            case HostPoolChanged():
                self._kinds[event.name] = event.kinds
            case HostsPooled():
                if event.host_pool != "shared" and event.host_pool not in self._kinds:
                    raise Violation(f"{event.host_ids} are put into {event.host_pool}, which isn't there")
                self._of_host |= dict.fromkeys(event.host_ids, event.host_pool)
            case HostRemoved():
                self._of_host.pop(event.host_id, None)
            case CapacityChanged():
                report = {one.name: dict(one.daemons) for one in event.host_pools if one.daemons}
                self._daemons = report if event.host_pools else None

    def compare(self, use: Mapping[str, Mapping[str, int]], round_: Round) -> None:
        """Compares what was said of daemons with what they hold on each host; one round may pass until it is said.
        Raises `Violation`.
        """
        have: dict[str, Counter[str]] = {}
        for host_id, amounts in use.items():
            have.setdefault(self.of(host_id), Counter()).update(amounts)
        differs = self._daemons is not None and {name: dict(+each) for name, each in have.items()} != self._daemons
        if differs and self._differs:
            raise Violation(f"{round_} says that daemons hold {self._daemons} in host pools, they hold {have}")
        self._differs = differs

    def of(self, host_id: str) -> str:
        """The host pool of a host."""
        return self._of_host.get(host_id, "shared")

    def are_closed_to(self, job: JobAccepted, host_id: str) -> bool:
        """Whether a job may not use the host pool of a host."""
        any_named = any(self._named.values())
        if job.kind == "daemon" or not (self._kinds or any_named):
            return False
        lists = [self._named[path] for path in upwards(job.pool) if self._named.get(path)]
        if lists:
            return self.of(host_id) not in lists[-1]
        return self.of(host_id) != "shared" and _kind(job) not in self._kinds.get(self.of(host_id), ())


class Reachable:
    """Follows entitlement; `pools` has taken each round of it."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._capacity: Mapping[str, Mapping[str, int]] = {}
        """By host pool what its hosts have for others than daemons."""
        self._kinds: Mapping[str, tuple[str, ...]] = {}

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        for each in round_.inputs:
            if isinstance(each.event, CapacityChanged):
                self._capacity = {
                    one.name: {name: amount - one.daemons.get(name, 0) for name, amount in one.capacity.items()}
                    for one in each.event.host_pools
                }
                self._kinds = {one.name: one.kinds for one in each.event.host_pools}
        later: set[Task] = set()
        for event in reversed(round_.decisions):
            if isinstance(event, PoolAnswered) and event.host_pools is not None:
                fact = self._pools.defined.get(event.path) or PoolDefined(path=event.path, command_id="")
                if fact.host_pools != event.host_pools:
                    raise Violation(f"{round_} says host pools {event.host_pools}, {fact.host_pools} were asked for")
            elif isinstance(event, EntitlementsSet) and not event.partial and self._capacity:
                self._look(round_)
            elif isinstance(event, GangsAdmitted | AdmissionsRanked) and self._capacity:
                self._admitted(event, later, round_)
            if isinstance(event, GangsAdmitted):
                later |= {task for gangs, _ in flags_of(event) for task in gangs.tasks()}

    def _look(self, round_: Round) -> None:
        leaves = self._pools.may_use.keys() - {path.rpartition("/")[0] or "/" for path in self._pools.may_use}
        for group in self._groups():
            inside = [path for path in sorted(leaves) if all(self._of(path, kind) <= group for kind in KINDS)]
            for name, have in self._held_by(group).items():
                promised = sum(self._pools.may_use[path].get(name, 0) for path in inside)
                if promised > have:
                    raise Violation(f"{round_} entitles {inside} to {promised} {name}, {sorted(group)} have {have}")

    def _admitted(self, event: GangsAdmitted | AdmissionsRanked, later: set[Task], round_: Round) -> None:
        """Looks at new claims and loans: with what stands before them they are within the host pools of their kind.

        Claims that are admitted `later` in the same round may exceed what loans left, since they preempt these.
        """
        units = self._pools.units
        jobs = {each.job_id: entitled for each, entitled in flags_of(event)}
        for job_id, entitled in sorted(jobs.items()):
            job = units.jobs.get(job_id)
            if job is None or job.kind == "daemon" or (not entitled and isinstance(event, AdmissionsRanked)):
                continue
            for group in self._groups():
                if self._of(job.pool, _kind(job)) <= group:
                    self._check(job, entitled, group, set() if entitled else later, round_)

    def _check(self, job: JobAccepted, entitled: bool, group: set[str], aside: set[Task], round_: Round) -> None:
        units = self._pools.units
        before = [
            task
            for task, run in units.held.items()
            if task not in aside
            and self._reaches_only(units.jobs[task[0]], group)
            and (not entitled or (run.entitled and self._comes_before(units.jobs[task[0]], job)))
        ]
        amounts = units.needs(before)
        for name, have in self._held_by(group).items():
            if amounts[name] > have and units.need((job.job_id, 0)).get(name, 0):
                what = f"claims of {job.pool}" if entitled else "admitted work"
                raise Violation(
                    f"{round_} {'admits' if entitled else 'lends to'} {job.job_id}: {amounts[name]} {name} of {what} "
                    f"reach nothing but {sorted(group)}, which have {have}"
                )

    def _comes_before(self, other: JobAccepted, job: JobAccepted) -> bool:
        """Whether claims of a job, of the same pool, are counted before another one is entitled."""
        priority = self._pools.units.priority
        return other.pool == job.pool and (not other.preemptible or priority[other.job_id] >= priority[job.job_id])

    def _reaches_only(self, job: JobAccepted, group: set[str]) -> bool:
        return job.kind != "daemon" and self._of(job.pool, _kind(job)) <= group

    def _held_by(self, group: set[str]) -> dict[str, int]:
        have = dict.fromkeys(("cpu", "memory", "disk", "gpu"), 0)
        for name in group:
            for resource in have:
                have[resource] += self._capacity.get(name, {}).get(resource, 0)
        return have

    def _groups(self) -> Iterable[set[str]]:
        """All sets of host pools but all of them together."""
        names = sorted(self._capacity)[:SUBSETS_OF]
        return ({*some} for size in range(1, len(names)) for some in combinations(names, size))

    def _of(self, path: str, kind: str) -> set[str]:
        """The host pools that jobs of a kind may use in a pool."""
        defined = self._pools.defined
        lists = [defined[each].host_pools for each in upwards(path) if each in defined and defined[each].host_pools]
        return {*lists[-1]} if lists else {"shared", *(name for name, kinds in self._kinds.items() if kind in kinds)}


def _kind(job: JobAccepted) -> str:
    """The kind of a job for host pools."""
    return "service" if job.kind != "batch" else "batch" if job.preemptible else "batch-non-preemptible"
