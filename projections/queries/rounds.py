"""Rounds of the four machines, by time."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, and_, literal, or_, select, tuple_

from events.topics import MACHINES, rounds_of
from projections.views import tables

LATER_MAX = 200
"""Rounds after one that are looked through for who took it in."""
_rounds = tables.rounds.c
_COLUMNS = select(
    _rounds.machine,
    _rounds.number,
    _rounds.position,
    _rounds.at_ms,
    _rounds.now,
    _rounds.epoch,
    _rounds.decisions,
    _rounds.depth,
    _rounds.ends,
)


class Round(NamedTuple):
    """An accepted round; `depth`: more than that of every round it had seen; `ends`: how far its machine had taken in
    each topic, itself included.
    """

    machine: str
    number: int
    offset: int
    at_ms: int
    now: int
    epoch: int
    decisions: int
    depth: int
    ends: Mapping[str, int]

    @property
    def order(self) -> tuple[int, int, int]:
        """The key by which rounds are ordered."""
        return self.at_ms, MACHINES.index(self.machine), self.number


def round_of(connection: Connection, machine: str, number: int) -> Round | None:
    """A round; None: it isn't in the views, or no longer."""
    query = _COLUMNS.where(_rounds.machine == machine, _rounds.number == number)
    return next(iter(_found(connection, query)), None)


def before(connection: Connection, machines: Sequence[str], size: int, last: Round | None = None) -> list[Round]:
    """The newest rounds of some machines, those before `last` where it is given; the newest first."""
    parts = []
    for machine in machines:
        query = _COLUMNS.where(_rounds.machine == machine)
        if last is not None:
            same_time = _rounds.number < last.number if machine == last.machine else literal(_is_before(machine, last))
            query = query.where(or_(_rounds.at_ms < last.at_ms, and_(_rounds.at_ms == last.at_ms, same_time)))
        parts.append(_found(connection, query.order_by(_rounds.at_ms.desc(), _rounds.number.desc()).limit(size)))
    return list(heapq.merge(*parts, key=lambda each: each.order, reverse=True))[:size]


def between(connection: Connection, from_ms: int, to_ms: int, limit: int) -> list[Round]:
    """The rounds of a time, of each machine the first; the oldest first."""
    parts = []
    for machine in MACHINES:
        query = _COLUMNS.where(_rounds.machine == machine, _rounds.at_ms.between(from_ms, to_ms))
        parts.append(_found(connection, query.order_by(_rounds.at_ms, _rounds.number).limit(limit)))
    return list(heapq.merge(*parts, key=lambda each: each.order))


def previous(connection: Connection, rounds: Iterable[Round]) -> dict[tuple[str, int], Round]:
    """The round before each of some rounds, by machine and number of the latter; the first of a machine has none."""
    keys = [(each.machine, each.number - 1) for each in rounds]
    rounds_before = _found(connection, _COLUMNS.where(tuple_(_rounds.machine, _rounds.number).in_(keys)))
    return {(each.machine, each.number + 1): each for each in rounds_before}


def taken_in_by(connection: Connection, round_: Round) -> list[Round]:
    """The first round of each other machine that took this one in, if there is one yet."""
    out = []
    for machine in MACHINES:
        if machine != round_.machine:
            query = _COLUMNS.where(_rounds.machine == machine, _rounds.at_ms >= round_.at_ms)
            later = _found(connection, query.order_by(_rounds.at_ms, _rounds.number).limit(LATER_MAX))
            out += [each for each in later if each.ends.get(rounds_of(round_.machine), 0) > round_.offset][:1]
    return sorted(out, key=lambda each: each.order)


def inputs(round_: Round, last: Round | None) -> dict[str, int]:
    """The number of records of each topic that a round took in since the last one of its machine, its own topic left
    out.
    """
    own, ends = rounds_of(round_.machine), last.ends if last else {}
    counts = {topic: end - ends.get(topic, 0) for topic, end in round_.ends.items() if topic != own}
    return {topic: count for topic, count in counts.items() if count}


def _is_before(machine: str, last: Round) -> bool:
    """Whether rounds of a machine come before another machine's of the same time."""
    return MACHINES.index(machine) < MACHINES.index(last.machine)


def _found(connection: Connection, query: Select[Any]) -> list[Round]:
    rows = map(tuple, connection.execute(query))
    return [Round._make((*row[:-1], msgspec.json.decode(row[-1]))) for row in rows]
