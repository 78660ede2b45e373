"""The shapes of the tasks of a job."""

import numpy as np

from events.columns import I64
from events.records.lifecycle import GangsQueued, JobAccepted
from events.records.parts import TaskShape


def shape_index(job: JobAccepted) -> I64:
    """For each task the index of its shape; where ranges overlap, or name no task or shape, the last good one holds."""
    index = np.zeros(job.instances, dtype=np.int64)
    ranges = zip(*(column.tolist() for column in (job.first_array, job.count_array, job.shape_array)), strict=False)
    for first, count, at in ranges:
        if 0 <= at < len(job.shapes) and first >= 0:
            index[first : first + max(0, count)] = at
    return index


def queued_shapes(event: GangsQueued) -> I64:
    """For each range the index of what its tasks ask from now on; -1: what they asked before."""
    index = event.shape_array.astype(np.int64)
    return np.where((index >= 0) & (index < len(event.shapes)), index, -1)


def shape_of(job: JobAccepted, instance: int) -> TaskShape:
    """The shape of one task."""
    return job.shapes[int(shape_index(job)[instance])] if len(job.shapes) > 1 else job.shapes[0]
