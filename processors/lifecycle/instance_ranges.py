"""Instances of a job as the ranges of a record."""

import numpy as np

from events.columns import I64, pack_ints


def stretches(instances: I64, *also: I64) -> tuple[I64, I64]:
    """Where stretches of neighbours begin that are equal in all else, and how long they are."""
    breaks = np.ones(len(instances), dtype=np.bool_)
    breaks[1:] = np.diff(instances) != 1
    for column in also:
        breaks[1:] |= np.diff(column) != 0
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(breaks)))


def ranges(instances: I64) -> dict[str, bytes]:
    """Instances, ascending, as the ranges of a record."""
    first, count = stretches(instances)
    return {"first": pack_ints(instances[first]), "count": pack_ints(count)}
