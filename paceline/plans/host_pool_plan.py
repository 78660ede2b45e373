"""The plan of a change of host pools: whether placement takes it, and the jobs that may use fewer hosts then."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from events.codes import IN_EFFECT, Code
from events.columns import counted, distinct
from events.records.hosts import HostPoolAssigned, HostPoolDefined
from paceline.client.host_models import HostPoolPlan, JobOfHostPools
from paceline.plans.branch import Branch, hosts_answer
from paceline.plans.planning import Copy
from processors.entitlement.machine import Entitlement
from processors.placement.cluster_view import ClusterView
from processors.placement.explain import could, reason_when_empty
from processors.placement.machine import Placement
from processors.placement.packing import feasible
from processors.placement.rows import JobRow
from processors.placement.shape_view import ShapeView

JOBS_MAX = 200
"""So many jobs are told, those that fit nowhere first."""


class JobHosts(NamedTuple):
    """The hosts that a job may use, if each of its tasks may use them."""

    pool: str
    hosts: int
    fits: bool
    """Whether one of its tasks fits there, or its gang, if nothing else ran."""
    runs_outside: int
    """Its runs on hosts of host pools that it may not use: they go on."""


def plan_change(copy: Copy, fact: HostPoolDefined | HostPoolAssigned, until_s: float) -> HostPoolPlan:
    """The plan of a definition, a removal or an assignment on a branch. `until_s`: see `Branch`."""
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()  # what was written before is decided before
    before, at = hosts_of_jobs(copy), len(branch.decisions)
    [offset] = branch.append([fact])
    branch.settle()
    answer = hosts_answer(branch.decisions[at:], offset)
    return {
        "code": answer.code if answer else Code.NOT_YET_EVALUATED,
        "message": answer.message if answer else "",
        "refused": answer is not None and answer.code not in IN_EFFECT,
        "jobs": jobs_with_fewer_hosts(copy, before),
    }


def hosts_of_jobs(copy: Copy) -> dict[str, JobHosts]:
    """The hosts that each job may use as the branch stands; daemons, which may use all host pools, are left out."""
    placement, entitlement = copy.folds["placement"].machine, copy.folds["entitlement"].machine
    assert isinstance(placement, Placement)
    assert isinstance(entitlement, Entitlement)
    gangs = {job_id: row.gang_min for job_id, row in entitlement.queues.jobs.items()}
    view = placement.view()
    return {
        job_id: _hosts_of(placement, view, row, gangs.get(job_id, 0))
        for job_id, row in placement.runs.jobs.items()
        if not row.daemon
    }


def jobs_with_fewer_hosts(copy: Copy, before: Mapping[str, JobHosts]) -> list[JobOfHostPools]:
    """The jobs that may use fewer hosts than before, or of which more runs are where they may not be."""
    rows: list[JobOfHostPools] = [
        {
            "job_id": job_id,
            "pool": then.pool,
            "hosts": before[job_id].hosts,
            "hosts_then": then.hosts,
            "fits": then.fits,
            "runs_outside": then.runs_outside,
        }
        for job_id, then in hosts_of_jobs(copy).items()
        if job_id in before and (then.hosts < before[job_id].hosts or then.runs_outside > before[job_id].runs_outside)
    ]
    return sorted(rows, key=lambda row: (row["fits"], row["hosts_then"], row["job_id"]))[:JOBS_MAX]


def _hosts_of(placement: Placement, view: ClusterView, row: JobRow, gang: int) -> JobHosts:
    hosts, arena, choices = placement.hosts, placement.runs.arena, placement.hosts.pools.reach(row)
    tasks = slice(row.base, row.base + row.instances)
    numbers, sizes = counted(arena["shape"][tasks][: gang if gang > 1 else None])
    parts = [(view.shape(number, row), size) for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True)]
    units = [parts] if gang > 1 else [[(shape, 1)] for shape, _ in parts]
    fits = all(any(reason_when_empty(view, way) is None for way in view.ways(unit)) for unit in units)
    counts = [_usable(view, shape) for shape, _ in parts]
    slots = row.base + np.flatnonzero(arena["placed"][tasks])
    at = [hosts.pools.of(hosts.ids[number - 1]) for number in arena["host"][slots].tolist()]
    outside = sum(name not in choices for name in at) if choices else 0
    return JobHosts(row.pool, min(counts, default=0), fits, outside)


def _usable(view: ClusterView, shape: ShapeView) -> int:
    """Counts the hosts that could hold a task, whichever of its alternatives it takes, if nothing else ran."""
    hosts = view.hosts
    ways = [feasible(hosts.whole, each.need, hosts.counts & could(view, each)) for each in view.alternatives(shape)]
    return len(distinct(np.concatenate(ways)))
