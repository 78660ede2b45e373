"""The runs that a record names."""

from typing import Any

from events.columns import ints
from events.records.base import Event
from events.records.entitlement import PreemptionRefused, TurnSet
from events.records.placement import GangsUnplaced, HostsReserved, PreemptionAsked

Run = tuple[str, int, int]
"""Job, instance, run."""
OF_A_GANG = (HostsReserved, PreemptionAsked, PreemptionRefused, TurnSet)
"""Decisions that name the runs of one gang, or one run."""


def runs_of(event: Event) -> list[Run]:
    """The runs that a record names."""
    each: Any = event
    if isinstance(event, GangsUnplaced):
        return [(each.job_id, each.instance, each.run)]
    if isinstance(event, OF_A_GANG):
        return [(each.job_id, instance, each.run) for instance in range(each.first, each.first + each.count)]
    if not hasattr(event, "job_ids") or not hasattr(event, "run"):
        return []
    job, run = ints(each.job).tolist(), ints(each.run).tolist()
    if hasattr(event, "first"):
        first, count = ints(each.first).tolist(), ints(each.count).tolist()
        rows = zip(job, first, count, run, strict=True)
        return [(each.job_ids[at], start + more, r) for at, start, many, r in rows for more in range(many)]
    rows_ = zip(job, ints(each.instance).tolist(), run, strict=True)
    return [(each.job_ids[at], instance, number) for at, instance, number in rows_ if 0 <= at < len(each.job_ids)]
