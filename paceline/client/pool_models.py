"""Pools in the API's answers."""

from typing import Any, TypedDict

from paceline.client.models import Amounts, Answer, StrategyInEffect


class SharedAmounts(TypedDict):
    """The entitlement, demand and use of a pool or a cell. `allocation` is admitted: `held` of it has hosts,
    `without_hosts` waits for some.
    """

    demand: Amounts
    allocation: Amounts
    held: Amounts
    without_hosts: Amounts


class QueueHead(TypedDict):
    """The first job of a queue, its code, and the pool that says no."""

    job_id: str
    code: str
    pool: str


class QueueLine(TypedDict):
    """The queue of a pool for one class of work."""

    jobs: int
    tasks: int
    head: QueueHead


class Turn(TypedDict):
    """The turn of a gang that is larger than the share of its pool."""

    job_id: str
    first: int
    count: int
    floor: Amounts
    since: str | None


class Credit(TypedDict):
    """The part of a turn's cost that a pool has saved, and whether it saves more now."""

    percent: int
    saves: bool
    at: str | None


class PoolSpecification(TypedDict):
    """A pool as it is defined. A resource that `limit` doesn't name has no limit; `share` has weights, `others` that of
    resources to come.
    """

    reservation: Amounts
    limit: Amounts
    share: dict[str, int]
    static: list[str]
    preemption_delay: str | None
    controllers_percent: int
    slack_percent: int
    strategy: str | None
    host_pools: list[str]
    closed: bool
    owners: list[str]
    description: str
    open_jobs_max: int
    open_tasks_max: int


class PlainPool(PoolSpecification, SharedAmounts):
    """A pool without its queues: its definition, its entitlement and use."""

    path: str
    cell: int
    parent: str
    open_jobs: int
    open_tasks: int
    entitlement: Amounts
    admitted: int
    preempted: int
    over_since: str | None
    under_since: str | None
    defined_at: str | None
    position: str


class Pool(PlainPool):
    """A pool with its queues by class of work, and its admitted tasks without hosts."""

    strategy_in_effect: StrategyInEffect
    """Its own, or that of a pool above."""
    queue: dict[str, QueueLine]
    waiting_for_place: dict[str, int]
    turn: Turn | None
    credit: Credit | None


class CellCapacity(SharedAmounts):
    """The capacity of a cell and the use of it; `warnings` tell that reservations exceed it."""

    cell: int
    hosts: int
    capacity: Amounts
    warnings: list[str]


class PoolTree(TypedDict):
    """Pools by path, and each cell; an empty `next_page_token` marks the last page."""

    pools: list[Pool]
    cells: list[CellCapacity]
    next_page_token: str


class QueuedGang(TypedDict):
    """A gang, or tasks that are admitted alone, in a queue."""

    job_id: str
    priority: int
    first: int
    count: int
    code: str
    pool: str
    since: str | None
    asked: Amounts
    not_before: str | None


class QueueClass(TypedDict):
    """The queue of one class of work, and its first gangs."""

    jobs: int
    tasks: int
    gangs: list[QueuedGang]


class Queue(TypedDict):
    """The queues of a pool by class of work, and its admitted tasks without hosts."""

    path: str
    classes: dict[str, QueueClass]
    waiting_for_place: dict[str, int]


class Entitlement(SharedAmounts):
    """The entitlement of a pool, and how it came about: lines by resource."""

    path: str
    cell: int
    capacity: Amounts
    entitlement: Amounts
    lines: dict[str, list[str]]
    note: str | None


class PoolAnswer(Answer):
    """The answer to a command about a pool."""

    path: str


class FieldChange(TypedDict):
    """A field of a pool before and after a change."""

    before: Any
    after: Any


class PoolChange(TypedDict):
    """A planned pool; `change` is create, change, unchanged or refuse, `fields` those that differ."""

    path: str
    change: str
    fields: dict[str, FieldChange]
    code: str
    message: str


class AmountsChange(TypedDict):
    """Amounts before and after a change; null: there is no such pool."""

    before: Amounts | None
    after: Amounts | None


class PoolOutlook(TypedDict):
    """A pool whose entitlement a change of pools changes, and what is admitted in it."""

    path: str
    entitlement: AmountsChange
    allocation: Amounts


class JobOutlook(TypedDict):
    """Tasks of a job that a change of pools would admit or preempt."""

    job_id: str
    pool: str
    priority: int
    tasks: int


class CellPlan(TypedDict):
    """The result of a change of pools in one cell."""

    cell: int
    changes: list[PoolChange]
    pools: list[PoolOutlook]
    lets_in: list[JobOutlook]
    preempts: list[JobOutlook]


class PoolPlans(TypedDict):
    """The result of a change of pools, by cell."""

    cells: list[CellPlan]
