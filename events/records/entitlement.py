"""The records of `schemas/entitlement`. Written by `python -m schemas.generate`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import Cause


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
    """What it holds. Column of little-endian int64, one per pool and resource: the resources of the first pool, those
    of the second, and so on.
    """

    partial: bool = False
    """Whether further pools follow right after: one round could not hold them all."""

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

    cause: Cause | None = None
    """The last change before it that gave room: runs that ended, gangs that were returned, a change of pools or of the
    capacity.
    """


class GangsHeld(Event, frozen=True, kw_only=True):
    """Why gangs of a job wait in their pool."""

    topic: ClassVar[str] = "paceline.entitlement"

    job_id: str
    """The job."""

    pool: str
    """The pool that says no: its own or one above."""

    code: str
    """Reason code."""

    tasks: int
    """Tasks that wait for this reason."""

    instance: int = 0
    """The first task that waits: its instance."""

    run: int = 0
    """The first task that waits: its run; 0: none is named."""

    asked: dict[str, int]
    """What the first waiting gang asks, by name of the resource."""

    free: dict[str, int]
    """What the pool has left for it, by name of the resource; 0 where it is left out."""

    ahead: int = 0
    """Tasks in front of it."""

    not_before_ms: int = 0
    """Logical time of the next try; 0: on any change."""

    cause: Cause | None = None
    """The last change of queues, pools or capacity before it, where the reason is another one than before; null: the
    first reason since the task was queued.
    """


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


class PreemptionsOrdered(Event, frozen=True, kw_only=True):
    """Runs that must leave."""

    topic: ClassVar[str] = "paceline.entitlement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    for_pool: str
    """The pool that gets what they hold."""

    from_pool: str
    """The pool that is above its entitlement."""

    code: str
    """Reason code."""

    partial: bool = False
    """Whether further runs are ordered for this pool right after: one round could not hold them all."""

    cause: Cause | None = None
    """The EntitlementsSet since which work of the pool waits while the pool is below its reservation; or the
    RunsAvailable after which runs that nobody could take could be taken.
    """


ALL: tuple[type[Event], ...] = (
    EntitlementsSet,
    GangsAdmitted,
    GangsHeld,
    PoolAnswered,
    PreemptionsOrdered,
)
