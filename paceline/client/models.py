"""The bodies of the API's answers, as they stand on the wire. Fields that a later release adds are kept."""

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
KILLED = "KILLED"
REJECTED = "REJECTED"
ENDED = frozenset((SUCCEEDED, FAILED, KILLED, REJECTED))
"""States of a job that it never leaves."""
GOALS = ("ended", "running", "healthy", "succeeded")
"""What a job may be waited for."""


class Reason(TypedDict):
    """Why a job ended or waits, and who can act."""

    code: str
    message: str
    actor: str


class Job(TypedDict):
    """A job. Times are RFC 3339; `tasks` counts them by state; `position` is where the log stood for this answer.
    A job that is not yet decided has `job_id`, `state` and `position` only. `spec` stands in the job itself, not in
    lists; `cell` in lists over several cells.
    """

    job_id: str
    state: str
    position: str
    pool: NotRequired[str]
    kind: NotRequired[str]
    instances: NotRequired[int]
    priority: NotRequired[int]
    controller: NotRequired[bool]
    on_preempt: NotRequired[str]
    owner: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    submitted_at: NotRequired[str | None]
    started_at: NotRequired[str | None]
    ended_at: NotRequired[str | None]
    held: NotRequired[bool]
    held_since: NotRequired[str | None]
    waiting_since: NotRequired[str | None]
    tasks: NotRequired[dict[str, int]]
    killed_by: NotRequired[dict[str, int]]
    """How many of the killed tasks ran for as long as they may, RUN_LIMIT, and how many a user stopped, STOP."""
    reason: NotRequired[Reason | None]
    version: NotRequired[int | None]
    update: NotRequired["Update | None"]
    """The newest."""
    next_wake_up: NotRequired[dict[str, str] | None]
    """When something happens to it by itself next, `at`, and `why`; null: nothing waits for a time."""
    spec: NotRequired[dict[str, Any]]
    repeated: NotRequired[bool]
    warnings: NotRequired[list[str]]
    """Of an answer to a submission: what the job needs that no host offers now."""
    cell: NotRequired[int]


class Task(TypedDict):
    """A task and its last run."""

    instance: int
    state: str
    run: int
    host_id: str | None
    ports: list[int]
    exit_code: int | None
    outcome: str | None
    reason: str | None
    cause: NotRequired[str | None]
    """What ended its last run, where that didn't end by itself: RUN_LIMIT, STOP, HEALTH or another `RunCause`."""
    health: NotRequired[str | None]
    """Of a run with a health check: UNKNOWN, HEALTHY or UNHEALTHY."""
    signal: NotRequired[str | None]
    """What ended the process: KILL, TERM or another."""
    out_of_memory: NotRequired[bool]
    """Whether the kernel killed it for want of memory, as far as the host can tell."""
    cpu_ms: NotRequired[int | None]
    memory_kib: NotRequired[int | None]
    """What the process has used, known once it has ended: CPU time, and the most memory at a time."""
    admission: NotRequired[str | None]
    """ENTITLED or BORROWED; null: it isn't admitted."""
    since: NotRequired[str | None]
    """Since when it has its state or, while it is queued, waits for what it waits for."""
    spec: NotRequired[dict[str, Any] | None]
    """With its overrides merged into what the job says; null: it has none, all is as the job says."""
    version: NotRequired[int | None]
    """That of its last run."""
    update: NotRequired[str | None]
    """How far the newest update is with it: PENDING, IN_FLIGHT, DONE, FAILED, NO_PROGRESS or LEFT_OUT."""
    failures: NotRequired[int]
    next_run_at: NotRequired[str | None]
    """When it is run again at the earliest, where it waits for a time."""
    job_id: NotRequired[str]
    pool: NotRequired[str]


class Run(TypedDict):
    """A run of a task that a host was told of. The fields that `Task` has too mean the same here."""

    run: int
    state: str
    """ORDERED, RUNNING, STOPPING or ENDED."""
    version: int
    host_id: str | None
    outcome: str | None
    exit_code: int | None
    reason: str | None
    cause: NotRequired[str | None]
    health: str | None
    signal: str | None
    out_of_memory: bool
    cpu_ms: int | None
    memory_kib: int | None
    ordered_at: str | None
    started_at: str | None
    """When it became available; null: it never did."""
    ended_at: str | None


Amounts = dict[str, float | str]
"""By name of the resource: numbers of CPUs and devices, sizes as text: {"cpu": 1.5, "memory": "4GiB"}. What is left out
is 0.
"""


class HistoryEntry(TypedDict):
    """One fact or decision about a job."""

    position: str
    at: str
    machine: str | None
    round: int | None
    index: int | None
    event: str
    detail: dict[str, Any]


class Answer(TypedDict):
    """The answer to a command; `code` and `message` once it is decided."""

    position: NotRequired[str]
    command_id: NotRequired[str]
    code: NotRequired[str]
    message: NotRequired[str]


class Said(TypedDict, total=False):
    """What may be said with each command about a job: its id, by which a repeat is known, why it is given, the version
    that the job must have, and data that is kept with it.
    """

    command_id: str | None
    reason: str
    expected_version: int
    data: str


JobAction = Literal["pauses", "resumes", "aborts", "promotions", "holds", "releases"]
"""Actions on a job or its update that need no more words."""


class Update(TypedDict):
    """An update of a job. `state` is ROLLING, CANARY, SUCCEEDED, ROLLED_BACK, FAILED or ABORTED; `instances` counts by
    what is done with them, `steps` by how far they are.
    """

    number: int
    kind: str
    from_version: int
    version: int
    state: str
    paused: bool
    instances: dict[str, int]
    steps: dict[str, int]
    policy: dict[str, Any]
    started_at: str
    ended_at: str | None
    code: str | None
    message: str
    reason: str
    data: str


class JobAnswer(Answer):
    """The answer to a command about a job: the version that it has then, and the update that the command began."""

    version: NotRequired[int | None]
    update: NotRequired[Update | None]


class Version(TypedDict):
    """A version of a job; `kind` is submit, create, update, restart or roll_back, `like` an earlier version that it is
    equal to. `spec` stands in the version itself, not in lists.
    """

    version: int
    kind: str
    like: int | None
    update: int | None
    made_at: str
    command: str | None
    reason: str
    data: str
    spec: NotRequired[dict[str, Any]]


class Change(TypedDict("Change", {"from": Any})):
    """A part of a specification that differs, by its JSON pointer."""

    pointer: str
    to: Any


class Diff(TypedDict("Diff", {"from": int})):
    """How two versions differ."""

    to: int
    changes: list[Change]
    more: int
    """So many changes more there are."""


class QueueLine(TypedDict):
    """What waits in a pool of one class of work; `head`: the first job, its code, and the pool that says no."""

    jobs: int
    tasks: int
    head: dict[str, str]


class Pool(TypedDict):
    """A pool: what was defined, and what it may use, demands and holds. What `limit` leaves out has no limit; `share`
    has weights, `others` that of resources to come. `cell`: see `Job`.
    """

    path: str
    cell: NotRequired[int]
    parent: str
    reservation: Amounts
    limit: Amounts
    share: dict[str, int]
    static: NotRequired[list[str]]
    preemption_delay: NotRequired[str | None]
    controllers_percent: NotRequired[int]
    closed: NotRequired[bool]
    owners: NotRequired[list[str]]
    description: NotRequired[str]
    open_jobs_max: int
    open_tasks_max: int
    open_jobs: int
    open_tasks: int
    entitlement: Amounts
    demand: Amounts
    allocation: Amounts
    """What is admitted: `held` has hosts, `without_hosts` waits for some."""
    held: Amounts
    without_hosts: Amounts
    queue: NotRequired[dict[str, QueueLine]]
    """By class of work."""
    waiting_for_place: NotRequired[dict[str, int]]
    turn: NotRequired[dict[str, Any] | None]
    credit: NotRequired[dict[str, Any] | None]
    admitted: NotRequired[int]
    preempted: NotRequired[int]
    over_since: NotRequired[str | None]
    under_since: NotRequired[str | None]
    defined_at: str | None
    position: str


class PoolTree(TypedDict):
    """All pools by path, and of each cell what it has, holds and demands, with warnings."""

    pools: list[Pool]
    cells: list[dict[str, Any]]


class Queue(TypedDict):
    """Who waits in a pool: by class of work, how many jobs and tasks, and the first `gangs`."""

    path: str
    classes: dict[str, dict[str, Any]]
    waiting_for_place: dict[str, int]


class Entitlement(TypedDict):
    """What a pool may use, and how that came about: lines by resource."""

    path: str
    cell: int
    capacity: Amounts
    entitlement: Amounts
    demand: Amounts
    allocation: Amounts
    held: Amounts
    without_hosts: Amounts
    lines: dict[str, list[str]]
    note: str | None


class Host(TypedDict):
    """A host; `state` is CONNECTING, RETURNING, UP, SUSPECTED, SILENT or LOST. `suspected`: why it takes no new tasks,
    with `code`, `message` and `until`. `ignored_resources`: what it offers in vain, each with `name`, `code` and
    `message`.
    """

    host_id: str
    state: str
    session: int
    suspected: dict[str, str] | None
    capacity: Amounts
    ignored_resources: list[dict[str, str]]
    allocated: Amounts
    runs: int
    attributes: dict[str, str]
    cell: NotRequired[int]


class Volume(TypedDict):
    """A folder that a host keeps for a task between its runs."""

    host_id: str
    job_id: str
    instance: int
    name: str
    created_at: str
    cell: NotRequired[int]


class Output(NamedTuple):
    """A piece of a run's output. It begins at `offset`, later than asked for where older output was dropped; go on at
    `next_offset`; `ended`: nothing more will come.
    """

    data: bytes
    offset: int
    next_offset: int
    ended: bool


class StreamEvent(NamedTuple):
    """An event of the stream; `id` is its position, to go on after."""

    id: str
    event: str
    data: Any
