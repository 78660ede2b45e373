"""Checks at placement's positions: capacity, ports, conditions, liveness of hosts, whole gangs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from events.codes import Stage
from events.columns import ints, longs
from events.job_ends import is_over
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PoolAnswered
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent, HostsLoaded, MaintenanceWindowSet
from events.records.lifecycle import GangsQueued, HostReconciled, InstancesChanged, JobAccepted, JobChanged, RunsEnded
from events.records.parts import TaskShape
from events.records.placement import (
    GangsReturned,
    HostAvoided,
    HostLost,
    HostMaintenanceChanged,
    HostRemoved,
    HostsPooled,
    HostTainted,
    HostTrusted,
    RevocationAsked,
    TasksPlaced,
)
from events.records.pools import CellConfigured
from events.records.rounds import TimerPassed
from events.task_shapes import shape_of
from paceline.simulate.checker.alternatives import Alternatives
from paceline.simulate.checker.asked import allows, is_ruled, unmet
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.homes import Homes
from paceline.simulate.checker.host_pools import HostPools
from paceline.simulate.checker.items import (
    Range,
    Task,
    added,
    flags_of,
    gangs_of,
    places_of,
    ranges_of,
    reshaped,
    runs_of,
    tasks_of,
)
from paceline.simulate.checker.revocations import REVOCABLE, Revocations

GIVEN_BACK = (
    *("NO_HOSTS", "CONSTRAINT_MISMATCH", "HOSTS_TAINTED", "HOSTS_EXCLUSIVE", "NEVER_FITS", "BOUND_HOST_LOST"),
    "OUTSIDE_HOST_POOLS",
)
"""Why placement gives back what is entitled, too."""


@dataclass
class Host:
    """A host as placement may know it."""

    session: int = 0
    reconciled: int = 0
    silent: bool = False
    lost: bool = False
    avoided: bool = False
    """Whether only tasks that belong to it are put there."""
    stage: int = 0
    """The stage of its maintenance; 0: it is wanted up."""
    offer: HostOffered | None = None
    """With what it lends of its CPU, as of any resource."""
    lent: int = 0
    """The CPU that it lends, in sixteenths."""
    used: Counter[str] = field(default_factory=Counter)
    ports: set[int] = field(default_factory=set)
    one_by_one: set[str] = field(default_factory=set)
    """The kinds of devices that it has named in any of its offers: an amount of those isn't what is free, as runs keep
    devices that are ill or not offered any more. `devices.py` checks them.
    """
    tainted: Mapping[str, str] = field(default_factory=dict)
    """Taints by operators."""

    def uses(self, amounts: Mapping[str, int], sign: int) -> None:
        """So much more is used, or (`sign` -1) less."""
        self.used.update({name: sign * amount for name, amount in amounts.items()})

    def lends(self, on: bool) -> None:
        """Brings its offer up to what it lends; `on`: whether the cell lends anything."""
        if self.offer is not None:
            lent = self.offer.capacity.get("cpu", 0) * self.lent // 16 if on else 0
            capacity = {name: amount for name, amount in self.offer.capacity.items() if name != REVOCABLE}
            self.offer = replace(self.offer, capacity=capacity | ({REVOCABLE: lent} if lent else {}))

    def has(self, amounts: Mapping[str, int]) -> bool:
        """Whether so much is free."""
        offered = self.offer.capacity if self.offer else {}
        return all(self.used[name] + amount <= offered.get(name, 0) for name, amount in amounts.items() if amount)


class Hosts:
    """Follows what placement takes in and decides."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobAccepted] = {}
        self.hosts: dict[str, Host] = {}
        self.host_pools = HostPools()
        self._lends = False
        """Whether the cell lends the slack of hosts."""
        self._settings: dict[int, CellConfigured] = {}
        self.forces_ms: int | None = None
        """Since when drains may be forced; None: they may not."""
        """Settings that have no answer yet, by offset."""
        self.revocations = Revocations(self.hosts, self.on, self.run_of, self._need_of)
        self.topology: tuple[str, ...] = ()
        """The levels of the cell's tree of hosts."""
        self._windows = False
        """Whether hosts have windows of maintenance."""
        self._licences: set[str] = set()
        """Resources that belong to the cell and to no host."""
        self._ended: dict[Task, int] = {}
        self._waits: dict[Task, int] = {}
        self._gangs: dict[Task, Range] = {}
        self._held: dict[Task, tuple[int, str, list[int]]] = {}
        self._homes = Homes(self.hosts)
        self._alternatives = Alternatives()
        self.at_home: set[Task] = set()
        """Tasks that went back, in the last round, to hosts that were kept for them."""
        self.drained_with: dict[str, list[Task]] = {}
        """The tasks on each host that the last round had DRAINED, at that decision: it may place others there later."""
        self._over: set[str] = set()
        """Jobs that are over: what is admitted of them afterwards is void."""
        self._entitled: dict[Task, bool] = {}
        """Whether admitted tasks are entitled; those that aren't are borrowed."""
        self._since_ms: dict[Task, int] = {}
        """Since when tasks that wait do so as they do now."""

    def waits(self, task: Task) -> int:
        """The run of a task that waits for a place; 0: none does."""
        return self._waits.get(task, 0)

    def waiting(self) -> list[tuple[Task, int]]:
        """The tasks that wait for a place, each with its run."""
        return list(self._waits.items())

    def placed(self) -> list[tuple[Task, int]]:
        """The tasks that have a place, each with its run."""
        return [(task, run) for task, (run, _, _) in self._held.items()]

    def is_entitled(self, task: Task) -> bool:
        """Whether an admitted task is entitled."""
        return self._entitled.get(task, False)

    def since_ms(self, task: Task) -> int:
        """Since when a task waits for a place as it does now."""
        return self._since_ms.get(task, 0)

    def run_of(self, task: Task) -> int:
        """The run of a task that has a place; 0: none has."""
        return self._held[task][0] if task in self._held else 0

    def is_over(self, task: Task, run: int) -> bool:
        """Whether a run of a task is over; entitlement may not have heard so yet."""
        return task[0] in self._over or self._ended.get(task, 0) >= run

    def host_of(self, task: Task) -> str:
        """The host of a task that has a place; empty: it has none."""
        return self._held[task][1] if task in self._held else ""

    def waits_for_home(self, task: Task) -> bool:
        """Whether a host is kept for a task and takes nothing now."""
        home = self._homes.of(task)
        return home is not None and not self.is_up(home.host_id)

    @property
    def homes(self) -> set[str]:
        """The hosts that are kept for tasks."""
        return self._homes.hosts

    def home_of(self, task: Task) -> str:
        """The host that is kept for a task; empty: none is."""
        home = self._homes.of(task)
        return "" if home is None else home.host_id

    def bound_to(self, task: Task) -> str:
        """The only host that a task may have; empty: it may have any."""
        return self._homes.bound(task)

    def on(self, host_id: str) -> list[Task]:
        """The tasks that have a place on a host."""
        return [task for task, (_, at, _) in self._held.items() if at == host_id]

    def is_up(self, host_id: str) -> bool:
        """Whether a host may take something, of whatever job."""
        host = self.hosts.get(host_id)
        return (
            host is not None
            and host.offer is not None
            and not (host.lost or host.silent or host.avoided or host.stage or self.surplus(host_id))
            and host.reconciled == host.session
        )

    def surplus(self, host_id: str) -> dict[str, int]:
        """The amounts that runs hold on a host beyond what it offers; what it lends is no part of that."""
        host = self.hosts[host_id]
        offer = host.offer.capacity if host.offer is not None else host.used
        others = (*self._licences, REVOCABLE, *host.one_by_one)
        there = {name: amount for name, amount in host.used.items() if name not in others}
        return {name: amount - offer.get(name, 0) for name, amount in there.items() if amount > offer.get(name, 0)}

    @property
    def jobs(self) -> Mapping[str, JobAccepted]:
        """The jobs that were accepted."""
        return self._jobs

    @property
    def held(self) -> Mapping[Task, tuple[int, str, list[int]]]:
        """The run, the host and the ports of each task that has a place."""
        return self._held

    def any_ruled(self) -> bool:
        """Whether tasks of some job look at those beside them."""
        return any(is_ruled(shape) for job in self._jobs.values() for shape in job.shapes)

    def is_ruled(self, job_id: str) -> bool:
        """Whether tasks of a job look at those beside them, others may look at its label, or windows of hosts may come
        too soon for them.
        """
        job = self._jobs.get(job_id)
        if job is None or (job.longest_ms and self._windows):
            return job is not None
        return any(map(is_ruled, job.shapes)) or (bool(job.labels) and self.any_ruled())

    def claimed(self) -> set[str]:
        """The hosts of tasks that want them for themselves."""
        jobs = [
            job for job in self._jobs.values() if any(shape.rules and shape.rules.exclusive for shape in job.shapes)
        ]
        exclusive = {job.job_id: job for job in jobs}
        tasks = ((task, host_id) for task, (_, host_id, _) in self._held.items() if task[0] in exclusive)
        rules = ((host_id, shape_of(exclusive[task[0]], task[1]).rules) for task, host_id in tasks)
        return {host_id for host_id, own in rules if own and own.exclusive}

    def gang_of(self, task: Task) -> list[Task]:
        """The tasks that were admitted with one as its gang and have a place; none: it is no member."""
        gang = self._gangs.get(task)
        return [each for each in gang.tasks() if each in self._held] if gang is not None else []

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, offset, event, now in round_.inputs:
            if isinstance(event, CellConfigured):
                self._settings[offset] = event
            elif isinstance(event, PoolAnswered):
                self._answered(event, now)
            self.host_pools.take(event)
            self._take(event, now)
            if isinstance(event, HostsLoaded | HostOffered | RunsEnded | PoolAnswered):
                self.revocations.look(now)
        placed: set[Task] = set()
        self.at_home = set()
        self.drained_with = {}
        for event in round_.decisions:
            self.host_pools.take(event)
            if isinstance(event, TasksPlaced):
                placed |= self._place(event, round_)
            elif isinstance(event, GangsReturned):
                self._returned(event, round_)
            elif isinstance(event, RevocationAsked):
                self.revocations.asked(event, {task: self._held[task] for task, _ in runs_of(event)}, round_)
            elif isinstance(event, HostLost):
                self._host(event.host_id).lost, self._host(event.host_id).lent = True, 0
                self._host(event.host_id).lends(self._lends)
                self._homes.given_up(event.host_id)
            elif isinstance(event, HostAvoided | HostTrusted):
                self._host(event.host_id).avoided = isinstance(event, HostAvoided)
            elif isinstance(event, HostMaintenanceChanged):
                self._staged(event)
            elif isinstance(event, HostsPooled):
                for host_id in event.host_ids:
                    self._homes.given_up(host_id)
                    if event.code == "MOVED" and (there := self.on(host_id)):
                        raise Violation(f"{round_} moves {host_id} to {event.host_pool}, {there[:3]} are there")
            elif isinstance(event, HostTainted):
                self._host(event.host_id).tainted = event.taints
            elif isinstance(event, HostRemoved):
                self._homes.removed(event.host_id)
                self._remove(event.host_id, round_)
            elif isinstance(event, TimerPassed):
                self._homes.passed(event.due_ms)
        for gang in gangs_of(placed, self._gangs):
            missing = [task for task in gang.tasks() if task not in placed and self._ended.get(task, 0) < gang.run]
            if missing:
                raise Violation(f"{round_} places a part of a gang: {gang}, not {missing[:3]}")
        self.host_pools.compare(self._of_daemons(), round_)

    def _of_daemons(self) -> dict[str, Counter[str]]:
        """By host that counts the amount that daemons hold there."""
        use: dict[str, Counter[str]] = {}
        for task, (_, host_id, _) in self._held.items():
            host, job = self.hosts.get(host_id), self._jobs[task[0]]
            if job.kind == "daemon" and host is not None and host.offer is not None and not host.lost:
                use.setdefault(host_id, Counter()).update(self._of_hosts(shape_of(job, task[1])))
        return use

    def _staged(self, event: HostMaintenanceChanged) -> None:
        for host_id, stage in zip(event.host_ids, ints(event.stage).tolist(), strict=True):
            self._host(host_id).stage = stage
            if stage:
                self._homes.given_up(host_id)
            if stage == Stage.DRAINED:
                self.drained_with[host_id] = self.on(host_id)

    def _remove(self, host_id: str, round_: Round) -> None:
        host = self.hosts.pop(host_id, None)
        if host is None:
            raise Violation(f"{round_} removes {host_id}, which isn't there")
        tasks = [task for task, (_, at, _) in self._held.items() if at == host_id]
        if tasks or not (host.lost or host.silent or not host.session):
            raise Violation(f"{round_} removes {host_id}, which has not left: {host}, held by {tasks[:3]}")

    def silent(self) -> list[str]:
        """Hosts that are silent and not given up."""
        return [host_id for host_id, host in self.hosts.items() if host.silent and not host.lost]

    def _answered(self, answer: PoolAnswered, now: int) -> None:
        """Settings count from their answer on."""
        event = self._settings.pop(answer.pools_offset, None)
        if event is None or answer.code != "DONE":
            return
        self._licences |= {kind.name for kind in event.resources if kind.amount is not None}
        self._lends = self._lends if event.slack is None else event.slack
        self.topology = self.topology if event.topology is None else event.topology
        if event.drain_force is not None and event.drain_force != (self.forces_ms is not None):
            self.forces_ms = now if event.drain_force else None
        for host in self.hosts.values():
            host.lent = host.lent if self._lends else 0  # it lends again once it says so again
            host.lends(self._lends)

    def _take(self, event: Event, now: int) -> None:
        match event:
            case HostsLoaded():
                self._loaded(event)
            case MaintenanceWindowSet():
                self._windows = True
            case JobAccepted():
                self._jobs[event.job_id] = event
                self._over.discard(event.job_id)
                self._ended |= dict.fromkeys(tasks_of(event), event.first_run - 1)
            case InstancesChanged():
                self._ended |= dict.fromkeys(added(self._jobs, event), event.first_run - 1)
            case GangsAdmitted():
                for each, entitled in flags_of(event):
                    self._entitled |= dict.fromkeys(each.tasks(), entitled)
                    self._wait(each, now)
            case AdmissionsRanked():
                for each, entitled in flags_of(event):
                    self._rank(each, entitled, now)
            case GangsQueued():
                for each in reshaped(self._jobs, event):
                    shape = shape_of(self._jobs[each.job_id], each.first)
                    self._homes.reshaped(each.tasks(), self._of_hosts(shape))
                self._homes.bind(event)
                flags = ints(event.admitted).tolist()
                for each in (each for each, flag in zip(ranges_of(event), flags, strict=True) if flag):
                    self._wait(each, now)
            case RunsEnded():
                holds = ints(event.hold).tolist() or [0] * len(runs_of(event))
                for (task, run), hold in zip(runs_of(event), holds, strict=True):
                    self._end(task, run, hold == 1, now)
                self._alternatives.ended(event)
            case JobChanged() if is_over(event):
                self._over.add(event.job_id)
                for task in tasks_of(self._jobs[event.job_id]):
                    if task in self._held:
                        raise Violation(f"{event.job_id} is {event.state}, {task} still has a place")
                    self._homes.forget(task)
                    for flags in (self._ended, self._waits, self._gangs, self._entitled, self._since_ms):
                        flags.pop(task, None)
            case _:
                self._take_of_host(event)

    def _take_of_host(self, event: Event) -> None:
        if not isinstance(event, HostConnected | HostOffered | HostSilent | HostBack | HostReconciled):
            return
        host = self._host(event.host_id)
        if isinstance(event, HostConnected):
            if event.session > host.session:
                host.session, host.silent, host.lost = event.session, False, False
        elif isinstance(event, HostReconciled):  # from another topic: it may come before its session is known
            host.reconciled = max(host.reconciled, event.session)
        elif event.session != host.session or host.lost:
            return
        elif isinstance(event, HostOffered):
            host.offer = event
            host.one_by_one |= {name for each in event.devices for name in (each.kind, "gpu_memory")}
            host.lends(self._lends)
        else:
            host.silent = isinstance(event, HostSilent)

    def _loaded(self, event: HostsLoaded) -> None:
        columns = zip(event.host_ids, longs(event.host_session).tolist(), ints(event.slack).tolist(), strict=True)
        for host_id, session, lent in columns if self._lends else ():
            host = self.hosts.get(host_id)
            if host is not None and host.session == session and not host.lost:
                host.lent = lent
                host.lends(self._lends)

    def _wait(self, gangs: Range, now: int) -> None:
        for task in gangs.tasks() if gangs.job_id not in self._over else ():
            if self._ended.get(task, 0) < gangs.run:
                self._waits[task] = gangs.run
                self._since_ms[task] = now
                if gangs.gang:
                    self._gangs[task] = gangs
                else:
                    self._gangs.pop(task, None)

    def _rank(self, gangs: Range, entitled: bool, now: int) -> None:
        for task in gangs.tasks():
            if task in self._entitled and self._entitled[task] != entitled:
                self._entitled[task] = entitled
                self._since_ms[task] = now

    def _returned(self, event: GangsReturned, round_: Round) -> None:
        for gangs in ranges_of(event):
            for task in gangs.tasks():
                if self._waits.get(task) != gangs.run:
                    continue
                if event.code not in GIVEN_BACK and self.is_entitled(task):
                    raise Violation(f"{round_} returns {task} run {gangs.run}, which is a claim: {event.code}")
                del self._waits[task]
                self._entitled.pop(task, None)

    def _end(self, task: Task, run: int, hold: bool, now: int) -> None:
        if not hold and run > self._ended.get(task, 0):
            self._homes.leave(task)
        self._ended[task] = max(run, self._ended.get(task, 0))
        if self._waits.get(task, run + 1) <= run:
            del self._waits[task]
        if task in self._held and self._held[task][0] == run:
            _, host_id, ports = self._held.pop(task)
            host, shape = self.hosts[host_id], self._alternatives.shape(self._jobs[task[0]], task)
            host.used.subtract(shape.resources)
            host.ports.difference_update(ports)
            if hold and not host.lost and not host.stage:
                self._homes.keep(task, host_id, self._of_hosts(shape), now)

    def _place(self, event: TasksPlaced, round_: Round) -> set[Task]:
        placed = set()
        self._alternatives.placed(event)
        for task, run, host_id, session, ports in places_of(event):
            if self._waits.pop(task, 0) != run:
                raise Violation(f"{round_} places {task} run {run}, which isn't admitted")
            if task in self._held:
                raise Violation(f"{round_} places {task} run {run}, of which run {self._held[task][0]} has a place")
            home = self._homes.leave(task)
            if home is not None and home.host_id != host_id and self._takes(task, home.host_id):
                raise Violation(f"{round_} places {task} on {host_id}, and {home.host_id} is kept for it")
            if home is not None and home.host_id == host_id:
                self.at_home.add(task)
            self._fits(task, host_id, session, ports, round_)
            self._held[task] = (run, host_id, ports)
            placed.add(task)
        return placed

    def _fits(self, task: Task, host_id: str, session: int, ports: list[int], round_: Round) -> None:
        host, shape = self._host(host_id), self._alternatives.shape(self._jobs[task[0]], task)
        what = f"{round_} places {task} on {host_id}"
        if host.lost or host.silent or host.session != session or host.reconciled != session or host.offer is None:
            raise Violation(f"{what}, which may take nothing: {host}")
        if surplus := self.surplus(host_id):
            raise Violation(f"{what}, which offers less than its runs hold: {surplus}")
        if lack := unmet(shape, host, self._homes.bound(task) == host_id):
            raise Violation(f"{what}, which doesn't meet {lack}: {host.offer}, {host.tainted}")
        if self._homes.bound(task) != host_id and self.host_pools.are_closed_to(self._jobs[task[0]], host_id):
            raise Violation(f"{what}, which is in {self.host_pools.of(host_id)}: {self._jobs[task[0]].pool} may not")
        host.used.update(shape.resources)
        for name in [name for name in shape.resources if name not in self._licences and name not in host.one_by_one]:
            capacity = host.offer.capacity.get(name, 0)
            if host.used[name] > capacity:
                raise Violation(f"{what}: {host.used[name]} of {capacity} {name}")
        if len(ports) != shape.ports:
            raise Violation(f"{what} with ports {ports}, it needs {shape.ports}")
        for port, number in zip(ports, shape.port_numbers or (0,) * len(ports), strict=True):
            if port != number if number else not host.offer.port_first <= port <= host.offer.port_last:
                raise Violation(f"{what}: ports {ports} aren't its own, or not {shape.port_numbers}")
        if len({*ports}) < len(ports) or host.ports & {*ports}:
            raise Violation(f"{what}: of ports {ports} one has another holder")
        host.ports.update(ports)

    def _takes(self, task: Task, host_id: str) -> bool:
        """Whether a host can take a task without ports."""
        host, shape = self.hosts[host_id], shape_of(self._jobs[task[0]], task[1])
        if not self.is_up(host_id) or host.offer is None or shape.ports or self.is_ruled(task[0]):
            return False
        return self.allows(task[0], shape, host_id) and host.has(self._of_hosts(shape))

    def allows(self, job_id: str, shape: TaskShape, host_id: str) -> bool:
        """Whether a host has what tasks of a shape of a job ask, and is in a host pool that they may use."""
        job = self._jobs.get(job_id)  # what only others know so far runs nowhere yet
        closed = job is not None and self.host_pools.are_closed_to(job, host_id)
        return allows(shape, self.hosts[host_id]) and not closed

    def has_room(self, shape: TaskShape, host_id: str) -> bool:
        """Whether the amounts that a task asks are free on a host, but for devices that it names one by one."""
        host = self.hosts[host_id]
        amounts = self._of_hosts(shape).items()
        return host.has({name: amount for name, amount in amounts if name not in host.one_by_one})

    def holds_one(self, shape: TaskShape, host: Host) -> bool:
        """Whether a task fits on a host when nothing runs there."""
        if host.offer is None or shape.ports > max(0, host.offer.port_last - host.offer.port_first + 1):
            return False
        return all(amount <= host.offer.capacity.get(name, 0) for name, amount in self._of_hosts(shape).items())

    def _of_hosts(self, shape: TaskShape) -> dict[str, int]:
        """The amounts that a shape needs of hosts: no licences."""
        return {name: amount for name, amount in shape.resources.items() if name not in self._licences}

    def _need_of(self, task: Task) -> int:
        """Thousandths of a CPU that a task holds of what hosts lend."""
        return shape_of(self._jobs[task[0]], task[1]).resources.get(REVOCABLE, 0)

    def _host(self, host_id: str) -> Host:
        return self.hosts.setdefault(host_id, Host())
