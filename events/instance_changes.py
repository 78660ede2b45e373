"""The instances that a change of a job adds and removes."""

from typing import NamedTuple

import numpy as np

from events.columns import I64, spread
from events.records.lifecycle import InstancesChanged


class Change(NamedTuple):
    """Instances, ascending within each range of the record; `shape` is for each added one the index of its shape."""

    added: I64
    removed: I64
    shape: I64


def instance_change(event: InstancesChanged) -> Change:
    """The instances that a record names."""
    first, count, added_ones = event.first_array, event.count_array, event.wanted_array == 1
    added, removed = spread(first[added_ones], count[added_ones]), spread(first[~added_ones], count[~added_ones])
    return Change(added, removed, np.repeat(event.shape_array[added_ones].astype(np.int64), count[added_ones]))
