"""Rounds of entitlement and placement that nobody but a test has written, for the folds of the checker."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from events.codes import Outcome
from events.columns import pack_ints, pack_longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, PoolAnswered, PreemptionsOrdered
from events.records.hosts import HostConnected, HostOffered
from events.records.lifecycle import GangsQueued, HostReconciled, JobAccepted, RunsEnded
from events.records.placement import HostsReserved, PreemptionAsked, TasksPlaced
from events.records.pools import PoolDefined
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.history import Round, Taken, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.orders import Orders
from paceline.simulate.checker.plans import Plans
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.reasons import Reasons
from paceline.simulate.checker.rest import Rest
from paceline.simulate.checker.serving import Serving
from tests.helpers.machines import shaped

OWN, GIVE, MOVE, CLEAR, LIMIT = 1, 2, 3, 4, 5
MINUTE = 60_000
START = 1_700_000_000_000


def columns(job: str, *instances: int, run: int = 1) -> dict[str, Any]:
    size = len(instances)
    named = {"job": pack_ints([0] * size), "instance": pack_ints(instances), "run": pack_ints([run] * size)}
    return {"job_ids": (job,), **named}


def ranges(job: str, count: int, run: int = 1, gang: bool = False) -> dict[str, Any]:
    values = {"job": 0, "first": 0, "count": count, "run": run, "gang": int(gang)}
    return {"job_ids": (job,), **{name: pack_ints([value]) for name, value in values.items()}}


def admitted(job: str, count: int = 1, entitled: int = 1, run: int = 1, gang: bool = False) -> GangsAdmitted:
    return GangsAdmitted(**ranges(job, count, run, gang), entitled=pack_ints([entitled]))


def queued(job: str, count: int = 1, run: int = 1, gang: bool = False) -> GangsQueued:
    return GangsQueued(**ranges(job, count, run, gang), admitted=pack_ints([0]))


def placed(job: str, *instances: int, host: str = "h", run: int = 1) -> TasksPlaced:
    size = len(instances)
    where = {"host_ids": (host,), "host_session": pack_longs([1]), "host": pack_ints([0] * size)}
    return TasksPlaced(**columns(job, *instances, run=run), **where)


def ended(job: str, *instances: int, run: int = 1, outcome: int = Outcome.PREEMPTED) -> RunsEnded:
    size = len(instances)
    said = {"outcome": pack_ints([outcome] * size), "exit_code": pack_ints([0] * size), "kept": pack_ints([0] * size)}
    return RunsEnded(**columns(job, *instances, run=run), **said)


def asked(
    *victims: int, way: int = GIVE, run: int = 1, hosts: Sequence[str] = ("h",), tasks: int = 1
) -> PreemptionAsked:
    """For the job `taker` of the pool /b, of the job `victim` of /a."""
    size = len(victims)
    return PreemptionAsked(
        job_id="taker",
        first=0,
        count=tasks,
        run=1,
        host_ids=tuple(hosts),
        tasks=pack_ints([tasks // len(hosts)] * len(hosts)),
        job_ids=("victim",),
        job=pack_ints([0] * size),
        instance=pack_ints(victims),
        victim_run=pack_ints([run] * size),
        way=pack_ints([way] * size),
    )


def ordered(
    *victims: int, way: int = GIVE, run: int = 1, by_slice: int = 0, code: str = "BELOW_ENTITLEMENT", **what: Any
) -> PreemptionsOrdered:
    size = len(victims)
    fields = {
        "order": 1,
        "from_pools": ("/a",),
        "for_pool": "/b",
        "for_job": "taker",
        "for_first": 0,
        "for_count": 1,
        "for_run": 1,
        "host_ids": ("h",),
    } | what
    return PreemptionsOrdered(
        **columns("victim", *victims, run=run),
        way=pack_ints([way] * size),
        slice=pack_ints([by_slice] * size),
        from_pool=pack_ints([0] * size),
        code=code,
        **fields,
    )


def job(job_id: str, pool: str, cpu: int = 1000, instances: int = 8, **what: Any) -> JobAccepted:
    shape = shaped({"cpu": cpu}, **({"kind": "batch", "instances": instances} | what))
    return JobAccepted(job_id=job_id, jobs_offset=0, pool=pool, **shape)


def entitlements(**cpu: int) -> EntitlementsSet:
    """What pools may use: part of the numbers, which prove nothing alone."""
    column = pack_longs([*cpu.values()])
    return EntitlementsSet(
        pools=tuple(f"/{name}" for name in cpu),
        resources=("cpu",),
        entitlement=column,
        demand=column,
        allocation=column,
        placed=column,
        partial=True,
    )


class World:
    """The checker's folds of entitlement and placement, a clock, and what machines take in and decide."""

    def __init__(self, *pools: PoolDefined, cpu: int = 4000) -> None:
        facts: list[Event] = [*pools]
        history: Any = type("Facts", (), {"fact": lambda self, topic, offset: facts[offset]})()
        self.now = START
        self.pools = Pools(history, 0)
        self.orders, self.reasons, self.rest = Orders(self.pools), Reasons(self.pools), Rest()
        self.hosts = Hosts()
        self.plans = Plans(self.hosts, self.pools, Devices())
        self.serving = Serving(self.hosts, self.plans, self.pools)
        self.entitlement(
            [], [PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE") for at in range(len(facts))]
        )
        self.offer("h", cpu)

    def offer(self, host: str, cpu: int) -> None:
        self.placement(
            [
                HostConnected(host_id=host, session=1, gateway="g"),
                HostReconciled(host_id=host, session=1, kept=0, ended=0, stopped=0),
                HostOffered(host_id=host, session=1, capacity={"cpu": cpu}),
            ]
        )

    def later(self, ms: int) -> None:
        self.now += ms

    def entitlement(self, inputs: Sequence[Event] = (), decisions: Sequence[Event] = ()) -> None:
        round_ = self.round(inputs, decisions)
        for fold in (self.pools, self.orders, self.reasons, self.rest):
            fold.round(round_)

    def placement(self, inputs: Sequence[Event] = (), decisions: Sequence[Event] = ()) -> None:
        round_ = self.round(inputs, decisions)
        for fold in (self.hosts, self.plans, self.serving):
            fold.round(round_)

    def round(self, inputs: Sequence[Event], decisions: Sequence[Event]) -> Round:
        return Round("it", 1, 0, [Taken("a topic", 0, event, self.now) for event in inputs], list(decisions), self.now)

    def entitled(self, **cpu: int) -> None:
        """What the pools are told that they may use."""
        self.entitlement([], [entitlements(**cpu)])

    def runs(self, job_: JobAccepted, count: int, entitled: int = 1, host: str = "h", gang: bool = False) -> None:
        """Its first tasks have a place."""
        job_id, instances = job_.job_id, range(count)
        self.waits(job_, count, entitled, gang)
        self.placement([], [placed(job_id, *instances, host=host)])
        self.entitlement([placed(job_id, *instances, host=host)])

    def waits(self, job_: JobAccepted, count: int = 1, entitled: int = 1, gang: bool = False) -> None:
        """Its first tasks are admitted and have no place."""
        there = [] if job_.job_id in self.pools.units.jobs else [job_]
        admission = admitted(job_.job_id, count, entitled, gang=gang)
        self.entitlement([*there, queued(job_.job_id, count, gang=gang)], [admission])
        self.placement([*there, admission])


A, B = PoolDefined(path="/a", command_id="c"), PoolDefined(path="/b", command_id="c")
RESERVED = PoolDefined(path="/b", command_id="c", reservation={"cpu": 2000})


def contended(b: PoolDefined = B, taker: JobAccepted | None = None, **victims: Any) -> World:
    """Two pools that may use half of four cores each; the first holds all of it, the second claims a core."""
    world = World(A, b)
    world.entitled(a=2000, b=2000)
    world.runs(job("victim", "/a", **victims), 4)
    world.waits(taker or job("taker", "/b"))
    return world


def breaks(world: World, says: str, inputs: Sequence[Event], decisions: Sequence[Event]) -> None:
    with pytest.raises(Violation, match=re.escape(says)):
        world.entitlement(inputs, decisions)


def reserved(job_id: str, state: str, now: int, *hosts: str) -> HostsReserved:
    names = hosts or ("h",)
    return HostsReserved(
        job_id=job_id,
        first=0,
        count=len(names),
        run=1,
        host_ids=names,
        tasks=pack_ints([1] * len(names)),
        kept={},
        state=state,
        until_ms=now + 10 * MINUTE,
    )
