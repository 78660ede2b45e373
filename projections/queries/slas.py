"""The budgets of jobs and groups as they stand, derived from tasks: sla counts by itself (decision 096)."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codes import RunCause, TaskState
from events.columns import I32
from events.records.parts import SlaPolicy
from events.schedules import next_opening
from events.sla import Bounds, hourly, limit, never_allows, replaces_first, strictest
from events.spec.sla import sla_body, write_part
from events.words import plural
from paceline.client.sla_models import SlaGroup, SlaGroupUse, SlaHour, SlaState, SlaWait
from projections.queries.disruption_waits import waits_of_job
from projections.queries.pages import rows_of
from projections.queries.sla_counts import Counted, Protected, SlaCounts
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.sla_rows import SlaGroupRow, SlaRow

HOUR_S = 3600
BY_OTHERS = (RunCause.PREEMPT, RunCause.DRAIN)
"""Causes that count in the hour."""
READ_AT_ONCE = 500
"""So many jobs are asked for in one query."""
NAMED_MAX = 3


class Budgets:
    """The budgets of jobs at one time. What several of them need is read once."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        self._connection = connection
        self._now_ms = now_ms
        self._counts = SlaCounts(connection, now_ms)
        self._groups: dict[str, SlaGroupUse] = {}

    def states(self, jobs: Sequence[tuple[JobRow, SlaRow | None]], at_risk: bool = False) -> Iterator[SlaState]:
        """The budgets of some jobs; `at_risk`: of those alone whose next disruption would be refused."""
        each_sla = [Protected.of(job, row) for job, row in jobs]
        waiting = self._waiting([job.job_id for job, _ in jobs])
        for each, counts in zip(each_sla, self._counts.of(each_sla), strict=True):
            state = self._state(each, counts, waiting)
            if state["at_risk"] or not at_risk:
                yield state

    def members(self, group: str) -> list[tuple[JobRow, SlaRow, Counted]]:
        """The jobs of a group, and their instances."""
        rows = sla_rows(self._connection, tables.slas.c.shared == group)
        jobs = jobs_of(self._connection, [row.job_id for row in rows])
        there = [(jobs[row.job_id], row) for row in rows if row.job_id in jobs]
        counts = self._counts.of([Protected.of(*each) for each in there])
        return [(job, row, counted) for (job, row), counted in zip(there, counts, strict=True)]

    def _state(self, each: Protected, counts: Counted, waiting: set[str]) -> SlaState:
        job, most, policy = each.job, each.max_unavailable, each.policy
        allowed = limit(most, policy, counts.whole)
        hour = _hour(self._connection, job, policy, counts.whole, self._now_ms)
        group = self._group_use(policy.group) if policy is not None and policy.group else None
        opens = _opens(policy, self._now_ms)
        risk = "" if each.row is None else _risk(most, policy, counts, hour, group, opens)
        waits = waits_of_job(self._connection, job.job_id, job.tasks) if job.job_id in waiting else list[SlaWait]()
        return {
            "job_id": job.job_id,
            "pool": job.pool,
            "kind": job.kind,
            "sla": None if each.row is None else sla_body(most, policy),
            "wanted": counts.whole,
            "available": counts.whole - counts.missing,
            "unavailable": counts.missing,
            "allowed": allowed,
            "slack": max(0, allowed - counts.missing + counts.extra),
            "used": counts.used,
            "waits": waits,
            "hour": hour,
            "group": group,
            "window": at(opens * 1000) if opens else None,
            "at_risk": bool(risk),
            "risk": risk,
        }

    def _waiting(self, job_ids: Sequence[str]) -> set[str]:
        """Those of some jobs that have runs which wait for sla."""
        runs, out = tables.disruptions.c, set[str]()
        for start in range(0, len(job_ids), READ_AT_ONCE):
            mine = runs.job_id.in_(job_ids[start : start + READ_AT_ONCE])
            out.update(self._connection.scalars(select(runs.job_id).where(mine, runs.run > 0, runs.code != "")))
        return out

    def _group_use(self, name: str) -> SlaGroupUse:
        if name not in self._groups:
            row, allowed, missing = group_row(self._connection, name), None, 0
            if row is not None:
                counts = [counts for _, _, counts in self.members(name)]
                allowed = bounds_in(row).limit(sum(each.whole for each in counts))
                missing = sum(each.missing for each in counts)
            self._groups[name] = {
                "group": name,
                "defined": row is not None,
                "allowed": allowed,
                "unavailable": missing,
            }
        return self._groups[name]


def sla_rows(connection: Connection, *where: Any, most: int = 0) -> list[SlaRow]:
    """The SLAs of open jobs, by job."""
    query = select(tables.slas).where(*where).order_by(tables.slas.c.job_id)
    rows: list[SlaRow] = rows_of(connection, SlaRow, query.limit(most) if most else query)
    return rows


def sla_of(connection: Connection, job: JobRow, now_ms: int) -> SlaState:
    """The budget of a job."""
    row = next(iter(sla_rows(connection, tables.slas.c.job_id == job.job_id)), None)
    return next(Budgets(connection, now_ms).states([(job, row)]))


def _hour(connection: Connection, job: JobRow, policy: SlaPolicy | None, instances: int, now_ms: int) -> SlaHour | None:
    allowed = hourly(policy, instances)
    if allowed is None:
        return None
    since_s, runs = now_ms // 1000 - HOUR_S, tables.past_runs.c
    query = select(runs.ended_s).where(runs.job_id == job.job_id, runs.ended_s > since_s, runs.why.in_(BY_OTHERS))
    ends = list(connection.scalars(query))
    if job.running < job.tasks and job.base >= 0:  # what runs hasn't been disrupted
        ends += _leaving(columns_of(connection, job, np.arange(job.instances)), since_s)
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


def jobs_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, JobRow]:
    """The rows of jobs, by id."""
    jobs: dict[str, JobRow] = {}
    for start in range(0, len(job_ids), READ_AT_ONCE):
        query = select(tables.jobs).where(tables.jobs.c.job_id.in_(job_ids[start : start + READ_AT_ONCE]))
        jobs |= {row.job_id: row for row in rows_of(connection, JobRow, query)}
    return jobs


def group_row(connection: Connection, name: str) -> SlaGroupRow | None:
    """The row of a group; None: it isn't set."""
    query = select(tables.sla_groups).where(tables.sla_groups.c.name == name)
    return next(iter(rows_of(connection, SlaGroupRow, query)), None)


def unknown_group(connection: Connection, name: str) -> str:
    """The sentence about a group that isn't set: which jobs name it all the same."""
    jobs = [row.job_id for row in sla_rows(connection, tables.slas.c.shared == name, most=NAMED_MAX + 1)]
    if not jobs:
        return f"there is no SLA group {name}"
    names = ", ".join(jobs[:NAMED_MAX]) + (" and others" if len(jobs) > NAMED_MAX else "")
    return f"SLA group {name} isn't set, so it bounds nothing; jobs name it: {names}"


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
    budgets, bounds = Budgets(connection, now_ms), bounds_in(row)
    members = budgets.members(row.name)
    total, missing = (sum(getattr(each, name) for *_, each in members) for name in ("whole", "missing"))
    allowed = bounds.limit(total)
    return {
        "group": row.name,
        "bounds": {
            "max_unavailable": write_part(bounds.max_unavailable, bounds.max_unavailable_percent),
            "min_available": write_part(bounds.min_available, bounds.min_available_percent),
        },
        "set_at": at(row.set_ms),
        "wanted": total,
        "unavailable": missing,
        "allowed": allowed,
        "slack": max(0, allowed - missing),
        "members": len(members),
        "jobs": list(budgets.states([(job, mine) for job, mine, _ in members])) if whole else [],
    }
