"""The table of reasons: for each code its tier, who can act on it, its sentence and remedy, its place among the reasons
of a job, and the numbers that are shown with it. A test compares `docs/reasons.md` with the rows (decision 064).

Parts of a sentence that depend on the numbers of a wait are added where a job is explained
(`projections/queries/explain.py`).
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from events.codes import Code
from events.resources import Amounts

YOU: Final = "you"
POOL_OWNER: Final = "pool owner"
OPERATOR: Final = "operator"
WAIT: Final = "nobody, wait"
"""The actors: those who can change something about a reason."""


class Tier(StrEnum):
    """The part of the system that a reason belongs to."""

    JOB = "job"
    POOL = "pool"
    SHAPE = "shape"
    NOW = "now"
    HOSTS = "hosts"
    CELL = "cell"


class Precedence(IntEnum):
    """The classes of reasons, in the order in which they are shown; in a class the reason of most tasks is first."""

    ACT = 0
    """A user has to act: the job is held, its update failed, or it fails again and again."""
    WAIT = 1
    BEHIND = 2
    """Tasks wait only behind others, or nothing is known."""
    MOVING = 3
    """Tasks start or stop."""
    OVER = 4
    """Tasks are over: nothing waits for that."""


BY_POOL = ("asked", "allocated", "entitlement", "limit")
"""Numbers that entitlement gives with what it holds."""


POOL: Final = "pool"
"""Entitlement doesn't admit tasks."""
HOST: Final = "host"
"""Placement finds no host, and has the numbers; entitlement holds by it the tasks that placement gave back."""
EITHER: Final = "either"


class ReasonKind(NamedTuple):
    """The row of a code: all that its reasons have in common.

    In `sentence` and `remedy`, {tasks}, {s}, {it}, {them}, {theirs}, {is} and {were} are of the tasks that it is about;
    {pool} is the pool that says no.
    """

    code: Code
    actor: str = ""
    """One of the actors; empty: there is nothing to act on."""
    remedy: str = ""
    """An action or event that would change it."""
    sentence: str = ""
    winner: str = ""
    """The job that a run leaves for by this code, {for_job} of {for_pool}."""
    stays: str = ""
    """Why a run stays that was to be preempted."""
    precedence: Precedence = Precedence.WAIT
    numbers: tuple[str, ...] = BY_POOL
    """Those shown of what entitlement holds; `reserved` is the limit of work that isn't preemptible."""
    waits: str = ""
    """The machine that queued tasks wait for by it, one of the three above; empty: none."""
    lasting: bool = False
    """Tasks stand aside until hosts change: nobody waits behind them."""
    full: bool = False
    """The pool uses all that it may: who holds most of that is told."""
    bound: bool = False
    """It is about the only host that tasks may have: other hosts don't help."""
    passes: bool = False
    """It passes when tasks end, too, though its actor could change it at once."""
    tier: Tier = Tier.CELL


_UPDATE_AGAIN = "look at the output of its tasks, correct the job and update it again"
_PLACE = "it goes on when tasks end or hosts are added"
_CLEAR = "`paceline host clear` ends it"

# fmt: off
_JOB = (
    ReasonKind(Code.DONE),
    ReasonKind(Code.REPEATED),
    ReasonKind(Code.INVALID_SPEC, YOU, "submit it again, corrected"),
    ReasonKind(Code.UNKNOWN_RESOURCE, YOU, "correct the name, or have the resource added to the cell"),
    ReasonKind(Code.TOO_LARGE, YOU, "submit it again, smaller"),
    ReasonKind(Code.IMAGE_UNPINNED, YOU, "name the image by its digest, or submit the job when the registry answers"),
    ReasonKind(Code.IMAGE_NO_ROOM, OPERATOR, "make room on the disk of the host, or lower its images_max"),
    ReasonKind(Code.SECRET_MISSING, YOU, "put the secret, then submit or update the job"),
    ReasonKind(Code.SECRETS_AWAY, OPERATOR, "mend the store of secrets, or its way to the gateways"),
    ReasonKind(Code.SLACK_OFF, YOU, "submit it without revocable, or have the cell lend slack: "
               "`paceline cell set slack=on`"),
    ReasonKind(Code.ID_TAKEN, YOU, "choose another id"),
    ReasonKind(Code.NOT_FOUND, YOU),
    ReasonKind(Code.ALREADY_ENDED),
    ReasonKind(Code.NEEDS_FORCE, YOU),
    ReasonKind(Code.BEING_DELETED, WAIT),
    ReasonKind(Code.VOLUME_IN_USE, YOU),
    ReasonKind(Code.OVERRIDES_MISSING, YOU),
    ReasonKind(Code.VERSION_CONFLICT, YOU),
    ReasonKind(Code.NO_SUCH_VERSION, YOU),
    ReasonKind(Code.NOT_UPDATABLE, YOU),
    ReasonKind(Code.NO_UPDATE, YOU),
    ReasonKind(Code.NO_CANARY),
    ReasonKind(Code.MAX_FAILURES, YOU, _UPDATE_AGAIN, precedence=Precedence.ACT),
    ReasonKind(Code.STALLED, YOU, _UPDATE_AGAIN, precedence=Precedence.ACT),
    ReasonKind(Code.NO_PROGRESS, YOU),
    ReasonKind(Code.BLOCKED, YOU, "see why instances are unavailable, and update it again",
               precedence=Precedence.ACT),
    ReasonKind(Code.ABORTED),
    ReasonKind(Code.OVERRIDDEN),
    ReasonKind(Code.UPDATE_PAUSED, YOU, "`paceline job resume` lets it go on"),
    ReasonKind(Code.UPDATE_AWAITS_PROMOTION, YOU, "`paceline job promote` lets it go on"),
    ReasonKind(Code.UPDATE_AWAITS_IMAGE, WAIT),
    ReasonKind(Code.UPDATING, WAIT, precedence=Precedence.BEHIND),
    ReasonKind(Code.HELD, YOU, "`paceline job release {job_id}` lets {them} go on",
               "the job is held: {tasks} wait{s} until it is released",
               precedence=Precedence.ACT),
    ReasonKind(Code.MAX_RUNNING, YOU, "a higher max_running helps",
               "{tasks} wait{s}: max_running is {max_running}, and {in_use}", precedence=Precedence.BEHIND),
    ReasonKind(Code.STARTS_IN_ORDER, WAIT, "each starts once the one before it is available",
               "{tasks} wait{s} for the one before to be up (a stateful job starts in order)",
               precedence=Precedence.BEHIND),
    ReasonKind(Code.RUN_FAILED, YOU, "look at the output of the task, or allow retries"),
    ReasonKind(Code.CRASH_LOOP, YOU, _UPDATE_AGAIN, precedence=Precedence.ACT),
    ReasonKind(Code.RUN_LIMIT, YOU, sentence="{some} ran for as long as {it} may", precedence=Precedence.OVER),
    ReasonKind(Code.STOPPED, YOU, "`paceline job start {job_id}` starts {them} again",
               "{some} {were} stopped by a user", precedence=Precedence.OVER),
    ReasonKind(Code.CONTROLLER_OVER, YOU,
               sentence="{some} {were} stopped since the controller of the job was over", precedence=Precedence.OVER),
    ReasonKind(Code.WRONG_CELL, YOU, "submit it to the right cell"),
)
_POOL = (
    ReasonKind(Code.NO_SUCH_POOL, YOU, "choose another pool, or define this one",
               "{tasks} wait{s} because there is no pool {pool} any more", waits=POOL),
    ReasonKind(Code.POOL_NOT_A_LEAF, YOU, "choose a pool below it"),
    ReasonKind(Code.POOL_IN_USE, POOL_OWNER),
    ReasonKind(Code.INVALID_POOL, POOL_OWNER),
    ReasonKind(Code.INVALID_SETTINGS, OPERATOR),
    ReasonKind(Code.INVALID_ACCESS, YOU),
    ReasonKind(Code.NO_SUCH_BINDING, YOU),
    ReasonKind(Code.NO_SUCH_TOKEN, YOU),
    ReasonKind(Code.OPEN_JOBS_MAX, POOL_OWNER, "wait for a job to end, or raise open_jobs_max", passes=True),
    ReasonKind(Code.OPEN_TASKS_MAX, POOL_OWNER, "wait for jobs to end, or raise open_tasks_max", passes=True),
    ReasonKind(Code.LIMIT_REACHED, POOL_OWNER, "raise the limit, or wait until tasks of the pool end",
               "{tasks} would exceed the limit of pool {pool}",
               "job {for_job} of pool {for_pool}, under the limit that both share", passes=True, waits=POOL),
    ReasonKind(Code.RESERVATION_REACHED, POOL_OWNER, "raise the reservation, or make the job preemptible",
               "{tasks} that must not be preempted would exceed the reservation of pool {pool}",
               numbers=("asked", "allocated", "entitlement", "reserved"), passes=True, waits=POOL),
    ReasonKind(Code.POOL_CLOSED, POOL_OWNER, "open it: `paceline pool open {pool}`",
               "{tasks} wait{s}: pool {pool} is closed and admits nothing", waits=POOL),
    ReasonKind(Code.CONTROLLER_LIMIT_REACHED, POOL_OWNER, "raise controllers_percent, or wait until controllers end",
               "{tasks} wait{s}: controllers hold as much of pool {pool} as they may", passes=True, waits=POOL),
    ReasonKind(Code.ENTITLEMENT_REACHED, WAIT,
               "it goes on when others need less; a larger share or reservation helps",
               "{tasks} wait{s}: pool {pool} uses all that it may", waits=POOL, full=True),
    ReasonKind(Code.SLACK_REACHED, WAIT,
               "it goes on when hosts lend more, or others that run on slack end; a larger slack_percent may help",
               "{tasks} wait{s}: revocable work of pool {pool} holds all that hosts lend to it", waits=POOL),
    ReasonKind(Code.SAVING_FOR_TURN, WAIT, "it has its turn when that suffices; a larger share or reservation helps",
               "{tasks} need{s} more than the share of pool {pool}, which saves for it", waits=POOL, full=True),
    ReasonKind(Code.HOST_POOLS_FULL, OPERATOR,
               "it goes on when work there ends; or move hosts there: `paceline host-pool assign`",
               "{tasks} wait{s}: the host pools of pool {pool} hold no more",
               numbers=("asked", "allocated", "entitlement", "limit"), waits=POOL, full=True),
    ReasonKind(Code.SHARE_OF_NOTHING, POOL_OWNER, "give the pool a share or a reservation, or wait",
               "{tasks} wait{s}: pool {pool} has a share of 0, so it is served after all others", waits=POOL),
    ReasonKind(Code.BEHIND_IN_QUEUE, WAIT, "its turn comes; a higher priority helps",
               "{tasks} wait{s} behind others in the queue of pool {pool}", precedence=Precedence.BEHIND, waits=POOL),
)
_SHAPE = (
    ReasonKind(Code.HOST_POOLS_TOO_SMALL, OPERATOR,
               "ask for less, or move hosts there: `paceline host-pool assign`, or name more host pools in the pool",
               "{tasks} ask{s} for more than the host pools of pool {pool} hold, even if nothing else ran",
               numbers=("asked", "limit"), waits=EITHER, lasting=True),
    ReasonKind(Code.NEVER_FITS, YOU, "ask for less, or add larger hosts",
               "{tasks} fit{s} no host, even when it is empty", numbers=("asked", "limit"), waits=HOST,
               lasting=True),
    ReasonKind(Code.CONSTRAINT_MISMATCH, YOU, "change the constraints, or add hosts with these attributes",
               "{tasks} ask{s} for attributes that no host has", waits=HOST, lasting=True),
    ReasonKind(Code.HOSTS_TAINTED, YOU,
               "tolerate the taints: `tolerations` of the job; `paceline host taint HOST KEY --remove` takes one off",
               "{tasks} find{s} only hosts with taints that the job doesn't tolerate", waits=HOST, lasting=True),
    ReasonKind(Code.HOSTS_EXCLUSIVE, YOU, "name them by a constraint on `exclusive`, or add other hosts",
               "{tasks} find{s} only hosts that take tasks that name them alone", waits=HOST, lasting=True),
    ReasonKind(Code.OUTSIDE_HOST_POOLS, OPERATOR,
               "assign hosts to a host pool that it may use: `paceline host-pool assign`; or let its pool use theirs: "
               "`host_pools` of the pool",
               "{tasks} find{s} room only on hosts of host pools that the job may not use", waits=HOST, lasting=True),
)
_NOW = (
    ReasonKind(Code.NO_HOST_FITS, WAIT, _PLACE, "{tasks} find{s} no room on any host now", waits=HOST),
    ReasonKind(Code.GANG_INCOMPLETE, WAIT, "it goes on when there is room for the whole gang; a smaller gang helps",
               "there is room for {fit} of the {size} tasks of the gang now, not for the whole", waits=HOST),
    ReasonKind(Code.HOST_LIMIT_REACHED, YOU, "raise `host_limit`, or wait for hosts without tasks of the job",
               "{tasks} find{s} room only on hosts with as many tasks of the job as `host_limit` allows", waits=HOST),
    ReasonKind(Code.AFFINITY_UNMET, YOU, "it goes on when tasks with these labels run where there is room",
               "{tasks} find{s} no room beside tasks with the labels of `affinity`", waits=HOST),
    ReasonKind(Code.KEPT_APART, YOU, "it goes on when those tasks end, or other hosts have room",
               "the only free room for {tasks} is next to tasks that {it} must stay away from", waits=HOST),
    ReasonKind(Code.NO_DEVICES_FIT, WAIT,
               "it goes on when tasks there end; a smaller share, fewer cores or more models help",
               "no host with room has the devices or cores for {tasks} on one card, or in one group", waits=HOST),
    ReasonKind(Code.SPREAD_LIMIT, YOU, "raise `skew`, or add hosts where the job has least",
               "{tasks} find{s} room only where the job has as much as its `spread` allows", waits=HOST),
    ReasonKind(Code.NO_EMPTY_HOST, WAIT, "it goes on when the tasks of other jobs on a host end",
               "{tasks} find{s} room only beside tasks of other jobs, and this job or theirs is `exclusive`",
               waits=HOST),
    ReasonKind(Code.WINDOW_TOO_SOON, WAIT, "it goes on when the windows of hosts have closed; a `max_runtime` helps",
               "{tasks} find{s} room only on hosts that a window of maintenance empties before the end is sure",
               waits=HOST),
    ReasonKind(Code.NO_GROUP_FITS, YOU, "a smaller gang helps, or more hosts with one value of that attribute",
               "no single {within} holds all {size} tasks of the gang", waits=HOST),
    ReasonKind(Code.NO_HOSTS, OPERATOR, "connect hosts",
               "{tasks} wait{s} because the cell has no host that takes tasks", waits=EITHER, lasting=True),
    ReasonKind(Code.BOUND_HOST_BUSY, WAIT, "it starts once that host has room and is connected",
               "{tasks} may run {where} ({hosts}){short_of}", waits=HOST, bound=True),
    ReasonKind(Code.BOUND_HOST_LOST, OPERATOR,
               "it goes on when the host is back; `paceline host remove HOST` says that it never comes back",
               "{tasks} may run {where} ({hosts}){short_of}", waits=HOST, lasting=True, bound=True),
    ReasonKind(Code.BOUND_HOST_IN_MAINTENANCE, OPERATOR,
               "it starts once that host is back; `paceline host resume HOST` takes it back",
               "{tasks} may run {where} ({hosts}){short_of}", waits=HOST, bound=True),
    ReasonKind(Code.BACKOFF, WAIT, sentence="{tasks} wait{s} before {it} {is} tried again", waits=HOST),
    ReasonKind(Code.WAITING_FOR_PREEMPTION, WAIT, "it goes on when they have left",
               "{tasks} wait{s} for others that are asked to leave", waits=HOST),
    ReasonKind(Code.BELOW_RESERVATION, WAIT, "it runs again when its pool is entitled to more",
               winner="job {for_job} of pool {for_pool}, which is below its reservation"),
    ReasonKind(Code.BELOW_ENTITLEMENT, WAIT, "it runs again when its pool is entitled to more",
               winner="job {for_job} of pool {for_pool}, which is below its entitlement"),
    ReasonKind(Code.HIGHER_PRIORITY, WAIT, "it runs again when there is room; a higher priority helps",
               winner="job {for_job} of the same pool, {for_pool}, which goes first"),
    ReasonKind(Code.HOSTS_CLEARED, WAIT, "it runs again where there is room",
               winner="job {for_job} of pool {for_pool}, which fits nowhere else"),
    ReasonKind(Code.REBALANCED, WAIT, "it runs again elsewhere",
               winner="job {for_job} of pool {for_pool}, for which room was asked: others are moved"),
    ReasonKind(Code.FOR_DAEMON, WAIT, "it runs again where there is room",
               winner="daemon {for_job}, which runs on every host that matches"),
    ReasonKind(Code.HOST_SHRUNK, WAIT, "it runs again where there is room",
               "it offers less than its runs hold, by {surplus}: nothing is placed there, and preemptible runs are"
               " asked to leave until the rest fits",
               winner="as the host offers less than its runs hold, or its device was set aside"),
    ReasonKind(Code.VICTIM_GONE, WAIT, stays="it had left"),
    ReasonKind(Code.NON_PREEMPTIBLE, YOU, stays="it isn't preemptible"),
    ReasonKind(Code.CAP_REACHED, WAIT, stays="it was preempted as often in this hour as it may be"),
    ReasonKind(Code.MOVES_REACHED, OPERATOR, "ask for room with a higher --max-moves, or set rebalance_moves_per_hour"),
    ReasonKind(Code.SLICE_NOT_OVER, WAIT,
               stays="it takes more than its pool holds beyond its entitlement, and its slice isn't over"),
    ReasonKind(Code.NO_RIGHT, WAIT, stays="its pool need not give so much"),
    ReasonKind(Code.NOT_NEEDED, WAIT, stays="it fits without that"),
    ReasonKind(Code.STARTED),
    ReasonKind(Code.ENDED),
    ReasonKind(Code.SLICE_USED),
    ReasonKind(Code.GIVEN_UP, WAIT),
    ReasonKind(Code.RESERVED),
    ReasonKind(Code.PLACED),
    ReasonKind(Code.IN_VAIN, WAIT),
    ReasonKind(Code.WITHDRAWN),
    ReasonKind(Code.HOSTS_RESERVED, WAIT, "it goes on when enough tasks on these hosts have ended",
               "{tasks} wait{s} for hosts that are reserved for {it}", waits=EITHER),
    ReasonKind(Code.HELD_FOR_OTHERS, WAIT, _PLACE, "{tasks} wait{s}: what is free on hosts is kept for others",
               waits=HOST),
    ReasonKind(Code.HOSTS_SUSPECTED, OPERATOR,
               "it goes on when they are avoided no longer; `paceline host clear HOST` says that one is fine",
               "{tasks} find{s} room only on suspected hosts, which are avoided for a time", waits=HOST),
    ReasonKind(Code.HOSTS_IN_MAINTENANCE, OPERATOR,
               "it goes on when they are back; `paceline host resume HOST` takes one back",
               "{tasks} find{s} room only on hosts that are cordoned or drained", waits=HOST),
    ReasonKind(Code.WAITING_FOR_HOST, WAIT, "it goes there when the host is connected again, afterwards to any other",
               "{tasks} wait{s} for the host where {it} ran, which is kept until {until}: "
               "task {instance} for {host_id}",
               waits=HOST),
    ReasonKind(Code.LEFT),
    ReasonKind(Code.DEFERRED, WAIT, "others are asked meanwhile"),
    ReasonKind(Code.VOID),
    ReasonKind(Code.SLA_BUDGET_SPENT, WAIT, "it goes on when instances are available again",
               "{tasks} {is} to leave, but the SLA of the job allows no more unavailable instances now"),
    ReasonKind(Code.SLA_RATE_REACHED, WAIT, "it goes on when the hour since earlier ones is over",
               "{tasks} {is} to leave, but the SLA of the job allows no more disruptions for others in this hour"),
    ReasonKind(Code.SLA_GROUP_SPENT, WAIT, "it goes on when instances of jobs of the group are available again",
               "{tasks} {is} to leave, but the group of the job allows no more unavailable instances now"),
    ReasonKind(Code.SLA_NEVER_ALLOWS, YOU,
               "raise max_unavailable, lower min_available, or set `replace: before` in the SLA of the job; change "
               "that of the group where one is named",
               "{tasks} {is} to leave, but the SLA of the job never allows it"),
    ReasonKind(Code.WAITS_FOR_REPLACEMENT, WAIT, "it goes on when the instance that takes its place is available",
               "{tasks} {is} to leave once {theirs} available"),
    ReasonKind(Code.OUTSIDE_WINDOW, WAIT, "it goes on when the next window of the job opens",
               "{tasks} {is} to leave, but the job may be disrupted at other times only"),
    ReasonKind(Code.RUNS_TO_ITS_END, WAIT, "`--batch move` of a drain lets preemptible ones leave"),
    ReasonKind(Code.LEAVES_LAST, WAIT),
)
_HOSTS = (
    ReasonKind(Code.SILENT, OPERATOR),
    ReasonKind(Code.CONFIRMED),
    ReasonKind(Code.GRACE_PASSED, OPERATOR),
    ReasonKind(Code.NOT_SILENT, OPERATOR),
    ReasonKind(Code.HOST_CONNECTED, OPERATOR),
    ReasonKind(Code.RUNS_LEFT, OPERATOR),
    ReasonKind(Code.ASKED),
    ReasonKind(Code.STAYED_AWAY),
    ReasonKind(Code.FAILS_AT_ONCE, OPERATOR, _CLEAR,
               "tasks of several jobs failed there at once{last}"),
    ReasonKind(Code.STOP_NOT_OBEYED, OPERATOR, _CLEAR,
               "a task is still there though it was killed{last}"),
    ReasonKind(Code.TIME_PASSED),
    ReasonKind(Code.TOO_MANY_SUSPECTED, OPERATOR),
    ReasonKind(Code.TOO_MANY_UNHEALTHY, OPERATOR),
    ReasonKind(Code.NOT_AVOIDED),
    ReasonKind(Code.NOT_TAINTED),
    ReasonKind(Code.INVALID_TAINT, OPERATOR),
    ReasonKind(Code.TOO_FEW_HOSTS, OPERATOR, "ask for fewer, or name them: `paceline host-pool move`"),
    ReasonKind(Code.MOVED),
    ReasonKind(Code.LOAD_ABOVE),
    ReasonKind(Code.LOAD_BELOW),
    ReasonKind(Code.HOST_POOL_IN_USE, OPERATOR, "assign its hosts to another one: `paceline host-pool assign`"),
    ReasonKind(Code.HOST_IN_CAMPAIGN, OPERATOR, "`paceline host resume` takes it out of the campaign"),
    ReasonKind(Code.HOST_DRAINING, OPERATOR, "`paceline host resume` ends the drain"),
    ReasonKind(Code.HOSTS_BUSY, OPERATOR, "wait for the other campaign, or abort it"),
    ReasonKind(Code.WRONG_STATE, OPERATOR),
    ReasonKind(Code.FORCE_NOT_ALLOWED, OPERATOR, "`paceline cell set drain_force=on` permits it"),
    ReasonKind(Code.DEADLINE),
    ReasonKind(Code.FORCED),
    ReasonKind(Code.EMPTY),
    ReasonKind(Code.WINDOW),
    ReasonKind(Code.CAMPAIGN),
    ReasonKind(Code.CONDITION),
    ReasonKind(Code.TAINTED),
    ReasonKind(Code.STUCK, OPERATOR),
    ReasonKind(Code.RESUMED),
    ReasonKind(Code.WORK_DONE),
    ReasonKind(Code.CHECKED),
    ReasonKind(Code.FAILED, OPERATOR),
    ReasonKind(Code.FAILURES, OPERATOR),
    ReasonKind(Code.OVER),
    ReasonKind(Code.SAME_BOOT, OPERATOR, "restart the host, then `paceline host resume HOST`"),
    ReasonKind(Code.WORK_LATE, OPERATOR, "see to the host, then `paceline host resume HOST`"),
    ReasonKind(Code.CHECK_FAILED, OPERATOR, "see to the host, then `paceline host resume HOST`"),
    ReasonKind(Code.HOST_REMOVED),
    ReasonKind(Code.NO_ROOM_ELSEWHERE, OPERATOR, "it goes on once there is room; add hosts, or stop work"),
    ReasonKind(Code.TOO_MANY_DOWN, OPERATOR, "it goes on when hosts are back"),
    ReasonKind(Code.HOSTS_CANNOT_START, OPERATOR, "`paceline host resume HOST` lets the campaign have a host"),
    ReasonKind(Code.LICENCE, OPERATOR),
    ReasonKind(Code.WRONG_UNIT, OPERATOR),
    ReasonKind(Code.EXEC_OFF, OPERATOR, "`paceline cell set exec=on` permits it"),
    ReasonKind(Code.RUN_ENDED, YOU, "enter the run that came after it"),
    ReasonKind(Code.TOO_MANY_SESSIONS, WAIT, "end one of them"),
    ReasonKind(Code.EXEC_FAILED, YOU, "the message says why"),
    ReasonKind(Code.PORT_CLOSED, YOU, "see whether the program listens: `paceline job logs ID --task N`"),
    ReasonKind(Code.SESSION_IDLE, YOU, "begin again"),
    ReasonKind(Code.CONNECTION_LOST, YOU, "begin again"),
)
_CELL = (
    ReasonKind(Code.STARTING, WAIT, "what isn't ready within start_deadline is stopped, and tried again",
               "{tasks} {is} told to start on {on}, and {waits} yet", precedence=Precedence.MOVING),
    ReasonKind(Code.STOPPING, WAIT, "what isn't over within stop_grace is killed",
               "{tasks} {is} told to stop on {on}, and {has} time for it", precedence=Precedence.MOVING),
    ReasonKind(Code.HOST_SILENT, WAIT, "{next}; sooner by `paceline host confirm-loss {host}`",
               "{tasks} run{s} on {on}, not heard since {since}", precedence=Precedence.MOVING),
    ReasonKind(Code.NOT_YET_EVALUATED, WAIT, "it is looked at in the next rounds",
               "nothing was decided about {tasks} yet", precedence=Precedence.BEHIND, waits=EITHER),
)
# fmt: on


def _rows() -> Iterator[ReasonKind]:
    for tier, rows in zip(Tier, (_JOB, _POOL, _SHAPE, _NOW, _HOSTS, _CELL), strict=True):
        yield from (row._replace(tier=tier) for row in rows)


REASONS: Final[Mapping[str, ReasonKind]] = {row.code: row for row in _rows()}
"""By code, in the order of precedence (`Code`)."""
WAITS: Final = tuple(row.code for row in REASONS.values() if row.waits)
"""Codes of queued tasks."""
LASTING: Final = tuple(row.code for row in REASONS.values() if row.lasting)
FULL: Final = tuple(row.code for row in REASONS.values() if row.full)
_AHEAD = (Code.HOSTS_RESERVED, Code.WAITING_FOR_PREEMPTION)
"""They come before what says that there are no hosts: hosts are on their way."""
_PLACES: dict[str, float] = {code: place for place, code in enumerate(REASONS)}
_PLACE_OF: Mapping[str, float] = _PLACES | dict.fromkeys(_AHEAD, _PLACES[Code.NEVER_FITS] - 0.5)


def kind_of(code: str) -> ReasonKind:
    """The row of a code; of a code of a later release, one that names the operator."""
    return REASONS.get(code) or ReasonKind(Code.NOT_YET_EVALUATED, OPERATOR)


def stands_aside(code: str, at: str, need: Amounts, limit: Amounts) -> bool:
    """Whether nobody waits behind gangs of a GangsHeld, since they can't be admitted before hosts or pools change,
    whoever leaves: no host takes them, or they ask for more than all that is allowed `at` a pool. That is what
    entitlement found (`bounds.refused_for_good`), read off what it told. Licences, the limits of the root, are part of
    the capacity there.
    """
    if code == Code.LIMIT_REACHED:
        return at != "/" and any(need.get(name, 0) > most for name, most in limit.items())
    if code == Code.RESERVATION_REACHED:
        return any(amount > limit.get(name, 0) for name, amount in need.items())
    return code == Code.NO_SUCH_POOL or code in LASTING


def order_of(code: str) -> tuple[Precedence, float]:
    """The place of a code: its class, and its order among reasons of the same number of tasks."""
    return kind_of(code).precedence, _PLACE_OF.get(code, len(_PLACE_OF))
