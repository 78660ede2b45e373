"""Stable numbers and codes that stand in records: states, outcomes, reasons. Codes are added, never renamed."""

from enum import IntEnum, StrEnum

import numpy as np


class Number(IntEnum):
    """Codes that stand in columns."""

    __array_ufunc__ = np.ndarray.__array_ufunc__
    """Numbers like others. numpy asks operands for this, and an enumeration takes a microsecond to deny it."""


class ForecastMethod(Number):
    """The way a forecast was made (the column `method` of ForecastsMade)."""

    AHEAD = 1
    """Simulated ahead with lengths drawn, and with limits that are scaled by what they were worth: the mean of both."""
    LIMITS = 2
    """One path with limits as lengths, scaled."""
    CLASS = 3
    """The waits of jobs of its size in its pool."""


class RunReport(Number):
    """What an agent says of a run (RunsReported.state, HostInventory.state)."""

    STARTED = 1
    EXITED = 2
    """Ended by itself; a stop did not reach it."""
    STOPPED = 3
    """Ended because a stop reached it."""
    NOT_STARTED = 4
    """Could not be started."""
    SILENCED = 5
    """Stopped by the agent because the cell was silent (on_silence: stop_after)."""
    HEALTHY = 6
    """Its health check has passed."""
    UNHEALTHY = 7
    """Its health check has failed as often as it may; it goes on until it is told to stop."""
    VANISHED = 8
    """How it ended isn't known: what held it on its host was killed, or its record there is lost."""
    SURVIVED = 9
    """It is still there, though the agent was told to kill it."""
    CANNOT_START = 10
    """Could not be started, and trying again there can't help: no such file, not executable, wrong format."""
    REVOKED = 11
    """Ended by its host, which had too little memory for those that reserved it."""
    PREPARING = 12
    """It is to start, once what it needs, such as its image, is on the host."""


LIVE_REPORTS = (RunReport.PREPARING, RunReport.STARTED, RunReport.HEALTHY, RunReport.UNHEALTHY, RunReport.SURVIVED)
"""Reports of runs that go on, in the order in which they can follow one another."""
END_REPORTS = tuple(report for report in RunReport if report not in LIVE_REPORTS)


class Outcome(Number):
    """How a run ended, as lifecycle decides it (RunsEnded.outcome) and why one is stopped (RunsStopping.cause)."""

    SUCCEEDED = 1
    FAILED = 2
    STOPPED = 3
    PREEMPTED = 4
    LOST = 5
    WITH_GANG = 6
    """Ended because another member of its gang failed."""
    REPLACED = 7
    """Ended for an update or a restart: the next run is of another version."""
    REVOKED = 8
    """Ended because its host needed for others what it was lent; its task is queued again."""
    RELOCATED = 9
    """Ended to run on another host, or to wait for its own: for maintenance, or to use hosts better."""


class RunCause(Number):
    """Why a run was to end (the column `why` of RunsStopping and RunsEnded)."""

    NONE = 0
    REMOVE = 1
    STOP = 2
    """The user stops it."""
    JOB_END = 3
    """The controller of its job is over."""
    RUN_LIMIT = 4
    """It has run for max_runtime."""
    HEALTH = 5
    START_LATE = 6
    """It isn't ready within start_deadline."""
    PREEMPT = 7
    GANG = 8
    """A member of its gang ended before its time."""
    DRAIN = 9
    UPDATE = 10
    """An update, a roll-back or a restart takes its instance to another version."""
    HOLD = 11
    """Its job is held; it was queued."""
    CANNOT_START = 12
    """Its host can't start it, and trying again there can't help."""
    REVOKED = 13
    """It is revocable, and its host needs what it was lent."""
    EVICT = 14
    """The drain of its host is forced."""


class Stage(Number):
    """The stages of the maintenance of a host, which HostMaintenanceChanged says."""

    UP = 0
    CORDONED = 1
    """New tasks are kept away, except those that are bound there."""
    DRAINING = 2
    """Services leave as budgets allow, batch tasks end by themselves."""
    DRAINING_BATCH = 3
    """Preemptible batch tasks leave as well."""
    FORCING = 4
    """All that is left is ended, whatever budgets say."""
    DRAINED = 5
    """Nothing runs there, and nothing is started there."""
    CHECKING = 6
    """The work is done; it takes tasks when it is found well."""


class Step(Number):
    """Where a host is in its campaign (HostMaintenanceChanged.step)."""

    NONE = 0
    PENDING = 1
    DRAIN = 2
    WORK = 3
    CHECK = 4
    DONE = 5
    FAILED = 6
    SKIPPED = 7


class Counts(Number):
    """Whose failure an end of a run is (RunsEnded.counts_as)."""

    NOTHING = 0
    TASK = 1
    HOST = 2


class Overdue(Number):
    """Which deadline of a run has passed (RunsOverdue.what)."""

    RUN_LIMIT = 1
    START = 2
    STOP = 3


class Hearing(Number):
    """Whether a host is heard (HostHearingChanged.hearing)."""

    HEARD = 1
    SILENT = 2
    LOST = 3


class Way(Number):
    """By what right a run leaves (the column `way` of PreemptionAsked and PreemptionsOrdered)."""

    OWN = 1
    """It is of the gang's own pool, and of lower priority or borrowed."""
    GIVE = 2
    """Its pool holds more than its entitlement, the gang's pool less."""
    MOVE = 3
    """It has a place elsewhere at once."""
    CLEAR = 4
    """It is of another pool and has run for its slice; so hosts are cleared for what fits between nothing."""
    LIMIT = 5
    """It holds what a limit or a licence leaves for the gang."""
    SHRUNK = 6
    """Its host offers less than its runs hold."""


class TaskState(Number):
    """Where a task is, in lifecycle and in the views."""

    NONE = 0
    QUEUED = 1
    """Waits for admission and a place."""
    ORDERED = 2
    """Assigned to a host, which was told to start it."""
    RUNNING = 3
    STOPPING = 4
    BACKOFF = 5
    """Waits before its next run."""
    SUCCEEDED = 6
    FAILED = 7
    KILLED = 8


class UpdateStep(Number):
    """How far an update is with an instance."""

    PENDING = 1
    IN_FLIGHT = 2
    """Being updated."""
    DONE = 3
    FAILED = 4
    """It has failed as often as it may."""
    NO_PROGRESS = 5
    """It has failed: it found no place within the progress deadline."""
    LEFT_OUT = 6
    """It is bound to a host that is lost, and comes to the new version when that is back."""


class UpdateState(StrEnum):
    """The state of an update of a job."""

    ROLLING = "ROLLING"
    CANARY = "CANARY"
    """Its first instances are done; the others wait for its promotion."""
    SUCCEEDED = "SUCCEEDED"
    ROLLED_BACK = "ROLLED_BACK"
    """It failed, and another update goes back to the version before."""
    FAILED = "FAILED"
    ABORTED = "ABORTED"


LIVE_TASKS = (TaskState.ORDERED, TaskState.RUNNING, TaskState.STOPPING)
"""Those of which a host has a run, or is to have one."""
IN_USE_TASKS = (TaskState.QUEUED, *LIVE_TASKS)
"""Those that count against `max_running` of their job."""
ENDED_TASKS = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED)


class JobState(StrEnum):
    """The state of a job, computed from its tasks (Peloton's names)."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    KILLING = "KILLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"


ENDED_JOBS = (JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED)


class Code(StrEnum):
    """Codes of answers, refusals and waits, in the order of precedence. `events/reasons.py` has the row of each."""

    DONE = "DONE"
    REPEATED = "REPEATED"
    # the job itself
    INVALID_SPEC = "INVALID_SPEC"
    UNKNOWN_RESOURCE = "UNKNOWN_RESOURCE"
    """A resource is named that the cell doesn't know."""
    TOO_LARGE = "TOO_LARGE"
    IMAGE_UNPINNED = "IMAGE_UNPINNED"
    """The image of the job is named by a tag alone, and nobody could look up its digest."""
    IMAGE_NO_ROOM = "IMAGE_NO_ROOM"
    """The disk of a host has no room for the image of a run."""
    SECRET_MISSING = "SECRET_MISSING"
    """The job names a secret that isn't in the store, or a version that isn't there any more."""
    SECRETS_AWAY = "SECRETS_AWAY"
    """The store of secrets can't be reached."""
    SLACK_OFF = "SLACK_OFF"
    """The job is revocable, and the cell lends no slack."""
    ID_TAKEN = "ID_TAKEN"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_ENDED = "ALREADY_ENDED"
    NEEDS_FORCE = "NEEDS_FORCE"
    """The job has tasks that haven't ended; it is deleted with force only."""
    BEING_DELETED = "BEING_DELETED"
    """The job is to be forgotten as soon as its tasks have ended."""
    VOLUME_IN_USE = "VOLUME_IN_USE"
    """The task of a volume stays on its host, and is to find it there."""
    OVERRIDES_MISSING = "OVERRIDES_MISSING"
    """The job names overrides that weren't uploaded before it, or can't be read."""
    VERSION_CONFLICT = "VERSION_CONFLICT"
    """The job has another version than the command expects."""
    NO_SUCH_VERSION = "NO_SUCH_VERSION"
    """The job never had that version, or it is kept no longer."""
    NOT_UPDATABLE = "NOT_UPDATABLE"
    """A field is to change that stays as it is for as long as the job lives."""
    NO_UPDATE = "NO_UPDATE"
    """No update of the job is in progress."""
    NO_CANARY = "NO_CANARY"
    """The update of the job has no canary to be promoted."""
    MAX_FAILURES = "MAX_FAILURES"
    """So many instances failed on the new version that the update failed."""
    STALLED = "STALLED"
    """Instances that failed take up all that may be updated at a time: the update failed."""
    NO_PROGRESS = "NO_PROGRESS"
    """Instances found no place within the progress deadline of their update."""
    BLOCKED = "BLOCKED"
    """Sla let nothing go on for so long that the update failed."""
    ABORTED = "ABORTED"
    """A user aborted the update."""
    OVERRIDDEN = "OVERRIDDEN"
    """A newer update took the place of this one."""
    UPDATE_PAUSED = "UPDATE_PAUSED"
    """The update of the job takes no more instances until a user resumes it."""
    UPDATE_AWAITS_PROMOTION = "UPDATE_AWAITS_PROMOTION"
    """The canary of the update is done, the other instances wait for its promotion."""
    UPDATE_AWAITS_IMAGE = "UPDATE_AWAITS_IMAGE"
    """Hosts pull the image of the update, which takes no instance before."""
    UPDATING = "UPDATING"
    """An update of the job goes on."""
    HELD = "HELD"
    """The job is held: tasks that wait stay where they are until a user releases it."""
    MAX_RUNNING = "MAX_RUNNING"
    """As many tasks of the job are queued or run as may at a time (`max_running`)."""
    STARTS_IN_ORDER = "STARTS_IN_ORDER"
    """Tasks of a stateful job wait until the one before each of them is available."""
    RUN_FAILED = "RUN_FAILED"
    """A run failed, and no retry is left."""
    CRASH_LOOP = "CRASH_LOOP"
    """A task of a service failed again and again, or can't be started; it is tried again with growing pauses."""
    RUN_LIMIT = "RUN_LIMIT"
    """Tasks ran for as long as they may (`max_runtime`)."""
    STOPPED = "STOPPED"
    """A user stopped tasks."""
    CONTROLLER_OVER = "CONTROLLER_OVER"
    """Tasks were stopped when the controller of their job was over."""
    WRONG_CELL = "WRONG_CELL"
    # pool and policy
    NO_SUCH_POOL = "NO_SUCH_POOL"
    POOL_NOT_A_LEAF = "POOL_NOT_A_LEAF"
    POOL_IN_USE = "POOL_IN_USE"
    INVALID_POOL = "INVALID_POOL"
    INVALID_SETTINGS = "INVALID_SETTINGS"
    INVALID_ACCESS = "INVALID_ACCESS"
    """A binding, a token or a lockdown breaks a rule."""
    NO_SUCH_BINDING = "NO_SUCH_BINDING"
    NO_SUCH_TOKEN = "NO_SUCH_TOKEN"
    OPEN_JOBS_MAX = "OPEN_JOBS_MAX"
    OPEN_TASKS_MAX = "OPEN_TASKS_MAX"
    LIMIT_REACHED = "LIMIT_REACHED"
    """The pool, or one above, has a limit that would be exceeded."""
    RESERVATION_REACHED = "RESERVATION_REACHED"
    """Work that isn't preemptible stays within the reservation."""
    POOL_CLOSED = "POOL_CLOSED"
    """The pool admits nothing more."""
    CONTROLLER_LIMIT_REACHED = "CONTROLLER_LIMIT_REACHED"
    """Controllers hold as much of the pool's entitlement as they may."""
    ENTITLEMENT_REACHED = "ENTITLEMENT_REACHED"
    """The pool holds all it may use now; others use the rest."""
    SLACK_REACHED = "SLACK_REACHED"
    """The revocable work of the pool holds all that it may use now of the slack, or beside it."""
    SAVING_FOR_TURN = "SAVING_FOR_TURN"
    """It needs more than the share of its pool, which saves for it."""
    HOST_POOLS_FULL = "HOST_POOLS_FULL"
    """The host pools of its pool hold no more."""
    SHARE_OF_NOTHING = "SHARE_OF_NOTHING"
    """Its pool has a share of 0: it is served after all others."""
    BEHIND_IN_QUEUE = "BEHIND_IN_QUEUE"
    # shape
    HOST_POOLS_TOO_SMALL = "HOST_POOLS_TOO_SMALL"
    """It needs more than the host pools of its pool hold, even when empty."""
    NEVER_FITS = "NEVER_FITS"
    """No host could hold it even when empty."""
    CONSTRAINT_MISMATCH = "CONSTRAINT_MISMATCH"
    """No host has the attributes asked for."""
    HOSTS_TAINTED = "HOSTS_TAINTED"
    """All hosts that have them have taints that it doesn't tolerate."""
    HOSTS_EXCLUSIVE = "HOSTS_EXCLUSIVE"
    """All hosts that have them take only tasks that name them."""
    OUTSIDE_HOST_POOLS = "OUTSIDE_HOST_POOLS"
    """All hosts that have them are in host pools that it may not use."""
    # now
    NO_HOST_FITS = "NO_HOST_FITS"
    """Hosts could hold it, but not with what runs on them now."""
    GANG_INCOMPLETE = "GANG_INCOMPLETE"
    """A part of the gang fits, not the whole."""
    HOST_LIMIT_REACHED = "HOST_LIMIT_REACHED"
    """Hosts with room have as many tasks of the job as it allows on each."""
    AFFINITY_UNMET = "AFFINITY_UNMET"
    """Hosts with room aren't beside tasks with the labels that it wants."""
    KEPT_APART = "KEPT_APART"
    """Hosts with room are beside tasks from which it is kept apart."""
    NO_DEVICES_FIT = "NO_DEVICES_FIT"
    """Hosts with room have the amounts, but not on the devices, cores or groups of them that a task asks."""
    SPREAD_LIMIT = "SPREAD_LIMIT"
    """Hosts with room have as much of the job as its spread allows."""
    NO_EMPTY_HOST = "NO_EMPTY_HOST"
    """It wants hosts for itself, and those with room have tasks of other jobs."""
    WINDOW_TOO_SOON = "WINDOW_TOO_SOON"
    """It isn't to be disturbed, and hosts with room are emptied before it is sure to be over."""
    NO_GROUP_FITS = "NO_GROUP_FITS"
    """Its tasks would fit, but not on hosts that have one value of an attribute."""
    NO_HOSTS = "NO_HOSTS"
    BOUND_HOST_BUSY = "BOUND_HOST_BUSY"
    """The only host that it may run on has no room now, or isn't heard."""
    BOUND_HOST_LOST = "BOUND_HOST_LOST"
    """The only host that it may run on is lost."""
    BOUND_HOST_IN_MAINTENANCE = "BOUND_HOST_IN_MAINTENANCE"
    """The only host that it may run on is being drained, or is drained."""
    BACKOFF = "BACKOFF"
    """Returned for want of a place; tried again later."""
    WAITING_FOR_PREEMPTION = "WAITING_FOR_PREEMPTION"
    """Others are asked to leave for it."""
    # why others had to leave
    BELOW_RESERVATION = "BELOW_RESERVATION"
    """Preempted: the other pool is below its reservation."""
    BELOW_ENTITLEMENT = "BELOW_ENTITLEMENT"
    """Preempted: the other pool is below its entitlement."""
    HIGHER_PRIORITY = "HIGHER_PRIORITY"
    """Preempted: work of higher priority in the same pool waited, or this one was borrowed."""
    HOSTS_CLEARED = "HOSTS_CLEARED"
    """Preempted or moved: free capacity lay in pieces too small for a gang that waited long."""
    REBALANCED = "REBALANCED"
    """Moved: an operator wanted room for a job that waited, or the cell lets that be asked for."""
    FOR_DAEMON = "FOR_DAEMON"
    """Preempted: a daemon runs on every host that matches."""
    HOST_SHRUNK = "HOST_SHRUNK"
    """A host offers less than its runs hold; or preempted: that was so on its host."""
    # why a run stays
    VICTIM_GONE = "VICTIM_GONE"
    """It is over, leaving already, or has no place."""
    NON_PREEMPTIBLE = "NON_PREEMPTIBLE"
    CAP_REACHED = "CAP_REACHED"
    """It was preempted as often in this hour as a task may be."""
    MOVES_REACHED = "MOVES_REACHED"
    """As many tasks are moved for a job that waits as whoever asked for room allows, or the cell in an hour."""
    SLICE_NOT_OVER = "SLICE_NOT_OVER"
    """It takes more than what its pool holds above its entitlement, and is protected for a while."""
    NO_RIGHT = "NO_RIGHT"
    """Its pool need not give so much to this gang."""
    NOT_NEEDED = "NOT_NEEDED"
    """The gang fits without what it would give."""
    # turns and reserved hosts
    STARTED = "STARTED"
    ENDED = "ENDED"
    SLICE_USED = "SLICE_USED"
    GIVEN_UP = "GIVEN_UP"
    RESERVED = "RESERVED"
    PLACED = "PLACED"
    IN_VAIN = "IN_VAIN"
    """Hosts were reserved for a gang for as long as that may be, and it found no place."""
    WITHDRAWN = "WITHDRAWN"
    HOSTS_RESERVED = "HOSTS_RESERVED"
    """Hosts are reserved for it: what ends there is kept."""
    HELD_FOR_OTHERS = "HELD_FOR_OTHERS"
    """What is free is kept for work that others left for."""
    HOSTS_SUSPECTED = "HOSTS_SUSPECTED"
    """Only hosts have room that are avoided for a time."""
    HOSTS_IN_MAINTENANCE = "HOSTS_IN_MAINTENANCE"
    """Only hosts have room that are cordoned, drained or about to be."""
    WAITING_FOR_HOST = "WAITING_FOR_HOST"
    """The host where it ran, which is kept for it for a time, takes nothing now."""
    LEFT = "LEFT"
    """All runs of an order to preempt are over."""
    DEFERRED = "DEFERRED"
    """Sla would not have runs of an order to preempt leave now: none of that order leaves."""
    VOID = "VOID"
    """No run of an order to preempt could be preempted: each was over, or in an earlier order."""
    SLA_BUDGET_SPENT = "SLA_BUDGET_SPENT"
    """As many instances are unavailable as the job allows."""
    SLA_RATE_REACHED = "SLA_RATE_REACHED"
    """As many instances were disrupted for others within an hour as the job allows."""
    SLA_GROUP_SPENT = "SLA_GROUP_SPENT"
    """As many instances are unavailable as the group of the job allows to all its jobs."""
    SLA_NEVER_ALLOWS = "SLA_NEVER_ALLOWS"
    """The SLA of the job, or its group, can't ever let it leave."""
    WAITS_FOR_REPLACEMENT = "WAITS_FOR_REPLACEMENT"
    """It leaves when another instance has taken its place."""
    OUTSIDE_WINDOW = "OUTSIDE_WINDOW"
    """The job may be disrupted for others only at other times."""
    RUNS_TO_ITS_END = "RUNS_TO_ITS_END"
    """A batch task on a host that drains ends by itself."""
    LEAVES_LAST = "LEAVES_LAST"
    """A task that is bound to a host that drains leaves when nothing else is there."""
    # hosts
    SILENT = "SILENT"
    CONFIRMED = "CONFIRMED"
    GRACE_PASSED = "GRACE_PASSED"
    NOT_SILENT = "NOT_SILENT"
    """The host is heard; only a silent one can be declared lost by hand."""
    HOST_CONNECTED = "HOST_CONNECTED"
    """The host is heard, or comes back just now; only one that has left can be removed."""
    RUNS_LEFT = "RUNS_LEFT"
    """Runs that are not over hold something of the host."""
    ASKED = "ASKED"
    STAYED_AWAY = "STAYED_AWAY"
    FAILS_AT_ONCE = "FAILS_AT_ONCE"
    """Runs of several jobs failed at once on the host, and none went well."""
    STOP_NOT_OBEYED = "STOP_NOT_OBEYED"
    """A run on the host is still there after its stop deadline."""
    TIME_PASSED = "TIME_PASSED"
    """The host was avoided for long enough."""
    TOO_MANY_SUSPECTED = "TOO_MANY_SUSPECTED"
    """No more hosts are avoided at a time."""
    TOO_MANY_UNHEALTHY = "TOO_MANY_UNHEALTHY"
    NOT_AVOIDED = "NOT_AVOIDED"
    """The host takes tasks as it is."""
    NOT_TAINTED = "NOT_TAINTED"
    """No operator gave the host that taint."""
    INVALID_TAINT = "INVALID_TAINT"
    """Key or value can't be those of a taint, or the host has too many."""
    TOO_FEW_HOSTS = "TOO_FEW_HOSTS"
    """Fewer hosts can go to another host pool than are asked for."""
    MOVED = "MOVED"
    """The host is empty, and in the host pool that it was to go to."""
    LOAD_ABOVE = "LOAD_ABOVE"
    """The load of a host pool was above the bound of its policy for long enough."""
    LOAD_BELOW = "LOAD_BELOW"
    """It was below the bound for long enough."""
    HOST_POOL_IN_USE = "HOST_POOL_IN_USE"
    """Hosts are in the host pool, so it isn't removed."""
    HOST_IN_CAMPAIGN = "HOST_IN_CAMPAIGN"
    """A campaign has the host: of what operators ask only its resumption is done."""
    HOST_DRAINING = "HOST_DRAINING"
    """The host drains or is drained; that ends by its resumption."""
    HOSTS_BUSY = "HOSTS_BUSY"
    """Another campaign has some of the hosts."""
    WRONG_STATE = "WRONG_STATE"
    """The campaign isn't in a state in which that can be done."""
    FORCE_NOT_ALLOWED = "FORCE_NOT_ALLOWED"
    """The cell doesn't let operators end runs by force."""
    DEADLINE = "DEADLINE"
    """The deadline of a drain has passed."""
    FORCED = "FORCED"
    """The rest of what runs on the host is ended, whatever budgets say."""
    EMPTY = "EMPTY"
    """Nothing is left on the host."""
    WINDOW = "WINDOW"
    """A window of maintenance opens or closes."""
    CAMPAIGN = "CAMPAIGN"
    """A campaign goes on with the host."""
    CONDITION = "CONDITION"
    """A check of the host says that it isn't well, or that it is well again."""
    TAINTED = "TAINTED"
    """A taint lets runs leave that don't tolerate it."""
    STUCK = "STUCK"
    """The host drained for so long that its campaign leaves it out."""
    RESUMED = "RESUMED"
    """An operator takes the host back."""
    WORK_DONE = "WORK_DONE"
    """The work on the host is done."""
    CHECKED = "CHECKED"
    """The host is up and well after the work."""
    FAILED = "FAILED"
    """The work on the host, or its check, took too long."""
    FAILURES = "FAILURES"
    """More hosts of a campaign failed than it allows."""
    OVER = "OVER"
    """Nothing is left to do in the campaign."""
    SAME_BOOT = "SAME_BOOT"
    """The host was to be restarted, and has the boot that it had when it was empty."""
    WORK_LATE = "WORK_LATE"
    """The work on the host takes longer than its campaign lets it."""
    CHECK_FAILED = "CHECK_FAILED"
    """The host isn't up and well so long after the work."""
    HOST_REMOVED = "HOST_REMOVED"
    """The host was removed while a campaign had it."""
    NO_ROOM_ELSEWHERE = "NO_ROOM_ELSEWHERE"
    """The tasks that would leave the next host of the campaign have no room on others."""
    TOO_MANY_DOWN = "TOO_MANY_DOWN"
    """More hosts are away than the campaign allows while it starts others."""
    HOSTS_CANNOT_START = "HOSTS_CANNOT_START"
    """Only hosts are left that are cordoned, drained or away."""
    LICENCE = "LICENCE"
    """The cell has the resource as a licence, which no host offers."""
    WRONG_UNIT = "WRONG_UNIT"
    """The cell counts the resource in another unit than the host."""
    # what users do inside runs
    EXEC_OFF = "EXEC_OFF"
    """Runs of the cell can't be entered."""
    RUN_ENDED = "RUN_ENDED"
    """The run that was to be entered, or was, goes on no more."""
    TOO_MANY_SESSIONS = "TOO_MANY_SESSIONS"
    """So many commands and connections go on that no more may begin."""
    EXEC_FAILED = "EXEC_FAILED"
    """The host couldn't start the command in the run."""
    PORT_CLOSED = "PORT_CLOSED"
    """Nothing of the run answers at the port."""
    SESSION_IDLE = "SESSION_IDLE"
    """Nothing was typed or written for long."""
    CONNECTION_LOST = "CONNECTION_LOST"
    """The connection between a user and the inside of a run is gone."""
    # the cell itself
    STARTING = "STARTING"
    """Tasks were ordered on hosts, and aren't ready yet."""
    STOPPING = "STOPPING"
    """Tasks were told to stop, and aren't over yet."""
    HOST_SILENT = "HOST_SILENT"
    """Tasks run on hosts that aren't heard, as far as is known."""
    NOT_YET_EVALUATED = "NOT_YET_EVALUATED"
    """Nothing was decided about it yet."""


IN_EFFECT = (Code.DONE, Code.REPEATED)
"""Answers by which something is as a command wants it, by this command or by one before."""

VERDICT_CODES = (
    Code.SLA_BUDGET_SPENT,
    Code.SLA_RATE_REACHED,
    Code.SLA_GROUP_SPENT,
    Code.SLA_NEVER_ALLOWS,
    Code.WAITS_FOR_REPLACEMENT,
    Code.OUTSIDE_WINDOW,
)
"""The codes by which sla lets a disruption wait. Their places stand in its rows: a new one is the last."""
