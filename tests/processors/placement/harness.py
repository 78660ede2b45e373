"""Placement by itself: what operators, hosts and other machines say to it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from events.codes import Code, Outcome, Stage
from events.columns import ints, longs, pack_ints
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PoolAnswered, PreemptionsOrdered
from events.records.hosts import (
    GatewayBeat,
    HostBack,
    HostClearRequested,
    HostConnected,
    HostHealthReported,
    HostLossConfirmed,
    HostOffered,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsDrainRequested,
    HostSilent,
    HostsLoaded,
    HostsResumeRequested,
)
from events.records.lifecycle import HostReconciled, HostSuspected, JobAccepted, PreemptionAnswered, RunsEnded
from events.records.parts import Cause, ResourceKind, TaskShape
from events.records.placement import TasksPlaced
from events.records.pools import CellConfigured
from events.resources import Amounts, in_order
from processors.placement.machine import Placement
from processors.state.preemption_rules import Way
from tests.helpers.machines import Alone, Range, Run, columns, queued, ranges, shaped


class World(Alone[Placement]):
    def __init__(self) -> None:
        super().__init__(Placement)
        self.sessions: dict[str, int] = {}

    def fact(self, *facts: Event) -> list[Event]:
        """A batch of facts of the topic of hosts; decides after all of them."""
        return self.take("paceline.hosts", *facts)

    def look(self, copy: Placement) -> None:
        """What is derived is the same, kept up or rebuilt."""
        assert_alike(self.machine, copy)

    def connect(self, host: str, **offer: Any) -> list[Event]:
        """A host connects and says what it has; lifecycle hasn't settled its runs yet."""
        return self.fact(*self.connecting(host, **offer))

    def connecting(self, host: str, **offer: Any) -> list[Event]:
        session = self.sessions[host] = self.sessions.get(host, 0) + 1
        return [HostConnected(host_id=host, session=session, gateway="g"), offered(host, session, **offer)]

    def host(self, host: str, **offer: Any) -> list[Event]:
        """A host connects and is ready for tasks."""
        return self.connect(host, **offer) + self.reconcile(host)

    def reconcile(self, host: str) -> list[Event]:
        event = HostReconciled(host_id=host, session=self.sessions[host], kept=0, ended=0, stopped=0)
        return self.peer("lifecycle", event)

    def load(self, host: str, cpu: int, memory: int = 0) -> list[Event]:
        """Runs use so many sixteenths of a host."""
        session = [self.sessions[host]]
        used = {"cpu_used": [cpu], "memory_used": [memory], "slack": [0]}
        return self.fact(HostsLoaded.pack(gateway="g", host_ids=(host,), host_session=session, **used))

    def silence(self, *hosts: str) -> list[Event]:
        return self.fact(*(HostSilent(host_id=host, session=self.sessions[host]) for host in hosts))

    def hear(self, host: str) -> list[Event]:
        return self.fact(HostBack(host_id=host, session=self.sessions[host]))

    def beats(self, ms: int) -> list[Event]:
        """Time passes, with a beat every 10 s."""
        said: list[Event] = []
        for _ in range(ms // 10_000):
            said += self.later(10_000)
            said += self.fact(GatewayBeat(gateway="g"))
        return said

    def confirm(self, host: str, command: str = "c") -> list[Event]:
        return self.fact(HostLossConfirmed(host_id=host, command_id=command))

    def remove(self, host: str, command: str = "r") -> list[Event]:
        return self.fact(HostRemovalRequested(host_id=host, command_id=command))

    def drain(self, *hosts: str, command: str = "d", **how: Any) -> list[Event]:
        """An operator wants hosts empty."""
        return self.fact(HostsDrainRequested(host_ids=hosts, command_id=command, **how))

    def cordon(self, *hosts: str, command: str = "c") -> list[Event]:
        return self.fact(HostsCordonRequested(host_ids=hosts, command_id=command))

    def resume(self, *hosts: str, command: str = "r", **how: Any) -> list[Event]:
        return self.fact(HostsResumeRequested(host_ids=hosts, command_id=command, **how))

    def stages(self) -> dict[str, str]:
        """The stages of hosts that aren't wanted UP."""
        return {host_id: Stage(row.stage).name for host_id, row in self.machine.stages.table.items()}

    def suspect(self, *hosts: str) -> list[Event]:
        """Lifecycle suspects hosts."""
        return self.peer(
            "lifecycle",
            *(HostSuspected(host_id=host, code=Code.FAILS_AT_ONCE, runs=5, jobs=3, within_ms=9) for host in hosts),
        )

    def finds(self, *hosts: str, condition: str = "raid", bad: bool = True, code: str = "EXIT_1") -> list[Event]:
        """A check of hosts has another result."""
        return self.fact(
            *(
                HostHealthReported(host_id=host, session=1, condition=condition, bad=bad, code=code if bad else "")
                for host in hosts
            )
        )

    def clear(self, host: str) -> list[Event]:
        return self.fact(HostClearRequested(host_id=host, command_id="c"))

    def accept(self, job: str, instances: int = 1, **spec: Any) -> list[Event]:
        return self.peer("lifecycle", accepted(job, instances, **spec))

    def know(self, *kinds: ResourceKind) -> list[Event]:
        """The cell knows more kinds."""
        return self.configure(resources=kinds)

    def configure(self, **settings: Any) -> list[Event]:
        """An admin sets the cell, and entitlement has nothing against it."""
        self.catch("paceline.pools", CellConfigured(command_id="", **settings))
        offset = self.offsets["paceline.pools"]
        return self.peer("entitlement", PoolAnswered(path="/", pools_offset=offset, command_id="", code=Code.DONE))

    def admit(self, *what: Range, entitled: int = 1) -> list[Event]:
        return self.peer("entitlement", GangsAdmitted(**ranges(what), entitled=pack_ints([entitled] * len(what))))

    def rank(self, *what: Range, entitled: int) -> list[Event]:
        """What was admitted is a claim from now on, or borrowed."""
        return self.peer("entitlement", AdmissionsRanked(**ranges(what), entitled=pack_ints([entitled] * len(what))))

    def requeue(self, *what: Range, admitted: int = 1, shape: TaskShape | None = None) -> list[Event]:
        """Tasks wait again; `shape`: they ask something else than before."""
        return self.peer("lifecycle", queued(what, admitted, [shape] * len(what) if shape else []))

    def run(self, job: str, instances: int = 1, entitled: int = 1, **spec: Any) -> list[Event]:
        """A job is accepted and all its tasks are admitted."""
        said = self.accept(job, instances, **spec)
        return said + self.admit(*whole(job, instances, spec.get("gang_min", 0)), entitled=entitled)

    def borrow(self, job: str, instances: int = 1, **spec: Any) -> list[Event]:
        """As `run`, beyond the entitlement of its pool."""
        return self.run(job, instances, entitled=0, **spec)

    def end(self, *runs: Run, kept: int = 0, hold: int = 0, outcome: Outcome = Outcome.SUCCEEDED) -> list[Event]:
        """`hold`: the next run is to go where this one was."""
        holds, outcomes = (pack_ints([value] * len(runs)) for value in (hold, int(outcome)))
        return self.peer("lifecycle", replace(ended(runs, kept), hold=holds, outcome=outcomes))

    def order(self, number: int, units: Sequence[Range], **more: Any) -> list[Event]:
        """Entitlement orders that units leave."""
        runs = [(job, at, run) for job, first, count, run, _ in units for at in range(first, first + count)]
        ways, pools = pack_ints([Way.GIVE] * len(runs)), pack_ints([0] * len(runs))
        whom = {"for_pool": "/o", "for_job": "o", "for_first": 0, "for_count": 1, "for_run": 1}
        victims = columns(runs) | {"from_pools": ("/p",), "from_pool": pools, "way": ways, "slice": pools}
        known: dict[str, Any] = whom | victims | {"code": Code.BELOW_ENTITLEMENT} | more
        return self.peer("entitlement", PreemptionsOrdered(order=number, **known))

    def answer(self, number: int, code: Code, *runs: Run) -> list[Event]:
        """Lifecycle answers an order; `runs` are those that stay."""
        event = PreemptionAnswered(number=number, order=Cause(), code=code, victims=1, **columns(runs))
        return self.peer("lifecycle", event)

    def free(self, host: str) -> list[int]:
        hosts = self.machine.hosts
        free: list[int] = (hosts.capacity - hosts.used)[:, hosts.table[host].number].tolist()
        return free


def amounts(cpu: int = 0, memory: int = 0, disk: int = 0, gpu: int = 0) -> Amounts:
    return in_order({"cpu": cpu, "memory": memory, "disk": disk, "gpu": gpu})


def offered(
    host: str,
    session: int,
    cpu: int = 4000,
    memory: int = 4000,
    gpu: int = 0,
    more: Amounts | None = None,
    **fields: Any,
) -> HostOffered:
    capacity = amounts(cpu, memory, 10_000, gpu) | (more or {})
    return HostOffered(host_id=host, session=session, capacity=capacity, **fields)


def accepted(
    job: str, instances: int = 1, cpu: int = 1000, memory: int = 0, gpu: int = 0, **fields: Any
) -> JobAccepted:
    known = {"instances": instances} | (
        fields if "shapes" in fields else shaped(amounts(cpu, memory, 0, gpu), **fields)
    )
    return JobAccepted(**{"job_id": job, "jobs_offset": 0, "pool": "/p", "kind": "batch"} | known)


def whole(job: str, instances: int, gang_min: int = 0, run: int = 1) -> list[Range]:
    if gang_min < 2:
        return [(job, 0, instances, run, 0)]
    rest = [(job, gang_min, instances - gang_min, run, 0)] if instances > gang_min else []
    return [(job, 0, gang_min, run, 1), *rest]


def ended(runs: Sequence[Run], kept: int = 0) -> RunsEnded:
    outcome, exit_code, keeps = (pack_ints([value] * len(runs)) for value in (int(Outcome.SUCCEEDED), 0, kept))
    return RunsEnded(**columns(runs), outcome=outcome, exit_code=exit_code, kept=keeps)


def places(said: Sequence[Event], needs: dict[str, int] | None = None) -> dict[Run, tuple[str, tuple[int, ...]]]:
    """Where runs were placed, with their ports; `needs` says how many a task of a job must have."""
    found: dict[Run, tuple[str, tuple[int, ...]]] = {}
    for event in said:
        if not isinstance(event, TasksPlaced):
            continue
        ports, at = ints(event.ports).tolist(), 0
        assert len(longs(event.host_session)) == len(event.host_ids)
        counts = ints(event.port_count) if event.ports else [0] * len(ints(event.job))
        for job, instance, run, host, each in zip(
            *map(ints, (event.job, event.instance, event.run, event.host)), counts, strict=True
        ):
            job_id = event.job_ids[job]
            assert needs is None or each == needs.get(job_id, 0)
            key = (job_id, int(instance), int(run))
            assert key not in found
            found[key] = (event.host_ids[host], tuple(ports[at : at + each]))
            at += each
        assert at == len(ports)
    return found


def hosts_of(said: Sequence[Event]) -> dict[Run, str]:
    return {run: host for run, (host, _) in places(said).items()}


def assert_alike(live: Placement, restored: Placement) -> None:
    """What is derived is the same, kept up or rebuilt."""
    for name in (
        "capacity",
        "used",
        "phase",
        "counting",
        "silent_ms",
        "departed_ms",
        "runs",
        "present",
        "stage",
        "barred",
    ):
        assert np.array_equal(getattr(live.hosts, name), getattr(restored.hosts, name)), name
    assert live.hosts.ids == restored.hosts.ids
    mine, other = live.hosts.devices, restored.hosts.devices
    assert [mine.states.state(number).room for number in mine.column.tolist()] == [
        other.states.state(number).room for number in other.column.tolist()
    ]
    assert [mine.of(number) for number in range(len(live.hosts.ids))] == [
        other.of(number) for number in range(len(live.hosts.ids))
    ]
    assert live.hosts.vacated == restored.hosts.vacated
    assert live.hosts.in_maintenance == restored.hosts.in_maintenance
    assert live.hosts.ports.taken == restored.hosts.ports.taken
    held = {port for ports in live.hosts.ports.taken for port in ports}
    for port in (*held, 8080, 31_000):
        assert np.array_equal(live.hosts.ports.without([port]), restored.hosts.ports.without([port]))
        assert live.hosts.ports.without([port]).tolist() == [port not in ports for ports in live.hosts.ports.taken]
    assert (live.runs.waits.tasks, live.runs.waits.ranges) == (restored.runs.waits.tasks, restored.runs.waits.ranges)
    assert live.next_wakeup() == restored.next_wakeup()
    jobs, others = live.runs.index, restored.runs.index
    assert jobs.daemons() == others.daemons()
    for label in {label for row in live.runs.jobs.values() for label in row.labels.items()}:
        assert jobs.labelled(label) == others.labelled(label)
        assert (terms := jobs.shunned(dict([label]))) == others.shunned(dict([label]))
        assert [jobs.shunning(term) for term in terms] == [others.shunning(term) for term in terms]
    constraints = [row.shape.constraints for row in live.runs.shapes.table.values()]
    for conditions in constraints:
        column = live.hosts.constraints.column(conditions)
        assert np.array_equal(column, restored.hosts.constraints.column(conditions))
