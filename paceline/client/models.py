"""The bodies of the API's answers, as they stand on the wire. Fields that a later release adds are kept."""

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from paceline.client.forecast_models import Forecast, NoForecast
from paceline.client.json_type import Json

RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
KILLED = "KILLED"
REJECTED = "REJECTED"
ENDED = frozenset((SUCCEEDED, FAILED, KILLED, REJECTED))
"""States of a job that it never leaves."""
GOALS = ("ended", "running", "healthy", "succeeded")
"""The goals for which a job can be waited."""

Amounts = dict[str, float | str]
"""By name of the resource: numbers of CPUs and devices, sizes as text: {"cpu": 1.5, "memory": "4GiB"}. What is left out
is 0.
"""


class Reason(TypedDict):
    """Why a job ended or waits, and who can act."""

    code: str
    message: str
    actor: str


class WakeUp(TypedDict):
    """The next event that comes by time alone, and its sentence."""

    at: str | None
    why: str


class StrategyInEffect(TypedDict):
    """The strategy by which hosts are chosen for what is admitted now. `pool` has it; null: the job itself, or nobody,
    which means pack. `text` says both.
    """

    name: str
    pool: str | None
    text: str


class Job(TypedDict):
    """A job. Times are RFC 3339; `tasks` counts them by state; `position` is where the log stood for this answer.
    `spec` and `next_wake_up` stand in the job itself, not in lists; `cell` in lists over several cells. The answer to a
    submission that isn't decided yet is a `SubmittedJob`.
    """

    job_id: str
    pool: str
    kind: str
    state: str
    instances: int
    priority: int
    controller: bool
    on_preempt: str
    owner: str
    labels: dict[str, str]
    submitted_at: str | None
    started_at: str | None
    ended_at: str | None
    held: bool
    held_since: str | None
    waiting_since: str | None
    first_run: int
    version: int | None
    update: "Update | None"
    """The newest."""
    tasks: dict[str, int]
    killed_by: dict[str, int]
    """The killed tasks that ran for as long as they may, RUN_LIMIT, and those that a user stopped, STOP."""
    reason: Reason | None
    position: str
    next_wake_up: NotRequired[WakeUp | None]
    """Null: nothing waits for a time."""
    forecast: NotRequired[Forecast | None]
    """In the job itself, while it waits for its first run; null: see `no_forecast`."""
    no_forecast: NotRequired[NoForecast | None]
    """In the job itself; null: it has a forecast, or has begun or ended."""
    strategy_in_effect: NotRequired[StrategyInEffect | None]
    """In the job itself; null: of a daemon."""
    spec: NotRequired[Json]
    repeated: NotRequired[bool]
    warnings: NotRequired[list[str]]
    """The needs of a submitted job that no host meets now."""
    cell: NotRequired[int]


class SubmittedJob(TypedDict):
    """A job that was written and isn't decided yet."""

    job_id: str
    position: str
    state: str
    warnings: NotRequired[list[str]]


class JobCheck(TypedDict):
    """The events that a submission would write."""

    job_id: str
    events: list[Json]
    warnings: NotRequired[list[str]]


class ProcessDetails(TypedDict):
    """The process of a run, as its host tells of it."""

    health: str | None
    """UNKNOWN, HEALTHY or UNHEALTHY of a run with a health check."""
    signal: str | None
    """The signal that ended the process: KILL, TERM or another."""
    out_of_memory: bool
    """Whether the kernel killed it for want of memory, as far as the host can tell."""
    cpu_ms: int | None
    memory_kib: int | None
    """CPU time and the most memory at a time, known once the process has ended."""
    throttled_ms: int | None
    """Time for which it was held back by its cpu_limit."""
    read_kib: int | None
    written_kib: int | None
    """KiB from and to disks."""


class RunDetails(ProcessDetails):
    """The end of a run, and its process."""

    host_id: str | None
    exit_code: int | None
    outcome: str | None
    cause: str | None
    """The cause of an end that didn't come by itself: RUN_LIMIT, STOP, HEALTH or another `RunCause`."""
    reason: str | None


class RunDevice(TypedDict):
    """A device of a run: its id on the host, the share that the run has of it, 1 for all, and the memory."""

    id: str
    share: float
    memory: str | None


class RunDevices(TypedDict, total=False):
    """The devices of a run, and the numbers of the whole cores that it has for itself; told where it had some, of the
    last run of a task and of placements.
    """

    devices: list[RunDevice]
    cores: list[int]


class Task(RunDetails, RunDevices):
    """A task and its last run. `job_id` stands in lists of several jobs, `pool` and `number`, that of the job, in that
    of throttled tasks.
    """

    instance: int
    state: str
    run: int
    ports: list[int]
    admission: str | None
    """ENTITLED or BORROWED; null: it isn't admitted."""
    since: str | None
    """The time from which on it has its state or, while it is queued, waits for the same."""
    failures: int
    next_run_at: str | None
    """The earliest time of its next run, where it waits for a time."""
    spec: Json | None
    """With its overrides merged into the spec of the job; null: it has none."""
    version: int | None
    """That of its last run."""
    update: str | None
    """Its step in the newest update: PENDING, IN_FLIGHT, DONE, FAILED, NO_PROGRESS or LEFT_OUT."""
    job_id: NotRequired[str]
    pool: NotRequired[str]
    number: NotRequired[int]
    cell: NotRequired[int]


class Run(RunDetails, RunDevices):
    """A run of a task that a host was told of."""

    run: int
    state: str
    """ORDERED, RUNNING, STOPPING or ENDED."""
    version: int
    ordered_at: str | None
    started_at: str | None
    """The time at which it became available; null: it never did."""
    ended_at: str | None


class UpdateStep(TypedDict):
    """Instances that took a step of an update together."""

    first: int
    count: int
    step: str


class UpdateSteps(TypedDict):
    """The steps that instances took by one decision."""

    position: str
    at: str | None
    steps: list[UpdateStep]


class ActorName(TypedDict):
    """The actor of a fact: `name` is for people, and says whether it is only claimed."""

    name: str
    subject: str
    how: str
    """The way in which the name is known."""
    credential: str
    """The proof of the name: the id of a token, an issuer, the number of a certificate; empty: nothing did."""
    binding: str | None
    """The position of the role that allowed it; null: none was needed."""
    read_to: int | None
    """The offset in paceline.pools up to which the server had read when it allowed it."""
    address: str
    reason: str
    """Why, where the fact has no field for it."""
    verified: bool


class HistoryEntry(TypedDict):
    """One fact or decision about a job; `actor`: who wrote a fact, null where it doesn't say and of decisions."""

    position: str
    at: str | None
    machine: str | None
    round: int | None
    index: int | None
    event: str
    text: str
    """A sentence about what happened."""
    actor: ActorName | None
    detail: Json


class Answer(TypedDict):
    """The answer to a command; `code` and `message` once it is decided."""

    position: NotRequired[str]
    command_id: NotRequired[str]
    code: NotRequired[str]
    message: NotRequired[str]


class Said(TypedDict, total=False):
    """The words that may go with each command about a job: its id, by which a repeat is known, why it is given, the
    version that the job must have, and data that is kept with it.
    """

    command_id: str | None
    reason: str
    expected_version: int
    data: str


JobAction = Literal["pauses", "resumes", "aborts", "promotions", "holds", "releases"]
"""Actions on a job or its update that need no more words."""


class ImagePulls(TypedDict):
    """The hosts that were told to pull the image of an update, without those that are lost: how many `have` it, and how
    many can't. `waits`: the update begins when all have answered, or in time; `message` says it all.
    """

    hosts: int
    have: int
    faults: int
    waits: bool
    message: str


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
    image: NotRequired[ImagePulls | None]
    """Null: no host was told to pull one. Servers of 0.3 don't say it."""
    steps: dict[str, int]
    policy: Json
    started_at: str | None
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
    made_at: str | None
    command: str | None
    reason: str
    data: str
    spec: NotRequired[Json]


class Change(TypedDict("Change", {"from": Any})):
    """A part of a specification that differs, by its JSON pointer."""

    pointer: str
    to: Any


class Changes(TypedDict):
    """The first changes between two versions, and the number of further ones."""

    changes: list[Change]
    more: int


class FitWarning(TypedDict):
    """A reason why instances would find no place."""

    code: str
    message: str


class UpdateCheck(Changes):
    """The changes that an update would make; `instances` counts them by what becomes of them, null: it isn't known."""

    job_id: str
    version: int | None
    instances: dict[str, int] | None
    warnings: list[FitWarning]


class Diff(Changes, TypedDict("Diff", {"from": int})):
    """The changes from one version to another."""

    to: int


class Entered(TypedDict):
    """A command that was started inside a run."""

    exec: str
    run: int
    host_id: str


class Output(NamedTuple):
    """A piece of a run's output. It begins at `offset`, later than asked for where older output was dropped; go on at
    `next_offset`; `ended`: nothing more will come. `end`: how much the stream has by now, `other_end`: the other one;
    `lost`: how many bytes of both the disk of the host didn't take; `run`: the number of the run. Each is negative
    where an older cell or agent doesn't say.
    """

    data: bytes
    offset: int
    next_offset: int
    ended: bool
    end: int = -1
    other_end: int = -1
    lost: int = -1
    run: int = -1


BOOKMARK, GONE = "bookmark", "gone"
"""Events that tell of none: how far a stream is; that the log no longer holds what comes next."""


class StreamEvent(NamedTuple):
    """An event of the stream; `id` is its position, to go on after."""

    id: str
    event: str
    data: Any
