"""The records of `schemas/entitlement`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import Cause


class AdmissionsRanked(Event, frozen=True, kw_only=True):
    """Admitted gangs that are entitled from now on and were borrowed before, or the other way round. Borrowed ones
    keep their place in the queue.
    """

    topic: ClassVar[str] = "paceline.entitlement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    first: bytes
    """First instance of the range. Column of little-endian int32."""

    count: bytes
    """Instances in the range. Column of little-endian int32."""

    run: bytes
    """The run that each instance of the range is at. Column of little-endian int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of little-endian int32.
    """

    entitled: bytes
    """1: within the entitlement of its pool, a claim; 0: borrowed, it runs on what others don't use now. 2: entitled,
    and to hold nothing under limits while it has no place (GangsParked says from when on), until it is 1 again.
    Column of little-endian int32. Empty: all are entitled.
    """

    cause: Cause | None = None
    """The last change before it of queues, pools or capacity."""


class CreditsSet(Event, frozen=True, kw_only=True):
    """What pools have saved of their share for a gang that needs more than it."""

    topic: ClassVar[str] = "paceline.entitlement"

    pools: tuple[str, ...]
    """The pools."""

    resources: tuple[str, ...]
    """The names of the resources."""

    credit: bytes
    """Saved so far, amount times milliseconds. Column of little-endian int64, one per item and resource: the resources
    of the first item, those of the second, and so on.
    """

    rate: bytes
    """What is saved from now on, an amount; negative: what is paid back. Column of little-endian int64, one per item
    and resource: the resources of the first item, those of the second, and so on.
    """

    full: bytes
    """The credit that suffices for a turn; 0: the resource isn't short. Column of little-endian int64, one per item
    and resource: the resources of the first item, those of the second, and so on.
    """


class EntitlementsSet(Event, frozen=True, kw_only=True):
    """What pools may use now."""

    topic: ClassVar[str] = "paceline.entitlement"

    pools: tuple[str, ...]
    """The pools whose numbers changed; none where a change of pools or of the capacity left all numbers as they were.
    """

    resources: tuple[str, ...]
    """The names of the resources."""

    entitlement: bytes
    """What the pool may use. Column of little-endian int64, one per pool and resource: the resources of the first
    pool, those of the second, and so on.
    """

    demand: bytes
    """What waits and what runs, within its limit. Column of little-endian int64, one per pool and resource: the
    resources of the first pool, those of the second, and so on.
    """

    allocation: bytes
    """What is admitted in it, with hosts or without. Column of little-endian int64, one per pool and resource: the
    resources of the first pool, those of the second, and so on.
    """

    placed: bytes
    """The part of that which has hosts. Column of little-endian int64, one per pool and resource: the resources of the
    first pool, those of the second, and so on.
    """

    daemons: bytes = b""
    """The part of what is placed that daemons have, who stand beside the shares. Column of little-endian int64, one
    per pool and resource: the resources of the first pool, those of the second, and so on; empty: they have
    nothing.
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


class GangsAdmitted(Event, frozen=True, kw_only=True):
    """Gangs that may be placed; their pools hold their needs from now on."""

    topic: ClassVar[str] = "paceline.entitlement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    first: bytes
    """First instance of the range. Column of little-endian int32."""

    count: bytes
    """Instances in the range. Column of little-endian int32."""

    run: bytes
    """The run that each instance of the range is at. Column of little-endian int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of little-endian int32.
    """

    entitled: bytes = b""
    """1: within the entitlement of its pool, a claim; 0: borrowed, it runs on what others don't use now. Column of
    little-endian int32. Empty: all are entitled.
    """

    cause: Cause | None = None
    """The last change before it that gave room: runs that ended, gangs that were returned, a change of pools or of the
    capacity.
    """


class GangsHeld(Event, frozen=True, kw_only=True):
    """Why gangs of a pool wait: those of one class and shape with one reason."""

    topic: ClassVar[str] = "paceline.entitlement"

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
    """Index into job_ids. Column of little-endian int32."""

    first: bytes
    """First instance of the range. Column of little-endian int32."""

    count: bytes
    """Instances in the range. Column of little-endian int32."""

    run: bytes
    """The run that each instance of the range is at. Column of little-endian int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of little-endian int32.
    """

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


class PoolAnswered(Event, frozen=True, kw_only=True):
    """The answer to a fact about pools."""

    topic: ClassVar[str] = "paceline.entitlement"

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


class PreemptionRefused(Event, frozen=True, kw_only=True):
    """The answer to a PreemptionAsked that isn't ordered."""

    topic: ClassVar[str] = "paceline.entitlement"

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


class PreemptionsOrdered(Event, frozen=True, kw_only=True):
    """Runs that must leave, for one gang: all of them or, where sla defers one, none."""

    topic: ClassVar[str] = "paceline.entitlement"

    order: int
    """Number of the order in its cell, from 1."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    way: bytes
    """1 OWN, 2 GIVE, 3 MOVE, 4 CLEAR (as in PreemptionAsked), 5 LIMIT: it holds what a limit or a licence leaves for
    the gang. Column of little-endian int32.
    """

    slice: bytes
    """1: the run has used up its slice, which doubles the next one of its task. Column of little-endian int32."""

    from_pools: tuple[str, ...]
    """The pools named by the column from_pool."""

    from_pool: bytes
    """The pool of each run, an index into from_pools. Column of little-endian int32."""

    for_pool: str
    """The pool of the gang."""

    for_job: str
    """The job that gets what they hold."""

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
    LIMIT_REACHED.
    """

    cause: Cause | None = None
    """The PreemptionAsked; or, under a limit, the last change before it of queues, pools or capacity."""


class RightsSet(Event, frozen=True, kw_only=True):
    """Which admitted gangs without a place may have others leave for them, and which pools may be asked to give. Says
    what has changed: takers and givers that aren't named are as before. What is removed is removed before the rest
    is set.
    """

    topic: ClassVar[str] = "paceline.entitlement"

    resources: tuple[str, ...]
    """The names of the resources."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    first: bytes
    """First instance of the range. Column of little-endian int32."""

    count: bytes
    """Instances in the range. Column of little-endian int32."""

    run: bytes
    """The run that each instance of the range is at. Column of little-endian int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of little-endian int32.
    """

    pools: tuple[str, ...]
    """The pools named by the column pool."""

    pool: bytes
    """The pool of each range of takers, an index into pools. Column of little-endian int32."""

    others: bytes
    """What the first unit of the range may take from other pools; each further one: less by what the units before it
    need. Column of little-endian int64, one per item and resource: the resources of the first item, those of the
    second, and so on.
    """

    entitlement: bytes
    """The entitlement of its pool. Column of little-endian int64, one per item and resource: the resources of the
    first item, those of the second, and so on.
    """

    flags: bytes
    """Sum of 1: its pool is below its reservation; 2: others may be moved for it; 4: hosts may be cleared for it; 8:
    it is of a daemon, for which hosts are cleared whatever share, reservation or slice covers who is there. Column
    of little-endian int32.
    """

    removed_job: bytes = b""
    """Takers that have no right any more: index into job_ids. Column of little-endian int32."""

    removed_first: bytes = b""
    """Takers that have no right any more: first instance of the range. Column of little-endian int32."""

    removed_count: bytes = b""
    """Takers that have no right any more: instances in the range. Column of little-endian int32."""

    givers: tuple[str, ...]
    """The pools that the columns from excess on are about."""

    excess: bytes
    """What the pool has placed and isn't leaving beyond its entitlement; a pool with none of any resource doesn't give
    any more. Column of little-endian int64, one per item and resource: the resources of the first item, those of
    the second, and so on.
    """

    giver_entitlement: bytes
    """The entitlement of the pool. Column of little-endian int64, one per item and resource: the resources of the
    first item, those of the second, and so on.
    """

    reserved: bytes
    """The part of its entitlement within its reservation. Column of little-endian int64, one per item and resource:
    the resources of the first item, those of the second, and so on.
    """

    spare: bytes
    """What the pool has placed and isn't leaving beyond that part. Column of little-endian int64, one per item and
    resource: the resources of the first item, those of the second, and so on.
    """

    cause: Cause | None = None
    """The last change before it of queues, pools or capacity."""


class TurnSet(Event, frozen=True, kw_only=True):
    """The turn of a gang that needs more than the share of its pool: a floor under the pool's entitlement until the
    gang ends or its slice is over.
    """

    topic: ClassVar[str] = "paceline.entitlement"

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
    PoolAnswered,
    PreemptionRefused,
    PreemptionsOrdered,
    RightsSet,
    TurnSet,
)
