"""When a machine doesn't decide: what it leaves unread for too long, whatever else it does."""

import pytest

from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.topics import HOSTS, JOBS, POOLS, rounds_of
from projections.lateness import late_since_ms, unread_of

PLACEMENT = rounds_of("placement")


def log_of(**records: list[int]) -> MemoryLog:
    """A log whose topics have records that were appended at these times."""
    at_ms = iter(time for times in records.values() for time in times)
    log = MemoryLog(lambda: next(at_ms))
    for topic, times in records.items():
        for _ in times:
            log.append([NewRecord(f"paceline.{topic}", b"", b"")])
    return log


@pytest.mark.parametrize(
    ("machine", "topic", "within_ms"),
    [
        ("lifecycle", JOBS.name, 30_000),
        ("entitlement", POOLS.name, 30_000),
        ("lifecycle", POOLS.name, 90_000),  # a definition of a pool: entitlement answers, the others may leave it
        ("placement", POOLS.name, 90_000),
        ("placement", HOSTS.name, 90_000),
        ("lifecycle", PLACEMENT, 3_630_000),
    ],
)
def test_how_long_a_record_may_lie_depends_on_who_waits_for_it(machine: str, topic: str, within_ms: int) -> None:
    log = log_of(**{topic.removeprefix("paceline."): [1000, 2000]})
    assert late_since_ms(log, machine, {topic: 0}, 1000 + within_ms) == 0
    assert late_since_ms(log, machine, {topic: 0}, 1001 + within_ms) == 1000
    assert late_since_ms(log, machine, {topic: 1}, 1001 + within_ms) == 0, "what was read waits no more"
    assert late_since_ms(log, machine, {topic: 0}, 1001 + within_ms, after_ms=60_000) == 0


def test_the_oldest_of_all_topics_counts_and_none_is_late_where_nothing_is_unread() -> None:
    log = log_of(hosts=[1000], jobs=[5000])
    assert late_since_ms(log, "lifecycle", {JOBS.name: 0, HOSTS.name: 0}, 200_000) == 1000
    assert late_since_ms(log, "lifecycle", {}, 10**12) == 0


def test_what_a_machine_has_never_read_is_unread_and_its_own_rounds_are_not() -> None:
    ends = {JOBS.name: 4, POOLS.name: 2, rounds_of("lifecycle"): 9, PLACEMENT: 3}
    assert unread_of("lifecycle", {}, ends) == {JOBS.name: 0}
    have = {JOBS.name: 4, rounds_of("lifecycle"): 2, PLACEMENT: 1}
    assert unread_of("lifecycle", have, ends) == {PLACEMENT: 1}
