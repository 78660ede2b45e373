"""Why a decision was made, followed back by recorded links alone (decision 031): the positions of its causes that it
carries, and a run, a gang or a job that its cause names too (`cause_ties`).

The rules need an index of which records name a job, and read only the records that they look at.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple, Protocol

from events.causes import carried_causes
from events.records.base import Event
from events.records.lifecycle import JobAccepted
from events.records.parts import Cause
from events.topics import rounds_of
from projections.views.cause_ties import FACT, Location, Tie, ties_of
from projections.views.mentions import Run, Window, runs_of

Kind = Literal["cause", "newest", "run", "entity"]
"""The way that a link is known: the decision carries the position; that is only the newest change that its machine
knew, after which it decided; both name the same run; or both the same job, gang or instance.
"""


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
        """The causes of the decision at a position; a fact has none, nor has a deadline. Of a decision that names many
        runs those for `run`, where it names that, else for any of them.
        """
        return list(dict.fromkeys(link.cause for link in self.links(place, run)))

    def links(self, place: Cause, run: Run | None = None) -> list[Link]:
        """The same as links, each cause once."""
        location = self.location(place) if place.machine else None
        event = self._index.event(location) if location else None
        if event is None or location is None:
            return []
        runs = runs_of(event)
        carried = carried_causes(event, runs.row(run) if run else None)
        links = [Link(place, cause, self._kind(event, cause)) for cause in carried]
        for one, some in islice(ties_of(event, runs, run), self._runs_max):
            tied = next((link for tie in some if (link := self._tied(place, tie, one))), None)
            links += [tied] if tied else []
        return list({link.cause: link for link in reversed(links)}.values())[::-1]

    def gang(self, job_id: str) -> int:
        """The number of instances of a job that are its gang."""
        if job_id not in self._gangs:
            accepted = map(self._index.event, self._index.mentions(job_id, (JobAccepted,), Window()))
            self._gangs[job_id] = next((event.gang_min for event in accepted if isinstance(event, JobAccepted)), 0)
        return self._gangs[job_id]

    def back(self, place: Cause, run: Run | None = None) -> Iterator[Link]:
        """All that led to the decision at a position, the nearest first, each link once."""
        waiting, reached = [place], {place}
        for effect in waiting:
            for link in self.links(effect, run):
                yield link
                if link.cause not in reached:
                    reached.add(link.cause)
                    waiting.append(link.cause)

    def _kind(self, event: Event, cause: Cause) -> Kind:
        """Whether a position that a decision carries is that of its cause, or only of the newest change then."""
        if event.newest_unless is None or cause.due_ms:
            return "cause"
        return "cause" if type(self.event(cause)).__name__ in event.newest_unless else "newest"

    def _tied(self, place: Cause, tie: Tie, run: Run) -> Link | None:
        """The last record before a decision by which it is tied to its cause for a run."""
        window, round_ = tie.window(self.gang, run), self._index.round(place.machine, place.round)
        if round_ is None or window.last < window.first or window.last_run < 1:
            return None
        ends = {**round_.ends, rounds_of(place.machine): round_.offset + 1}
        for location in self._index.mentions(run[0], tie.kinds, window, ends):
            record = self._index.event(location) if self._is_before(location, place) else None
            if record is not None and tie.holds(record, run[0], window):
                return Link(place, self._index.cause_at(location), "run" if tie.by == "run" else "entity", run)
        return None

    def _is_before(self, location: Location, place: Cause) -> bool:
        round_ = self._index.round(place.machine, place.round)
        if round_ is None:
            return False
        if location[0] == rounds_of(place.machine):
            return location[1:] < (round_.offset, place.index)
        return location[1] < round_.ends.get(location[0], 0)
