"""The records of `schemas/entitlement`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs, pack_unless
from events.records.base import Event, ItemsEvent, RangesEvent
from events.records.parts import Cause, HostPoolWaits


class AdmissionsRanked(RangesEvent, frozen=True, kw_only=True):
    """Admitted gangs that are entitled from now on and were borrowed before, or the other way round. Borrowed ones
    keep their place in the queue.
    """

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
        "entitled": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    first: bytes
    """First instance of the range. Column of int32."""

    count: bytes
    """Instances in the range. Column of int32."""

    run: bytes
    """The run that each instance of the range is at. Column of int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of int32."""

    entitled: bytes
    """1: within the entitlement of its pool, a claim; 0: borrowed, it runs on what others don't use now. 2: entitled,
    and to hold nothing under limits while it has no place (GangsParked says from when on), until it is 1 again.
    Empty: all are entitled. Column of int32.
    """

    cause: Cause | None = None
    """The last change before it of queues, pools or capacity."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def gang_array(self) -> I32:
        return np.frombuffer(self.gang, INT32, len(self.gang) // 4)

    @property
    def entitled_array(self) -> I32:
        if self.entitled:
            return np.frombuffer(self.entitled, INT32, len(self.entitled) // 4)
        return np.full(len(self.job) // 4, 1, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        first: Values,
        count: Values,
        run: Values,
        gang: Values,
        entitled: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
            entitled=pack_ints(entitled),
            cause=cause,
        )


class CreditsSet(Event, frozen=True, kw_only=True):
    """What pools have saved of their share for a gang that needs more than it."""

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"credit": INT64, "rate": INT64, "full": INT64}

    pools: tuple[str, ...]
    """The pools."""

    resources: tuple[str, ...]
    """The names of the resources."""

    credit: bytes
    """Saved so far, amount times milliseconds. One per item and resource: the resources of the first item, those of
    the second, and so on. Column of int64.
    """

    rate: bytes
    """What is saved from now on, an amount; negative: what is paid back. One per item and resource: the resources of
    the first item, those of the second, and so on. Column of int64.
    """

    full: bytes
    """The credit that suffices for a turn; 0: the resource isn't short. One per item and resource: the resources of
    the first item, those of the second, and so on. Column of int64.
    """

    @property
    def credit_array(self) -> I64:
        return np.frombuffer(self.credit, INT64, len(self.credit) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def rate_array(self) -> I64:
        return np.frombuffer(self.rate, INT64, len(self.rate) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def full_array(self) -> I64:
        return np.frombuffer(self.full, INT64, len(self.full) // 8).reshape(-1, len(self.resources) or 1)

    @classmethod
    def pack(
        cls,
        *,
        pools: tuple[str, ...],
        resources: tuple[str, ...],
        credit: Values,
        rate: Values,
        full: Values,
    ) -> Self:
        return cls(
            pools=pools,
            resources=resources,
            credit=pack_longs(credit),
            rate=pack_longs(rate),
            full=pack_longs(full),
        )


class EntitlementsSet(Event, frozen=True, kw_only=True):
    """What pools may use now."""

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "entitlement": INT64,
        "demand": INT64,
        "allocation": INT64,
        "placed": INT64,
        "daemons": INT64,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": ""}

    pools: tuple[str, ...]
    """The pools whose numbers changed; none where a change of pools or of the capacity left all numbers as they were.
    """

    resources: tuple[str, ...]
    """The names of the resources."""

    entitlement: bytes
    """What the pool may use. One per pool and resource: the resources of the first pool, those of the second, and so
    on. Column of int64.
    """

    demand: bytes
    """What waits and what runs, within its limit. One per pool and resource: the resources of the first pool, those of
    the second, and so on. Column of int64.
    """

    allocation: bytes
    """What is admitted in it, with hosts or without. One per pool and resource: the resources of the first pool, those
    of the second, and so on. Column of int64.
    """

    placed: bytes
    """The part of that which has hosts. One per pool and resource: the resources of the first pool, those of the
    second, and so on. Column of int64.
    """

    daemons: bytes = b""
    """The part of what is placed that daemons have, who stand beside the shares. One per pool and resource: the
    resources of the first pool, those of the second, and so on; empty: they have nothing. Column of int64.
    """

    claimed: tuple[int, ...] = ()
    """What is entitled and has no place, of all pools together, of each resource; empty: nothing is."""

    partial: bool = False
    """Whether there are further pools to be said: one round could not hold them all, or only these matter to orders
    that are about to be given.
    """

    causes: tuple[Cause, ...] = ()
    """The changes of pools and of the capacity since the last one, at most 8, the newest last; where there was none,
    the last change of what waits and what runs.
    """

    @property
    def entitlement_array(self) -> I64:
        return np.frombuffer(self.entitlement, INT64, len(self.entitlement) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def demand_array(self) -> I64:
        return np.frombuffer(self.demand, INT64, len(self.demand) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def allocation_array(self) -> I64:
        return np.frombuffer(self.allocation, INT64, len(self.allocation) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def placed_array(self) -> I64:
        return np.frombuffer(self.placed, INT64, len(self.placed) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def daemons_array(self) -> I64:
        if self.daemons:
            return np.frombuffer(self.daemons, INT64, len(self.daemons) // 8).reshape(-1, len(self.resources) or 1)
        return np.full(len(self.entitlement) // 8, 0, INT64).reshape(-1, len(self.resources) or 1)

    @classmethod
    def pack(
        cls,
        *,
        pools: tuple[str, ...],
        resources: tuple[str, ...],
        entitlement: Values,
        demand: Values,
        allocation: Values,
        placed: Values,
        daemons: Values | None = None,
        claimed: tuple[int, ...] = (),
        partial: bool = False,
        causes: tuple[Cause, ...] = (),
    ) -> Self:
        return cls(
            pools=pools,
            resources=resources,
            entitlement=pack_longs(entitlement),
            demand=pack_longs(demand),
            allocation=pack_longs(allocation),
            placed=pack_longs(placed),
            daemons=b"" if daemons is None else pack_unless(daemons, 0, INT64),
            claimed=claimed,
            partial=partial,
            causes=causes,
        )


class GangsAdmitted(RangesEvent, frozen=True, kw_only=True):
    """Gangs that may be placed; their pools hold their needs from now on."""

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
        "entitled": INT32,
        "strategy": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    first: bytes
    """First instance of the range. Column of int32."""

    count: bytes
    """Instances in the range. Column of int32."""

    run: bytes
    """The run that each instance of the range is at. Column of int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of int32."""

    entitled: bytes = b""
    """1: within the entitlement of its pool, a claim; 0: borrowed, it runs on what others don't use now. Empty: all
    are entitled. Column of int32.
    """

    strategy: bytes = b""
    """The strategy of the pool of each range, for tasks whose job names none: 0 pack, 1 spread, 2 balanced, 3 load-
    aware, 4 fragmentation, 5 adaptive. Empty: all pack. Column of int32.
    """

    cause: Cause | None = None
    """The last change before it that gave room: runs that ended, gangs that were returned, a change of pools or of the
    capacity.
    """

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def gang_array(self) -> I32:
        return np.frombuffer(self.gang, INT32, len(self.gang) // 4)

    @property
    def entitled_array(self) -> I32:
        if self.entitled:
            return np.frombuffer(self.entitled, INT32, len(self.entitled) // 4)
        return np.full(len(self.job) // 4, 1, INT32)

    @property
    def strategy_array(self) -> I32:
        if self.strategy:
            return np.frombuffer(self.strategy, INT32, len(self.strategy) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        first: Values,
        count: Values,
        run: Values,
        gang: Values,
        entitled: Values | None = None,
        strategy: Values | None = None,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
            entitled=b"" if entitled is None else pack_ints(entitled),
            strategy=b"" if strategy is None else pack_unless(strategy, 0, INT32),
            cause=cause,
        )


class GangsHeld(RangesEvent, frozen=True, kw_only=True):
    """Why gangs of a pool wait: those of one class and shape with one reason."""

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    pool: str
    """The pool in which they wait."""

    at: str
    """The pool that says no: this one or one above."""

    code: str
    """Reason code."""

    firm: bool = False
    """Whether they aren't preemptible."""

    controllers: bool = False
    """Whether they are controllers."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    first: bytes
    """First instance of the range. Column of int32."""

    count: bytes
    """Instances in the range. Column of int32."""

    run: bytes
    """The run that each instance of the range is at. Column of int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of int32."""

    asked: dict[str, int]
    """What one of these gangs asks, by name of the resource."""

    allocated: dict[str, int] = {}
    """What the pool that says no holds, by name of the resource."""

    entitlement: dict[str, int] = {}
    """What that pool may use, by name of the resource."""

    limit: dict[str, int] = {}
    """Its limits, or its reservation where that says no, by name of the resource."""

    largest: dict[str, int] = {}
    """Where no host has enough for one task: the most that one has, by name of the resource."""

    not_before_ms: int = 0
    """Logical time of the next try; 0: on any change."""

    cause: Cause | None = None
    """The last change of queues, pools or capacity before it."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def gang_array(self) -> I32:
        return np.frombuffer(self.gang, INT32, len(self.gang) // 4)

    @classmethod
    def pack(
        cls,
        *,
        pool: str,
        at: str,
        code: str,
        firm: bool = False,
        controllers: bool = False,
        job_ids: tuple[str, ...],
        job: Values,
        first: Values,
        count: Values,
        run: Values,
        gang: Values,
        asked: dict[str, int],
        allocated: dict[str, int] | None = None,
        entitlement: dict[str, int] | None = None,
        limit: dict[str, int] | None = None,
        largest: dict[str, int] | None = None,
        not_before_ms: int = 0,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            pool=pool,
            at=at,
            code=code,
            firm=firm,
            controllers=controllers,
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
            asked=asked,
            allocated={} if allocated is None else allocated,
            entitlement={} if entitlement is None else entitlement,
            limit={} if limit is None else limit,
            largest={} if largest is None else largest,
            not_before_ms=not_before_ms,
            cause=cause,
        )


class HostPoolsWanted(Event, frozen=True, kw_only=True):
    """The work that waits because host pools have no more, by host pool."""

    topic: ClassVar[str] = "paceline.entitlement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    host_pools: tuple[HostPoolWaits, ...]
    """The host pools for which work waits, by name; none: nothing waits for any."""

    cause: Cause | None = None
    """The last change before it of queues, pools or capacity."""


class PoolAnswered(Event, frozen=True, kw_only=True):
    """The answer to a fact about pools."""

    topic: ClassVar[str] = "paceline.entitlement"

    cause_fields: ClassVar[Mapping[str, str]] = {"pools_offset": "paceline.pools"}

    path: str
    """The pool; / for the cell."""

    pools_offset: int
    """Where the fact stands in the topic of pools."""

    command_id: str
    """The id that the client made."""

    code: str
    """DONE, REPEATED or a reason code."""

    message: str = ""
    """One sentence."""

    host_pools: tuple[str, ...] | None = None
    """The host pools that jobs of the pool may use from now on, where a definition or a removal was followed; null: it
    was none.
    """


class PreemptionRefused(Event, frozen=True, kw_only=True):
    """The answer to a PreemptionAsked that isn't ordered."""

    topic: ClassVar[str] = "paceline.entitlement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The gang or task: its job."""

    first: int
    """The gang or task: its first instance."""

    count: int
    """The gang or task: its instances."""

    run: int
    """The gang or task: the run that they are at."""

    code: str
    """VOID the gang has a place or waits no more; VICTIM_GONE, NON_PREEMPTIBLE, CAP_REACHED, DEFERRED sla refused it
    lately, SLICE_NOT_OVER or NO_RIGHT; LIMIT_REACHED not enough can be freed under a limit.
    """

    victim_job_id: str = ""
    """The first victim that may not go: its job; empty: it isn't about a victim."""

    victim_instance: int = 0
    """The first victim that may not go: its instance."""

    victim_run: int = 0
    """The first victim that may not go: its run."""

    wanted: dict[str, int] = {}
    """What the victim would give, by name of the resource."""

    free: dict[str, int] = {}
    """What may be taken from its pool for this gang, by name of the resource."""

    cause: Cause | None = None
    """The PreemptionAsked."""


class PreemptionsOrdered(ItemsEvent, frozen=True, kw_only=True):
    """Runs that must leave, for one gang: all of them or, where sla defers one, none."""

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "way": INT32,
        "slice": INT32,
        "from_pool": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ("PreemptionAsked",)

    order: int
    """Number of the order in its cell, from 1."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    way: bytes
    """1 OWN, 2 GIVE, 3 MOVE, 4 CLEAR (as in PreemptionAsked), 5 LIMIT: it holds what a limit or a licence leaves for
    the gang, 6 SHRUNK: its host offers less than its runs hold. Column of int32.
    """

    slice: bytes
    """1: the run has used up its slice, which doubles the next one of its task. Column of int32."""

    from_pools: tuple[str, ...]
    """The pools named by the column from_pool."""

    from_pool: bytes
    """The pool of each run, an index into from_pools. Column of int32."""

    for_pool: str
    """The pool of the gang."""

    for_job: str
    """The job that gets what they hold; empty: they leave a host that offers less than they hold."""

    for_first: int
    """The gang or task that gets it: its first instance."""

    for_count: int
    """The gang or task that gets it: its instances."""

    for_run: int
    """The gang or task that gets it: its run."""

    host_ids: tuple[str, ...] = ()
    """The hosts that are freed for it; none where amounts are freed under a limit."""

    spared: dict[str, int] = {}
    """Runs on these hosts that were looked at and stay: how many by which code."""

    code: str
    """Why the gang has the right: BELOW_RESERVATION, BELOW_ENTITLEMENT, HIGHER_PRIORITY, HOSTS_CLEARED, FOR_DAEMON or
    LIMIT_REACHED; HOST_SHRUNK: it is for no gang.
    """

    cause: Cause | None = None
    """The PreemptionAsked; or, under a limit, the last change before it of queues, pools or capacity."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def way_array(self) -> I32:
        return np.frombuffer(self.way, INT32, len(self.way) // 4)

    @property
    def slice_array(self) -> I32:
        return np.frombuffer(self.slice, INT32, len(self.slice) // 4)

    @property
    def from_pool_array(self) -> I32:
        return np.frombuffer(self.from_pool, INT32, len(self.from_pool) // 4)

    @classmethod
    def pack(
        cls,
        *,
        order: int,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        way: Values,
        slice: Values,
        from_pools: tuple[str, ...],
        from_pool: Values,
        for_pool: str,
        for_job: str,
        for_first: int,
        for_count: int,
        for_run: int,
        host_ids: tuple[str, ...] = (),
        spared: dict[str, int] | None = None,
        code: str,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            order=order,
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            way=pack_ints(way),
            slice=pack_ints(slice),
            from_pools=from_pools,
            from_pool=pack_ints(from_pool),
            for_pool=for_pool,
            for_job=for_job,
            for_first=for_first,
            for_count=for_count,
            for_run=for_run,
            host_ids=host_ids,
            spared={} if spared is None else spared,
            code=code,
            cause=cause,
        )


class RightsSet(RangesEvent, frozen=True, kw_only=True):
    """Which admitted gangs without a place may have others leave for them, and which pools may be asked to give. Says
    what has changed: takers and givers that aren't named are as before. What is removed is removed before the rest
    is set.
    """

    topic: ClassVar[str] = "paceline.entitlement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
        "pool": INT32,
        "others": INT64,
        "entitlement": INT64,
        "flags": INT32,
        "removed_job": INT32,
        "removed_first": INT32,
        "removed_count": INT32,
        "excess": INT64,
        "giver_entitlement": INT64,
        "reserved": INT64,
        "spare": INT64,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    resources: tuple[str, ...]
    """The names of the resources."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    first: bytes
    """First instance of the range. Column of int32."""

    count: bytes
    """Instances in the range. Column of int32."""

    run: bytes
    """The run that each instance of the range is at. Column of int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of int32."""

    pools: tuple[str, ...]
    """The pools named by the column pool."""

    pool: bytes
    """The pool of each range of takers, an index into pools. Column of int32."""

    others: bytes
    """What the first unit of the range may take from other pools; each further one: less by what the units before it
    need. One per item and resource: the resources of the first item, those of the second, and so on. Column of
    int64.
    """

    entitlement: bytes
    """The entitlement of its pool. One per item and resource: the resources of the first item, those of the second,
    and so on. Column of int64.
    """

    flags: bytes
    """Sum of 1: its pool is below its reservation; 2: others may be moved for it; 4: hosts may be cleared for it; 8:
    it is of a daemon, for which hosts are cleared whatever share, reservation or slice covers who is there. Column
    of int32.
    """

    removed_job: bytes = b""
    """Takers that have no right any more: index into job_ids. Column of int32."""

    removed_first: bytes = b""
    """Takers that have no right any more: first instance of the range. Column of int32."""

    removed_count: bytes = b""
    """Takers that have no right any more: instances in the range. Column of int32."""

    givers: tuple[str, ...]
    """The pools that the columns from excess on are about."""

    excess: bytes
    """What the pool has placed and isn't leaving beyond its entitlement; a pool with none of any resource doesn't give
    any more. One per item and resource: the resources of the first item, those of the second, and so on. Column of
    int64.
    """

    giver_entitlement: bytes
    """The entitlement of the pool. One per item and resource: the resources of the first item, those of the second,
    and so on. Column of int64.
    """

    reserved: bytes
    """The part of its entitlement within its reservation. One per item and resource: the resources of the first item,
    those of the second, and so on. Column of int64.
    """

    spare: bytes
    """What the pool has placed and isn't leaving beyond that part. One per item and resource: the resources of the
    first item, those of the second, and so on. Column of int64.
    """

    cause: Cause | None = None
    """The last change before it of queues, pools or capacity."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def gang_array(self) -> I32:
        return np.frombuffer(self.gang, INT32, len(self.gang) // 4)

    @property
    def pool_array(self) -> I32:
        return np.frombuffer(self.pool, INT32, len(self.pool) // 4)

    @property
    def others_array(self) -> I64:
        return np.frombuffer(self.others, INT64, len(self.others) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def entitlement_array(self) -> I64:
        return np.frombuffer(self.entitlement, INT64, len(self.entitlement) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def flags_array(self) -> I32:
        return np.frombuffer(self.flags, INT32, len(self.flags) // 4)

    @property
    def removed_job_array(self) -> I32:
        return np.frombuffer(self.removed_job, INT32, len(self.removed_job) // 4)

    @property
    def removed_first_array(self) -> I32:
        return np.frombuffer(self.removed_first, INT32, len(self.removed_first) // 4)

    @property
    def removed_count_array(self) -> I32:
        return np.frombuffer(self.removed_count, INT32, len(self.removed_count) // 4)

    @property
    def excess_array(self) -> I64:
        return np.frombuffer(self.excess, INT64, len(self.excess) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def giver_entitlement_array(self) -> I64:
        return np.frombuffer(self.giver_entitlement, INT64, len(self.giver_entitlement) // 8).reshape(
            -1, len(self.resources) or 1
        )

    @property
    def reserved_array(self) -> I64:
        return np.frombuffer(self.reserved, INT64, len(self.reserved) // 8).reshape(-1, len(self.resources) or 1)

    @property
    def spare_array(self) -> I64:
        return np.frombuffer(self.spare, INT64, len(self.spare) // 8).reshape(-1, len(self.resources) or 1)

    @classmethod
    def pack(
        cls,
        *,
        resources: tuple[str, ...],
        job_ids: tuple[str, ...],
        job: Values,
        first: Values,
        count: Values,
        run: Values,
        gang: Values,
        pools: tuple[str, ...],
        pool: Values,
        others: Values,
        entitlement: Values,
        flags: Values,
        removed_job: Values | None = None,
        removed_first: Values | None = None,
        removed_count: Values | None = None,
        givers: tuple[str, ...],
        excess: Values,
        giver_entitlement: Values,
        reserved: Values,
        spare: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            resources=resources,
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
            pools=pools,
            pool=pack_ints(pool),
            others=pack_longs(others),
            entitlement=pack_longs(entitlement),
            flags=pack_ints(flags),
            removed_job=b"" if removed_job is None else pack_ints(removed_job),
            removed_first=b"" if removed_first is None else pack_ints(removed_first),
            removed_count=b"" if removed_count is None else pack_ints(removed_count),
            givers=givers,
            excess=pack_longs(excess),
            giver_entitlement=pack_longs(giver_entitlement),
            reserved=pack_longs(reserved),
            spare=pack_longs(spare),
            cause=cause,
        )


class TurnSet(Event, frozen=True, kw_only=True):
    """The turn of a gang that needs more than the share of its pool: a floor under the pool's entitlement until the
    gang ends or its slice is over.
    """

    topic: ClassVar[str] = "paceline.entitlement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    pool: str
    """The pool."""

    job_id: str
    """The gang or task: its job."""

    first: int
    """The gang or task: its first instance."""

    count: int
    """The gang or task: its instances."""

    run: int
    """The gang or task: the run that they are at."""

    floor: dict[str, int]
    """What the pool is entitled to at least while the turn lasts, by name of the resource."""

    state: str
    """STARTED; or why it is over: ENDED the gang is over or waits no more, SLICE_USED, GIVEN_UP it wasn't placed in
    time.
    """

    cause: Cause | None = None
    """The last change before it of queues, pools or capacity."""


ALL: tuple[type[Event], ...] = (
    AdmissionsRanked,
    CreditsSet,
    EntitlementsSet,
    GangsAdmitted,
    GangsHeld,
    HostPoolsWanted,
    PoolAnswered,
    PreemptionRefused,
    PreemptionsOrdered,
    RightsSet,
    TurnSet,
)
