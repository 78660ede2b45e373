"""The rows of the views. A row is a Struct whose fields are the columns of its table (`tables.py`).

Each column has one owning topic, so that whatever the interleaving of topics the same rows come out. Times are
milliseconds of the log, 0: not yet. Lists and maps are JSON text.
"""

import msgspec

from events.host_pools import SHARED
from events.natural_order import natural_key
from events.resources import Amounts, in_order


class PositionRow(msgspec.Struct):
    """The position up to which a topic was folded."""

    topic: str
    position: int


class ChainRow(msgspec.Struct):
    """The chain of a machine's history, see `events.acceptance.Chain`; `inputs` is JSON."""

    machine: str
    epoch: int
    round: int
    hash: bytes
    position: int
    inputs: str


class OwnerRow(msgspec.Struct):
    """The owner of a machine: the process that claimed its present epoch, when, and of which version it is."""

    machine: str
    epoch: int
    claimant: str
    claimed_ms: int
    build: str
    logic: int
    state: int


class SubmissionRow(msgspec.Struct):
    """A JobSubmitted that a job stands on, or that isn't answered yet; `value` is the encoded record, `chunks` what it
    names of `override_chunks`, with spaces between.
    """

    offset: int
    job_id: str
    at_ms: int
    value: bytes
    chunks: str


class OverrideChunkRow(msgspec.Struct):
    """The content of an OverridesUploaded; `nameable`: jobs to come may name it."""

    name: str
    nameable: int
    content: bytes


class JobRow(msgspec.Struct):
    """A job, owned by lifecycle; made by its first JobSubmitted.

    `number` is where that stands in the topic of jobs, `offset` where the submission stands that the row shows,
    `position` the offset after the round of lifecycle that changed the row last. `base` and `port_base` are the first
    slots in the task and the port columns, -1: not accepted; `slots` is how many tasks have room there. `instances` is
    the highest instance plus 1, of which `removed` are none any more. `queued` to `killed` count tasks by state.
    """

    job_id: str
    number: int
    offset: int
    submitted_ms: int
    pool: str
    kind: str
    instances: int
    priority: int
    controller: int
    on_preempt: str
    health: int
    """1: its runs have a health check."""
    owner: str
    labels: str
    state: str
    position: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    code: str = ""
    message: str = ""
    base: int = -1
    port_base: int = -1
    slots: int = 0
    removed: int = 0
    ports: int = 0
    need: str = "{}"
    """The needs of one task, amounts by name."""
    gang_min: int = 0
    overridden: int = 0
    """Whether tasks have overrides."""
    retries_max: int = 0
    stopping: int = 0
    max_running: int = 0
    held_ms: int = 0
    """When it was held; 0: it isn't."""
    failed_instance: int = -1
    """The task that failed last, and its exit code."""
    failed_exit_code: int = 0
    """-1: it has none, since the cell ended the run."""
    failed_why: int = 0
    """Why it did, a `RunCause`."""
    failed_run: int = 0
    digest: bytes = b""
    """The digest that stands for its id when it is forgotten."""
    accepted: int = -1
    """Where the round of lifecycle stands that accepted it."""
    first_run: int = 1
    version: int = 0
    """The newest; 0: it isn't accepted."""
    update: int = 0
    """The newest; 0: there was none."""
    needs: str = "{}"
    """The needs of a task of an older version, by version, where they differ."""
    command: str = ""
    """The command, as far as lists are searched for it."""
    waits_ms: int = 0
    """Since when tasks of it are queued, without a moment when none was; 0: none is."""
    queued: int = 0
    ordered: int = 0
    running: int = 0
    stopping_tasks: int = 0
    backoff: int = 0
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    overran: int = 0
    """The killed tasks that ran for as long as they may."""
    stopped: int = 0
    """The killed tasks that a user stopped."""
    stops: int = 0
    """The number of times that a user has stopped it, or instances of it."""
    max_runtime_ms: int = 0
    submitter: str = ""
    """The subject of who wrote the submission that the row shows; empty: not said."""
    submitter_key: bytes = b""
    """The public key that has signed it; empty: it isn't signed."""
    open_sum: int = 0
    """Milliseconds for which its tasks were open, times counted from its submission, see `ledger_rows.py`."""
    starting_sum: int = 0
    """The same of tasks that were ordered."""
    running_sum: int = 0
    """The same of tasks that ran or stopped."""
    last_loss: int = 0
    """By what a run of it was lost last, see `ledger.LOST`."""
    counted_for: str = ""
    """The name under which the ledger counts its owner."""

    @property
    def tasks(self) -> int:
        """The number of its instances."""
        return self.instances - self.removed


FIXED_OF_JOB = (
    *("number", "submitted_ms", "pool", "kind", "controller", "on_preempt", "health", "owner", "labels", "command"),
    *("overridden", "retries_max", "max_running", "max_runtime_ms", "digest", "base", "port_base", "first_run"),
    *("submitter", "submitter_key", "counted_for"),
)
"""These columns change only when a job is accepted, updated or moved to other slots, which puts its whole row."""


class BlockRow(msgspec.Struct):
    """512 slots of task or port columns; `live`: how many of these tasks are on a host, `waiting`: how many wait for
    admission, a place or their start.
    """

    block: int
    live: int
    waiting: int
    data: bytes


class PoolRow(msgspec.Struct):
    """A pool, owned by entitlement. `spec` is the encoded PoolDefined that was answered with DONE; of the root it is
    empty.
    """

    path: str
    offset: int
    spec: bytes
    entitlement: str = "{}"
    demand: str = "{}"
    allocation: str = "{}"
    """The admitted amounts, with hosts or without."""
    placed: str = "{}"
    """The part of that which has hosts."""
    at_ms: int = 0
    admitted: int = 0
    """Tasks that were admitted, since the pool is there."""
    preempted: int = 0
    """Runs that were ordered to leave."""
    over_since_ms: int = 0
    """Since when it has more on hosts than it is entitled to; 0: it hasn't."""
    over_ms: int = 0
    """Milliseconds for which it did so before that."""
    under_since_ms: int = 0
    """Since when admitted work waits for hosts though the pool has less there than it is entitled to; 0: none does."""


class PoolFactRow(msgspec.Struct):
    """A fact about a pool that isn't answered yet."""

    offset: int
    path: str
    value: bytes


class PoolUseRow(msgspec.Struct):
    """Open jobs and tasks of a pool, owned by lifecycle."""

    path: str
    open_jobs: int = 0
    open_tasks: int = 0


class ConditionState(msgspec.Struct, omit_defaults=True):
    """A condition of a host, as placement keeps it."""

    since_ms: int
    bad: bool = True
    code: str = ""
    text: str = ""
    passed_ms: int = 0
    """When its check passed last; 0: it is bad."""
    flaps: int = 0
    dismissed: bool = False
    """An operator says that the host takes tasks."""
    is_held: bool = False
    """No more hosts are avoided."""


class HostRow(msgspec.Struct):
    """A host. Owners: the topic of hosts (to `slack`), placement (to `host_pool`), lifecycle (the rest).

    `number` stands in the task columns, 0: nothing was ordered there since it is known.
    """

    host_id: str
    session: int = 0
    gateway: str = ""
    connected_ms: int = 0
    silent_ms: int = 0
    offered: int = 0
    offer_fault: str = ""
    """Why what it offers in this session counts as nothing."""
    capacity: str = "{}"
    sizes: str = "[]"
    """The resources of it in MiB, beside memory and disk."""
    port_first: int = 0
    port_last: int = 0
    attributes: str = "{}"
    taints: str = "{}"
    """Those of its agent."""
    devices: str = "[]"
    """Those that it names, as `HostDevice`s."""
    cores: str = "[]"
    """The NUMA node of each of its whole cores."""
    disabled: str = "{}"
    """The devices that operators have set aside, and whether the runs on them are to leave."""
    evicts: str = "[]"
    """The keys of taints by operators by which runs leave."""
    tainted: str = "{}"
    """Those by operators, which come before its own of the same key."""
    cpu_used: int = 0
    memory_used: int = 0
    loaded_ms: int = 0
    """The use of it by its runs, in sixteenths as in HostsLoaded, and when that was said; 0: not yet."""
    slack: int = 0
    """Sixteenths of its CPU that it can lend."""
    lost_session: int = 0
    lost_ms: int = 0
    lost_code: str = ""
    suspect_code: str = ""
    """Why it is avoided; empty: it isn't."""
    avoided_ms: int = 0
    """Until when; below 0: while a condition lasts."""
    conditions: str = "{}"
    """Those that its checks say, by name (`ConditionState`), in JSON."""
    drained_for: str = ""
    """The condition for which the cell drains it; empty: it doesn't."""
    host_pool: str = SHARED
    number: int = 0
    reconciled_session: int = 0
    suspect_job: str = ""
    suspect_instance: int = 0
    suspect_run: int = 0
    """The run for which it was last suspected."""
    runs: int = 0
    allocated: str = "{}"
    """The amounts that those runs hold, by name."""
    place: str = ""
    """Its place in the natural order of ids (`natural_key`), which follows from its id."""

    def __post_init__(self) -> None:
        self.place = self.place or natural_key(self.host_id)


class HostPoolRow(msgspec.Struct):
    """A host pool; `kinds` in JSON."""

    name: str
    kinds: str = "[]"
    description: str = ""
    defined_ms: int = 0
    """When it was defined as it is."""
    elastic: str = "[]"
    """Its policies for moves of hosts, in JSON."""


class HostPoolMoveRow(msgspec.Struct):
    """Hosts that were emptied for another host pool; `offset` and `place`: where the decision stands."""

    offset: int
    place: int
    source: str
    target: str
    host_ids: str
    """In JSON."""
    code: str
    load: int
    """In percent; -1: it was asked for."""
    waiting: int
    """The part of it that waits."""
    bound: int
    since_ms: int
    started_ms: int


class VolumeRow(msgspec.Struct):
    """A volume of a host, as its agent said in a session."""

    host_id: str
    job_id: str
    instance: int
    name: str
    created_ms: int
    session: int


class HostNameRow(msgspec.Struct):
    """The host of a number in the task columns; it stays when the host is removed, since runs were there."""

    number: int
    host_id: str


class RoundRow(msgspec.Struct):
    """An accepted round. `depth` is one more than that of every round its writer had seen: with it, what follows from
    something sorts after it though the log gave both the same time.
    """

    machine: str
    number: int
    position: int
    at_ms: int
    now: int
    epoch: int
    decisions: int
    depth: int
    hash: bytes
    ends: str
    """The position up to which its machine had read each topic, its own included, as JSON."""


class ExplanationRow(msgspec.Struct):
    """Why tasks of a job wait, as one machine said it last. `numbers` is JSON of that machine's numbers."""

    job_id: str
    kind: str
    machine: str
    code: str
    tasks: int
    since_ms: int
    round: int
    numbers: str


class HistoryRow(msgspec.Struct):
    """Records that are about a job, see `job_records.py`, or about a pool or a host, see `other_histories.py`.
    `number` orders the rows of a job as they were written; `first_ms` and `last_ms` are the times of the oldest and
    the newest entry. `kinds` to `last_run` say what the index of causes may find in it: kinds of records as bits
    (`cause_ties.BITS`), instances and runs.
    """

    job_id: str
    number: int
    first_ms: int
    last_ms: int
    kinds: int
    first: int
    last: int
    first_run: int
    last_run: int
    entries: bytes


class AnswerRow(msgspec.Struct):
    """The owner's answer to a fact."""

    topic: str
    offset: int
    subject: str
    command_id: str
    code: str
    message: str
    machine: str
    round: int
    version: int = 0
    """The version that the job has after a command; 0: the command makes none."""
    update: int = 0
    """The update that it began or was about; 0: none."""


class QuarantineRow(msgspec.Struct):
    """A record that was skipped: bytes that are no record of their topic, or a round that the rule refuses."""

    topic: str
    offset: int
    at_ms: int
    reason: str
    digest: bytes
    size: int


class MetaRow(msgspec.Struct):
    """A setting of the file itself: its format, and where the columns end (`next_base`, `next_port_base`)."""

    name: str
    value: str


SETTINGS_META = "settings"
"""The row of `meta` that has the settings of the cell, as JSON."""
CAPACITY_META = "capacity"
"""The capacity of the cell, as JSON: `amounts` by name, and the number of `hosts`."""
ACCESS_META = "access"
"""The decision that was the last to change by what requests are allowed or refused, as `offset:place`."""


def to_json(value: object) -> str:
    """JSON text with sorted keys: equal values are equal text."""
    return msgspec.json.encode(value, order="sorted").decode()


def amounts_in(text: str) -> Amounts:
    """The amounts that stand in a column, in the order of records."""
    return in_order(_amounts.decode(text))


_amounts = msgspec.json.Decoder(Amounts)
