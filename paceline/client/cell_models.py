"""A cell, its log and its time series in the API's answers."""

from typing import NotRequired, TypedDict

from paceline.client.models import ActorName
from paceline.client.operation_models import ProcessOperations

Values = list[int | None]
"""A value for each point of a plot; null: nothing is known of that time."""


class Resource(TypedDict):
    """A kind of resource that a cell knows. `amount`: that of a licence."""

    name: str
    unit: str
    amount: NotRequired[float | str]


class Machine(TypedDict):
    """A machine as the process that answers sees it; `hash` and `lag` where it runs the machine."""

    epoch: int
    round: int
    hash: NotRequired[str]
    lag: NotRequired[dict[str, int]]


class ServedCell(TypedDict, total=False):
    """The address and the log of a cell, and its machines, as the process that serves it knows them."""

    listen: str
    log: str
    machines: dict[str, Machine]


class CellInfo(ServedCell):
    """A cell. `cells`: all that the server serves."""

    cell: int
    resources: list[Resource]
    cells: NotRequired[list[int]]


class SignInInfo(TypedDict):
    """The issuer at which users of a cell sign in, and its client for commands there; empty: there is none."""

    issuer: str
    client_id: str
    scopes: str


class MachineOwner(TypedDict):
    """A machine, its present epoch and who claimed it, its last round, and by topic the records that are in none."""

    machine: str
    epoch: int
    claimant: str
    build: str
    logic: int
    state: int
    round: int
    behind: dict[str, int]
    claimed_at: str | None
    round_at: str | None


class GatewayHosts(TypedDict):
    """A gateway and the number of its hosts."""

    gateway: str
    hosts: int
    silent: int


class CellOperations(TypedDict):
    """The state of a cell for its operators. `process`: what the process that answers knows; null: not yet."""

    machines: list[MachineOwner]
    gateways: list[GatewayHosts]
    quarantined: int
    positions: dict[str, int]
    process: ProcessOperations | None


class Readiness(TypedDict):
    """The lag of the views by topic."""

    ready: bool
    lag: dict[str, int]


class SkippedRecord(TypedDict):
    """A record that was skipped, and why."""

    topic: str
    offset: int
    at: str | None
    reason: str
    digest: str
    size: int
    cell: NotRequired[int]


class LogLine(TypedDict):
    """A fact or a decision in words."""

    index: int | None
    event: str
    text: str


class LogEntry(TypedDict):
    """A record of the log: a fact, or a round with its first decisions; `more` are left out."""

    position: str
    at: str | None
    machine: str | None
    round: int | None
    records: list[LogLine]
    more: int


class LogPage(TypedDict):
    """A part of the log, the newest first."""

    records: list[LogEntry]
    looked_back_to: str | None
    next_page_token: str


class AuditedFact(TypedDict):
    """A fact that somebody wrote. `role`, `role_pool`: of the binding that allowed it, whose fact is at
    `role_position`; null: none was needed, or the log doesn't reach back to it.
    """

    position: str
    at: str | None
    event: str
    text: str
    pools: list[str]
    actor: ActorName | None
    role: str | None
    role_pool: str | None
    role_position: str | None


class AuditPage(TypedDict):
    """Facts of users and operators, the newest first."""

    facts: list[AuditedFact]
    looked_back_to: str | None
    next_page_token: str


class MachineSeries(TypedDict):
    """Rounds and decisions of a machine within each point, and its largest lag."""

    rounds: list[int]
    decisions: list[int]
    lag_ms: Values


class CellSeries(TypedDict):
    """A cell over time: one value for each of `times`, at which points of `step_ms` begin."""

    times: list[str | None]
    step_ms: int
    tasks: dict[str, Values]
    ended: dict[str, list[int]]
    waiting: dict[str, Values]
    oldest_wait_ms: Values
    hosts: dict[str, Values]
    machines: dict[str, MachineSeries]
    events: dict[str, list[int]]
    capacity: dict[str, Values]


class PoolSeries(TypedDict):
    """A pool over time: its amounts by resource, its tasks in queues, and those with a host."""

    path: str
    times: list[str | None]
    step_ms: int
    entitlement: dict[str, Values]
    demand: dict[str, Values]
    allocation: dict[str, Values]
    placed: dict[str, Values]
    queued: Values
    live: Values


class Mark(TypedDict):
    """An event that stands out on the time axis, `count` times within `step_ms`. `links`: the things that it names."""

    at: str | None
    shape: str
    at_ms: int
    step_ms: int
    position: str
    count: int
    text: str
    links: list[list[str]]


class Marks(TypedDict):
    """Marks, the oldest first."""

    marks: list[Mark]


class SecretVersion(TypedDict):
    """A version of a secret, without its value. `digest` names it, and tells nothing of the value; jobs of `pool`, and
    of those below it, may name it.
    """

    name: str
    version: int
    digest: str
    pool: str
    put_at: str


class SecretList(TypedDict):
    """All secrets of a cell, by name and version."""

    secrets: list[SecretVersion]


class SecretsDeleted(TypedDict):
    """The versions of a secret that are no more."""

    name: str
    versions: list[int]


class ProblemKind(TypedDict):
    """A code of problems in words: what it means, who can act, what helps; empty where there is nothing to say."""

    type: str
    code: str
    means: str
    who: str
    helps: str
