"""How far the machines and the views are behind the log."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from events.log.port import Log
from events.topics import ALL, MACHINES
from projections.views import tables
from projections.views.reader import OWNERS, folded

LATE_MS = 120_000
"""A fact that its machine hasn't taken in after so long waits: machines write a round within a minute."""
_chains, _rounds = tables.chains.c, tables.rounds.c


class MachineLag(NamedTuple):
    """The newest round of a machine, when it was written, how many facts it hasn't taken in, and since when the oldest
    of them has waited for too long; 0: none has.
    """

    machine: str
    epoch: int
    round: int
    round_ms: int
    unread: int
    late_since_ms: int


def machine_lags(connection: Connection, log: Log, ends: Mapping[str, int], now_ms: int) -> Iterator[MachineLag]:
    """The lag of each machine, `ends` are those of the log. Raises LogError."""
    last = (_rounds.machine == _chains.machine) & (_rounds.number == _chains.round)
    query = select(_chains.machine, _chains.epoch, _chains.round, _chains.inputs, _rounds.at_ms).outerjoin(
        tables.rounds, last
    )
    known = {machine: rest for machine, *rest in connection.execute(query)}
    for machine in MACHINES:
        epoch, number, text, at_ms = known.get(machine, (0, 0, "{}", 0))
        have: dict[str, int] = msgspec.json.decode(text)
        unread = {
            topic: ends[topic] - have.get(topic, 0)
            for topic, owner in OWNERS.items()
            if owner == machine and ends[topic] > have.get(topic, 0)
        }
        late = 0
        if unread and now_ms - (at_ms or 0) > LATE_MS:
            oldest = min(next(iter(log.scan(topic, have.get(topic, 0)))).at_ms for topic in unread)
            late = oldest if now_ms - oldest > LATE_MS else 0
        yield MachineLag(machine, epoch, number, at_ms or 0, sum(unread.values()), late)


def ends_of(log: Log) -> dict[str, int]:
    """Where each topic ends. Raises LogError."""
    return log.ends(topic.name for topic in ALL)


def views_unread(connection: Connection, ends: Mapping[str, int]) -> int:
    """How many records the views don't have yet."""
    have = folded(connection)
    return sum(max(0, end - have.get(topic, 0)) for topic, end in ends.items())
