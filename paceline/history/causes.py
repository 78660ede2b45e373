"""Why a decision was made, followed back through a log by recorded links alone (docs/decisions/031): the position of
its cause, or of the fact that it answers (`jobs_offset`), or a run, or a job, that its cause names too (`TIES`).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from events.acceptance import Chain
from events.codec import decode
from events.codes import LIVE_REPORTS, Outcome, RunCause, RunReport
from events.columns import ints, some
from events.instance_changes import instance_change
from events.log.port import Log
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
from events.records.jobs import JobPriorityRequested, JobStopRequested, JobSubmitted
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
from events.records.parts import Cause
from events.records.placement import (
    GangsParked,
    GangsReturned,
    GangsUnplaced,
    HostsReserved,
    PreemptionAsked,
    TasksPlaced,
)
from events.records.rounds import RoundCommitted
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.records.tasks import HostInventory, RunsReported
from events.rounds import accept
from events.topics import MACHINES, rounds_of
from paceline.history.named_runs import Run, runs_of

Location = tuple[str, int, int]
"""Topic, offset, index in the round."""
FACT = -1
"""The index of a fact."""
NOTHING = Cause()

OFFSETS = {"jobs_offset": "paceline.jobs", "pools_offset": "paceline.pools", "hosts_offset": "paceline.hosts"}
FACTS = {
    "paceline.jobs": (JobSubmitted, JobStopRequested, JobPriorityRequested),
    "paceline.tasks": (RunsReported, HostInventory),
}
"""The facts that name jobs or runs."""


class Link(NamedTuple):
    """One step back: a decision, and what led to it."""

    effect: Cause
    cause: Cause


class Tie(NamedTuple):
    """Records that lead to what becomes of a run: the last one of these kinds that matches it."""

    kinds: tuple[type[Event], ...]
    match: Callable[["Causes", Location, Run], bool]


def _names_it(log: "Causes", location: Location, run: Run) -> bool:
    return run in log.named(location)


def _names_the_run_before(log: "Causes", location: Location, run: Run) -> bool:
    job_id, instance, number = run
    return (job_id, instance, number - 1) in log.named(location)


def _accepts_it(log: "Causes", location: Location, run: Run) -> bool:
    event = log.at(location)
    return isinstance(event, JobAccepted) and event.first_run == run[2]


def _reports_its_end(log: "Causes", location: Location, run: Run) -> bool:
    event: Any = log.at(location)
    reports = zip(runs_of(event), ints(event.state).tolist(), strict=False)
    return any(named == run and state not in LIVE_REPORTS for named, state in reports)


def _reports_it_unhealthy(log: "Causes", location: Location, run: Run) -> bool:
    event: Any = log.at(location)
    reports = zip(runs_of(event), ints(event.state).tolist(), strict=False)
    return any(named == run and state == RunReport.UNHEALTHY for named, state in reports)


def _stops_it(log: "Causes", location: Location, run: Run) -> bool:
    event = log.at(location)
    if not isinstance(event, InstancesWanted) or event.wanted:
        return False
    ranges = zip(ints(event.first).tolist(), ints(event.count).tolist(), strict=False)
    return not event.first or any(first <= run[1] < first + count for first, count in ranges)


def _holds_its_job(log: "Causes", location: Location, run: Run) -> bool:
    event = log.at(location)
    return isinstance(event, JobHeld) and event.held


def _ends_its_gang(log: "Causes", location: Location, run: Run) -> bool:
    """Whether a member of the same gang, at the same run, is over."""
    members = log.gang(run[0])
    return any(job_id == run[0] and number == run[2] and at < members for job_id, at, number in log.named(location))


def _or_its_gang(log: "Causes", location: Location, run: Run) -> bool:
    return run in log.named(location) or _ends_its_gang(log, location, run)


def _ends_its_controller(log: "Causes", location: Location, run: Run) -> bool:
    return any(job_id == run[0] and not at for job_id, at, _ in log.named(location))


def _ends_the_gang_before(log: "Causes", location: Location, run: Run) -> bool:
    return _ends_its_gang(log, location, (run[0], run[1], run[2] - 1))


def _adds_it(log: "Causes", location: Location, run: Run) -> bool:
    """Whether it adds the instance, and this is its first run."""
    event: Any = log.at(location)
    return event.first_run == run[2] and run[1] in instance_change(event).added


def _takes_it(log: "Causes", location: Location, run: Run) -> bool:
    """Whether an update takes or gives back the instance."""
    event: Any = log.at(location)
    ranges = zip(ints(event.first).tolist(), ints(event.count).tolist(), strict=True)
    return any(first <= run[1] < first + count for first, count in ranges)


QUEUED = Tie((GangsQueued, GangsReturned), _names_it)
ADMITTED = Tie((GangsAdmitted, GangsQueued), _names_it)
RANKED = Tie((AdmissionsRanked, GangsAdmitted, GangsQueued), _names_it)
REPORTED = Tie((RunsReported, HostInventory), _names_it)
ENDED = Tie((RunsReported, HostInventory), _reports_its_end)
UNHEALTHY = Tie((RunsReported, HostInventory), _reports_it_unhealthy)
STOPPING = Tie((RunsStopping,), _names_it)
PREEMPTED = Tie((DisruptionAllowed, PreemptionsOrdered), _names_it)
TAKEN = Tie((InstancesTaken,), _takes_it)
STOPPED = Tie((InstancesWanted,), _stops_it)
HELD = Tie((JobHeld,), _holds_its_job)
OVERDUE = Tie((RunsOverdue,), _or_its_gang)
CONTROLLER_ENDED = Tie((RunsEnded,), _ends_its_controller)
GANG_ENDED = Tie((RunsEnded,), _ends_its_gang)
TIES: dict[type[Event], tuple[Tie, ...]] = {
    GangsQueued: (
        Tie((RunsEnded,), _names_the_run_before),
        Tie((RunsEnded,), _ends_the_gang_before),
        Tie((InstancesChanged,), _adds_it),
        Tie((JobAccepted,), _accepts_it),
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
    PreemptionAsked: (Tie((RightsSet, GangsParked), _names_it),),
    PreemptionRefused: (Tie((PreemptionAsked,), _names_it),),
    RunsOrdered: (Tie((TasksPlaced,), _names_it),),
    RunsAvailable: (REPORTED,),
    DisruptionAsked: (Tie((PreemptionsOrdered,), _names_it), TAKEN),
    DisruptionWithdrawn: (
        Tie((RunsEnded, PreemptionAnswered), _names_it),
        Tie((PreemptionsOrdered,), _names_it),
        TAKEN,
    ),
    DisruptionAllowed: (Tie((DisruptionAsked,), _names_it),),
    DisruptionDeferred: (Tie((DisruptionAsked,), _names_it),),
    PreemptionAnswered: (Tie((DisruptionDeferred,), _names_it),),
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
    RunCause.UPDATE: (Tie((DisruptionAllowed,), _names_it), TAKEN),
    RunCause.REMOVE: (TAKEN,),
}
"""The same of a RunsStopping, by its column `why`."""
UNASKED = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST)
"""A RunsEnded with another outcome is tied to its RunsStopping, or to what that would be tied to; a lost run may also
carry its cause.
"""


class _Round(NamedTuple):
    offset: int
    ends: dict[str, int]
    """How far each topic was taken in, this round included."""
    decisions: tuple[Event, ...]


class Causes:
    """The causes of the decisions in a log, which is read once, from its start, and held."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rounds: dict[tuple[str, int], _Round] = {}
        self._locations_by_job: dict[str, list[Location]] = {}
        """The records that name a job, the last of each topic first, and topics in the reverse of `MACHINES`: an answer
        comes before what it answers.
        """
        self._at: dict[Location, Event] = {}
        self._places: dict[Location, Cause] = {}
        self._location_of: dict[Cause, Location] = {}
        self._named: dict[Location, frozenset[Run]] = {}
        for topic, kinds in FACTS.items():
            for record in log.scan(topic, 0):
                event = _fact(record.value)
                if isinstance(event, kinds):
                    self._note((topic, record.offset, FACT), Cause(topic=topic, offset=record.offset), event)
        for machine in MACHINES:
            self._read(machine)
        for records in self._locations_by_job.values():
            records.reverse()

    def event(self, place: Cause) -> Event | None:
        """The record at a position; None: it is none of this log."""
        if place.machine:
            round_ = self._rounds.get((place.machine, place.round))
            return round_.decisions[place.index] if round_ and place.index < len(round_.decisions) else None
        record = next(iter(self._log.scan(place.topic, place.offset)), None) if place.topic else None
        return _fact(record.value) if record is not None and record.offset == place.offset else None

    def of(self, place: Cause, run: Run | None = None) -> list[Cause]:
        """What led to the decision at a position: nothing to a fact, nor to a deadline. Of a decision that names many
        runs, what led to it for `run`, where it names that, else for any of them.
        """
        event = self.event(place) if place.machine else None
        if event is None:
            return []
        found = dict.fromkeys((*_carried(event, run), *_answered(event)))
        for one, ties in _ties(event):
            if run in (None, one) or run not in self.named(self._location_of[place]):
                tied = next((cause for tie in ties if (cause := self._tied(place, tie, one))), None)
                found.update({tied: None} if tied else {})
        return list(found)

    def at(self, location: Location) -> Event:
        """The record at a place in the log."""
        return self._at[location]

    def named(self, location: Location) -> frozenset[Run]:
        """The runs that a record names."""
        if location not in self._named:
            self._named[location] = frozenset(runs_of(self._at[location]))
        return self._named[location]

    def gang(self, job_id: str) -> int:
        """How many instances of a job are its gang."""
        accepted = (self._at[location] for location in self._locations_by_job.get(job_id, ()))
        return next((event.gang_min for event in accepted if isinstance(event, JobAccepted)), 0)

    def rounds(self) -> list[tuple[str, int]]:
        """All rounds, by machine and number."""
        return list(self._rounds)

    def decisions(self, machine: str, number: int) -> tuple[Event, ...]:
        """The decisions of a round."""
        return self._rounds[machine, number].decisions

    def had_read(self, place: Cause, cause: Cause) -> bool:
        """Whether the machine had taken in a record, or decided it, when it decided what stands at a position."""
        location = (cause.topic, cause.offset, FACT) if cause.topic else self._location_of.get(cause)
        return location is not None and self._is_before(location, place)

    def back(self, place: Cause, run: Run | None = None) -> Iterator[Link]:
        """All that led to the decision at a position, the nearest first, each link once."""
        waiting, known = [place], {place}
        for effect in waiting:
            for cause in self.of(effect, run):
                yield Link(effect, cause)
                if cause not in known:
                    known.add(cause)
                    waiting.append(cause)

    def _read(self, machine: str) -> None:
        topic, chain = rounds_of(machine), Chain()
        for record in self._log.scan(topic, 0):
            event = accept(record, chain, machine, self._log.cell).event
            if not isinstance(event, RoundCommitted):
                continue
            decisions = tuple(map(decode, event.decisions))
            self._rounds[machine, event.round] = _Round(record.offset, dict(chain.inputs), decisions)
            for index, decision in enumerate(decisions):
                place = Cause(machine=machine, round=event.round, index=index)
                self._note((topic, record.offset, index), place, decision)

    def _note(self, location: Location, place: Cause, event: Event) -> None:
        jobs = getattr(event, "job_ids", None) or (getattr(event, "job_id", ""),)
        self._at[location], self._places[location], self._location_of[place] = event, place, location
        for job_id in jobs:
            self._locations_by_job.setdefault(job_id, []).append(location)

    def _tied(self, place: Cause, tie: Tie, run: Run) -> Cause | None:
        """The last record before a decision by which it is tied to its cause for a run."""
        for location in self._locations_by_job.get(run[0], ()):
            fits = isinstance(self._at[location], tie.kinds) and tie.match(self, location, run)
            if fits and self._is_before(location, place):
                return self._places[location]
        return None

    def _is_before(self, location: Location, place: Cause) -> bool:
        round_ = self._rounds[place.machine, place.round]
        if location[0] == rounds_of(place.machine):
            return location[1:] < (round_.offset, place.index)
        return location[1] < round_.ends.get(location[0], 0)


def _ties(event: Event) -> Iterator[tuple[Run, tuple[Tie, ...]]]:
    """Of each run that a decision names, by which records it is tied to its cause."""
    runs = runs_of(event)
    if isinstance(event, RunsStopping):
        whys = some(event.why, len(runs)).tolist()
        yield from ((run, STOPPED_BY.get(why, ())) for run, why in zip(runs, whys, strict=True))
    elif isinstance(event, RunsEnded):
        columns = zip(runs, ints(event.outcome).tolist(), some(event.why, len(runs)).tolist(), strict=True)
        for run, outcome, why in columns:
            yield run, (ENDED,) if outcome in UNASKED else (STOPPING, *STOPPED_BY.get(why, ()))
    else:
        yield from ((run, TIES.get(type(event), ())) for run in runs)


def _carried(event: Event, run: Run | None) -> Iterator[Cause]:
    """The positions that a decision carries."""
    one, more = getattr(event, "cause", None), getattr(event, "causes", ())
    if isinstance(one, Cause):
        yield one
    if isinstance(event, PreemptionAnswered):
        yield event.order
    if isinstance(event, RunsEnded | DisruptionAllowed | DisruptionDeferred):
        runs = runs_of(event)
        which = ints(event.cause if isinstance(event, RunsEnded) else event.job).tolist()
        named = run if run in runs else None
        chosen = {at for each, at in zip(runs, which, strict=False) if 0 <= at < len(more) and named in (None, each)}
        more = [more[at] for at in sorted(chosen)]
    yield from (cause for cause in more if cause != NOTHING)


def _answered(event: Event) -> Iterator[Cause]:
    """The fact that a decision answers."""
    for name, topic in OFFSETS.items():
        if hasattr(event, name):
            yield Cause(topic=topic, offset=getattr(event, name))


def _fact(value: bytes) -> Event | None:
    try:
        return decode(value)
    except ValueError:
        return None
