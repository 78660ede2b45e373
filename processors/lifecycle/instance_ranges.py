"""Instances of a job as the ranges of a record."""

import numpy as np

from events.columns import I64, ranges_in
from events.records.base import InstancesEvent


def stretches(instances: I64, *also: I64) -> tuple[I64, I64]:
    """Where stretches of neighbours begin that are equal in all else, and how long they are."""
    breaks = np.ones(len(instances), dtype=np.bool_)
    breaks[1:] = np.diff(instances) != 1
    for column in also:
        breaks[1:] |= np.diff(column) != 0
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(breaks)))


def ranges(instances: I64) -> dict[str, I64]:
    """Instances, ascending, as the ranges of a record."""
    first, count = ranges_in(instances)
    return {"first": first, "count": count}


def named(event: InstancesEvent, instances: int) -> I64:
    """The instances in the ranges of a record, of a job that has so many; those that it hasn't are left out."""
    if not event.first:
        return np.arange(instances)
    all_named = event.named_instances()
    existing: I64 = all_named[(all_named >= 0) & (all_named < instances)]
    return existing
