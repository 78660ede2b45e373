"""The way in which runs of each job leave hosts that drain: by the drain, the job, its SLA and its group."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from events.bounds import INSTANCES_MAX
from events.records.jobs import JobSubmitted
from events.records.parts import DrainPlan
from events.sla import Bounds, has_sla, hourly, limit, never_allows, replaces_first, strictest
from projections.queries.host_maintenance import BOUND_KINDS
from projections.queries.slas import bounds_in, group_row, jobs_of, sla_rows
from projections.queries.versions import submissions
from projections.views import tables
from projections.views.rows import JobRow

_SOME = 500


class Leaving(NamedTuple):
    """The way in which runs of a job leave hosts that drain."""

    way: str
    """at_once, asked, replaced, never, batch, moved, bound or forced."""
    allowed: int | None = None
    """The number of its instances that may be unavailable on purpose; None: it has no SLA."""
    why: str = ""
    """By what it never leaves before it ends, where that is so."""
    per_hour: int | None = None
    surge: int = 0
    """So many are replaced first at a time."""
    healthy_s: int = 0
    gang: int = 0
    """So many leave together."""
    group: str = ""
    """The group whose budget it shares, where that is set."""
    of_group: int = 0
    """The number of instances of the group that may be unavailable."""
    windowed: bool = False
    """Whether it leaves only in its windows."""


class Group(NamedTuple):
    """A group of jobs that is set, and its limit."""

    name: str
    bounds: Bounds
    limit: int


def ways_of(
    connection: Connection, jobs: Mapping[str, JobRow], drain: DrainPlan | None = None, force: bool = False
) -> dict[str, Leaving]:
    """By job how its runs leave hosts; `force`: all at once."""
    if force:
        return dict.fromkeys(jobs, Leaving("forced"))
    specs: dict[str, JobSubmitted] = {}
    offsets = [job.offset for job in jobs.values()]
    for start in range(0, len(offsets), _SOME):
        specs |= submissions(connection, offsets[start : start + _SOME])
    groups = _groups(connection, (spec.sla.group for spec in specs.values() if spec.sla is not None and spec.sla.group))
    drain = drain or DrainPlan()
    return {job_id: _way(job, specs.get(job_id), groups, drain) for job_id, job in jobs.items()}


def _groups(connection: Connection, names: Iterable[str]) -> dict[str, Group]:
    """The groups that are set, among these."""
    groups = {}
    for name in sorted(set(names)):
        if (row := group_row(connection, name)) is None:
            continue
        members = jobs_of(connection, [each.job_id for each in sla_rows(connection, tables.slas.c.shared == name)])
        bounds = bounds_in(row)
        groups[name] = Group(name, bounds, bounds.limit(sum(job.tasks for job in members.values())))
    return groups


def _way(job: JobRow, spec: JobSubmitted | None, groups: Mapping[str, Group], drain: DrainPlan) -> Leaving:
    moves = job.kind == "batch" and drain.batch == "move" and job.on_preempt != "fail"
    moves = moves and (spec is None or spec.preemptible)
    if spec is None or not has_sla(spec.max_unavailable, spec.sla):
        return Leaving(_kind(job, moves) or "at_once")
    policy, allowed = spec.sla, limit(spec.max_unavailable, spec.sla, job.tasks)
    replaces = replaces_first(policy)
    leaving = Leaving(
        _kind(job, moves) or ("replaced" if replaces and not allowed else "asked"),
        allowed,
        per_hour=hourly(policy, job.tasks),
        surge=policy.surge if policy is not None and replaces else 0,
        healthy_s=-(-policy.min_healthy_ms // 1000) if policy is not None else 0,
        gang=spec.gang_min if spec.gang_min > 1 else 0,
        windowed=policy is not None and bool(policy.windows),
    )
    group = groups.get(policy.group) if policy is not None else None
    if group is not None:
        leaving = leaving._replace(group=group.name, of_group=group.limit)
    if why := _never(leaving, job, spec, group):
        return leaving._replace(way="batch" if leaving.way == "batch" else "never", why=why)
    return leaving if leaving.way != "moved" else leaving._replace(way="asked")


def _kind(job: JobRow, moves: bool) -> str:
    """The way by the kind of the job; empty: by its SLA."""
    if job.kind in BOUND_KINDS:
        return "bound"
    return "" if job.kind != "batch" else "moved" if moves else "batch"


def _never(leaving: Leaving, job: JobRow, spec: JobSubmitted, group: Group | None) -> str:
    """By what nothing of a job ever leaves on purpose; empty: something does."""
    allowed, per_hour, gang = leaving.allowed or 0, leaving.per_hour, leaving.gang
    if never_allows(spec.max_unavailable, spec.sla, job.tasks):
        barred = not allowed and not leaving.surge
        return strictest(spec.max_unavailable, spec.sla, job.tasks) if barred else "max_disruptions_per_hour is 0"
    if group is not None and not group.bounds.limit(INSTANCES_MAX):
        return f"its group {group.name} has {group.bounds.words()}"
    if group is not None and not group.limit:
        return f"its group {group.name} has {group.bounds.words()}, and lets none of its instances be unavailable"
    if gang and not leaving.surge:
        for most, may in (
            (allowed, f"{allowed} may be unavailable"),
            (per_hour, f"{per_hour} may be disrupted in an hour"),
            (group.limit if group else None, f"{leaving.of_group} of its group {leaving.group} may be unavailable"),
        ):
            if most is not None and gang > most:
                return f"{gang} leave together, {may}"
    return ""
