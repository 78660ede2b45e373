"""By which records a decision is tied to what led to it, where it carries no position of that: the last record before
it that names the same run, or else the same job, gang or instance (decision 031).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from events.bounds import INT_MAX
from events.codes import LIVE_REPORTS, Outcome, RunCause, RunReport
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    GangsAdmitted,
    GangsHeld,
    PreemptionRefused,
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
)
from events.records.placement import (
    GangsParked,
    GangsReturned,
    GangsUnplaced,
    HostsReserved,
    PreemptionAsked,
    TasksPlaced,
)
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.records.tasks import HostInventory, RunsReported
from projections.queries.named_runs import NamedRuns, Run

Location = tuple[str, int, int]
"""Topic, offset, index in the round; `FACT` for a fact."""
FACT = -1


class Look(Protocol):
    """What a tie asks about the records that it may hold for."""

    def at(self, location: Location) -> Event:
        """The record there."""
        ...

    def named(self, location: Location) -> NamedRuns:
        """The runs that it names."""
        ...

    def gang(self, job_id: str) -> int:
        """How many instances of a job are its gang."""
        ...


class Window(NamedTuple):
    """The instances and runs of a job of which a record must name one, to be worth a look."""

    first: int = 0
    last: int = INT_MAX
    first_run: int = 0
    last_run: int = INT_MAX


class Tie(NamedTuple):
    """Records that lead to what becomes of a run: the last one of these kinds that matches it."""

    kinds: tuple[type[Event], ...]
    match: Callable[[Look, Location, Run], bool]
    window: Callable[[Look, Run], Window]
    same_run: bool = True
    """Whether it names the run; else it names the job, gang or instance."""


def _the_run(_: Look, run: Run) -> Window:
    return Window(run[1], run[1], run[2], run[2])


def _the_run_before(_: Look, run: Run) -> Window:
    return Window(run[1], run[1], run[2] - 1, run[2] - 1)


def _the_instance(_: Look, run: Run) -> Window:
    return Window(run[1], run[1])


def _its_first_run(_: Look, run: Run) -> Window:
    return Window(first_run=run[2], last_run=run[2])


def _the_controller(_: Look, run: Run) -> Window:
    return Window(last=0)


def _the_job(_: Look, run: Run) -> Window:
    return Window()


def _the_gang(look: Look, run: Run) -> Window:
    return Window(0, look.gang(run[0]) - 1, run[2], run[2])


def _the_gang_before(look: Look, run: Run) -> Window:
    return _the_gang(look, (run[0], run[1], run[2] - 1))


def _the_run_or_gang(look: Look, run: Run) -> Window:
    return Window(first_run=run[2], last_run=run[2])


def _names_it(look: Look, location: Location, run: Run) -> bool:
    return run in look.named(location)


def _names_the_run_before(look: Look, location: Location, run: Run) -> bool:
    job_id, instance, number = run
    return (job_id, instance, number - 1) in look.named(location)


def _accepts_it(look: Look, location: Location, run: Run) -> bool:
    event = look.at(location)
    return isinstance(event, JobAccepted) and event.first_run == run[2]


def _reports_its_end(look: Look, location: Location, run: Run) -> bool:
    return any(state not in LIVE_REPORTS for state in _reported(look, location, run))


def _reports_it_unhealthy(look: Look, location: Location, run: Run) -> bool:
    return RunReport.UNHEALTHY in _reported(look, location, run)


def _reported(look: Look, location: Location, run: Run) -> list[int]:
    event: Any = look.at(location)
    states = event.state_array
    return [int(states[at]) for at in look.named(location).where(run) if at < len(states)]


def _stops_it(look: Look, location: Location, run: Run) -> bool:
    event = look.at(location)
    if not isinstance(event, InstancesWanted) or event.wanted:
        return False
    ranges = zip(event.first_array.tolist(), event.count_array.tolist(), strict=False)
    return not event.first or any(first <= run[1] < first + count for first, count in ranges)


def _holds_its_job(look: Look, location: Location, run: Run) -> bool:
    event = look.at(location)
    return isinstance(event, JobHeld) and event.held


def _ends_its_gang(look: Look, location: Location, run: Run) -> bool:
    """Whether a member of the same gang, at the same run, is over."""
    return look.named(location).names_one_of(run[0], look.gang(run[0]), run[2])


def _or_its_gang(look: Look, location: Location, run: Run) -> bool:
    return run in look.named(location) or _ends_its_gang(look, location, run)


def _ends_its_controller(look: Look, location: Location, run: Run) -> bool:
    return look.named(location).names_one_of(run[0], 1)


def _ends_the_gang_before(look: Look, location: Location, run: Run) -> bool:
    return _ends_its_gang(look, location, (run[0], run[1], run[2] - 1))


def _adds_it(look: Look, location: Location, run: Run) -> bool:
    """Whether it adds the instance, and this is its first run."""
    event: Any = look.at(location)
    return event.first_run == run[2] and run[1] in instance_change(event).added


def _takes_it(look: Look, location: Location, run: Run) -> bool:
    """Whether an update takes or gives back the instance."""
    event: Any = look.at(location)
    ranges = zip(event.first_array.tolist(), event.count_array.tolist(), strict=True)
    return any(first <= run[1] < first + count for first, count in ranges)


def _of_run(*kinds: type[Event]) -> Tie:
    return Tie(kinds, _names_it, _the_run)


QUEUED = _of_run(GangsQueued, GangsReturned)
ADMITTED = _of_run(GangsAdmitted, GangsQueued)
RANKED = _of_run(AdmissionsRanked, GangsAdmitted, GangsQueued)
REPORTED = _of_run(RunsReported, HostInventory)
ENDED = Tie((RunsReported, HostInventory), _reports_its_end, _the_run)
UNHEALTHY = Tie((RunsReported, HostInventory), _reports_it_unhealthy, _the_run)
STOPPING = _of_run(RunsStopping)
PREEMPTED = _of_run(DisruptionAllowed, PreemptionsOrdered)
TAKEN = Tie((InstancesTaken,), _takes_it, _the_instance, False)
STOPPED = Tie((InstancesWanted,), _stops_it, _the_instance, False)
HELD = Tie((JobHeld,), _holds_its_job, _the_job, False)
OVERDUE = Tie((RunsOverdue,), _or_its_gang, _the_run_or_gang, False)
CONTROLLER_ENDED = Tie((RunsEnded,), _ends_its_controller, _the_controller, False)
GANG_ENDED = Tie((RunsEnded,), _ends_its_gang, _the_gang, False)
TIES: dict[type[Event], tuple[Tie, ...]] = {
    GangsQueued: (
        Tie((RunsEnded,), _names_the_run_before, _the_run_before),
        Tie((RunsEnded,), _ends_the_gang_before, _the_gang_before, False),
        Tie((InstancesChanged,), _adds_it, _the_instance, False),
        Tie((JobAccepted,), _accepts_it, _its_first_run, False),
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
    PreemptionAsked: (_of_run(RightsSet, GangsParked),),
    PreemptionRefused: (_of_run(PreemptionAsked),),
    RunsOrdered: (_of_run(TasksPlaced),),
    RunsAvailable: (REPORTED,),
    DisruptionAsked: (_of_run(PreemptionsOrdered), TAKEN),
    DisruptionWithdrawn: (_of_run(RunsEnded, PreemptionAnswered), _of_run(PreemptionsOrdered), TAKEN),
    DisruptionAllowed: (_of_run(DisruptionAsked),),
    DisruptionDeferred: (_of_run(DisruptionAsked),),
    PreemptionAnswered: (_of_run(DisruptionDeferred),),
}
"""Of each kind of decision the first tie that holds is the cause."""
STOPPED_BY: dict[int, tuple[Tie, ...]] = {
    RunCause.NONE: (REPORTED,),
    RunCause.STOP: (STOPPED,),
    RunCause.HOLD: (HELD,),
    RunCause.JOB_END: (CONTROLLER_ENDED,),
    RunCause.RUN_LIMIT: (OVERDUE,),
    RunCause.HEALTH: (UNHEALTHY,),
    RunCause.START_LATE: (OVERDUE,),
    RunCause.PREEMPT: (PREEMPTED,),
    RunCause.GANG: (GANG_ENDED,),
    RunCause.UPDATE: (_of_run(DisruptionAllowed), TAKEN),
    RunCause.REMOVE: (TAKEN,),
}
"""The same of a RunsStopping, by its column `why`."""
UNASKED = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST)
"""A RunsEnded with another outcome is tied to its RunsStopping, or to what that would be tied to; a lost run may also
carry its cause.
"""


def ties_of(event: Event, runs: NamedRuns, focus: Run | None) -> Iterator[tuple[Run, tuple[Tie, ...]]]:
    """Of each run that a decision names, or of `focus` alone where it names that, by which records it is tied to its
    cause.
    """
    places = (runs.where(focus) if focus else []) or range(len(runs))
    if isinstance(event, RunsStopping):
        whys = event.why_array
        yield from ((runs[at], STOPPED_BY.get(int(whys[at]), ())) for at in places)
    elif isinstance(event, RunsEnded):
        outcomes, whys = event.outcome_array, event.why_array
        for at in places:
            asked = int(outcomes[at]) not in UNASKED
            yield runs[at], (STOPPING, *STOPPED_BY.get(int(whys[at]), ())) if asked else (ENDED,)
    else:
        yield from ((runs[at], TIES.get(type(event), ())) for at in places)
