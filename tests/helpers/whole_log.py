"""An index of causes that reads a whole log and remembers all of it: the truth about the index in the views."""

from collections.abc import Iterator, Mapping, Sequence

from events.acceptance import Chain
from events.codec import decode
from events.log.port import Log
from events.records.base import Event
from events.records.parts import Cause
from events.records.rounds import RoundCommitted
from events.rounds import accept
from events.topics import ALL, MACHINES, RANK, rounds_of
from projections.queries.causes import Causes, RoundPlace
from projections.views.cause_ties import FACT, Location
from projections.views.mentions import Window


class WholeLog:
    """See `Index`. `rounds`: the decisions of each round, by machine and number."""

    def __init__(self, log: Log) -> None:
        self.rounds: dict[tuple[str, int], tuple[Event, ...]] = {}
        self._places: dict[tuple[str, int], RoundPlace] = {}
        self._events: dict[Location, Event] = {}
        self._causes: dict[Location, Cause] = {}
        self._by_job: dict[str, list[Location]] = {}
        for topic in (topic.name for topic in ALL if topic.machine is None):
            for record in log.scan(topic, 0):
                try:
                    event = decode(record.value)
                except ValueError:
                    continue
                self._note((topic, record.offset, FACT), Cause(topic=topic, offset=record.offset), event)
        for machine in MACHINES:
            topic, chain = rounds_of(machine), Chain()
            for record in log.scan(topic, 0):
                round_ = accept(record, chain, machine, log.cell).event
                if isinstance(round_, RoundCommitted):
                    decisions = tuple(map(decode, round_.decisions))
                    self.rounds[machine, round_.round] = decisions
                    self._places[machine, round_.round] = RoundPlace(record.offset, dict(chain.inputs))
                    for index, decision in enumerate(decisions):
                        place = Cause(machine=machine, round=round_.round, index=index)
                        self._note((topic, record.offset, index), place, decision)

    def round(self, machine: str, number: int) -> RoundPlace | None:
        return self._places.get((machine, number))

    def event(self, location: Location) -> Event | None:
        return self._events.get(location)

    def cause_at(self, location: Location) -> Cause:
        return self._causes[location]

    def mentions(
        self, job_id: str, kinds: Sequence[type[Event]], window: Window, ends: Mapping[str, int] | None = None
    ) -> Iterator[Location]:
        """All of these kinds: whether one names a run of the window and stands before the ends is left to who asks."""
        found = [each for each in self._by_job.get(job_id, ()) if isinstance(self._events[each], tuple(kinds))]
        yield from sorted(found, key=lambda each: (RANK[each[0]], *each[1:]), reverse=True)

    def had_read(self, place: Cause, cause: Cause) -> bool:
        """Whether a machine had read a record, or decided it, when it decided what stands at a position."""
        location, round_ = Causes(self).location(cause), self.round(place.machine, place.round)
        if location is None or round_ is None:
            return False
        if location[0] == rounds_of(place.machine):
            return location[1:] < (round_.offset, place.index)
        return location[1] < round_.ends.get(location[0], 0)

    def _note(self, location: Location, place: Cause, event: Event) -> None:
        self._events[location], self._causes[location] = event, place
        for job_id in {*getattr(event, "job_ids", ()), getattr(event, "job_id", "")}:
            self._by_job.setdefault(job_id, []).append(location)


def causes(log: Log) -> Causes:
    """The causes of a log, read whole."""
    return Causes(WholeLog(log))
