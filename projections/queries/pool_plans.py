"""A change of pools, and what comes of it in two branches of the cell: in one of them it was made.

Decisions 036 and 076.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection

from events.codes import IN_EFFECT
from events.pool_paths import ROOT
from events.records.pools import PoolDefined
from events.resources import Kinds
from events.spec.pool import PoolSpec, from_event
from paceline.client.json_type import Json
from paceline.client.pool_models import CellPlan, FieldChange, JobOutlook, PoolChange, PoolOutlook
from projections.queries import entities, pool_tree


class PoolWish(NamedTuple):
    """A pool as it shall be."""

    path: str
    spec: PoolSpec


class Outlook(msgspec.Struct, frozen=True):
    """The end of a branch: by pool its entitlement and its allocation when the branch began, by job how many of its
    tasks were admitted and preempted, and its pool, its priority and its place among those that were accepted.
    """

    changes: list[PoolChange]
    entitlements: dict[str, Json]
    allocations: dict[str, Json]
    admitted: dict[str, int]
    preempted: dict[str, int]
    jobs: dict[str, tuple[str, int, int]]


def cell_plan(cell: int, without: Outlook, changed: Outlook) -> CellPlan:
    """The result of a change, from the branches without it and with it."""
    queue = sorted(changed.jobs, key=lambda job_id: (-changed.jobs[job_id][1], changed.jobs[job_id][2]))
    leaving = sorted(changed.jobs, key=lambda job_id: (changed.jobs[job_id][1], -changed.jobs[job_id][2]))
    return {
        "cell": cell,
        "changes": changed.changes,
        "pools": list(_pools(without, changed)),
        "lets_in": list(_more(queue, changed, without.admitted, changed.admitted)),
        "preempts": list(_more(leaving, changed, without.preempted, changed.preempted)),
    }


def change_json(event: PoolDefined, old: PoolDefined | None, code: str, message: str, kinds: Kinds) -> PoolChange:
    """A planned pool: the fields that differ from those that it has, and what entitlement answers."""
    new = from_event(event, kinds.units)
    was = from_event(old, kinds.units) if old else {}
    fields: dict[str, FieldChange] = {
        name: {"before": was.get(name), "after": value} for name, value in new.items() if was.get(name) != value
    }
    fine = code in IN_EFFECT
    kind = ("create" if old is None else "change" if fields else "unchanged") if fine else "refuse"
    return {"path": event.path, "change": kind, "fields": fields, "code": code, "message": message}


def outlook(
    connection: Connection,
    changes: list[PoolChange],
    allocations: dict[str, Json],
    admitted: dict[str, int],
    preempted: dict[str, int],
) -> Outlook:
    """The end of a branch. `connection`: to the views of it."""
    rows = {job_id: entities.job_row(connection, job_id) for job_id in {*admitted, *preempted}}
    jobs = {job_id: (row.pool, row.priority, row.number) for job_id, row in rows.items() if row is not None}
    entitlements = {pool["path"]: pool["entitlement"] for pool in pool_tree.pools_json(connection)}
    return Outlook(changes, entitlements, allocations, admitted, preempted, jobs)


def _pools(without: Outlook, changed: Outlook) -> Iterator[PoolOutlook]:
    """The pools whose entitlement the change changes."""
    for path in sorted(changed.entitlements):
        before, after = without.entitlements.get(path), changed.entitlements[path]
        if path != ROOT and (before or {}) != (after or {}):
            allocation = changed.allocations.get(path, {})
            yield {"path": path, "entitlement": {"before": before, "after": after}, "allocation": allocation}


def _more(
    order: Sequence[str], changed: Outlook, before: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[JobOutlook]:
    """The tasks of jobs that the change adds to what comes without it."""
    for job_id in order:
        tasks = after.get(job_id, 0) - before.get(job_id, 0)
        if tasks > 0:
            pool, priority, _ = changed.jobs[job_id]
            yield {"job_id": job_id, "pool": pool, "priority": priority, "tasks": tasks}
