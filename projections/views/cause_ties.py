"""By which records a decision is tied to what led to it, where it carries no position of that: the last record before
it that names the same run, or else the same job, gang or instance (decision 031). The index of causes in the views
holds of those records the least and the greatest instance and run of each job (decision 050).
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from events.codes import END_REPORTS, Outcome, RunCause, RunReport
from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    GangsAdmitted,
    GangsHeld,
    PreemptionsOrdered,
    RightsSet,
    TurnSet,
)
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    InstancesChanged,
    InstancesTaken,
    InstancesWanted,
    JobAccepted,
    JobHeld,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsOverdue,
    RunsStopping,
    UpdateProgressed,
)
from events.records.placement import (
    GangsParked,
    GangsReturned,
    GangsUnplaced,
    HostsReserved,
    MatchingHostsChanged,
    PreemptionAsked,
    RevocationAsked,
    TasksPlaced,
)
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.records.tasks import HostInventory, RunsReported
from projections.views.mentions import NamedRuns, Run, Window, mentioned

Location = tuple[str, int, int]
"""Topic, offset, index in the round; `FACT` for a fact."""
FACT = -1
Gang = Callable[[str], int]
"""The number of instances of a job that are its gang."""
By = Literal["run", "instance", "gang", "controller"]
"""The record names the run itself, or the run with all of its instance or job, or that of a member of its gang, or any
run of the job's controller.
"""


class Tie(NamedTuple):
    """Records that lead to what becomes of a run: the last one of these kinds that names a run of the window."""

    kinds: tuple[type[Event], ...]
    by: By
    before: int
    """It is about so many runs before."""
    states: frozenset[int]
    """Only reports of one of these count; empty: all."""

    def window(self, gang: Gang, run: Run) -> Window:
        """The runs of which one is named."""
        job_id, instance, number = run
        if self.by == "controller":
            return Window(last=0)
        first, last = (0, gang(job_id) - 1) if self.by == "gang" else (instance, instance)
        return Window(first, last, number - self.before, number - self.before)

    def holds(self, event: Event, job_id: str, window: Window) -> bool:
        """Whether a record of these kinds is one by which a run of that window is tied."""
        rows = mentioned(event).rows(job_id, window).tolist()
        if not self.states or not isinstance(event, RunsReported | HostInventory):
            return bool(rows)
        states = event.state_array
        return any(int(states[row]) in self.states for row in rows if row < len(states))


def _tie(*kinds: type[Event], by: By = "run", before: int = 0, states: tuple[int, ...] = ()) -> Tie:
    return Tie(kinds, by, before, frozenset(states))


QUEUED = _tie(GangsQueued, GangsReturned)
ADMITTED = _tie(GangsAdmitted, GangsQueued)
RANKED = _tie(AdmissionsRanked, GangsAdmitted, GangsQueued)
REPORTED = _tie(RunsReported, HostInventory)
ENDED = _tie(RunsReported, HostInventory, states=END_REPORTS)
UNHEALTHY = _tie(RunsReported, HostInventory, states=(RunReport.UNHEALTHY,))
STOPPING = _tie(RunsStopping)
PREEMPTED = _tie(DisruptionAllowed, PreemptionsOrdered)
TAKEN = _tie(InstancesTaken, by="instance")
AIMED = _tie(InstancesTaken, UpdateProgressed, by="instance")
"""A run that waits may be given its next version without being taken, and ends for it."""
UNMATCHED = _tie(InstancesTaken, MatchingHostsChanged, by="instance")
OVERDUE = (_tie(RunsOverdue), _tie(RunsOverdue, by="gang"))
TIES: dict[type[Event], tuple[Tie, ...]] = {
    GangsQueued: (
        _tie(RunsEnded, before=1),
        _tie(RunsEnded, by="gang", before=1),
        _tie(InstancesChanged, JobAccepted, by="instance"),
        TAKEN,
    ),
    GangsAdmitted: (QUEUED,),
    AdmissionsRanked: (ADMITTED,),
    GangsHeld: (QUEUED,),
    TurnSet: (QUEUED,),
    TasksPlaced: (ADMITTED,),
    GangsUnplaced: (ADMITTED,),
    GangsReturned: (RANKED,),
    GangsParked: (RANKED,),
    HostsReserved: (RANKED,),
    RightsSet: (RANKED,),
    PreemptionAsked: (_tie(RightsSet, GangsParked),),
    RunsOrdered: (_tie(TasksPlaced),),
    RunsAvailable: (REPORTED,),
    DisruptionAsked: (_tie(PreemptionsOrdered), TAKEN),
    DisruptionWithdrawn: (_tie(RunsEnded, PreemptionAnswered), _tie(PreemptionsOrdered), TAKEN),
    DisruptionAllowed: (_tie(DisruptionAsked),),
    DisruptionDeferred: (_tie(DisruptionAsked),),
    PreemptionAnswered: (_tie(DisruptionDeferred),),
    RevocationAsked: (_tie(TasksPlaced),),
}
"""The ties of each kind of decision: the first that holds is the cause."""
STOPPED_BY: dict[int, tuple[Tie, ...]] = {
    RunCause.NONE: (REPORTED,),
    RunCause.STOP: (_tie(InstancesWanted, by="instance"),),
    RunCause.HOLD: (_tie(JobHeld, by="instance"),),
    RunCause.JOB_END: (_tie(RunsEnded, by="controller"),),
    RunCause.RUN_LIMIT: OVERDUE,
    RunCause.HEALTH: (UNHEALTHY,),
    RunCause.START_LATE: OVERDUE,
    RunCause.PREEMPT: (PREEMPTED,),
    RunCause.GANG: (_tie(RunsEnded, by="gang"),),
    RunCause.UPDATE: (_tie(DisruptionAllowed), AIMED),
    RunCause.REMOVE: (UNMATCHED,),
    RunCause.DRAIN: (_tie(DisruptionAllowed),),
    RunCause.EVICT: (_tie(DisruptionDeferred, DisruptionAsked),),
    RunCause.REVOKED: (_tie(RevocationAsked), ENDED),
}
"""The same of a RunsStopping, by its column `why`. What is forced is tied to what its drain had asked for the run."""
LEADING: frozenset[type[Event]] = frozenset(
    kind for ties in (*TIES.values(), *STOPPED_BY.values(), (ENDED, STOPPING)) for tie in ties for kind in tie.kinds
)
"""Records that may be a cause without that a decision carries their position: those that the index has."""
BITS = {name: 1 << at for at, name in enumerate(sorted(kind.__name__ for kind in LEADING))}
"""The bit of each in the rows of histories."""
UNASKED = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST)
"""A RunsEnded with another outcome is tied to its RunsStopping, or to what that would be tied to; a lost run may also
carry its cause.
"""


def ties_of(event: Event, runs: NamedRuns, focus: Run | None) -> Iterator[tuple[Run, tuple[Tie, ...]]]:
    """The ties of each run that a decision names to its cause, or of `focus` alone where it names that."""
    row = runs.row(focus) if focus else None
    each = runs.each() if row is None or focus is None else iter(((focus, row),))
    if isinstance(event, RunsStopping):
        whys = event.why_array
        yield from ((run, STOPPED_BY.get(int(whys[at]), ())) for run, at in each)
    elif isinstance(event, RunsEnded):
        outcomes, whys, carried = event.outcome_array, event.why_array, event.cause_array
        for run, at in each:
            if int(outcomes[at]) in UNASKED:
                yield run, (ENDED,)
            else:
                others = STOPPED_BY.get(int(whys[at]), ()) if carried[at] < 0 else ()
                yield run, (STOPPING, *others)
    elif ties := TIES.get(type(event)):
        yield from ((run, ties) for run, _ in each)


def windows(event: Event) -> dict[str, Window]:
    """The least and the greatest instance and run that a record of the indexed kinds names, by job."""
    return mentioned(event).windows() if type(event) in LEADING else {}
