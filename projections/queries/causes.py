"""Why a decision was made, followed back by recorded links alone (decision 031): the position of its cause, or of
the fact that it answers (`jobs_offset`), or a run, a gang or a job that its cause names too (`cause_ties`).

The rules need an index of which records name a job, and read only the records that they look at.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple, Protocol

from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    GangsAdmitted,
    GangsHeld,
    PreemptionsOrdered,
    RightsSet,
    TurnSet,
)
from events.records.lifecycle import JobAccepted, PreemptionAnswered, RunsEnded
from events.records.parts import Cause
from events.records.placement import GangsUnplaced, HostsReserved, MatchingHostsChanged, PreemptionAsked
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.topics import rounds_of
from projections.views.cause_ties import FACT, Location, Tie, ties_of
from projections.views.mentions import NamedRuns, Run, Window, runs_of

NOTHING = Cause()
OFFSETS = {"jobs_offset": "paceline.jobs", "pools_offset": "paceline.pools", "hosts_offset": "paceline.hosts"}
Kind = Literal["cause", "newest", "run", "entity"]
"""How a link is known: the decision carries the position; that is only the newest change that its machine knew, after
which it decided; both name the same run; or both the same job, gang or instance.
"""
NEWEST: dict[type[Event], tuple[type[Event], ...]] = {
    GangsAdmitted: (),
    AdmissionsRanked: (),
    GangsHeld: (),
    TurnSet: (),
    RightsSet: (),
    HostsReserved: (),
    GangsUnplaced: (),
    DisruptionAllowed: (),
    DisruptionDeferred: (),
    MatchingHostsChanged: (),
    PreemptionAsked: (RightsSet,),
    PreemptionsOrdered: (PreemptionAsked,),
}
"""Decisions that carry the newest change, and the kinds of records that lead to them where they carry one of those."""


class RoundPlace(NamedTuple):
    """Where a round stands, and how far it had taken in each topic, itself included."""

    offset: int
    ends: dict[str, int]


class Index(Protocol):
    """Finds records of a log."""

    def round(self, machine: str, number: int) -> RoundPlace | None:
        """A round; None: it isn't known."""
        ...

    def event(self, location: Location) -> Event | None:
        """The record at a place; None: there is none."""
        ...

    def cause_at(self, location: Location) -> Cause:
        """The position of a record that is there, as decisions carry it."""
        ...

    def mentions(
        self, job_id: str, kinds: Sequence[type[Event]], window: Window, ends: Mapping[str, int] | None = None
    ) -> Iterator[Location]:
        """The records of some kinds that name a job, and may name one of these runs: the last of each topic first,
        and topics in the reverse of `MACHINES`: an answer comes before what it answers. `ends`: only those before
        these offsets, of other topics none.
        """
        ...


class Link(NamedTuple):
    """One step back: a decision, and what led to it."""

    effect: Cause
    cause: Cause
    kind: Kind = "cause"
    run: Run | None = None
    """The run that both name."""


class Causes:
    """The causes of the decisions of a log. `runs_max`: so many runs of a decision are looked at, None: all."""

    def __init__(self, index: Index, runs_max: int | None = None) -> None:
        self._index = index
        self._runs_max = runs_max
        self._gangs: dict[str, int] = {}

    def event(self, place: Cause) -> Event | None:
        """The record at a position; None: it is none of this log."""
        location = self.location(place)
        return self._index.event(location) if location else None

    def location(self, place: Cause) -> Location | None:
        """Where a position stands in the log; None: of a deadline, or it isn't known."""
        if place.topic:
            return place.topic, place.offset, FACT
        round_ = self._index.round(place.machine, place.round) if place.machine else None
        return (rounds_of(place.machine), round_.offset, place.index) if round_ else None

    def of(self, place: Cause, run: Run | None = None) -> list[Cause]:
        """What led to the decision at a position: nothing to a fact, nor to a deadline. Of a decision that names many
        runs, what led to it for `run`, where it names that, else for any of them.
        """
        return list(dict.fromkeys(link.cause for link in self.links(place, run)))

    def links(self, place: Cause, run: Run | None = None) -> list[Link]:
        """The same as links, each cause once."""
        location = self.location(place) if place.machine else None
        event = self._index.event(location) if location else None
        if event is None or location is None:
            return []
        runs = runs_of(event)
        found = [Link(place, cause, self._kind(event, cause)) for cause in _carried(event, runs, run)]
        found += [Link(place, cause) for cause in _answered(event)]
        for one, some in islice(ties_of(event, runs, run), self._runs_max):
            tied = next((link for tie in some if (link := self._tied(place, tie, one))), None)
            found += [tied] if tied else []
        return list({link.cause: link for link in reversed(found)}.values())[::-1]

    def gang(self, job_id: str) -> int:
        """The number of instances of a job that are its gang."""
        if job_id not in self._gangs:
            accepted = map(self._index.event, self._index.mentions(job_id, (JobAccepted,), Window()))
            self._gangs[job_id] = next((event.gang_min for event in accepted if isinstance(event, JobAccepted)), 0)
        return self._gangs[job_id]

    def had_read(self, place: Cause, cause: Cause) -> bool:
        """Whether the machine had taken in a record, or decided it, when it decided what stands at a position."""
        location = self.location(cause)
        return location is not None and self._is_before(location, place)

    def back(self, place: Cause, run: Run | None = None) -> Iterator[Link]:
        """All that led to the decision at a position, the nearest first, each link once."""
        waiting, known = [place], {place}
        for effect in waiting:
            for link in self.links(effect, run):
                yield link
                if link.cause not in known:
                    known.add(link.cause)
                    waiting.append(link.cause)

    def _kind(self, event: Event, cause: Cause) -> Kind:
        """Whether a position that a decision carries is that of its cause, or only of the newest change then."""
        if type(event) not in NEWEST or cause.due_ms:
            return "cause"
        return "cause" if isinstance(self.event(cause), NEWEST[type(event)]) else "newest"

    def _tied(self, place: Cause, tie: Tie, run: Run) -> Link | None:
        """The last record before a decision by which it is tied to its cause for a run."""
        window, round_ = tie.window(self.gang, run), self._index.round(place.machine, place.round)
        if round_ is None or window.last < window.first or window.last_run < 1:
            return None
        ends = {**round_.ends, rounds_of(place.machine): round_.offset + 1}
        for location in self._index.mentions(run[0], tie.kinds, window, ends):
            record = self._index.event(location) if self._is_before(location, place) else None
            if record is not None and tie.holds(record, run[0], window):
                return Link(place, self._index.cause_at(location), "run" if tie.same_run else "entity", run)
        return None

    def _is_before(self, location: Location, place: Cause) -> bool:
        round_ = self._index.round(place.machine, place.round)
        if round_ is None:
            return False
        if location[0] == rounds_of(place.machine):
            return location[1:] < (round_.offset, place.index)
        return location[1] < round_.ends.get(location[0], 0)


def _carried(event: Event, runs: NamedRuns, run: Run | None) -> Iterator[Cause]:
    """The positions that a decision carries."""
    one, more = getattr(event, "cause", None), getattr(event, "causes", ())
    if isinstance(one, Cause):
        yield one
    if isinstance(event, PreemptionAnswered):
        yield event.order
    if isinstance(event, RunsEnded | DisruptionAllowed | DisruptionDeferred):
        which = event.cause_array if isinstance(event, RunsEnded) else event.job_array
        row = runs.row(run) if run else None
        chosen = {*which.tolist()} if row is None else {int(which[row])}
        more = [more[at] for at in sorted(chosen) if 0 <= at < len(more)]
    yield from (cause for cause in more if cause != NOTHING)


def _answered(event: Event) -> Iterator[Cause]:
    """The fact that a decision answers."""
    for name, topic in OFFSETS.items():
        if hasattr(event, name):
            yield Cause(topic=topic, offset=getattr(event, name))
