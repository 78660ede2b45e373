"""The lag of the machines and the views behind the log, and machines that don't decide (`projections/lateness.py`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, select

from events.bounds import ALARM_UNREAD_MS
from events.log.port import Log
from events.topics import ALL, MACHINES
from projections.lateness import late_since_ms, unread_of
from projections.queries.metric_families import Family, Samples
from projections.views import tables
from projections.views.reader import folded

BEHIND = 1_000
"""A machine whose newest round is young and that leaves no more than this unread needs no closer look."""
LATE = Family(
    GaugeMetricFamily,
    "paceline_machine_late_seconds",
    "How long a machine has left a record unread that is older than alarm_unread_after; 0: it decides.",
    ("machine",),
)
_chains, _rounds = tables.chains.c, tables.rounds.c


class MachineLag(NamedTuple):
    """The newest round of a machine, when it was written, how many records it hasn't taken in, and since when the
    oldest of them has waited for too long; 0: none has.
    """

    machine: str
    epoch: int
    round: int
    round_ms: int
    unread: int
    late_since_ms: int


def machine_lags(
    connection: Connection, log: Log, ends: Mapping[str, int], now_ms: int, after_ms: int = ALARM_UNREAD_MS
) -> Iterator[MachineLag]:
    """The lag of each machine; `ends` are those of the log, `now_ms` is the time of this machine, since the log's own
    stands still while nobody writes. Raises LogError.
    """
    last = (_rounds.machine == _chains.machine) & (_rounds.number == _chains.round)
    query = select(_chains.machine, _chains.epoch, _chains.round, _chains.inputs, _rounds.at_ms).outerjoin(
        tables.rounds, last
    )
    owners = {machine: rest for machine, *rest in connection.execute(query)}
    for machine in MACHINES:
        epoch, number, text, at_ms = owners.get(machine, (0, 0, "{}", 0))
        have: dict[str, int] = msgspec.json.decode(text)
        unread = unread_of(machine, have, ends)
        count = sum(ends[topic] - offset for topic, offset in unread.items())
        suspect = count > BEHIND or now_ms - (at_ms or 0) > after_ms
        late = late_since_ms(log, machine, unread, now_ms, after_ms) if unread and suspect else 0
        yield MachineLag(machine, epoch, number, at_ms or 0, count, late)


def look(lags: Sequence[MachineLag], cell: str, now_ms: int, samples: Samples) -> None:
    """Adds the samples of a cell."""
    for each in lags:
        late_s = (now_ms - each.late_since_ms) / 1000 if each.late_since_ms else 0.0
        samples[LATE.name].append(((cell, each.machine), late_s))


def ends_of(log: Log) -> dict[str, int]:
    """Where each topic ends. Raises LogError."""
    return log.ends(topic.name for topic in ALL)


def views_unread(connection: Connection, ends: Mapping[str, int]) -> int:
    """The number of records that the views don't have yet."""
    have = folded(connection)
    return sum(max(0, end - have.get(topic, 0)) for topic, end in ends.items())
