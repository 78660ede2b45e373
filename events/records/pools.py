"""The records of `schemas/pools`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import Actor, ConditionPolicy, ResourceKind


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
    """How long a host that was declared lost is remembered; after that it is removed."""

    placement_patience_ms: int | None = None
    """How long placement keeps borrowed work that finds no place."""

    return_backoff_ms: int | None = None
    """How long work on borrowed capacity that found no host is left alone before it is tried again; doubles each time.
    """

    return_backoff_max_ms: int | None = None
    """Longest back-off."""

    restart_backoff_ms: int | None = None
    """How long a stateless task that failed waits before it runs again; doubles each time."""

    restart_backoff_max_ms: int | None = None
    """Longest back-off before a stateless task runs again."""

    preemption_delay_ms: int | None = None
    """How long entitled work is without a place before others leave for it; a pool may have its own."""

    reserve_after_ms: int | None = None
    """How long entitled work is without a place before hosts are reserved for it."""

    reserve_for_ms: int | None = None
    """How long hosts are kept for a gang before that is in vain."""

    hold_for_ms: int | None = None
    """How long what others left is kept for the gang they left for."""

    defer_for_ms: int | None = None
    """How long a run is left alone after its SLA didn't allow its preemption."""

    settle_ms: int | None = None
    """How long after it was preempted a task has no right to preempt others."""

    lend_after_ms: int | None = None
    """How long capacity must be idle, whatever was claimed of it, before it is lent."""

    preemptions_per_hour: int | None = None
    """How often a task is preempted in an hour at most, but for pools below their reservation."""

    credit_time_ms: int | None = None
    """How much credit a turn costs: what the gang needs beyond the share of its pool, times this time."""

    turn_for_ms: int | None = None
    """The slice: how long a run on a turn, or one larger than what its pool holds above its entitlement, is protected;
    doubles each time it was used up.
    """

    turn_doublings: int | None = None
    """How often the slice doubles at most."""

    turn_wait_ms: int | None = None
    """How long a turn waits for its gang to be placed before it is given up."""

    move_after_ms: int | None = None
    """How long entitled work is without a place before runs are moved for it."""

    clear_after_ms: int | None = None
    """How long entitled work is without a place before hosts are cleared for it."""

    report_every_ms: int | None = None
    """How often the entitlements of all pools are written, at most."""

    forget_after_ms: int | None = None
    """How long after its end a job is known: repeats are recognised, and the views show it."""

    ended_jobs_max: int | None = None
    """How many ended jobs are known at most; the oldest are forgotten before their time."""

    exec: bool | None = None
    """Whether users may enter runs: by exec, cp and port-forward. true unless it is set."""

    slack: bool | None = None
    """Whether revocable jobs run on CPU that is reserved on hosts and unused there. false unless it is set."""

    resources: tuple[ResourceKind, ...] = ()
    """Kinds to add, and licences whose amount changes. A kind is never removed: one that isn't named stays as it is.
    """

    reason: str = ""
    """Why, in the words of the operator."""

    drain_force: bool | None = None
    """Whether operators may have runs ended by force when they drain hosts. false unless it is set."""

    release_after_ms: int | None = None
    """How long a condition of a host must have passed until the host takes tasks again; longer where it came back
    meanwhile.
    """

    drain_after_ms: int | None = None
    """How long a condition of a host lasts until the host is drained for it, unless the condition has a policy of its
    own. 0: for ever.
    """

    conditions: tuple[ConditionPolicy, ...] = ()
    """Policies of conditions to set. One that isn't named stays as it is."""

    access: str | None = None
    """open: all may read; roles: reading needs a role too; null: as it is."""

    agents: str | None = None
    """token: agents take part with the token of the cell or with certificates; certificates: with these alone; null:
    as it is.
    """

    names: str | None = None
    """plain: facts name subjects and addresses of actors; hashed: keyed hashes of them; null: as it is."""

    calls_per_s: int | None = None
    """Calls that one actor may make to an API a second on average, with ten times as many at once; 0: any number;
    null: as it is.
    """

    streams_per_actor: int | None = None
    """Streams that one actor may have open at an API; 0: any number; null: as it is."""

    late_after_ms: int | None = None
    """How long after the end of a binding a fact that it allowed may land; an audit fails for later ones; null: as it
    is.
    """

    topology: tuple[str, ...] | None = None
    """Attributes of hosts from the largest part of the cell to the smallest, such as zone, row, rack; then may come
    host, and below it link_group. Neighbouring members of a gang are on hosts near each other in this tree.
    """

    rebalance_moves_per_hour: int | None = None
    """How many tasks `paceline rebalance watch` may have moved in an hour for jobs that wait. 0, as long as it is not
    set: none; null: as it is.
    """

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class LockdownSet(Event, frozen=True, kw_only=True):
    """Writes to a pool and all below it are refused from now on, but those of operators, or are allowed again.
    Answered by PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    command_id: str
    """Made by the client."""

    pool: str
    """The pool; / for the cell."""

    locked: bool
    """False: they are allowed again."""

    reason: str = ""
    """Why, in the words of who did it."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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

    static: tuple[str, ...] = ()
    """The resources whose reservation is kept for the pool even where it doesn't use it; that of others is lent."""

    preemption_delay_ms: int | None = None
    """How long admitted work of the pool waits for a place before others leave for it; -1: they never do; null: as the
    cell has it.
    """

    controllers_percent: int = 100
    """How much of its entitlement controllers may hold; 100: no limit of their own."""

    slack_percent: int = 20
    """How much of its reservation of memory, disk and devices revocable work may be entitled to, in percent; its CPU
    is slack.
    """

    closed: bool = False
    """Whether nothing more of it is admitted; what runs goes on."""

    owners: tuple[str, ...] = ()
    """Whose it is."""

    description: str = ""
    """What it is for."""

    open_jobs_max: int = 100000
    """Open jobs that the pool takes."""

    open_tasks_max: int = 2000000
    """Tasks of open jobs that the pool takes."""

    cell: int = 0
    """The cell that the pool belongs to. Other cells know it by path and cell only."""

    strategy: str = ""
    """How hosts are chosen for tasks whose job names no strategy: pack, spread, balanced, load-aware, fragmentation or
    adaptive. default: as the pool above has it, and if none has one adaptive where hosts have GPUs, else pack.
    Empty, in records from before there was adaptive: the same, but pack.
    """

    host_pools: tuple[str, ...] = ()
    """The host pools that its jobs may use, the first choice first. Empty: as the pool above has them; none at the
    root: by the kind of each job.
    """

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class PoolRemoved(Event, frozen=True, kw_only=True):
    """An admin removes a pool without children and open jobs. Written to the partition of every cell. Answered by
    PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    path: str
    """Path of the pool."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class RebalanceRequested(Event, frozen=True, kw_only=True):
    """Room is wanted for a waiting job at once, by moves of work that has a place elsewhere: for a minute others are
    moved for its tasks. Answered by PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    job_id: str
    """The job."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    max_moves: int = 0
    """So many tasks are moved for it at most; 0: as many as it takes."""

    by_setting: bool = False
    """A process proposes it, and nobody asked: what the setting rebalance_moves_per_hour leaves bounds it too."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class RoleBound(Event, frozen=True, kw_only=True):
    """A subject or a group gets a role over a pool and all below it. Written to the partition of every cell. Answered
    by PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    command_id: str
    """Made by the client."""

    binding_id: str
    """Names the binding; a second one of the same name takes its place."""

    subject: str = ""
    """Who gets it; empty: the group does."""

    group: str = ""
    """The group that gets it, as OIDC names it; empty: the subject does."""

    role: str
    """A role, see events/roles.py."""

    pool: str = "/"
    """The pool; / for the cell and all pools."""

    from_ms: int = 0
    """From when on it holds; 0: at once."""

    until_ms: int = 0
    """Until when it holds; 0: until it is unbound."""

    reason: str = ""
    """Why, in the words of who did it."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class RoleUnbound(Event, frozen=True, kw_only=True):
    """A binding holds no more. Written to the partition of every cell. Answered by PoolAnswered."""

    topic: ClassVar[str] = "paceline.pools"

    command_id: str
    """Made by the client."""

    binding_id: str
    """The binding."""

    reason: str = ""
    """Why, in the words of who did it."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class TokenIssued(Event, frozen=True, kw_only=True):
    """A token was made for a subject; who shows it is known as that subject. The token itself is in no record. Written
    to the partition of every cell. Answered by PoolAnswered.
    """

    topic: ClassVar[str] = "paceline.pools"

    command_id: str
    """Made by the client."""

    token_id: str
    """Names the token; it stands in the token too, before its secret."""

    subject: str
    """Whom it proves."""

    groups: tuple[str, ...] = ()
    """Groups that it proves beside the subject."""

    token_hash: bytes = b""
    """SHA-256 of the token, which is random; empty: there is a public key instead."""

    public_key: bytes = b""
    """An Ed25519 key (32 bytes) whose owner signs facts that it writes to Kafka itself; empty: there is a token
    instead.
    """

    until_ms: int = 0
    """Until when it holds; 0: until it is revoked."""

    reason: str = ""
    """Why, in the words of who did it."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class TokenRevoked(Event, frozen=True, kw_only=True):
    """A token proves nothing any more. Written to the partition of every cell. Answered by PoolAnswered."""

    topic: ClassVar[str] = "paceline.pools"

    command_id: str
    """Made by the client."""

    token_id: str
    """The token."""

    reason: str = ""
    """Why, in the words of who did it."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class TokenUsed(Event, frozen=True, kw_only=True):
    """A token was used; written by an API at most once an hour for each. Not answered."""

    topic: ClassVar[str] = "paceline.pools"

    token_id: str
    """The token."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


ALL: tuple[type[Event], ...] = (
    CellConfigured,
    LockdownSet,
    PoolDefined,
    PoolRemoved,
    RebalanceRequested,
    RoleBound,
    RoleUnbound,
    TokenIssued,
    TokenRevoked,
    TokenUsed,
)
