"""The records of `schemas/pools`. Written by `python -m schemas.generate`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import ResourceKind


class CellConfigured(Event, frozen=True, kw_only=True):
    """An admin changes what the machines of the cell decide by: the settings that are named here; null keeps a setting
    as it is. Answered by PoolAnswered for the root.
    """

    topic: ClassVar[str] = "paceline.pools"

    command_id: str
    """Made by the client."""

    host_lost_after_ms: int | None = None
    """Silence after which a host may be declared lost."""

    host_lost_percent_per_minute: int | None = None
    """How much of the hosts may be declared lost in a minute; at least one."""

    host_lost_grace_ms: int | None = None
    """Silence after which the bound per minute no longer protects a host."""

    host_removed_after_ms: int | None = None
    """How long a host that was given up is remembered; after that it is removed."""

    placement_patience_ms: int | None = None
    """How long placement keeps an admitted gang that finds no place."""

    return_backoff_ms: int | None = None
    """First back-off of a gang returned to its pool; doubles."""

    return_backoff_max_ms: int | None = None
    """Longest back-off."""

    restart_backoff_ms: int | None = None
    """First back-off before a stateless task runs again; doubles."""

    restart_backoff_max_ms: int | None = None
    """Longest back-off before a stateless task runs again."""

    preemption_delay_ms: int | None = None
    """How long a pool must be below its reservation with work waiting before it preempts."""

    forget_after_ms: int | None = None
    """How long after its end a job is known: repeats are recognised, and the views show it."""

    ended_jobs_max: int | None = None
    """How many ended jobs are known at most; the oldest are forgotten before their time."""

    resources: tuple[ResourceKind, ...] = ()
    """Kinds to add, and licences whose amount changes. A kind is never removed: one that isn't named stays as it is.
    """


class PoolDefined(Event, frozen=True, kw_only=True):
    """An admin creates or changes a pool. Written to the partition of every cell, so that each knows the cell of each
    pool. Answered by PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    path: str
    """Path from the root: /maps/tiles. The parent must exist."""

    command_id: str
    """Made by the client; a repeat has the same."""

    reservation: dict[str, int] = {}
    """What the pool gets whenever it demands it, by name of the resource."""

    limit: dict[str, int] = {}
    """What the pool never exceeds, by name of the resource; one that is left out has no limit."""

    share: dict[str, int] = {}
    """Weight among siblings beyond the reservation, by name of the resource."""

    share_default: int = 1
    """Weight in each resource that share leaves out."""

    open_jobs_max: int = 100000
    """Open jobs that the pool takes."""

    open_tasks_max: int = 2000000
    """Tasks of open jobs that the pool takes."""

    cell: int = 0
    """The cell that the pool belongs to. Other cells know it by path and cell only."""


class PoolRemoved(Event, frozen=True, kw_only=True):
    """An admin removes a pool without children and open jobs. Written to the partition of every cell. Answered by
    PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    path: str
    """Path of the pool."""

    command_id: str
    """Made by the client."""


ALL: tuple[type[Event], ...] = (
    CellConfigured,
    PoolDefined,
    PoolRemoved,
)
