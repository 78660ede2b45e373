"""The runs of a job that a record names, of the kinds that lead to decisions about it: the index by which causes are
found (`queries.causes`) tells which instances and runs a record names at most, so that few of them are read.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from events.bounds import INT_MAX
from events.columns import I32
from events.records.base import Event, RangesEvent
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered, RightsSet
from events.records.lifecycle import (
    DisruptionAsked,
    GangsQueued,
    InstancesChanged,
    InstancesTaken,
    InstancesWanted,
    JobAccepted,
    JobHeld,
    PreemptionAnswered,
    RunsEnded,
    RunsOverdue,
    RunsStopping,
)
from events.records.placement import GangsParked, GangsReturned, PreemptionAsked, TasksPlaced
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.records.tasks import HostInventory, RunsReported

REPORTS = (RunsReported, HostInventory)
_OF_ONE_JOB = (PreemptionAsked, InstancesChanged, InstancesTaken, InstancesWanted, JobAccepted, JobHeld)
_OF_MANY = (
    *REPORTS,
    *(AdmissionsRanked, GangsAdmitted, PreemptionsOrdered, RightsSet),
    *(DisruptionAsked, GangsQueued, PreemptionAnswered, RunsEnded, RunsOverdue, RunsStopping),
    *(GangsParked, GangsReturned, TasksPlaced, DisruptionAllowed, DisruptionDeferred),
)
KINDS: tuple[type[Event], ...] = (*_OF_ONE_JOB, *_OF_MANY)
"""Records that may be a cause without that a decision carries their position."""
INDEXED = frozenset(KINDS)
BITS = {kind.__name__: 1 << at for at, kind in enumerate(KINDS)}
"""The bit of each kind in the rows of histories."""
_ANY = (0, INT_MAX)

Window = tuple[int, ...]
"""First and last instance, first and last run."""
Named = tuple[str, Window]


def windows(event: Event) -> dict[str, Window]:
    """The runs of each job that a record of these kinds names."""
    return dict(_named(event)) if type(event) in INDEXED else {}


def _named(event: Any) -> Iterable[Named]:
    match event:
        case PreemptionAsked():
            return [(event.job_id, (event.first, event.first + event.count - 1, event.run, event.run))]
        case JobAccepted():
            return [(event.job_id, (*_ANY, event.first_run, event.first_run))]
        case InstancesChanged() | InstancesTaken() | InstancesWanted() if event.first:
            first, last = event.first_array, event.first_array + event.count_array - 1
            return [(event.job_id, (int(first.min()), int(last.max()), *_ANY))]
        case InstancesChanged() | InstancesTaken() | InstancesWanted() | JobHeld():
            return [(event.job_id, (*_ANY, *_ANY))]
        case RangesEvent():
            first = event.first_array
            return _of_many(event.job_ids, event.job_array, first, first + event.count_array - 1, event.run_array)
        case _:
            instance = event.instance_array
            return _of_many(event.job_ids, event.job_array, instance, instance, event.run_array)


def _of_many(job_ids: tuple[str, ...], job: I32, first: I32, last: I32, run: I32) -> Iterable[Named]:
    """The least and the greatest of the columns of each job over its items; items of no job are left out."""
    if len(job) == 1 and 0 <= job[0] < len(job_ids):  # most often, and then without numpy's costs
        return [(job_ids[job[0]], (int(first[0]), int(last[0]), int(run[0]), int(run[0])))]
    order = np.argsort(job, kind="stable")
    job = job[order]
    starts = np.flatnonzero(np.diff(job, prepend=-1))
    if not len(starts):
        return []
    low, low_run = (np.minimum.reduceat(column[order], starts).tolist() for column in (first, run))
    high, high_run = (np.maximum.reduceat(column[order], starts).tolist() for column in (last, run))
    windows_by_job = zip(job[starts].tolist(), zip(low, high, low_run, high_run, strict=True), strict=True)
    return [(job_ids[at], window) for at, window in windows_by_job if 0 <= at < len(job_ids)]
