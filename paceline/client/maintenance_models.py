"""Maintenance in the API's answers: stages of hosts, what their runs wait for, and campaigns."""

from typing import Any, NotRequired, TypedDict

from paceline.client.models import ActorName, Answer


class HostWait(TypedDict):
    """Runs of a job that are still on a host that drains, all for one reason: `code` with its sentence. Of its
    `instances`, or of those of its `group`, `unavailable` are, where `allowed` may be, as sla found it last; null: that
    isn't why.
    """

    job_id: str
    code: str
    message: str
    runs: int
    since: str | None
    instances: int
    unavailable: int | None
    allowed: int | None
    group: str
    until: str | None
    """When they may go next, where that is known."""


class HostMaintenance(TypedDict):
    """The maintenance of a host. `stage` is CORDONED, DRAINING, DRAINING_BATCH, FORCING, DRAINED or CHECKING, or UP
    where it waits for its campaign; `by` whose it is: operator, campaign, window, health or taint, and `source` which.
    """

    stage: str
    since: str | None
    """Since when it has this stage."""
    begun_at: str | None
    """Since when it isn't UP."""
    by: str
    source: str
    code: str
    message: str
    reason: str
    actor: ActorName | None
    cordoned: bool
    """It stays so when its drain ends."""
    batch: str
    """move: preemptible batch tasks leave at once; wait: at the deadline, or by themselves."""
    preempt_at: str | None
    """The deadline, at which preemptible batch tasks leave."""
    force_at: str | None
    """From when all that is left is ended, whatever budgets say."""
    check_until: str | None
    step: str | None
    """Where it is in its campaign: PENDING, DRAIN, WORK, CHECK."""
    runs_left: int
    stopping: NotRequired[int]
    """The number of those that are told to stop; of one host, not in lists."""
    waits: NotRequired[list[HostWait]]
    """The others, by job; of one host, not in lists."""


class DrainedHost(TypedDict):
    """The runs of a host that is to drain: those that leave `at_once` since their jobs have no SLA or since they are
    forced, those that are `asked` for, `batch` tasks that run to their ends, and those that are `bound` to the host and
    leave last.
    """

    host_id: str
    runs: int
    at_once: int
    asked: int
    batch: int
    bound: int


class DrainedJob(TypedDict):
    """A job with runs on hosts that are to drain. `leaves` is at_once, asked, replaced, never, batch, moved, bound or
    forced; so many of its instances as `allowed` may be unavailable on purpose, null: it has no SLA.
    """

    job_id: str
    owner: str
    runs: int
    instances: int
    leaves: str
    allowed: int | None
    per_hour: int | None
    """So many may be disrupted in an hour for others; null: any number."""
    at_a_time: int | None
    """So many leave at a time, by its SLA or its group, or are replaced first; null: it has no SLA."""


class UnplacedTasks(TypedDict):
    """Tasks of a job that would leave and find no place elsewhere, and why."""

    job_id: str
    tasks: int
    code: str
    message: str


class DrainPlan(TypedDict):
    """The decision of the machines about a drain: their answer, and the tasks that would find no place elsewhere
    within the simulated time that they looked ahead; `cut_short`: there was no time to look at all of it.
    """

    code: str
    message: str
    refused: bool
    unplaced: list[UnplacedTasks]
    looked_ahead_s: float
    cut_short: bool


class DrainEffects(TypedDict):
    """The effects of a drain, before it is asked for; `notes` are sentences that an operator should read."""

    hosts: list[DrainedHost]
    jobs: list[DrainedJob]
    notes: list[str]
    bound: NotRequired[str]
    """The budget that bounds how fast it goes, in words; of a dry run."""
    plan: NotRequired[DrainPlan]
    """The plan, where a dry run was asked for one."""


class MaintenanceWindow(TypedDict):
    """A window of maintenance; `state` is SET, LEADING (its hosts drain before it opens) or OPEN."""

    window_id: str
    state: str
    opens_at: str | None
    """When it opens next, or has opened; null: never."""
    opens_local: str | None
    """The same as clocks in its time zone have it, with their distance from UTC."""
    closes_at: str | None
    closed_at: str | None
    """When it closed last."""
    missed_at: str | None
    """Its last opening at which the cell was down; it isn't made up for."""
    schedule: str
    duration: str
    time_zone: str
    lead: str
    escalate: str
    hosts: int
    known_until: str | None
    """Until when the rules of its time zone are known to the cell; null: UTC, for good."""
    reason: str
    actor: ActorName | None
    set_at: str | None
    host_ids: NotRequired[list[str]]
    """Its hosts; not in lists."""


class MaintenanceWindowList(TypedDict):
    """All windows of maintenance."""

    windows: list[MaintenanceWindow]


class HostsAnswer(Answer):
    """The answer to a command about several hosts: those that it is about, and what is worth knowing."""

    host_ids: list[str]
    notes: NotRequired[list[str]]
    window: NotRequired[MaintenanceWindow]
    """The window that was set."""


class MaintenanceHost(TypedDict):
    """A host of a campaign; `step` is PENDING, DRAIN, WORK, CHECK, DONE, FAILED or SKIPPED."""

    host_id: str
    step: str
    since: str | None
    code: str
    message: str
    stage: str
    state: str
    runs_left: int
    waits: NotRequired[list[HostWait]]


class Maintenance(TypedDict):
    """A campaign; `state` is RUNNING, PAUSED, ABORTING, ABORTED or DONE. `steps` counts its hosts."""

    maintenance_id: str
    state: str
    code: str
    message: str
    reason: str
    actor: ActorName | None
    started_at: str | None
    changed_at: str | None
    ended_at: str | None
    hosts: int
    steps: dict[str, int]
    plan: dict[str, Any]
    bound: NotRequired[str]
    """The budget that bounds how fast it goes, in words."""
    estimated_at: NotRequired[str | None]
    """When it is over, going on as until now."""
    at_work: NotRequired[list[MaintenanceHost]]
    """The hosts that aren't pending and aren't over."""
    not_done: NotRequired[list[MaintenanceHost]]
    """The hosts that failed or were skipped, with why."""


class MaintenancesPage(TypedDict):
    """A page of campaigns, the newest first."""

    maintenances: list[Maintenance]
    next_page_token: str


class MaintenanceHostsPage(TypedDict):
    """A page of the hosts of a campaign."""

    hosts: list[MaintenanceHost]
    next_page_token: str
