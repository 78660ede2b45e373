"""Finds who moved a field last: the fact or decision, the actor and the reason behind it, and what followed from it
(decision 126). All of it is read when it is asked for: the views keep nothing for it.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from events.log.port import Log
from events.records.parts import Cause
from events.records.rounds import RoundCommitted
from events.topics import MACHINES, rounds_of
from paceline.client.cause_models import Blame, BlamedActor
from paceline.client.models import ActorName
from projections.access.limits import limits
from projections.actor_names import actor_json
from projections.queries import why
from projections.queries.blame_agents import writer
from projections.queries.blame_fields import Target
from projections.queries.log_places import write_place
from projections.queries.movers import Movers
from projections.record_json import at
from projections.views.rows import JobRow

FOLLOWED_MAX = 20
"""Records that are told of what followed."""
ROUNDS_MAX = 200
"""Rounds of each machine that are looked at for them."""
_LATER = (
    "SELECT at_ms, depth, machine, number, position FROM rounds "
    "WHERE machine = ? AND at_ms >= ? AND decisions > 0 ORDER BY at_ms, number LIMIT ?"
)


def blame_json(connection: Connection, log: Log, target: Target, text: str, value: Any, job: JobRow | None) -> Blame:
    """The answer about a field that has a value; `job`: the row of its job."""
    movers = Movers(connection, log, target, job)
    start = movers.last()
    causes = why.chain(connection, log, [start] if start else [])
    if start is None or (limits() is not None and causes.records[0].event is None):  # nobody did, or others
        return {
            "of": text, "value": value, "moved": None, "by": None, "followed": [], "followed_whole": True,
            "starts": [], "records": [], "whole": True,
        }  # fmt: skip
    reader = why.Records(connection, log)
    followed = list(_followed(connection, reader, start, causes.records[0].at_ms))
    effects = [each for each in followed[:FOLLOWED_MAX] if each.event is not None]
    return {
        "of": text,
        "value": value,
        "moved": write_place(start.place) or None,
        "by": _actor(causes, target) or _actor_of_order(connection, log, target, movers) or _agent_of(causes, target),
        "followed": [why.record_json(each) for each in effects],
        "followed_whole": len(followed) <= FOLLOWED_MAX,
        **why.chain_json(causes),
    }


def _actor(causes: why.Chain, target: Target) -> BlamedActor | None:
    """The nearest fact behind a record that says who wrote it: over links that may not be causes only where no other
    way leads to one. Of a host its agent is somebody too.
    """
    for kinds in (("cause", "run"), ("cause", "run", "entity"), ("cause", "run", "entity", "newest")):
        for record in _back(causes, kinds):
            actor = getattr(record.event, "actor", None)
            if actor is not None:
                reason = getattr(record.event, "reason", "") or actor.reason
                return _blamed(record, actor_json(actor), reason)
            if target.kind == "host" and (agent := writer(record, target)):
                return _blamed(record, agent, "")
    return None


def _actor_of_order(connection: Connection, log: Log, target: Target, movers: Movers) -> BlamedActor | None:
    """The same behind the order of a run: what hosts report of it names no cause."""
    order = movers.order()
    return _actor(why.chain(connection, log, [order]), target) if order else None


def _agent_of(causes: why.Chain, target: Target) -> BlamedActor | None:
    """The agent or gateway that wrote the nearest fact behind a record."""
    pairs = ((record, writer(record, target)) for record in _back(causes, ("cause", "run", "entity")))
    return next((_blamed(record, name, "") for record, name in pairs if name), None)


def _blamed(record: why.Record, actor: ActorName, reason: str) -> BlamedActor:
    return {"position": write_place(record.place), "at": at(record.at_ms), "actor": actor, "reason": reason}


def _back(causes: why.Chain, kinds: Sequence[str]) -> Iterator[why.Record]:
    """The records of a chain over links of some kinds, the nearest first."""
    records = {each.place: each for each in causes.records}
    waiting = [each.place for each in causes.starts]
    for place in waiting:
        if (record := records.get(place)) is not None:
            yield record
            waiting += [each.cause for each in record.links if each.kind in kinds and each.cause not in waiting]


def _followed(connection: Connection, reader: why.Records, start: why.Start, at_ms: int) -> Iterator[why.Record]:
    """The decisions that followed from a record, over all machines, in order; one more than are told where there are
    more. Links that may not be causes don't count.
    """
    reached: set[Cause] = {start.place}
    for place in _later(connection, reader, start.place, at_ms):
        links = reader.causes.links(place)
        if place in reached or not any(each.cause in reached and each.kind != "newest" for each in links):
            continue
        reached.add(place)
        yield reader.of(why.Start(place))
        if len(reached) > FOLLOWED_MAX + 1:
            return


def _later(connection: Connection, reader: why.Records, place: Cause, at_ms: int) -> Iterator[Cause]:
    """Decisions that were made after a record, in the order of causes."""
    rows = (connection.exec_driver_sql(_LATER, (machine, at_ms, ROUNDS_MAX)) for machine in MACHINES)
    for _, _, machine, number, position in heapq.merge(*(map(tuple, each) for each in rows)):
        if machine == place.machine and number < place.round:
            continue
        event = reader.index.record(rounds_of(machine), position)[1]
        if isinstance(event, RoundCommitted):
            first = place.index + 1 if (machine, number) == (place.machine, place.round) else 0
            for index in range(first, len(event.decisions)):
                yield Cause(machine=machine, round=number, index=index)


def part_of(value: Any, part: str) -> Any:
    """A part of a value: of amounts by resource, of a list of things by their name; None: it has none of that name."""
    if not part:
        return value
    if isinstance(value, list):
        items = (each for each in value if isinstance(each, dict) and part in (each.get("name"), each.get("key")))
        return next(items, part if part in value else None)
    return value.get(part) if isinstance(value, dict) else None
