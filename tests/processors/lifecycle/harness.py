"""Lifecycle by itself: what users and hosts say to it."""

from collections.abc import Sequence
from typing import Any

from events.columns import pack_ints, pack_longs
from events.records.base import Event
from events.records.entitlement import PoolAnswered, PreemptionsOrdered
from events.records.jobs import JobActionRequested, JobPriorityRequested, JobStopRequested, JobSubmitted
from events.records.placement import (
    HostMaintenanceChanged,
    HostRemoved,
    MatchingHostsChanged,
    RevocationAsked,
    TasksPlaced,
)
from events.records.pools import PoolDefined
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.records.tasks import HostInventory, RunsReported
from processors.lifecycle.machine import Lifecycle
from tests.helpers.machines import Alone, Run, columns


class World(Alone[Lifecycle]):
    def __init__(self, open_jobs_max: int = 3) -> None:
        super().__init__(Lifecycle)
        self.orders = self.commands = 0
        self.host_of = dict[Run, str]()
        """The hosts of the runs that were placed."""
        self.session = 1
        """The last one of h1."""
        self.fact(
            "paceline.pools", PoolDefined(path="/p", command_id="1", open_jobs_max=open_jobs_max, open_tasks_max=1000)
        )
        self.peer("entitlement", PoolAnswered(path="/p", pools_offset=0, command_id="1", code="DONE"))

    def fact(self, topic: str, event: Event) -> list[Event]:
        return self.take(topic, event)

    def submit(self, job_id: str, **spec: object) -> list[Event]:
        spec = {"pool": "/p", "command": ("true",), **spec}
        return self.fact("paceline.jobs", JobSubmitted(job_id=job_id, **spec))

    def stop(self, job_id: str) -> list[Event]:
        return self.fact("paceline.jobs", JobStopRequested(job_id=job_id, command_id=f"stop-{job_id}"))

    def stop_some(self, job_id: str, *ranges: tuple[int, int], **fields: Any) -> list[Event]:
        """Stops instances, by ranges of first and count."""
        wanted = JobStopRequested(job_id=job_id, command_id=self.command_id(), **columns_of(ranges), **fields)
        return self.fact("paceline.jobs", wanted)

    def act(self, job_id: str, action: str, *ranges: tuple[int, int], **fields: Any) -> list[Event]:
        """Start, hold, release or delete; `ranges`: of which instances, by first and count."""
        fields = {"command_id": self.command_id(), **columns_of(ranges), **fields}
        return self.fact("paceline.jobs", JobActionRequested(job_id=job_id, action=action, **fields))

    def command_id(self) -> str:
        """One that nobody has used."""
        self.commands += 1
        return f"command-{self.commands}"

    def prioritise(self, job_id: str, priority: int, command_id: str = "c") -> list[Event]:
        wanted = JobPriorityRequested(job_id=job_id, command_id=command_id, priority=priority)
        return self.fact("paceline.jobs", wanted)

    def preempt(self, *runs: Run) -> list[Event]:
        """An order, numbered from 1 as they come."""
        self.orders += 1
        return self.peer("entitlement", order(self.orders, *runs))

    def revoke(self, *runs: Run) -> list[Event]:
        """The host of these runs lends less than they hold."""
        where = {
            "host_ids": ("h1",),
            "host": pack_ints([0] * len(runs)),
            "lent": pack_longs([0]),
            "used": pack_longs([1]),
        }
        return self.peer("placement", RevocationAsked(**columns(runs), **where))

    def stage(self, stage: int, host: str = "h1", code: str = "ASKED") -> list[Event]:
        """A host has another stage of maintenance."""
        zero, never = pack_ints([0]), pack_longs([0])
        changed = HostMaintenanceChanged(
            host_ids=(host,),
            stage=pack_ints([stage]),
            cordon=zero,
            batch=zero,
            step=zero,
            preempt_at=never,
            force_at=never,
            check_until=never,
            code=code,
        )
        return self.peer("placement", changed)

    def place(self, *runs: Run, host: str = "h1") -> list[Event]:
        placed = TasksPlaced(
            **columns(runs),
            host_ids=(host,),
            host_session=pack_longs([1]),
            host=pack_ints([0] * len(runs)),
        )
        self.host_of |= dict.fromkeys(runs, host)
        return self.peer("placement", placed)

    def match(self, job_id: str, *host_ids: str, matches: int = 1) -> list[Event]:
        """Hosts match a daemon from now on, or no longer."""
        zeros = pack_ints([0] * len(host_ids))
        changed = MatchingHostsChanged(
            job_ids=(job_id,),
            host_ids=host_ids,
            host_session=pack_longs([1] * len(host_ids)),
            job=zeros,
            host=pack_ints(range(len(host_ids))),
            matches=pack_ints([matches] * len(host_ids)),
        )
        return self.peer("placement", changed)

    def remove(self, host_id: str) -> list[Event]:
        """A host is forgotten."""
        return self.peer("placement", HostRemoved(host_id=host_id, session=1, code="ASKED", left_ms=1))

    def report(
        self, state: int, *runs: Run, exit_code: int = 0, session: int | None = None, host: str = ""
    ) -> list[Event]:
        """What a host says, each run's own unless said, in the present session of h1 unless said."""
        hosts = [host or self.host_of.get(run, "h1") for run in runs]
        host_ids = tuple(dict.fromkeys(hosts))
        event = RunsReported(
            gateway="g",
            host_ids=host_ids,
            **columns(runs),
            host_session=pack_longs([self.session if session is None else session] * len(host_ids)),
            host=pack_ints([host_ids.index(each) for each in hosts]),
            state=pack_ints([state] * len(runs)),
            exit_code=pack_ints([exit_code] * len(runs)),
        )
        return self.fact("paceline.tasks", event)

    def inventory(self, session: int, *runs: Run, state: int = 1, host: str = "h1") -> list[Event]:
        self.session = session if host == "h1" else self.session
        event = HostInventory(
            host_id=host,
            session=session,
            **columns(runs),
            state=pack_ints([state] * len(runs)),
            exit_code=pack_ints([0] * len(runs)),
        )
        return self.fact("paceline.tasks", event)


def columns_of(ranges: Sequence[tuple[int, int]]) -> dict[str, bytes]:
    """Ranges as the fields of a command."""
    first, count = zip(*ranges, strict=True) if ranges else ((), ())
    return {"first": pack_ints(first), "count": pack_ints(count)}


def order(number: int, *runs: Run) -> PreemptionsOrdered:
    """An order to preempt runs."""
    zeros = pack_ints([0] * len(runs))
    return PreemptionsOrdered(
        order=number,
        **columns(runs),
        way=pack_ints([2] * len(runs)),
        slice=zeros,
        from_pools=("/p",),
        from_pool=zeros,
        for_pool="/q",
        for_job="winner",
        for_first=0,
        for_count=1,
        for_run=1,
        code="BELOW_RESERVATION",
    )


def deferred(run: Run) -> DisruptionDeferred:
    """Sla defers the disruption of a run."""
    one = pack_ints([1])
    return DisruptionDeferred(**columns([run]), code="SLA_BUDGET_SPENT", unavailable=one, max_unavailable=one)


def allowed(*runs: Run, later: int = 0, free: int = 0) -> DisruptionAllowed:
    """Sla allows disruptions; `later`: it has deferred them before; `free`: as they aren't available."""
    each = (pack_ints([value] * len(runs)) for value in (later, free))
    return DisruptionAllowed(**columns(runs), **dict(zip(("deferred", "free"), each, strict=True)))
