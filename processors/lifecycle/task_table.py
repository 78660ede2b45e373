"""The life of a task as a table: states, what happens, what is noted of it, what is decided then, and the next state.

The machine is driven by these literals (`task_rules.py` turns them into arrays), the page `docs/task-life.md` is made
from them, and a test walks them cell by cell. First everything that came is noted in the columns of the tasks; then one
decision a task is taken from its columns, and only decisions end runs. All of it is about the present run of a task:
what names another run is void.

Decision 029.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from events.codes import ENDED_TASKS, LIVE_REPORTS, LIVE_TASKS, Number, Outcome, RunReport, TaskState
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    InstancesWanted,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from processors.lifecycle.causes import CauseKind, EndCause, Goal, SlaVerdict

PLACED = 9
"""Has a host; the order is still to be given. Seen by nobody else, counted as queued."""
GANG_WAIT = 10
"""Its run is over and it waits for the other members of its gang."""
LOST = 15
"""A report like those of `RunReport`: the host is lost, or doesn't know the run."""

LIFE = (
    TaskState.NONE,
    TaskState.BACKOFF,
    GANG_WAIT,
    TaskState.QUEUED,
    PLACED,
    TaskState.ORDERED,
    TaskState.RUNNING,
    TaskState.STOPPING,
    TaskState.SUCCEEDED,
    TaskState.FAILED,
    TaskState.KILLED,
)
"""The states in the order of the columns of `NOTES`."""
STATES = len(LIFE)
NAMES = {PLACED: "PLACED", GANG_WAIT: "GANG_WAIT", **{int(state): state.name for state in TaskState}}
WAITING = (TaskState.QUEUED, TaskState.BACKOFF, PLACED)


class TaskEvent(StrEnum):
    """Events that happen to a task from outside, or by a decision about its job, its gang or an order it is in."""

    STOP = "the user stops it"
    START = "the user starts it"
    HOLD = "the user holds the job"
    RELEASE = "the user releases the job"
    GANG_FAILED = "a member of its gang ended before its time"
    PLACED = "placement found a host (TasksPlaced)"
    HOST_LOST = "its host is lost (HostLost)"
    MISSING = "its host connects and doesn't list the run (HostInventory)"
    PREEMPT = "an order to preempt names it (PreemptionsOrdered)"
    PREEMPT_GOES = "all runs of its order may leave"
    PREEMPT_WITHDRAWN = "its order was answered DEFERRED (PreemptionAnswered)"
    ALLOWED = "sla allows its disruption at once (DisruptionAllowed)"
    ALLOWED_LATER = "sla allows it after having deferred it (DisruptionAllowed)"
    FREE = "sla allows it at once because it isn't available (DisruptionAllowed)"
    FREE_LATER = "the same after having deferred it (DisruptionAllowed)"
    DEFERRED = "sla defers its disruption (DisruptionDeferred)"
    STARTED = "its host reports that it runs, or is healthy if it has a health check (RunsReported)"
    ENDED = "its host reports its end (RunsReported)"
    REMOVE = "the instance is to be removed"
    JOB_END = "the controller of the job is over"
    RUN_LIMIT = "it, or a member of its gang, has run for as long as it may (RunsOverdue)"
    UNHEALTHY = "its host reports that its health check fails (RunsReported)"
    START_LATE = "it isn't ready within its time (RunsOverdue)"
    STOP_LATE = "it isn't over within its time after it was told to stop (RunsOverdue)"
    DRAIN = "its host, or that of a member of its gang, is drained (HostMaintenanceChanged)"
    UNDRAIN = "that is called off, or it isn't its turn any more"
    EVICT = "the drain of that host is forced (HostMaintenanceChanged)"
    UNEVICT = "that is called off"
    UPDATE = "an update or a restart takes it, and its run is to end for that"
    UPDATE_WITHDRAWN = "the update gives it back, or has ended"
    REVOKE = "its host lends less than its revocable runs hold (RevocationAsked)"


class Note(StrEnum):
    """The columns of a task in which an event is noted."""

    NOTHING = "-"
    """Nothing: it comes too late, or too early."""
    IMPOSSIBLE = "x"
    """It can't happen in this state; `WHY_NOT` says why. Nothing is noted."""
    CAUSE = "c"
    """The cause of the happening, see `CAUSE_OF`."""
    WITHDRAWN = "w"
    """The cause no longer holds."""
    REPORT = "r"
    """The first report of an end."""
    READY = "s"
    """The report that it runs."""
    VERDICT = "v"
    """The verdict of sla, see `VERDICTS`."""
    AGAIN = "e"
    """It is told to stop once more, and to be killed: its deadline is 0."""
    GOAL = "g"
    """The user's goal for it; its run ends all the same."""
    NEW = "n"
    """A new run begins: the task waits for it."""
    HOST = "p"
    """The host; the task is PLACED."""


NOTES: Mapping[TaskEvent, str] = {
    # a letter of Note for each state
    #                        NONE BACKOFF GANG_WAIT QUEUED PLACED ORDERED RUNNING STOPPING SUCCEEDED FAILED KILLED
    TaskEvent.STOP: "          -     c        c       c      c       c       c       c         -       -      -",
    TaskEvent.START: "         -     w        w       w      w       w       w       g         n       n      n",
    TaskEvent.HOLD: "          -     c        -       c      c       -       -       -         -       -      -",
    TaskEvent.RELEASE: "       -     w        -       w      w       -       -       -         -       -      -",
    TaskEvent.GANG_FAILED: "   x     x        x       c      c       c       c       c         -       x      x",
    TaskEvent.PLACED: "        -     -        -       p      -       -       -       -         -       -      -",
    TaskEvent.HOST_LOST: "     x     x        x       x      r       r       r       r         x       x      x",
    TaskEvent.MISSING: "       x     x        x       x      -       -       r       -         x       x      x",
    TaskEvent.PREEMPT: "       -     c        -       c      c       c       c       c         -       -      -",
    TaskEvent.PREEMPT_GOES: "      x     c        x       c      c       c       c       c         x       x      x",
    TaskEvent.PREEMPT_WITHDRAWN: " x     w        x       w      w       w       w       w         x       x      x",
    TaskEvent.ALLOWED: "       -     -        -       -      -       v       v       -         -       -      -",
    TaskEvent.ALLOWED_LATER: " -     -        -       -      -       v       v       -         -       -      -",
    TaskEvent.FREE: "          -     -        -       -      -       v       v       -         -       -      -",
    TaskEvent.FREE_LATER: "    -     -        -       -      -       v       v       -         -       -      -",
    TaskEvent.DEFERRED: "      -     -        -       -      -       v       v       -         -       -      -",
    TaskEvent.STARTED: "       -     -        -       -      -       s       -       -         -       -      -",
    TaskEvent.ENDED: "          -     -        -       -      -       r       r       r         -       -      -",
    TaskEvent.JOB_END: "       -     c        x       c      c       c       c       c         -       -      -",
    TaskEvent.RUN_LIMIT: "     x     x        c       c      c       c       c       c         -       x      x",
    TaskEvent.START_LATE: "    x     x        x       x      x       c       x       x         x       x      x",
    TaskEvent.STOP_LATE: "     x     x        x       x      x       x       x       e         x       x      x",
    TaskEvent.REMOVE: "        x     c        c       c      c       c       c       c         -       -      -",
    TaskEvent.UNHEALTHY: "     -     -        -       -      -       c       c       -         -       -      -",
    TaskEvent.DRAIN: "         x     x        x       x      c       c       c       -         x       x      x",
    TaskEvent.UNDRAIN: "       x     x        x       x      w       w       w       -         x       x      x",
    TaskEvent.EVICT: "         x     x        x       x      c       c       c       -         x       x      x",
    TaskEvent.UNEVICT: "       x     x        x       x      w       w       w       -         x       x      x",
    TaskEvent.UPDATE: "        x     c        -       c      c       c       c       -         -       -      -",
    TaskEvent.UPDATE_WITHDRAWN: " x    w        -       w      w       w       w       -         -       -      -",
    TaskEvent.REVOKE: "        -     -        -       -      -       c       c       c         -       -      -",
}

_NO_HOST = "it has no host"
_OF_HOSTS = (
    *(TaskEvent.HOST_LOST, TaskEvent.MISSING),
    *(TaskEvent.DRAIN, TaskEvent.UNDRAIN, TaskEvent.EVICT, TaskEvent.UNEVICT),
)
WHY_NOT: Mapping[tuple[TaskEvent, int], str] = {
    **{
        (TaskEvent.START_LATE, state): "it isn't ordered, or is ready, or is stopping"
        for state in LIFE
        if state != TaskState.ORDERED
    },
    **{(TaskEvent.STOP_LATE, state): "it isn't stopping" for state in LIFE if state != TaskState.STOPPING},
    **{
        (happening, TaskState.NONE): "updates take and remove instances that there are"
        for happening in (TaskEvent.REMOVE, TaskEvent.UPDATE, TaskEvent.UPDATE_WITHDRAWN)
    },
    (TaskEvent.GANG_FAILED, TaskState.BACKOFF): "a member of a gang waits in GANG_WAIT",
    (TaskEvent.GANG_FAILED, GANG_WAIT): "it waits because its gang has failed already; that is noted once a run",
    (TaskEvent.GANG_FAILED, TaskState.FAILED): "its gang has used its retries; no run of it is left",
    (TaskEvent.GANG_FAILED, TaskState.KILLED): "its job was stopped, and with it the whole gang",
    (TaskEvent.GANG_FAILED, TaskState.NONE): "members of a gang are there as long as their job",
    (TaskEvent.JOB_END, GANG_WAIT): "a job with a controller has no gang",
    (TaskEvent.RUN_LIMIT, TaskState.NONE): "members of a gang are there as long as their job",
    (TaskEvent.RUN_LIMIT, TaskState.BACKOFF): "it is of a gang, of which another member runs, or runs itself",
    (TaskEvent.RUN_LIMIT, TaskState.FAILED): "no member of its gang runs, nor does it itself",
    (TaskEvent.RUN_LIMIT, TaskState.KILLED): "no member of its gang runs, nor does it itself",
    (TaskEvent.REMOVE, GANG_WAIT): "members of a gang are there as long as their job",
    **{
        (happening, state): _NO_HOST
        for happening in _OF_HOSTS
        for state in (TaskState.NONE, TaskState.BACKOFF, GANG_WAIT, TaskState.QUEUED, *ENDED_TASKS)
    },
    **{
        (happening, state): "it is in no order: its run is over, or isn't queued yet"
        for happening in (TaskEvent.PREEMPT_GOES, TaskEvent.PREEMPT_WITHDRAWN)
        for state in (TaskState.NONE, GANG_WAIT, *ENDED_TASKS)
    },
}
"""Why a cell of `NOTES` is impossible."""

CAUSE_OF: Mapping[TaskEvent, EndCause] = {
    TaskEvent.STOP: EndCause.STOP,
    TaskEvent.START: EndCause.STOP,
    TaskEvent.HOLD: EndCause.HOLD,
    TaskEvent.RELEASE: EndCause.HOLD,
    TaskEvent.GANG_FAILED: EndCause.GANG,
    TaskEvent.PREEMPT: EndCause.IN_ORDER,
    TaskEvent.PREEMPT_GOES: EndCause.PREEMPT,
    TaskEvent.PREEMPT_WITHDRAWN: EndCause.IN_ORDER,
    TaskEvent.REMOVE: EndCause.REMOVE,
    TaskEvent.JOB_END: EndCause.JOB_END,
    TaskEvent.RUN_LIMIT: EndCause.RUN_LIMIT,
    TaskEvent.UNHEALTHY: EndCause.HEALTH,
    TaskEvent.START_LATE: EndCause.START_LATE,
    TaskEvent.DRAIN: EndCause.DRAIN,
    TaskEvent.UNDRAIN: EndCause.DRAIN,
    TaskEvent.EVICT: EndCause.EVICT,
    TaskEvent.UNEVICT: EndCause.EVICT,
    TaskEvent.UPDATE: EndCause.UPDATE,
    TaskEvent.UPDATE_WITHDRAWN: EndCause.UPDATE,
    TaskEvent.REVOKE: EndCause.REVOKE,
}

VERDICTS: Mapping[tuple[TaskEvent, SlaVerdict], SlaVerdict] = {
    (TaskEvent.ALLOWED, SlaVerdict.ASKED): SlaVerdict.ALLOWED,
    (TaskEvent.DEFERRED, SlaVerdict.ASKED): SlaVerdict.DEFERRED,
    (TaskEvent.ALLOWED_LATER, SlaVerdict.DEFERRED): SlaVerdict.ALLOWED,
    (TaskEvent.FREE, SlaVerdict.ASKED): SlaVerdict.FREE,
    (TaskEvent.FREE_LATER, SlaVerdict.DEFERRED): SlaVerdict.FREE,
}
"""The verdict after another one. Others are void: they answer a request that was withdrawn."""


class Report(Number):
    """The report of a run, as far as decisions depend on it."""

    NONE = 0
    STARTED = 1
    ENDED = 2


REPORTS = (
    Report.NONE,
    *(Report.STARTED if report in LIVE_REPORTS else Report.ENDED for report in RunReport),
    *[Report.ENDED] * (LOST - len(RunReport)),
)
"""By the number that stands in the column `report`: none, those of `RunReport`, LOST."""


class Rule(NamedTuple):
    """A decision that is taken from the columns of a task; a condition that isn't given always holds. `next` is the
    state after it, None where `ENDS` says.
    """

    states: tuple[int, ...]
    decision: type[Event]
    next: int | None
    report: Report | None = None
    causes: tuple[CauseKind, ...] = tuple(CauseKind)
    verdicts: tuple[SlaVerdict, ...] = tuple(SlaVerdict)
    sla: bool | None = None
    """Whether the job has an SLA."""
    waits: bool | None = None
    """Whether the deadline of the task is still to pass."""
    gated: bool | None = None
    """Whether the job says which of its tasks go to the queue."""
    stale: bool | None = None
    """Whether the verdict is about something else than what sla would be asked now (`asks.py`)."""


_UP = (TaskState.ORDERED, TaskState.RUNNING)
_ASKS = (CauseKind.HEARD, CauseKind.PLANNED)
_ANY = (CauseKind.PLANNED, CauseKind.UNPLANNED)
_ANSWERED, _FREE = (SlaVerdict.DEFERRED, SlaVerdict.ALLOWED), (SlaVerdict.FREE,)
_SAME = -1
"""As `Rule.next`: the state stays."""

RULES: tuple[Rule, ...] = (
    Rule((PLACED, *LIVE_TASKS), RunsEnded, None, report=Report.ENDED),
    Rule((TaskState.BACKOFF, GANG_WAIT, TaskState.QUEUED, PLACED), RunsEnded, None, causes=_ANY),
    Rule((TaskState.BACKOFF,), GangsQueued, TaskState.QUEUED, waits=False, gated=False),
    Rule((PLACED,), RunsOrdered, TaskState.ORDERED),
    Rule(_UP, RunsStopping, TaskState.STOPPING, causes=(CauseKind.UNPLANNED,)),
    Rule(_UP, RunsStopping, TaskState.STOPPING, causes=(CauseKind.PLANNED,), sla=False),
    Rule(_UP, DisruptionWithdrawn, _SAME, causes=_ASKS, stale=True),
    Rule(_UP, RunsStopping, TaskState.STOPPING, causes=(CauseKind.PLANNED,), verdicts=(SlaVerdict.ALLOWED,)),
    Rule((TaskState.ORDERED,), RunsStopping, TaskState.STOPPING, causes=(CauseKind.PLANNED,), verdicts=_FREE),
    Rule((TaskState.RUNNING,), DisruptionWithdrawn, _SAME, verdicts=_FREE),
    Rule(_UP, DisruptionAsked, _SAME, causes=_ASKS, verdicts=(SlaVerdict.NONE,), sla=True),
    Rule(_UP, DisruptionWithdrawn, _SAME, causes=(CauseKind.NONE,), verdicts=(*_ANSWERED, *_FREE)),
    Rule((TaskState.STOPPING,), RunsStopping, TaskState.STOPPING, waits=False),
    Rule((TaskState.ORDERED,), RunsAvailable, TaskState.RUNNING, report=Report.STARTED),
)
"""The first that holds. An ask is withdrawn only after its verdict, so that no verdict answers an ask withdrawn before
it. What may go because it isn't available may no longer once it is: then sla is asked again.
"""


class JobRule(NamedTuple):
    """A decision about all tasks of a job, or of a gang, at once."""

    states: tuple[int, ...]
    when: str
    decision: type[Event]
    next: int


JOB_RULES: tuple[JobRule, ...] = (
    JobRule((TaskState.NONE,), "the job is accepted, or the instance added", GangsQueued, TaskState.QUEUED),
    JobRule((TaskState.BACKOFF,), "its job has room for it and isn't held", GangsQueued, TaskState.QUEUED),
    JobRule(ENDED_TASKS, "the user starts it", InstancesWanted, TaskState.BACKOFF),
    JobRule(ENDED_TASKS, "the user starts its gang", InstancesWanted, GANG_WAIT),
    JobRule((GANG_WAIT, TaskState.SUCCEEDED), "all members of a failed gang are over", GangsQueued, TaskState.QUEUED),
)

_OWN = (Outcome.SUCCEEDED, Outcome.FAILED)
_TAKEN = (Outcome.PREEMPTED, Outcome.REVOKED)
_MOVED = (Outcome.REPLACED, Outcome.RELOCATED)
_EARLY = tuple(outcome for outcome in Outcome if outcome is not Outcome.SUCCEEDED)
_ALL_GOALS = tuple(Goal)


class End(NamedTuple):
    """Where a task goes when its run ends; a condition that isn't given always holds. `counts`: it counts against the
    retries, those of the task or those of the host, and the back-off. `keeps`: the admission passes to the next run,
    where no cause held but such as keep it.
    """

    outcomes: tuple[Outcome, ...]
    next: int
    goals: tuple[Goal, ...] = (Goal.RUN,)
    gang: bool | None = None
    final: bool | None = None
    """Whether the gang has used its retries."""
    stateless: bool | None = None
    over: bool | None = None
    """Whether one of its causes ends the task with the run."""
    retries: bool | None = None
    """Whether the task has retries left, of the kind that its end counts against."""
    last: bool | None = None
    """Whether it was the highest run that can be numbered."""
    fails: bool | None = None
    """Whether the job says `on_preempt: fail`."""
    counts: bool = False
    keeps: bool = False


ENDS: tuple[End, ...] = (
    End(tuple(Outcome), TaskState.NONE, goals=(Goal.REMOVE,)),
    End((Outcome.FAILED,), TaskState.FAILED, over=True),
    End((Outcome.STOPPED, Outcome.WITH_GANG, *_TAKEN, Outcome.LOST, *_MOVED), TaskState.KILLED, over=True),
    End((Outcome.FAILED,), TaskState.FAILED, gang=True, final=True, counts=True),
    End(_EARLY, TaskState.FAILED, gang=True, final=True),
    End((Outcome.FAILED,), GANG_WAIT, gang=True, counts=True),
    End(_EARLY, GANG_WAIT, gang=True),
    End((Outcome.PREEMPTED, Outcome.RELOCATED), TaskState.FAILED, fails=True),
    End((*_TAKEN, Outcome.LOST, *_MOVED), TaskState.FAILED, last=True),
    End(_TAKEN, TaskState.BACKOFF),
    End((Outcome.LOST,), TaskState.BACKOFF, keeps=True),
    End(_MOVED, TaskState.BACKOFF, keeps=True),
    End(_OWN, TaskState.FAILED, stateless=True, last=True),
    End(_OWN, TaskState.BACKOFF, stateless=True, counts=True, keeps=True),
    End((Outcome.FAILED,), TaskState.BACKOFF, retries=True, last=False, counts=True, keeps=True),
    End((Outcome.STOPPED,), TaskState.BACKOFF, last=False),
    End((Outcome.SUCCEEDED,), TaskState.SUCCEEDED, goals=_ALL_GOALS),
    End((Outcome.FAILED,), TaskState.FAILED, goals=_ALL_GOALS),
    End(tuple(Outcome), TaskState.KILLED, goals=_ALL_GOALS),
)
"""The first that holds."""
