"""The lag of the machines and the views behind the log, and machines that don't decide.

`late_since_ms` is the one rule for that: the overview, the page of operations, its alarms, the metric that Prometheus
reads and `paceline cell check` all follow it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, select

from events.bounds import ALARM_UNREAD_MS
from events.log.port import Log
from events.topics import ALL, JOBS, MACHINES, POOLS, rounds_of
from projections.queries.metric_families import Family, Samples
from projections.views import tables
from projections.views.reader import OWNERS, folded

WITHIN_MS = {JOBS.name: 0, POOLS.name: 0}
"""Milliseconds that a record may lie before a round takes it in though nothing follows from it. What users write is
answered at once; other facts are recorded within a minute, decisions of other machines within an hour
(docs/architecture.md).
"""
FACT_WITHIN_MS, DECISION_WITHIN_MS = 60_000, 3_600_000
BEHIND = 1_000
"""A machine whose newest round is young and that leaves no more than this unread needs no closer look."""
LATE = Family(
    GaugeMetricFamily,
    "paceline_machine_late_seconds",
    "How long a machine has left a record unread that is older than alarm_unread_after; 0: it decides.",
    ("machine",),
)
_ROUNDS = {rounds_of(machine) for machine in MACHINES}
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


def late_since_ms(log: Log, unread: Mapping[str, int], now_ms: int, after_ms: int = ALARM_UNREAD_MS) -> int:
    """Since when the oldest record waits that its machine should have taken in; 0: there is none. `unread`: of each
    topic the offset of the first record that no round of the machine names. Raises LogError.
    """
    late = []
    for topic, offset in unread.items():
        within = WITHIN_MS.get(topic, DECISION_WITHIN_MS if topic in _ROUNDS else FACT_WITHIN_MS)
        at_ms = next((record.at_ms for record in log.scan(topic, offset)), now_ms)
        if now_ms - at_ms > within + after_ms:
            late.append(at_ms)
    return min(late, default=0)


def unread_of(machine: str, have: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
    """The offset of the first record of each topic that no round of a machine names. `have`: where its rounds
    have read to, `ends`: where the topics end.
    """
    own = {topic: 0 for topic, owner in OWNERS.items() if owner == machine}
    read = {topic: offset for topic, offset in {**own, **have}.items() if topic != rounds_of(machine)}
    return {topic: offset for topic, offset in read.items() if ends.get(topic, 0) > offset}


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
        late = late_since_ms(log, unread, now_ms, after_ms) if unread and suspect else 0
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
