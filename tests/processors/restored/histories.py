"""Random histories of each machine by itself: what it hears fits together as far as the machine may rely on it."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from events.codes import ENDED_TASKS, LIVE_TASKS, Code, Hearing, Outcome, RunReport, TaskState
from events.columns import pack_ints, pack_longs
from events.ranks import Rank
from events.records.entitlement import PoolAnswered
from events.records.hosts import GatewayBeat
from events.records.lifecycle import (
    GangsQueued,
    JobChanged,
    JobPriorityChanged,
    JobSlaChanged,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
)
from events.records.parts import Cause, Constraint, ResourceKind, TaskShape
from events.records.placement import (
    GangsParked,
    GangsReturned,
    HostHearingChanged,
    HostLost,
    HostsReserved,
    PreemptionAsked,
    TasksPlaced,
)
from events.records.pools import (
    CellConfigured,
    LockdownSet,
    PoolDefined,
    PoolRemoved,
    RoleBound,
    RoleUnbound,
    TokenIssued,
    TokenRevoked,
)
from events.records.rounds import TimerPassed
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.resources import Amounts
from processors.entitlement.access_rows import AccessEvent
from processors.state.arena import REMOVED
from tests.helpers.machines import Alone, Range, Run, columns, instances_changed, mixed, ranges
from tests.processors.entitlement.harness import World as EntitlementWorld
from tests.processors.lifecycle.harness import World as LifecycleWorld
from tests.processors.placement.harness import World as PlacementWorld
from tests.processors.sla.harness import World as SlaWorld

HOSTS = ("host-b", "host-c", "host-a", "h")
"""Not in the order in which a store has them."""
KINDS_ADDED = ("gpu/b", "gpu/a", "seat")
"""Kinds that cells get; the last is a licence."""
JOB_NAMES = ("m", "kk", "z", "a")


def drawn_access(draw: Random, now: int, pools: Sequence[str], command_id: str) -> AccessEvent:
    """A fact about who may what, of any kind, about few names."""
    key, pool, subject = draw.choice("abc"), draw.choice(pools), draw.choice(("ann", "bob"))
    until = draw.choice((0, now + draw.randrange(1, 9000)))
    kinds: tuple[AccessEvent, ...] = (
        RoleBound(command_id=command_id, binding_id=key, subject=subject, role="viewer", pool=pool, until_ms=until),
        RoleBound(command_id=command_id, binding_id=key, group="dev", role="admin", pool=pool),
        RoleUnbound(command_id=command_id, binding_id=key),
        TokenIssued(command_id=command_id, token_id=key, subject=subject, token_hash=b"h" * 32, until_ms=until),
        TokenRevoked(command_id=command_id, token_id=key),
        LockdownSet(command_id=command_id, pool=pool, locked=draw.random() < 0.7),
    )
    return draw.choice(kinds)


class History:
    """A world and what happens in it. What it hears piles up while the machine is busy."""

    def __init__(self, world: Alone[Any], draw: Random) -> None:
        self.world = world
        self.world.each_pass = True
        self.draw = draw
        self.came = 0

    def play(self, steps: int) -> None:
        """So many things happen, and the machine comes to rest."""
        kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]
        for _ in range(steps):
            self.world.busy = self.draw.random() < 0.6
            self.world.budget = self.draw.choice([1, 3, 1000])
            self.world.caught_up = self.draw.random() < 0.8
            self.draw.choice(kinds)()
        self.world.busy, self.world.caught_up = False, True
        self.world.quiet()

    def do_let_time_pass(self) -> None:
        self.world.now += self.draw.choice([1, 300, 1000, 2500, 60_000])
        self.world.quiet()

    def name(self) -> str:
        """Of a new job; names don't sort as they come."""
        self.came += 1
        return f"{self.draw.choice(JOB_NAMES)}{self.came}"

    def change(self, have: list[int], gang: int = 0) -> tuple[list[int], list[int]]:
        """Instances that a job gets, which it lacks, and instances that it loses, none of its gang."""
        lacking = sorted({*range(max(have, default=-1) + 4)} - {*have})
        loose = [at for at in have if at >= gang]
        return self.some(lacking, 6) if self.draw.random() < 0.6 else [], (
            self.some(loose) if loose and self.draw.random() < 0.6 else []
        )

    def some(self, of: list[Any], most: int = 4) -> list[Any]:
        """Some of these, in any order."""
        return self.draw.sample(of, min(len(of), self.draw.randint(1, most)))


class Lifecycle(History):
    world: LifecycleWorld

    def __init__(self, draw: Random) -> None:
        super().__init__(LifecycleWorld(), draw)
        self.sessions = dict.fromkeys(HOSTS, 1)
        self.pool_offset = 0
        self.define("/q")

    def define(self, path: str) -> None:
        self.world.catch("paceline.pools", PoolDefined(path=path, command_id="", open_jobs_max=30, open_tasks_max=100))
        self.answer()

    def answer(self) -> None:
        self.pool_offset += 1
        done = PoolAnswered(path="", pools_offset=self.pool_offset, command_id="", code=Code.DONE)
        self.world.peer("entitlement", done)

    def runs(self, *states: int) -> list[Run]:
        arena = self.world.machine.tasks.arena
        return [
            (job_id, at, int(arena["run"][row.base + at]))
            for job_id, row in self.world.machine.jobs.items()
            for at in range(row.instances)
            if arena["state"][row.base + at] in states
        ]

    def do_submit(self) -> None:
        instances = self.draw.randint(1, 5)
        kind = self.draw.choice(["batch", "batch", "stateless"])
        spec: dict[str, Any] = {"kind": kind, "instances": instances, "retries_max": self.draw.randint(0, 2)}
        if kind == "batch" and instances > 1:
            spec["gang_min"] = self.draw.choice([0, 2, instances])
        if kind == "batch":
            spec["controller"] = spec.get("gang_min", 0) < 2 and self.draw.random() < 0.5
            spec["on_preempt"] = self.draw.choice(["requeue", "requeue", "fail"])
            spec["on_controller_end"] = self.draw.choice(["end", "wait"])
            spec["max_running"] = self.draw.choice([0, 0, max(1, spec.get("gang_min", 0))])
            spec["max_runtime_ms"] = self.draw.choice([0, 0, 5_000])
            spec["retries_system"] = self.draw.choice([1, 10])
        if kind == "stateless":
            spec["max_unavailable"] = self.draw.choice([None, 1])
        spec["ports"] = self.draw.choice([(), ("http",)])
        spec["start_deadline_ms"] = self.draw.choice([0, 2_000])
        self.world.submit(self.name(), pool=self.draw.choice(["/p", "/q", "/q", "/none"]), **spec)

    def do_stop(self) -> None:
        jobs = sorted(self.world.machine.jobs)
        self.world.stop(self.draw.choice(jobs) if jobs else "none")

    def do_command(self) -> None:
        """Stops some instances, starts, holds, releases or deletes."""
        machine = self.world.machine
        job_id = self.draw.choice([*sorted(machine.jobs), "none"])
        count = machine.jobs[job_id].instances if job_id in machine.jobs else 1
        ranges = self.draw.choice([(), ((self.draw.randrange(max(1, count)), 1),)])
        if self.draw.random() < 0.4:
            self.world.stop_some(job_id, *ranges)
        else:
            action = self.draw.choice(["start", "start", "start", "hold", "release", "release", "delete"])
            self.world.act(job_id, action, *ranges, force=self.draw.random() < 0.3)

    def do_change_a_priority(self) -> None:
        jobs = sorted(self.world.machine.jobs)
        wanted, command = self.draw.choice([0, 1, 2, 1 << 31]), self.draw.choice("abc")
        self.world.prioritise(self.draw.choice(jobs) if jobs else "none", wanted, command)

    def do_change_instances(self) -> None:
        jobs = [job_id for job_id, row in sorted(self.world.machine.jobs.items()) if not row.stopping]
        if not jobs:
            return
        job_id = self.draw.choice(jobs)
        row, arena = self.world.machine.jobs[job_id], self.world.machine.tasks.arena
        state, run = (arena[name][row.base : row.base + row.instances].tolist() for name in ("state", "run"))
        there = [at for at in range(row.instances) if state[at]]
        added, removed = self.change(there, row.gang_min)
        first_run = max([row.run_floor, *(run[at] for at in removed)]) + self.draw.choice([1, 4])
        over = [(job_id, at, run[at]) for at in removed if state[at] not in ENDED_TASKS]
        zeros, stopped = pack_ints([0] * len(over)), pack_ints([Outcome.STOPPED] * len(over))
        killed = pack_ints([TaskState.KILLED] * len(over))
        queued = ranges([(job_id, at, 1, first_run, 0) for at in added])
        self.world.decided(
            *([RunsEnded(**columns(over), outcome=stopped, exit_code=zeros, kept=zeros, next=killed)] if over else []),
            instances_changed(job_id, there, added, removed, first_run),
            *([GangsQueued(**queued, admitted=pack_ints([0] * len(added)))] if added else []),
        )

    def do_place(self) -> None:
        runs = self.some(self.runs(TaskState.QUEUED), 8)
        hosts = [self.draw.choice(HOSTS) for _ in runs]
        counts = [self.world.machine.jobs[job].ports for job, _, _ in runs]
        ports = sum(counts)
        placed = TasksPlaced(
            **columns(runs),
            host_ids=HOSTS,
            host_session=pack_longs([self.sessions[host] for host in HOSTS]),
            host=pack_ints([HOSTS.index(host) for host in hosts]),
            ports=pack_ints(range(31_000, 31_000 + ports)),
            port_count=pack_ints(counts) if ports else b"",
        )
        self.world.peer("placement", placed)

    def do_report(self) -> None:
        runs = self.some(self.runs(*LIVE_TASKS), 8)
        state = self.draw.choice([RunReport.STARTED, RunReport.STARTED, RunReport.EXITED, *RunReport])
        self.world.report(state, *runs, exit_code=self.draw.randint(0, 1))

    def do_list_what_a_host_has(self) -> None:
        host = self.draw.choice(HOSTS)
        self.sessions[host] += 1
        strange = [("stranger", self.draw.randint(0, 3), 1), ("other", 0, 2)]
        runs = self.some([*self.runs(*LIVE_TASKS), *strange], 6)
        self.world.inventory(self.sessions[host], *runs, host=host)

    def do_lose_a_host(self) -> None:
        host = self.draw.choice(HOSTS)
        lost = HostLost(host_id=host, session=self.sessions[host], code=Code.SILENT, silent_ms=1)
        self.world.peer("placement", lost)

    def do_hear_otherwise_of_hosts(self) -> None:
        hosts = self.some(list(HOSTS), 2)
        sessions, hearing = [self.sessions[host] for host in hosts], [self.draw.choice([*Hearing]) for _ in hosts]
        said = HostHearingChanged(host_ids=tuple(hosts), host_session=pack_longs(sessions), hearing=pack_ints(hearing))
        self.world.peer("placement", said)

    def do_preempt(self) -> None:
        runs = self.some(self.runs(TaskState.QUEUED, TaskState.RUNNING, *LIVE_TASKS))
        self.world.preempt(*runs)

    def do_allow(self) -> None:
        self.world.peer("sla", DisruptionAllowed(**columns(self.some(self.runs(*LIVE_TASKS)))))

    def do_defer(self) -> None:
        runs = columns(self.some(self.runs(*LIVE_TASKS)))
        most = pack_ints([1] * len(runs["job_ids"]))
        self.world.peer("sla", DisruptionDeferred(**runs, code="", unavailable=most, max_unavailable=most))

    def do_set_the_cell(self) -> None:
        after = self.draw.choice([0, 2000, 100_000])
        self.world.catch("paceline.pools", CellConfigured(command_id="", forget_after_ms=after))
        self.answer()

    def do_define_a_pool_without_an_answer(self) -> None:
        self.world.catch("paceline.pools", PoolDefined(path="/none", command_id="", open_jobs_max=1))
        if self.draw.random() < 0.9:
            self.answer()


class Entitlement(History):
    world: EntitlementWorld

    def __init__(self, draw: Random) -> None:
        super().__init__(EntitlementWorld({"cpu": 20, "memory": 20}), draw)
        reserved = self.reserved = {"cpu": draw.randint(0, 8)}
        self.leaves = ("/a/x", "/a/y", "/b", "/late")
        self.kinds: list[str] = []
        """That were added to the cell."""
        self.world.define("/a", reservation=reserved)
        self.world.define("/a/x", reservation=reserved)
        self.world.define("/a/y")
        self.world.define("/b", reservation={"cpu": draw.randint(0, 8)})

    def runs(self, column: str) -> list[tuple[str, int, int, int]]:
        """Runs as (job, instance, run, size of the gang it is in)."""
        queues = self.world.machine.queues
        values = queues.arena[column]
        return [
            (job_id, at, int(values[row.base + at]), row.gang_min if at < row.gang_min else 0)
            for job_id, row in queues.jobs.items()
            for at in range(row.instances)
            if values[row.base + at]
        ]

    def do_submit(self) -> None:
        parts = [(self.draw.randint(1, 4), TaskShape(self.need())) for _ in range(self.draw.choice([1, 1, 2, 3]))]
        spec = mixed(*parts)
        self.world.submit(
            self.name(),
            pool=self.draw.choice(self.leaves),
            priority=self.draw.randint(0, 2),
            preemptible=self.draw.random() < 0.7,
            gang_min=min(spec["instances"], self.draw.choice([0, 0, 2, 3])),
            controller=self.draw.random() < 0.2,
            **spec,
        )

    def need(self) -> Amounts:
        more = {kind: self.draw.choice([0, 1, 3]) for kind in self.draw.sample(self.kinds, min(1, len(self.kinds)))}
        return {"cpu": self.draw.randint(0, 5), "memory": self.draw.choice([0, 0, 3, 30])} | more

    def do_add_kinds(self) -> None:
        named = self.draw.sample(KINDS_ADDED, self.draw.randint(1, 2))
        kinds = tuple(ResourceKind(name, amount=self.draw.randint(0, 9) if name == "seat" else None) for name in named)
        delay = self.draw.choice([500, 2000])
        command = f"{self.came}-{self.draw.random()}"
        self.world.fact(CellConfigured(command_id=command, preemption_delay_ms=delay, resources=kinds))
        self.kinds = [*self.world.machine.queues.kinds.licences, *self.world.machine.queues.kinds.names[4:]]

    def do_end(self) -> None:
        kept = int(self.draw.random() < 0.3)
        again = self.draw.random() < 0.5
        for job_id, at, run, gang in self.some(self.runs("held")):
            if gang and self.draw.random() < 0.3:  # the others of the gang haven't ended yet
                self.world.end((job_id, at, run))
                continue
            runs = [(job_id, one, run) for one in (range(gang) if gang else [at])]
            self.world.end(*runs, kept=kept if not gang else 0)
            shape = TaskShape(self.need()) if self.draw.random() < 0.4 else None
            if gang and again:
                self.world.requeue_gang(job_id, gang, run + 1, shape)
            elif again:
                self.world.requeue((job_id, at, run + 1), shape=shape, kept=kept)

    def do_change_instances(self) -> None:
        queues = self.world.machine.queues
        for job_id in self.some(sorted(queues.jobs), 1):
            row = queues.jobs[job_id]
            there = np.flatnonzero(queues.arena["ended"][row.base : row.base + row.instances] != REMOVED).tolist()
            added, removed = self.change(there, row.gang_min)
            run = self.draw.choice([1, 5])
            queued = ranges([(job_id, at, 1, run, 0) for at in added])
            shapes = [TaskShape(self.need()) for _ in range(self.draw.choice([1, 2]))]
            changed = instances_changed(job_id, there, added, removed, run, shapes)
            self.world.peer("lifecycle", changed, GangsQueued(**queued, admitted=pack_ints([0] * len(added))))

    def do_give_back(self) -> None:
        parts = [
            (job_id, 0 if gang else at, gang or 1, run, int(gang > 0))
            for job_id, at, run, gang in self.some(self.runs("held"), 6)
        ]
        code = self.draw.choice([Code.NO_HOST_FITS, Code.NEVER_FITS])
        returns = [GangsReturned(**ranges([part]), code=code) for part in dict.fromkeys(parts)]
        self.world.peer("placement", *returns)

    def do_place(self) -> None:
        for job_id, at, run, gang in self.some(self.runs("held"), 8):
            self.world.place(*((job_id, one, run) for one in (range(gang) if gang else [at])))

    def do_let_claims_wait(self) -> None:
        self.world.later(self.draw.choice([120_000, 400_000, 2_000_000]), step=60_000)

    def do_let_time_pass_elsewhere(self) -> None:
        self.world.peer("placement", TimerPassed(machine="placement", due_ms=self.world.now))

    def do_park(self) -> None:
        """Placement parks what it was asked to park."""
        parked = [each for each in self.runs("rank") if each[2] in (Rank.PARKED, Rank.PARKING)]
        for job_id, at, _, gang in self.some(parked):
            queues = self.world.machine.queues
            run = int(queues.arena["held"][queues.jobs[job_id].base + at])
            self.world.peer(
                "placement", GangsParked(**ranges([(job_id, 0 if gang else at, gang or 1, run, int(gang > 0))]))
            )

    def do_limit(self) -> None:
        most = self.draw.randint(self.reserved["cpu"], 20)
        command = f"{self.came}-{self.draw.random()}"
        self.world.fact(PoolDefined(path="/a", command_id=command, reservation=self.reserved, limit={"cpu": most}))

    def do_reserve(self) -> None:
        """Hosts are reserved for a unit, or not any more."""
        for job_id, at, run, gang in self.some(self.runs("due_s"), 2):
            unit = {"job_id": job_id, "first": 0 if gang else at, "count": gang or 1, "run": run}
            state = self.draw.choice([Code.RESERVED, Code.RESERVED, Code.IN_VAIN, Code.PLACED])
            kept = {"cpu": self.draw.randint(0, 9)}
            hosts = {"host_ids": ("h",), "tasks": pack_ints([gang or 1])}
            reserved = HostsReserved(**unit, **hosts, kept=kept, state=state, until_ms=self.world.now + 600_000)
            self.world.peer("placement", reserved)

    def do_ask(self) -> None:
        """Placement asks for runs to leave for one that has no place."""
        waiting, placed = self.runs("due_s"), self.runs("placed")
        for job_id, at, _, gang in self.some(waiting, 1):
            queues = self.world.machine.queues
            run = int(queues.arena["held"][queues.jobs[job_id].base + at])
            victims = [
                (victim, one, number)
                for victim, where, number, size in self.some(placed, 3)
                for one in (range(size) if size else [where])
            ]
            named = columns(list(dict.fromkeys(victims)))
            asked = PreemptionAsked(
                job_id=job_id,
                first=0 if gang else at,
                count=gang or 1,
                run=run,
                host_ids=("h",),
                tasks=pack_ints([gang or 1]),
                job_ids=named["job_ids"],
                job=named["job"],
                instance=named["instance"],
                victim_run=named["run"],
                way=pack_ints([self.draw.randint(1, 4)] * len(dict.fromkeys(victims))),
            )
            self.world.peer("placement", asked)

    def do_answer_an_order(self) -> None:
        for number in self.some(sorted(self.world.machine.task_records.orders), 1):
            code = self.draw.choice([Code.LEFT, Code.DEFERRED, Code.VOID])
            order = Cause(machine="entitlement", round=1)
            named = columns([])
            answer = PreemptionAnswered(number=number, order=order, code=code, victims=1, **named)
            self.world.peer("lifecycle", answer)

    def do_change_a_priority(self) -> None:
        for job_id in self.some(sorted(self.world.machine.queues.jobs), 1):
            changed = JobPriorityChanged(job_id=job_id, priority=self.draw.randint(0, 3))
            self.world.peer("lifecycle", changed)

    def do_change_hosts(self) -> None:
        more = {kind: self.draw.randint(0, 9) for kind in self.kinds}
        self.world.capacity({"cpu": self.draw.randint(1, 40), "memory": 20} | more)

    def do_define(self) -> None:
        defined = PoolDefined(path=self.draw.choice(["/late", "/b"]), command_id=f"{self.came}-{self.draw.random()}")
        self.world.fact(defined)

    def do_end_jobs(self) -> None:
        jobs = self.some(list(self.world.machine.queues.jobs), 2)
        self.world.peer("lifecycle", *(JobChanged(job_id=job_id, state="KILLED") for job_id in jobs))

    def do_remove(self) -> None:
        self.world.fact(PoolRemoved(path=self.draw.choice(["/late", "/b"]), command_id=str(self.draw.random())))

    def do_grant(self) -> None:
        self.world.fact(drawn_access(self.draw, self.world.now, ("/", "/late", "/b"), str(self.draw.random())))


class Placement(History):
    world: PlacementWorld

    def __init__(self, draw: Random) -> None:
        super().__init__(PlacementWorld(), draw)
        self.kinds = ["memory"]
        """That tasks may ask for beside cpu."""

    def do_connect(self) -> None:
        host = self.draw.choice(HOSTS)
        rack = self.draw.choice(["r0", "r1"])
        cpu = 1000 * self.draw.randint(0, 6)
        ports = 30_999 + self.draw.randint(1, 4)
        more = {kind: 1000 * self.draw.randint(0, 2) for kind in self.draw.sample(KINDS_ADDED, 2)}
        self.world.connect(host, cpu=cpu, port_last=ports, attributes={"rack": rack}, more=more)
        if self.draw.random() < 0.8:
            self.world.reconcile(host)

    def do_lose_touch(self) -> None:
        hosts = self.some(sorted(self.world.sessions))
        self.world.silence(*hosts)
        if self.draw.random() < 0.3:
            self.world.hear(hosts[0]) if hosts else None

    def do_beat(self) -> None:
        self.world.fact(GatewayBeat(gateway="g"))

    def do_confirm(self) -> None:
        self.world.confirm(self.draw.choice(HOSTS), command=str(self.draw.random()))

    def do_remove(self) -> None:
        self.world.remove(self.draw.choice(HOSTS), command=str(self.draw.random()))

    def do_run(self) -> None:
        parts = [(self.draw.randint(1, 4), self.shape()) for _ in range(self.draw.choice([1, 1, 2, 3]))]
        spec = mixed(*parts)
        gang = min(spec["instances"], self.draw.choice([0, 0, 2, 3]))
        entitled = self.draw.randint(0, 1)
        self.world.run(self.name(), gang_min=gang, priority=self.draw.randint(0, 2), entitled=entitled, **spec)

    def do_rank(self) -> None:
        """Units that wait, or have a place, become claims, or borrowed."""
        units = [unit for unit in self.units("waiting") + self.units("placed") if self.draw.random() < 0.5]
        if units:
            self.world.rank(*self.some(units), entitled=self.draw.randint(0, 1))

    def units(self, column: str) -> list[Range]:
        """Gangs and tasks with a run in a column of the arena."""
        runs = self.world.machine.runs
        found = {}
        for job_id, row in runs.jobs.items():
            for at in np.flatnonzero(runs.arena[column][row.base : row.base + row.instances]).tolist():
                members = runs.unit(row.base + at)
                run = int(runs.arena[column][row.base + at])
                first, count = int(members[0]) - row.base, len(members)
                found[job_id, first] = (job_id, first, count, run, int(count > 1))
        return list(found.values())

    def do_report(self) -> None:
        runs = [(job_id, first, run) for job_id, first, _, run, _ in self.units("placed")]
        self.world.peer("lifecycle", RunsAvailable(**columns(self.some(runs)))) if runs else None

    def do_order(self) -> None:
        """Runs must leave; an order before is answered."""
        units = self.units("placed")
        if units:
            self.came += 1
            self.world.order(self.came, self.some(units))
            code = self.draw.choice([Code.LEFT, Code.DEFERRED, Code.VOID])
            self.world.answer(self.draw.randint(max(1, self.came - 3), self.came), code)

    def do_change_priority(self) -> None:
        for job_id in self.some(sorted(self.world.machine.runs.jobs), 1):
            event = JobPriorityChanged(job_id=job_id, priority=self.draw.randint(0, 9))
            self.world.peer("lifecycle", event)

    def shape(self) -> TaskShape:
        rules = self.draw.choice([(), (Constraint("rack", "in", ("r0",)),), (Constraint("rack", "not_in", ("r0",)),)])
        return TaskShape(
            {"cpu": 1000 * self.draw.randint(0, 3)} | dict.fromkeys(self.draw.sample(self.kinds, 1), 1000),
            self.draw.choice([0, 0, 1, 2]),
            rules,
            self.draw.choice(["pack", "spread"]),
        )

    def do_end(self) -> None:
        runs = self.world.machine.runs
        waiting, placed = runs.arena["waiting"], runs.arena["placed"]
        found = [
            (job_id, at, int(max(waiting[row.base + at], placed[row.base + at])))
            for job_id, row in runs.jobs.items()
            for at in range(row.instances)
            if waiting[row.base + at] or placed[row.base + at]
        ]
        over = self.some(found, 6)
        if over:
            kept, hold = self.draw.randint(0, 1), self.draw.randint(0, 1)
            self.world.end(*over, kept=kept, hold=hold)
            again = [
                (job_id, at, 1, run + 1, 0)
                for job_id, at, run in over
                if at >= runs.jobs[job_id].gang and self.draw.random() < 0.5
            ]
            shape = self.shape() if self.draw.random() < 0.4 else None
            if again and (kept or shape):
                self.world.requeue(*again, admitted=kept, shape=shape)
            if again and not kept:
                self.world.admit(*again, entitled=self.draw.randint(0, 1))

    def do_end_jobs(self) -> None:
        jobs = self.some(list(self.world.machine.runs.jobs), 2)
        self.world.peer("lifecycle", *(JobChanged(job_id=job_id, state="KILLED") for job_id in jobs))

    def do_change_instances(self) -> None:
        runs = self.world.machine.runs
        for job_id in self.some(sorted(runs.jobs), 1):
            row = runs.jobs[job_id]
            there = np.flatnonzero(runs.arena["ended"][row.base : row.base + row.instances] != REMOVED).tolist()
            added, removed = self.change(there, row.gang)
            run = self.draw.choice([1, 5])
            shapes = [self.shape() for _ in range(self.draw.choice([1, 2]))]
            self.world.peer("lifecycle", instances_changed(job_id, there, added, removed, run, shapes))
            self.world.admit(*((job_id, at, 1, run, 0) for at in added))

    def do_set_the_cell(self) -> None:
        patience = self.draw.choice([500, 2000, 5000])
        named = self.draw.sample(KINDS_ADDED, self.draw.choice([0, 0, 0, 1, 2]))
        kinds = tuple(ResourceKind(name, amount=self.draw.randint(0, 9) if name == "seat" else None) for name in named)
        self.kinds += [name for name in named if name not in self.kinds]
        configured = CellConfigured(command_id="", placement_patience_ms=patience, resources=kinds)
        self.world.catch("paceline.pools", configured)
        offset = self.world.offsets["paceline.pools"]
        self.world.peer("entitlement", PoolAnswered(path="/", pools_offset=offset, command_id="", code=Code.DONE))


class Sla(History):
    world: SlaWorld

    def __init__(self, draw: Random) -> None:
        super().__init__(SlaWorld(), draw)
        self.number: dict[str, list[int]] = {}

    def do_start(self) -> None:
        job_id, instances = self.name(), self.draw.randint(1, 4)
        self.number[job_id] = [1] * instances
        self.world.service(job_id, instances, self.draw.choice([None, 0, 1, 2]), running=self.draw.random() < 0.8)

    def runs(self) -> list[Run]:
        found = [(job_id, at, run) for job_id, numbers in self.number.items() for at, run in enumerate(numbers) if run]
        return self.some(found, 5) if found else []

    def do_ask(self) -> None:
        self.world.ask(*self.runs())

    def do_withdraw(self) -> None:
        self.world.withdraw(*self.runs())

    def do_report(self) -> None:
        self.world.up(*self.runs())

    def do_stop_runs(self) -> None:
        self.world.stopping(*self.runs())

    def do_change_the_sla(self) -> None:
        for job_id in self.some(list(self.number), 1):
            runs = self.number[job_id]
            there = [at for at, run in enumerate(runs) if run]
            fields: dict[str, Any] = {}
            if job_id not in self.world.machine.jobs:
                fields = {"instances": len(runs), "first": pack_ints(there), "count": pack_ints([1] * len(there))}
                fields["run"] = pack_ints(self.draw.choice([0, runs[at]]) for at in there)
                fields["wanted"] = pack_ints(self.draw.randint(0, 1) for _ in there)
            most = self.draw.choice([None, 0, 1, 2])
            self.world.hear(JobSlaChanged(job_id=job_id, max_unavailable=most, **fields))

    def do_want(self) -> None:
        for job_id in self.some(list(self.number), 1):
            want = self.draw.choice([self.world.stop, self.world.start])
            want(job_id, self.draw.randint(0, 3), self.draw.randint(0, 2))

    def do_end(self) -> None:
        runs = self.runs()
        self.world.down(*runs)
        for job_id, at, _ in runs:
            self.number[job_id][at] += 1

    def do_change_instances(self) -> None:
        for job_id in self.some(list(self.number), 1):
            numbers = self.number[job_id]
            there = [at for at, run in enumerate(numbers) if run]
            added, removed = self.change(there)
            changed = instances_changed(job_id, there, added, removed, 7)
            left = {at: numbers[at] for at in there if at not in removed} | dict.fromkeys(added, 7)
            self.number[job_id] = [left.get(at, 0) for at in range(changed.instances)]
            self.world.hear(changed)

    def do_end_jobs(self) -> None:
        for job_id in self.some(list(self.number), 1):
            self.world.over(job_id)
            del self.number[job_id]


KINDS: dict[str, type[Any]] = {
    "lifecycle": Lifecycle,
    "entitlement": Entitlement,
    "placement": Placement,
    "sla": Sla,
}
