"""The rule for machines that don't decide: which records they should have taken in, and since when.

The overview, the page of operations, its alarms, the metric that Prometheus reads and `paceline cell check` follow it.
"""

from collections.abc import Mapping

from events.bounds import ALARM_UNREAD_MS
from events.log.port import Log
from events.topics import HOSTS, JOBS, MACHINES, POOLS, TASKS, rounds_of

OWNERS = {JOBS.name: "lifecycle", TASKS.name: "lifecycle", POOLS.name: "entitlement", HOSTS.name: "placement"}
"""The machine that answers the facts of each topic."""
AT_ONCE = frozenset({JOBS.name, POOLS.name})
"""Users write these, and their owner answers at once."""
FACT_WITHIN_MS, DECISION_WITHIN_MS = 60_000, 3_600_000
"""A record from which nothing follows may lie for so many milliseconds before a round takes it in. A fact that another
machine answers is one of these (docs/architecture.md).
"""
_ROUNDS = {rounds_of(machine) for machine in MACHINES}


def late_since_ms(
    log: Log, machine: str, unread: Mapping[str, int], now_ms: int, after_ms: int = ALARM_UNREAD_MS
) -> int:
    """Since when the oldest record waits that a machine should have taken in; 0: there is none. `unread`: of each
    topic the offset of the first record that no round of the machine names. Raises LogError.
    """
    late = []
    for topic, offset in unread.items():
        within = DECISION_WITHIN_MS if topic in _ROUNDS else FACT_WITHIN_MS
        if topic in AT_ONCE and OWNERS[topic] == machine:
            within = 0
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
