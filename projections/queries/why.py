"""Why something was decided, as the API and the pages show it: the records that led to it and the links between them,
each record with its sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from events.codec import decode
from events.codes import ENDED_JOBS
from events.log.port import Log
from events.records.base import Event
from events.records.parts import Cause
from events.records.rounds import RoundCommitted
from events.resources import Kinds
from events.topics import ALL
from paceline.client.cause_models import CauseChain, CauseRecord
from projections.actor_names import actor_json
from projections.queries import entities, story
from projections.queries.cause_index import ViewIndex
from projections.queries.causes import Causes, Link
from projections.queries.job_entries import newest_first
from projections.queries.log_places import Place, write_place
from projections.queries.own_records import OwnRecords, own_records
from projections.queries.resources import kinds_of
from projections.queries.story_parts import Line, text_of
from projections.record_json import at
from projections.views.job_history import detail_of
from projections.views.job_states import REJECTED
from projections.views.mentions import Run
from projections.views.rows import JobRow

RECORDS_MAX = 200
"""Records of a chain; what leads to more of them isn't followed."""
RUNS_MAX = 20
"""Runs of one decision that are followed."""
STARTS_MAX = 20
"""Decisions of one round that are followed."""
LOOKED_AT_MAX = 1000
OTHERS = "something of another pool"
"""The words for a record of others, to limited readers."""
ALIKE_MAX = 2
"""Rows alike that follow from one another in a tree; those further back are counted."""
_WAITS = ("GangsHeld", "GangsUnplaced", "GangsReturned")
_QUEUED = ("GangsQueued", "GangsAdmitted", "TasksPlaced")
_RUNS = ("RunsEnded", "RunsStopping", "RunsOrdered")


class Start(NamedTuple):
    """A record that is to be explained, for a run where one is meant."""

    place: Cause
    run: Run | None = None


class Record(NamedTuple):
    """A record of a chain, and the links to what led to it."""

    place: Cause
    event: Event | None
    """None: it can't be read any more, or it is a deadline."""
    at_ms: int
    run: Run | None
    line: Line
    links: list[Link]


class Chain(NamedTuple):
    """The records, those asked for first, then always what led to one of them; `whole`: nothing was left out."""

    starts: list[Start]
    records: list[Record]
    whole: bool


class Records:
    """Reads records and their links as who asks may see them."""

    def __init__(self, connection: Connection, log: Log) -> None:
        self.index = ViewIndex(connection, log)
        self.causes = Causes(self.index, RUNS_MAX)
        self._kinds, self._own = kinds_of(connection), own_records(connection)

    def of(self, start: Start) -> Record:
        """The record at a position, in words."""
        links = self.causes.links(start.place, start.run)
        record = _record(self.index, self.causes, start, links, self._kinds)
        return record if self._own is None else _limited(record, self._own, self._kinds)


def chain(connection: Connection, log: Log, starts: Sequence[Start]) -> Chain:
    """What led to some records."""
    reader = Records(connection, log)
    waiting, known, records = list(starts), {each.place for each in starts}, []
    for start in waiting:
        record = reader.of(start)
        records.append(record)
        for link in record.links:
            if link.cause not in known and len(known) < RECORDS_MAX:
                known.add(link.cause)
                waiting.append(Start(link.cause, link.run or start.run))
    return Chain(list(starts), records, all(link.cause in known for each in records for link in each.links))


def _record(index: ViewIndex, causes: Causes, start: Start, links: list[Link], kinds: Kinds) -> Record:
    place, run = start
    location = causes.location(place)
    event = index.event(location) if location else None
    at_ms = index.record(*location[:2])[0] if location else place.due_ms
    if event is not None:
        line = story.line_of(event, kinds, run[0] if run else "")
    elif place.topic or place.machine:
        line = ("it can't be read any more",)
    else:
        line = ("this time had come",)
    return Record(place, event, at_ms, run, line, links)


def _limited(record: Record, own: OwnRecords, kinds: Kinds) -> Record:
    """A record as a limited reader sees it: one of others has no words, and nothing is told of what led to it."""
    if record.event is None:
        return record
    about = own.subjects(record.event)
    if about is None:
        return record._replace(event=None, run=None, line=(OTHERS,), links=[])
    run = record.run if record.run and record.run[0] in about.jobs else None
    links = [each if each.run and each.run[0] in about.jobs else each._replace(run=None) for each in record.links]
    return record._replace(run=run, line=own.line(record.event, kinds, about, run[0] if run else ""), links=links)


def starts_at(connection: Connection, log: Log, place: Place) -> list[Start]:
    """The fact or the decisions at a position; empty: there is nothing."""
    offset = place.number if place.topic else entities.round_offset(connection, place.machine, place.number)
    if offset is None:
        return []
    topic = place.topic or f"paceline.{place.machine}"
    event = ViewIndex(connection, log).record(topic, offset)[1]
    if event is None or isinstance(event, RoundCommitted) != bool(place.machine):
        return []
    own = own_records(connection)
    if not isinstance(event, RoundCommitted):
        return [Start(Cause(topic=topic, offset=offset))] if own is None or own.subjects(event) else []
    indexes = range(len(event.decisions)) if place.decision is None else range(place.decision, place.decision + 1)
    in_round = (index for index in indexes if index < len(event.decisions))
    seen = (index for index in in_round if own is None or own.subjects(decode(event.decisions[index])))
    return [Start(Cause(machine=event.machine, round=event.round, index=index)) for index in islice(seen, STARTS_MAX)]


def starts_of(connection: Connection, row: JobRow) -> list[Start]:
    """The decision behind the headline of a job: why it waits, or what became of its runs last."""
    if row.state == REJECTED:
        order: tuple[tuple[str, ...], ...] = (("JobRejected",),)
    elif row.queued and row.state not in ENDED_JOBS:
        order = (_WAITS, _QUEUED)
    else:
        order = (_RUNS, ("JobChanged", "JobAccepted", "JobSubmitted"))
    code = next((reason.code for reason in entities.reasons_of(connection, row)), None)
    for events in order:
        found = list(_told(connection, row.job_id, events))
        best = next((start for start, said in found if said == code), found[0][0] if found else None)
        if best is not None:
            return [best]
    return []


def _told(connection: Connection, job_id: str, events: Sequence[str]) -> Iterator[tuple[Start, str]]:
    """The last records of some kinds that told a job something, and their codes; the newest first."""
    told = (entry for entry in newest_first(connection, job_id) if entry.event in events and entry.said is not None)
    for entry in islice(told, LOOKED_AT_MAX):
        topic, detail = ALL[entry.topic], detail_of(entry.said or {})
        run = (job_id, detail["instance"], detail["run"]) if "run" in detail and "instance" in detail else None
        position = Cause(topic=topic.name, offset=entry.offset)
        if topic.machine:
            position = Cause(machine=topic.machine, round=entry.round, index=entry.place)
        yield Start(position, run), detail.get("code", "")


def chain_json(found: Chain) -> CauseChain:
    """A chain as JSON has it."""
    return {
        "starts": [write_place(each.place) for each in found.starts],
        "records": [record_json(each) for each in found.records],
        "whole": found.whole,
    }


def record_json(record: Record) -> CauseRecord:
    """A record as JSON has it. A link is `recorded` where the decision carries the position, or both name the run."""
    job_id, instance, run = record.run or ("", 0, 0)
    return {
        "position": write_place(record.place) or None,
        "at": at(record.at_ms),
        "event": type(record.event).__name__ if record.event else None,
        "text": text_of(record.line),
        "actor": actor_json(getattr(record.event, "actor", None)),
        "run": {"job_id": job_id, "instance": instance, "run": run} if record.run else None,
        "causes": [
            {
                "position": write_place(link.cause) or None,
                "at": at(link.cause.due_ms) if link.cause.due_ms else None,
                "link": link.kind,
                "recorded": link.kind != "entity",
            }
            for link in record.links
        ],
    }


@dataclass(slots=True)
class Branch:
    """A row of a chain as a tree shows it, by number: to which row its record led, how, and how deep that is.

    `seen`: the row that has the record already, and what led to it. `times`: so many more records like it stand further
    back and are told here: gangs are returned and admitted again and again.
    """

    number: int
    of: int
    depth: int
    link: Link | None
    record: Record
    seen: int = 0
    times: int = 0


def tree(found: Chain) -> list[Branch]:
    """A chain as a tree, from what is asked for down to what led to it."""
    records = {each.place: each for each in found.records}
    seen: dict[Cause, Branch] = {}
    out: list[Branch] = []
    waiting: list[tuple[list[Branch], Link | None, Cause]] = [([], None, each.place) for each in reversed(found.starts)]
    while waiting:
        above, link, place = waiting.pop()
        record = records.get(place)
        if record is None:
            continue
        alike = [each for each in above if _alike(each.record, record)] if place not in seen else []
        links = record.links
        if len(alike) >= ALIKE_MAX:
            seen[place], path = alike[-1], above
            alike[-1].times += 1
            links = [each for each in links if each.kind != "newest"]
        else:
            earlier = seen.get(place)
            of = above[-1].number if above else 0
            row = Branch(len(out) + 1, of, len(above), link, record, earlier.number if earlier else 0)
            out.append(row)
            if earlier:
                continue
            seen[place], path = row, [*above, row]
        waiting += [(path, each, each.cause) for each in reversed(links)]
    return out


def _alike(one: Record, other: Record) -> bool:
    """Whether two records say the same kind of thing of the same job, pool or host."""
    return one.event is not None and type(one.event) is type(other.event) and one.line[0] == other.line[0]
