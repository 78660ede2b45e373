"""The rows of lifecycle's tables."""

import msgspec

from events.codes import JobState
from events.sla import SLA_GROUP
from processors.lifecycle.updates.rows import PolicyRow
from processors.state.causes import CauseRow
from processors.state.record_rows import ConstraintRow, RulesRow, SlaRow, StayRow


class JobRow(msgspec.Struct, array_like=True):
    """A job. `base` is its first slot in the arena; `counts` its tasks by `TaskState`, moves in between included;
    `instances` its highest instance plus 1, of which `removed` are none any more.

    Invariants: no count is below 0, their sum is `instances`, `0 <= removed <= counts[NONE]`. A job leaves the table
    with all its tasks in a state of the ended.
    """

    number: int
    base: int
    pool: str
    kind: str
    instances: int
    ports: int
    """The most ports that a task of it has."""
    gang_min: int
    retries_max: int
    max_unavailable: int | None
    spec_hash: bytes
    counts: list[int]
    state: str = JobState.PENDING
    stopping: bool = False
    gang_restarts: bool = False
    """A member of the gang is over before its time; it is queued again when all are."""
    gang_final: bool = False
    """The gang has used its retries: its members end for good."""
    gang_failures: int = 0
    removed: int = 0
    run_floor: int = 0
    """The highest run of instances that were removed, and of earlier jobs of this id: what is added starts above it."""
    changed_by: CauseRow | None = None
    """The last change of its state."""
    priority: int = 0
    commands: list[bytes] = []
    """The last commands that changed its priority, as digests: a repeat of one is known."""
    preempt_fails: bool = False
    """A task that is preempted has failed, and its gang with it."""
    max_runtime_ms: int = 0
    on_hold: bool = False
    """Its waiting tasks aren't queued until it is released."""
    deleting: bool = False
    """It is forgotten as soon as its tasks have ended."""
    max_running: int = 0
    """So many tasks are queued or run at a time; 0: all."""
    controller: str = ""
    """The effect of the end of its controller: end, wait; empty: it has no controller."""
    controller_state: int = 0
    """The state in which the controller has ended."""
    health: bool = False
    """Its runs have a health check, and are available once that has passed."""
    start_deadline_ms: int = 0
    stop_deadline_ms: int = 0
    retries_system: int = 0
    gang_host_failures: int = 0
    gang_due_ms: int = 0
    """When the gang may be queued again."""
    version: int = 1
    updates: int = 0
    """The number of its updates so far, which is that of the last one."""
    leaving_by: CauseRow | None = None
    """Why instances leave it, the last that do."""
    sla: SlaRow | None = None
    """The rest of its SLA; None: `max_unavailable` alone says it."""
    surplus: int = 0
    """So many instances more than it wants it is to have, of this serial, and by what."""
    serial: int = 0
    surplus_by: CauseRow | None = None

    @property
    def gated(self) -> bool:
        """Whether its tasks don't go to the queue by themselves."""
        return self.max_running > 0 or self.on_hold

    @property
    def controller_over(self) -> bool:
        """Whether its controller has ended, and it ends with that."""
        return self.controller == "end" and self.controller_state > 0

    @property
    def tasks(self) -> int:
        """The number of its instances."""
        return self.instances - self.removed


class PoolRow(msgspec.Struct, array_like=True):
    """A pool, as far as lifecycle needs it: whether jobs may be submitted to it, and how many."""

    open_jobs_max: int
    open_tasks_max: int
    open_jobs: int = 0
    """Invariant: this and `open_tasks` are not below 0. They are the jobs of this pool in the table and their tasks."""
    open_tasks: int = 0
    children: int = 0


class PoolFactRow(msgspec.Struct, array_like=True):
    """A fact about a pool that entitlement hasn't answered yet."""

    path: str
    removed: bool
    open_jobs_max: int = 0
    open_tasks_max: int = 0
    cell: int = 0


class HostRow(msgspec.Struct, array_like=True):
    """A host: `number` stands in the arena. `inventory` is true while its last inventory is to be answered."""

    number: int
    session: int
    inventory: bool = False
    inventory_by: CauseRow | None = None
    running: int = 0
    """The number of expected runs that its last inventory reported as running."""
    ended: int = 0
    """The number of those that it reported as ended, or that are lost."""
    orphans: list[tuple[str, int, int]] = []
    """Runs that it has, nobody wants, and that weren't told to stop yet: job, instance, run."""
    stopped: int = 0
    """The number of such runs that were told to stop."""
    lost_by: CauseRow | None = None
    """By what the last runs that were lost there were lost."""
    silent: int = 0
    """The second since when it is silent; 0: it isn't."""
    heard_s: int = 0
    """The second since when it is heard again; 0: it always was."""
    lost: bool = False
    stage: int = 0
    """The stage of its maintenance (`Stage`), and by what it has that."""
    stage_by: CauseRow | None = None
    evicts: dict[str, str] = {}
    """The taints by which runs leave that don't tolerate them, and by what it has those."""
    evicts_by: CauseRow | None = None
    evicts_ms: dict[str, int] = {}
    """Logical time at which each was set, and up to when it was looked which tolerations have ended."""
    looked_ms: int = 0


class TolerationsRow(msgspec.Struct, frozen=True, array_like=True):
    """The taints that tasks of a job tolerate, if only some of them."""

    tolerations: tuple[str, ...]
    stays: tuple[StayRow, ...] = ()
    """Those that they tolerate for a time, each for the longest that one of them has."""


class SuspectRow(msgspec.Struct, array_like=True):
    """The failures that make a host suspect. `failed`: runs that failed there at once, oldest first, each by its job
    and the second; `reported_s`: the second when it was last reported, for what was before it.
    """

    failed: list[tuple[str, int]] = []
    reported_s: int = 0
    code: str = ""
    """Why it is to be reported; empty: it isn't. With it the runs, their jobs, the time within which, and what
    said the last.
    """
    runs: int = 0
    jobs: int = 0
    within_ms: int = 0
    by: CauseRow | None = None
    last: tuple[str, int, int] = ("", 0, 0)
    """Job, instance and number of the last of the runs."""


class OrderRow(msgspec.Struct, array_like=True):
    """An order to preempt runs that isn't answered: where it stands in the log, how many runs it preempts, and how many
    of them are not over. `goes`: all of them may leave.

    Invariant: `0 <= open <= victims`.
    """

    order: CauseRow
    victims: int
    open: int
    goes: bool = False


class SimulatedRow(msgspec.Struct, frozen=True, array_like=True):
    """The simulation of the tasks of a job, as far as it may be refused for that."""

    duration_ms: int
    exit_code: int
    fail_runs: int
    durations_ms: tuple[int, ...]
    ready_ms: int
    fail_run: int
    unhealthy_ms: int | None
    unhealthy_runs: int


class IsolationRow(msgspec.Struct, frozen=True, array_like=True):
    """The way in which the runs of a job are kept apart."""

    level: str
    image: str
    image_digest: str
    network: str
    writable_root: bool
    cpu_limit: int
    processes: int
    output_head: int = 0
    output_tail: int = 0
    user: str = ""
    devices: tuple[str, ...] = ()


class SecretRow(msgspec.Struct, frozen=True, array_like=True):
    """A secret that a job names."""

    name: str
    version: int
    digest: str


class HealthRow(msgspec.Struct, frozen=True, array_like=True):
    """The health check of a job."""

    kind: str
    command: tuple[str, ...]
    port: str
    path: str
    delay_ms: int
    interval_ms: int
    timeout_ms: int
    failures: int
    successes: int


class OverrideRow(msgspec.Struct, frozen=True, array_like=True):
    """A `TaskOverride` of a job."""

    command: tuple[str, ...] | None
    env: dict[str, str]
    resources: dict[str, int]
    ports: tuple[str, ...] | None
    constraints: tuple[ConstraintRow, ...] | None
    strategy: str | None
    stop_grace_ms: int | None
    on_silence: str | None
    stop_after_ms: int
    labels: dict[str, str]
    simulated: SimulatedRow | None
    rules: RulesRow | None = None


class ChunkRow(msgspec.Struct, frozen=True, array_like=True):
    """An `OverrideChunk` that a job names."""

    digest: bytes
    first: int
    count: int


class OverrideChunkRow(msgspec.Struct, frozen=True, array_like=True):
    """The content of an OverridesUploaded, and the time of the log when it was uploaded last."""

    at_ms: int
    content: bytes


class SubmittedRow(msgspec.Struct, frozen=True, array_like=True, tag="submitted"):
    """A JobSubmitted: what it may be refused for, and what is said of it when it is accepted."""

    job_id: str
    pool: str
    kind: str
    instances: int
    command: tuple[str, ...]
    env: dict[str, str]
    resources: dict[str, int]
    ports: tuple[str, ...]
    port_numbers: dict[str, int]
    priority: int
    preemptible: bool
    controller: bool
    on_controller_end: str
    on_preempt: str
    gang_min: int
    retries_max: int
    retries_system: int
    max_runtime_ms: int
    max_running: int
    start_deadline_ms: int
    constraints: tuple[ConstraintRow, ...]
    strategy: str
    max_unavailable: int | None
    health: HealthRow | None
    update: PolicyRow | None
    stop_signal: str
    open_files: int
    volumes: tuple[str, ...]
    stop_grace_ms: int
    on_silence: str
    stop_after_ms: int
    description: str
    labels: dict[str, str]
    owner: str
    simulated: SimulatedRow | None
    overrides: tuple[OverrideRow, ...]
    override_first: bytes
    override_count: bytes
    override: bytes
    chunks: tuple[ChunkRow, ...]
    isolation: IsolationRow | None = None
    revocable: bool = False
    secrets: tuple[SecretRow, ...] = ()
    rules: RulesRow | None = None
    sla: SlaRow | None = None
    run_token: bool = False


class StopRow(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """A JobStopRequested. `first` and `count`: the ranges of instances that it is about, as columns; empty: all."""

    job_id: str
    command_id: str
    first: bytes
    count: bytes
    expected_version: int


class PriorityRow(msgspec.Struct, frozen=True, array_like=True, tag="priority"):
    """A JobPriorityRequested."""

    job_id: str
    command_id: str
    priority: int
    expected_version: int


class UpdateAskRow(msgspec.Struct, frozen=True, array_like=True, tag="update"):
    """A JobUpdateRequested; `spec` None: it holds no specification."""

    job_id: str
    command_id: str
    expected_version: int
    spec: SubmittedRow | None


class ActionRow(msgspec.Struct, frozen=True, array_like=True, tag="action"):
    """A JobActionRequested. `first` and `count`: the ranges of instances that it is about, as columns; empty: all."""

    job_id: str
    command_id: str
    action: str
    first: bytes
    count: bytes
    batch: int
    version: int
    force: bool
    expected_version: int


class ReopenRow(msgspec.Struct, frozen=True, array_like=True, tag="reopen"):
    """A JobReopenRequested; `spec` None: it holds no specification."""

    job_id: str
    command_id: str
    spec: SubmittedRow | None
    first: bytes
    count: bytes
    over_first: bytes
    over_count: bytes
    over_state: bytes


class VolumeRow(msgspec.Struct, frozen=True, array_like=True, tag="volume"):
    """A VolumeRemovalRequested."""

    job_id: str
    command_id: str
    host_id: str
    instance: int
    name: str
    created_ms: int


class PrefetchRow(msgspec.Struct, frozen=True, array_like=True, tag="prefetch"):
    """An ImagePrefetchRequested."""

    job_id: str
    command_id: str
    image: str
    image_digest: str


class GroupAskRow(msgspec.Struct, frozen=True, array_like=True, tag="sla_group"):
    """An SlaGroupDefined."""

    group: str
    command_id: str
    max_unavailable: int | None
    max_unavailable_percent: int | None
    min_available: int | None
    min_available_percent: int | None
    remove: bool

    @property
    def job_id(self) -> str:
        """The name under which it is answered: no job can have it."""
        return SLA_GROUP + self.group


class AskRow(msgspec.Struct, array_like=True):
    """A fact of the topic of jobs that waits for its answer, and the time of the log. Of a submission also the bytes of
    its value in the log, and what equal submissions have in common.
    """

    at_ms: int
    fact: (
        SubmittedRow
        | StopRow
        | PriorityRow
        | UpdateAskRow
        | ActionRow
        | VolumeRow
        | ReopenRow
        | PrefetchRow
        | GroupAskRow
    )
    size: int = 0
    spec_hash: bytes = b""
