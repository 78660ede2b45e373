"""The instances that a change of a job adds and removes."""

from typing import NamedTuple

import numpy as np

from events.columns import I64, ints, spread
from events.records.lifecycle import InstancesChanged


class Change(NamedTuple):
    """Instances, ascending within each range of the record; `shape` is for each added one the index of its shape."""

    added: I64
    removed: I64
    shape: I64


def instance_change(event: InstancesChanged) -> Change:
    """The instances that a record names."""
    first, count, added_ones = ints(event.first), ints(event.count), ints(event.wanted) == 1
    added, removed = spread(first[added_ones], count[added_ones]), spread(first[~added_ones], count[~added_ones])
    return Change(added, removed, np.repeat(ints(event.shape)[added_ones].astype(np.int64), count[added_ones]))
