"""Targets of blame: the fields of pools, jobs, tasks, hosts and the cell, and the records that move
each (decision 126).
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from events.cell_settings import LISTS, TYPES
from events.nearest import meant
from events.spec.settings import written

Kind = Literal["pool", "job", "task", "host", "cell"]
FORMS = "/POOL:FIELD[:PART], JOB:FIELD[:PART], JOB/TASK:FIELD, host/NAME:FIELD[:PART] or cell:NAME[:PART]"


class BadTarget(ValueError):
    """A target that can't be read; the message says how one looks."""


class Target(NamedTuple):
    """A field of a thing, or a part of one, such as a resource."""

    kind: Kind
    name: str
    field: str
    part: str = ""
    instance: int = 0


class Field(NamedTuple):
    """The way in which the mover of a field is found: `by` is the way, `kinds` the records that may have moved it,
    `of_resources` whether its parts are resources.
    """

    by: str
    kinds: tuple[str, ...] = ()
    of_resources: bool = False


def _each(by: str, names: str, *kinds: str) -> dict[str, Field]:
    return dict.fromkeys(names.split(), Field(by, kinds))


def _amounts(by: str, names: str, *kinds: str) -> dict[str, Field]:
    return dict.fromkeys(names.split(), Field(by, kinds, of_resources=True))


_SUBMITTED = ("JobSubmitted", "JobAccepted", "JobRejected")
_MOVED = ("GangsQueued", "RunsOrdered", "RunsAvailable", "RunsStopping", "RunsEnded")
_MADE = ("JobAccepted", "JobReopened", "InstancesChanged", "InstancesWanted")
_WAITS = ("GangsAdmitted", "AdmissionsRanked", "GangsHeld", "GangsUnplaced", "GangsReturned", "TasksPlaced")
_UPDATED = ("UpdateStarted", "UpdateProgressed", "UpdatePaused", "UpdatePromoted", "UpdateEnded")
_HEARD = ("HostConnected", "HostSilent", "HostBack", "HostLost")
_TRUST = ("HostAvoided", "HostTrusted", "HostClearRequested")

JOB: Mapping[str, Field] = {
    **_each("spec", "job_id pool kind instances controller on_preempt owner labels spec strategy_in_effect cell"),
    **_each("first", "submitted_at", "JobSubmitted"),
    **_each("first", "started_at", "RunsAvailable"),
    **_each("state", "state", "JobChanged", *_SUBMITTED),
    **_each("state", "ended_at", "JobChanged", *_SUBMITTED),
    **_each("last", "first_run position", *_SUBMITTED, *_MOVED, *_MADE, "JobChanged", "JobHeld", "JobPriorityChanged"),
    **_each("priority", "priority", "JobPriorityChanged", "UpdateStarted", *_SUBMITTED),
    **_each("last", "held held_since", "JobHeld", *_SUBMITTED),
    **_each("waiting", "waiting_since", "GangsQueued", "RunsOrdered", "RunsEnded", *_SUBMITTED),
    **_each("tasks", "tasks", *_MOVED, *_MADE, *_SUBMITTED),
    **_each("last", "killed_by", "RunsEnded", *_SUBMITTED),
    **_each("last", "version", "UpdateStarted", *_SUBMITTED),
    **_each("last", "update", *_UPDATED, *_SUBMITTED),
    **_each("headline", "reason next_wake_up forecast no_forecast"),
}
TASKS: Mapping[str, tuple[str, ...]] = {
    "queued": ("GangsQueued", "RunsOrdered", "RunsEnded"),
    "ordered": ("RunsOrdered", "RunsAvailable", "RunsStopping", "RunsEnded"),
    "running": ("RunsAvailable", "RunsStopping", "RunsEnded"),
    "stopping": ("RunsStopping", "RunsEnded"),
    "backoff": ("RunsEnded", "GangsQueued", *_MADE),
    "succeeded": ("RunsEnded", "JobReopened", "InstancesWanted"),
    "failed": ("RunsEnded", "JobReopened", "InstancesWanted"),
    "killed": ("RunsEnded", "JobReopened", "InstancesWanted"),
}
"""The records that move the number of tasks in a state."""
TASK: Mapping[str, Field] = {
    **_each("task", "instance spec cell job_id pool number", "InstancesChanged", "JobAccepted"),
    **_each("task", "state", *_MOVED, *_MADE),
    **_each("task", "since", *_MOVED, *_MADE, *_WAITS),
    **_each("task", "run", "GangsQueued", "RunsOrdered", "JobAccepted"),
    **_each("task", "host_id ports devices cores", "RunsOrdered", "GangsQueued", "JobAccepted"),
    **_each("task", "admission", "GangsAdmitted", "AdmissionsRanked", "GangsReturned", "GangsQueued", "RunsEnded"),
    **_each("task", "failures outcome exit_code cause reason next_run_at", "RunsEnded", "RunsOrdered", "GangsQueued"),
    **_each("task", "version", "RunsOrdered", "JobAccepted"),
    **_each("task", "update", *_UPDATED, "InstancesTaken", "JobAccepted"),
    **_each(
        "task",
        "health signal out_of_memory cpu_ms memory_kib throttled_ms read_kib written_kib",
        *("RunsReported", "RunsOrdered", "GangsQueued", "JobAccepted"),
    ),
}
HOST: Mapping[str, Field] = {
    **_each("last", "state", *_HEARD, "HostAvoided", "HostTrusted", "HostMaintenanceChanged"),
    **_each("last", "maintenance", "HostMaintenanceChanged", *_HEARD[:1]),
    **_each("last", "host_id session gateway connected_at cell", "HostConnected"),
    **_each("last", "silent_since", "HostSilent", "HostBack", "HostConnected"),
    **_each("last", "lost", "HostLost", "HostConnected"),
    **_each("last", "suspected", *_TRUST, "HostConnected"),
    **_each("last", "conditions", "HostHealthReported", *_TRUST, "HostConnected"),
    **_each("last", "certificate", "HostCertified", "HostInvited", "HostConnected"),
    **_each("last", "host_pool", "HostsPooled", "HostConnected"),
    **_each("last", "taints", "HostTainted", "HostOffered", "HostConnected"),
    **_each("last", "devices", "HostDeviceChanged", "HostOffered", "HostConnected"),
    **_amounts("offer", "capacity", "HostOffered"),
    **_each("offer", "ignored_resources attributes ports cores offer_refused shrunk", "HostOffered"),
    **_each("runs", "runs"),
    **_amounts("runs", "allocated"),
    **_amounts("load", "used slack", "HostsLoaded"),
}
_OF_SHARES = _amounts("entitled", "demand allocation held without_hosts", "EntitlementsSet")
_OF_POOL = ("JobAccepted", "JobChanged", "JobReopened", "InstancesChanged")
POOL: Mapping[str, Field] = {
    **_amounts("pool", "reservation limit share"),
    **_each("pool", "static preemption_delay controllers_percent slack_percent strategy"),
    **_each("pool", "host_pools closed owners description open_jobs_max open_tasks_max"),
    **_each("pool", "path cell parent defined_at position strategy_in_effect"),
    **_OF_SHARES,
    **_amounts("entitled", "entitlement", "EntitlementsSet"),
    **_each("entitled", "over_since under_since", "EntitlementsSet"),
    **_each("round", "open_jobs open_tasks", *_OF_POOL),
    **_each("round", "admitted", "GangsAdmitted"),
    **_each("round", "preempted", "PreemptionsOrdered"),
    **_each("round", "queue", "GangsHeld", "GangsAdmitted", "GangsQueued"),
    **_each("round", "waiting_for_place", "GangsAdmitted", "TasksPlaced", "GangsReturned"),
    **_each("round", "turn", "TurnSet"),
    **_each("round", "credit", "CreditsSet", "TurnSet"),
}
CELL: Mapping[str, Field] = {
    **dict.fromkeys([*map(written, TYPES), *LISTS], Field("setting")),
    **_amounts("capacity", "capacity", "CapacityChanged"),
    **_each("capacity", "hosts warnings", "CapacityChanged"),
    **_OF_SHARES,
}
FIELDS: Mapping[Kind, Mapping[str, Field]] = {"pool": POOL, "job": JOB, "task": TASK, "host": HOST, "cell": CELL}


def read_target(text: str) -> Target:
    """The target that a text names. Raises `BadTarget`."""
    thing, colon, rest = text.partition(":")
    field, _, part = rest.partition(":")
    if not colon or not thing:
        raise BadTarget(f"{text[:100]!r} is no target; write {FORMS}")
    kind, name, instance = _thing(text, thing)
    if field not in FIELDS[kind]:
        what = "the cell" if kind == "cell" else f"a {kind}"
        end = meant(field, FIELDS[kind]) or "."
        names = ", ".join(sorted(FIELDS[kind]))
        raise BadTarget(f"{field[:60]!r} is no field of {what}{end} Its fields: {names}")
    return Target(kind, name, field, part, instance)


def _thing(text: str, thing: str) -> tuple[Kind, str, int]:
    if thing.startswith("/"):
        return "pool", thing, 0
    if thing == "cell":
        return "cell", "", 0
    name, slash, rest = thing.partition("/")
    if not slash:
        return "job", name, 0
    if name == "host" and rest:
        return "host", rest, 0
    if not rest.isdecimal() or len(rest) > 9:
        raise BadTarget(f"{text[:100]!r} is no target: a task is JOB/TASK with its number; write {FORMS}")
    return "task", name, int(rest)
