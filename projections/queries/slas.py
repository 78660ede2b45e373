"""The budgets of jobs and groups as they stand, derived from tasks: sla counts by itself (decision 096)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codes import ENDED_TASKS, RunCause, TaskState
from events.columns import I32
from events.instance_ranges import write_ranges
from events.records.parts import SlaPolicy
from events.schedules import next_opening
from events.sla import Bounds, hourly, limit, never_allows, replaces_first, strictest
from events.spec.sla import sla_body, write_part
from events.words import plural
from paceline.client.sla_models import SlaGroup, SlaGroupUse, SlaHour, SlaState, SlaUse
from projections.queries.disruption_waits import waits_of_job
from projections.queries.pages import rows_of
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.sla_rows import SlaGroupRow, SlaRow

HOUR_S = 3600
LEAVES = (RunCause.REMOVE, RunCause.STOP, RunCause.JOB_END)
"""Causes of stops by which an instance isn't wanted any more."""
BY_OTHERS = (RunCause.PREEMPT, RunCause.DRAIN, RunCause.REBALANCE)
"""Causes that count in the hour."""
CAUSES = {
    RunCause.PREEMPT: "a preemption",
    RunCause.GANG: "its gang",
    RunCause.DRAIN: "a drain",
    RunCause.EVICT: "a forced drain",
    RunCause.UPDATE: "an update or a restart",
    RunCause.REBALANCE: "a rebalancing",
    RunCause.HEALTH: "its health check",
    RunCause.HOLD: "a hold",
}
RANGES_SHOWN = 5


class Counted(NamedTuple):
    """The instances of a job, as an SLA counts them."""

    whole: int
    missing: int
    used: list[SlaUse]
    extra: int = 0
    """The number of available instances beyond the wanted ones."""


def policy_of(row: SlaRow | None) -> tuple[int | None, SlaPolicy | None]:
    """The SLA of a job as records have it."""
    if row is None:
        return None, None
    most = row.max_unavailable if row.max_unavailable >= 0 else None
    return most, msgspec.json.decode(row.policy, type=SlaPolicy) if row.policy else None


def sla_rows(connection: Connection, *where: Any, most: int = 0) -> list[SlaRow]:
    """The SLAs of open jobs, by job."""
    query = select(tables.slas).where(*where).order_by(tables.slas.c.job_id)
    rows: list[SlaRow] = rows_of(connection, SlaRow, query.limit(most) if most else query)
    return rows


def sla_of(connection: Connection, job: JobRow, now_ms: int) -> SlaState:
    """The budget of a job."""
    row = next(iter(sla_rows(connection, tables.slas.c.job_id == job.job_id)), None)
    most, policy = policy_of(row)
    counts = counted_of(connection, job, row, now_ms)
    allowed = limit(most, policy, counts.whole)
    hour = _hour(connection, job, policy, counts.whole, now_ms)
    group = _group_use(connection, policy, now_ms) if policy is not None and policy.group else None
    opens = _opens(policy, now_ms)
    risk = "" if row is None else _risk(most, policy, counts, hour, group, opens)
    return {
        "job_id": job.job_id,
        "pool": job.pool,
        "kind": job.kind,
        "sla": None if row is None else sla_body(most, policy),
        "wanted": counts.whole,
        "available": counts.whole - counts.missing,
        "unavailable": counts.missing,
        "allowed": allowed,
        "slack": max(0, allowed - counts.missing + counts.extra),
        "used": counts.used,
        "waits": waits_of_job(connection, job.job_id, job.tasks),
        "hour": hour,
        "group": group,
        "window": at(opens * 1000) if opens else None,
        "at_risk": bool(risk),
        "risk": risk,
    }


def counted_of(connection: Connection, job: JobRow, row: SlaRow | None, now_ms: int) -> Counted:
    """The wanted instances of a job, and those of them that are missing."""
    if job.base < 0 or job.ended_ms:
        return Counted(0, 0, [])
    columns = columns_of(connection, job, np.arange(job.instances))
    state, host, why, run, started_s, due_s = (
        columns[TASK_PLACES[name]] for name in ("state", "host", "why", "run", "started_s", "due_s")
    )
    counts = (state != TaskState.NONE) & ~np.isin(state, ENDED_TASKS)
    counts &= ~((state == TaskState.STOPPING) & np.isin(why, LEAVES))
    if job.kind == "batch":
        counts &= (state == TaskState.RUNNING) | (run > job.first_run)
    if job.stopping:
        counts &= False
    policy, surplus = policy_of(row)[1], np.zeros(len(state), np.bool_)
    if row is not None and row.first_surplus >= 0:
        surplus[row.first_surplus :] = True
    running = counts & (state == TaskState.RUNNING)
    silent_hosts = list(connection.scalars(select(tables.hosts.c.number).where(tables.hosts.c.silent_ms > 0)))
    silent = running & np.isin(host, silent_hosts)
    healthy_s = started_s.astype(np.int64) + -(-(policy.min_healthy_ms if policy else 0) // 1000)
    unripe = running & ~silent & (healthy_s * 1000 > now_ms)
    extra = int(np.count_nonzero(running & surplus & ~silent & ~unripe))
    counts &= ~surplus
    missing = counts & (~running | silent | unripe)
    causes = _asked(connection, job) if missing.any() else {}
    groups: dict[tuple[str, int], list[int]] = {}
    for instance in np.flatnonzero(missing).tolist():
        if silent[instance]:
            key = "on a silent host", 0
        elif unripe[instance]:
            key = "not available for long enough", int(healthy_s[instance])
        else:
            cause = int(why[instance]) or causes.get((instance, int(run[instance]) - 1), 0)
            key = _what(int(state[instance]), cause), int(due_s[instance])
        groups.setdefault(key, []).append(instance)
    return Counted(int(counts.sum()), int(missing.sum()), list(_used(groups)), extra)


def _what(state: int, cause: int) -> str:
    """Why an instance isn't available, in words."""
    words = {
        TaskState.STOPPING: "stops",
        TaskState.ORDERED: "starts",
        TaskState.QUEUED: "waits for a place",
        TaskState.BACKOFF: "waits for its next run",
    }
    what = words.get(TaskState(state), "is down")
    by = CAUSES.get(RunCause(cause), "")
    return f"{what}, by {by}" if by else what


def _used(groups: dict[tuple[str, int], list[int]]) -> Iterator[SlaUse]:
    """The missing instances by reason, each with its latest time."""
    together: dict[str, tuple[list[int], int]] = {}
    for (what, until_s), instances in groups.items():
        others, latest_s = together.get(what, ([], 0))
        together[what] = others + instances, max(latest_s, until_s)
    for what, (instances, until_s) in sorted(together.items(), key=lambda each: (-len(each[1][0]), each[0])):
        ranges = _ranges(sorted(instances))
        yield {"what": what, "tasks": len(instances), "instances": ranges, "until": at(until_s * 1000)}


def _ranges(instances: Sequence[int]) -> str:
    numbers = np.array(instances)
    starts = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    counts = np.diff(np.append(starts, len(numbers)))
    pairs = list(zip(numbers[starts].tolist(), counts.tolist(), strict=True))
    rest = sum(count for _, count in pairs[RANGES_SHOWN:])
    return write_ranges(pairs[:RANGES_SHOWN]) + (f" and {rest} more" if rest else "")


def _asked(connection: Connection, job: JobRow) -> dict[tuple[int, int], int]:
    """Why runs of a job are to go, by instance and run."""
    rows = tables.disruptions.c
    query = select(rows.instance, rows.run, rows.why).where(rows.job_id == job.job_id, rows.why > 0)
    return {(instance, run): why for instance, run, why in connection.execute(query)}


def _hour(connection: Connection, job: JobRow, policy: SlaPolicy | None, instances: int, now_ms: int) -> SlaHour | None:
    allowed = hourly(policy, instances)
    if allowed is None:
        return None
    since_s, runs = now_ms // 1000 - HOUR_S, tables.past_runs.c
    query = select(runs.ended_s).where(runs.job_id == job.job_id, runs.ended_s > since_s, runs.why.in_(BY_OTHERS))
    ends = list(connection.scalars(query))
    columns = columns_of(connection, job, np.arange(job.instances if job.base >= 0 else 0))
    ends += _leaving(columns, since_s)
    return {"allowed": allowed, "used": len(ends), "until": at((min(ends) + HOUR_S) * 1000) if ends else None}


def _leaving(columns: I32, since_s: int) -> list[int]:
    """When the last runs of instances that others disrupted began to stop, or were over."""
    state, why, ended_s, state_s = (columns[TASK_PLACES[name]] for name in ("state", "why", "ended_s", "state_s"))
    mine = np.isin(why, BY_OTHERS)
    when = np.where(state == TaskState.STOPPING, state_s, ended_s)[mine]
    recent: list[int] = when[when > since_s].tolist()
    return recent


def _opens(policy: SlaPolicy | None, now_ms: int) -> int:
    """The second at which the next window opens; 0: one is open, or there are none."""
    now_s, openings = now_ms // 1000, []
    for window in policy.windows if policy is not None else ():
        began = next_opening(window.schedule, window.zone, now_s - window.duration_ms // 1000)
        if began is not None and began <= now_s:
            return 0
        openings += [] if began is None else [began]
    return min(openings, default=0)


def _risk(
    most: int | None,
    policy: SlaPolicy | None,
    counts: Counted,
    hour: SlaHour | None,
    group: SlaGroupUse | None,
    opens: int,
) -> str:
    """Why the next planned disruption of a job would be refused; empty: it wouldn't be."""
    whole, missing = counts.whole, counts.missing
    allowed = limit(most, policy, whole)
    instances = f"{missing} of {plural(whole, 'instance')} {'is' if missing == 1 else 'are'} unavailable"
    if not whole:
        return ""
    if missing > allowed + counts.extra:
        return f"below its bound: {instances}, {allowed} may be"
    if never_allows(most, policy, whole):
        return f"it allows no disruption at all: {strictest(most, policy, whole) or 'no disruptions in an hour'}"
    if missing == allowed + counts.extra and not replaces_first(policy):
        return f"budget spent: {instances}, {allowed} may be"
    if hour is not None and hour["used"] >= hour["allowed"]:
        return f"rate reached: {hour['used']} in the last hour, {hour['allowed']} may be"
    if group is not None and group["allowed"] is not None and group["unavailable"] >= group["allowed"]:
        return f"group {group['group']} spent: {group['unavailable']} unavailable, {group['allowed']} may be"
    return f"outside its windows until {at(opens * 1000)}" if opens else ""


def _group_use(connection: Connection, policy: SlaPolicy, now_ms: int) -> SlaGroupUse:
    row = group_row(connection, policy.group)
    if row is None:
        return {"group": policy.group, "defined": False, "allowed": None, "unavailable": 0}
    counts = [counts for _, counts in _members(connection, policy.group, now_ms)]
    allowed = bounds_in(row).limit(sum(each.whole for each in counts))
    missing = sum(each.missing for each in counts)
    return {"group": policy.group, "defined": True, "allowed": allowed, "unavailable": missing}


def _members(connection: Connection, group: str, now_ms: int) -> list[tuple[JobRow, Counted]]:
    """The jobs of a group, and their instances."""
    members = sla_rows(connection, tables.slas.c.shared == group)
    jobs = jobs_of(connection, [row.job_id for row in members])
    return [
        (jobs[row.job_id], counted_of(connection, jobs[row.job_id], row, now_ms))
        for row in members
        if row.job_id in jobs
    ]


def jobs_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, JobRow]:
    """The rows of jobs, by id."""
    jobs: dict[str, JobRow] = {}
    for start in range(0, len(job_ids), 500):
        query = select(tables.jobs).where(tables.jobs.c.job_id.in_(job_ids[start : start + 500]))
        jobs |= {row.job_id: row for row in rows_of(connection, JobRow, query)}
    return jobs


def group_row(connection: Connection, name: str) -> SlaGroupRow | None:
    """The row of a group; None: it isn't set."""
    query = select(tables.sla_groups).where(tables.sla_groups.c.name == name)
    return next(iter(rows_of(connection, SlaGroupRow, query)), None)


def group_rows(connection: Connection) -> list[SlaGroupRow]:
    """All groups, by name."""
    rows: list[SlaGroupRow] = rows_of(
        connection, SlaGroupRow, select(tables.sla_groups).order_by(tables.sla_groups.c.name)
    )
    return rows


def bounds_in(row: SlaGroupRow) -> Bounds:
    """The bounds of a group."""
    return Bounds(**msgspec.json.decode(row.bounds))


def group_json(connection: Connection, row: SlaGroupRow, now_ms: int, whole: bool) -> SlaGroup:
    """A group as the API shows it; `whole`: with each of its jobs."""
    members, bounds = _members(connection, row.name, now_ms), bounds_in(row)
    whole, missing = (sum(getattr(each, name) for _, each in members) for name in ("whole", "missing"))
    allowed = bounds.limit(whole)
    return {
        "group": row.name,
        "bounds": {
            "max_unavailable": write_part(bounds.max_unavailable, bounds.max_unavailable_percent),
            "min_available": write_part(bounds.min_available, bounds.min_available_percent),
        },
        "set_at": at(row.set_ms),
        "wanted": whole,
        "unavailable": missing,
        "allowed": allowed,
        "slack": max(0, allowed - missing),
        "members": len(members),
        "jobs": [sla_of(connection, job, now_ms) for job, _ in members] if whole else [],
    }
