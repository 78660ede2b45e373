"""The runs that a drain concerns, told before it is asked for: which leave at once, which are asked for, which stay."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from events.records.jobs import JobSubmitted
from events.sla import has_sla, limit, never_allows
from events.words import plural
from paceline.client.maintenance_models import DrainedHost, DrainedJob, DrainEffects, DrainPlan
from projections.queries.drain_pace import slowest
from projections.queries.host_maintenance import BOUND_KINDS, HostTask, tasks_on
from projections.queries.pages import rows_of
from projections.queries.versions import submissions
from projections.views import tables
from projections.views.rows import HostRow, JobRow

NAMED_MAX = 3
_SOME = 500


class Leaving(NamedTuple):
    """The way in which runs of a job leave hosts that drain."""

    way: str
    """at_once, asked, never, batch or bound."""
    allowed: int | None
    """The number of its instances that may be unavailable on purpose; None: it has no SLA."""


def host_rows_of(connection: Connection, host_ids: Sequence[str]) -> list[HostRow]:
    """The rows of hosts, in the order of the ids; those that aren't known are left out."""
    rows: dict[str, HostRow] = {}
    for start in range(0, len(host_ids), _SOME):
        part = select(tables.hosts).where(tables.hosts.c.host_id.in_(host_ids[start : start + _SOME]))
        rows |= {row.host_id: row for row in rows_of(connection, HostRow, part)}
    return [rows[host_id] for host_id in host_ids if host_id in rows]


def effects_of(connection: Connection, host_ids: Sequence[str], timed: bool = False) -> DrainEffects:
    """The effects of a drain of hosts, as the views stand; `timed`: also how long it takes."""
    hosts = host_rows_of(connection, host_ids)
    tasks = tasks_on(connection, hosts)
    jobs = {each.job.job_id: each.job for each in tasks}
    ways = _ways(connection, jobs)
    counts = Counter((task.host_id, ways[task.job.job_id].way) for task in tasks)
    effects: DrainEffects = {
        "hosts": [_host(row.host_id, counts) for row in hosts],
        "jobs": _jobs(tasks, ways),
        "notes": _notes(tasks, ways),
    }
    if timed and (bound := slowest(tasks, {job_id: way.allowed for job_id, way in ways.items()})[0]):
        effects["bound"] = bound
    return effects


def _host(host_id: str, counts: Mapping[tuple[str, str], int]) -> DrainedHost:
    of_host = {way: counts.get((host_id, way), 0) for way in ("at_once", "asked", "never", "batch", "bound")}
    return {
        "host_id": host_id,
        "runs": sum(of_host.values()),
        "at_once": of_host["at_once"],
        "asked": of_host["asked"] + of_host["never"],
        "batch": of_host["batch"],
        "bound": of_host["bound"],
    }


def _ways(connection: Connection, jobs: Mapping[str, JobRow]) -> dict[str, Leaving]:
    specs: dict[str, JobSubmitted] = {}
    offsets = [job.offset for job in jobs.values()]
    for start in range(0, len(offsets), _SOME):
        specs |= submissions(connection, offsets[start : start + _SOME])
    return {job_id: _way(job, specs.get(job_id)) for job_id, job in jobs.items()}


def allowed_by(connection: Connection, jobs: Mapping[str, JobRow]) -> dict[str, int]:
    """So many instances may be unavailable on purpose of each job that has an SLA."""
    ways = _ways(connection, jobs)
    return {job_id: way.allowed for job_id, way in ways.items() if way.allowed is not None}


def _way(job: JobRow, spec: JobSubmitted | None) -> Leaving:
    allowed = None
    if spec is not None and has_sla(spec.max_unavailable, spec.sla):
        allowed = limit(spec.max_unavailable, spec.sla, job.tasks)
        if never_allows(spec.max_unavailable, spec.sla, job.tasks):
            return Leaving("never", allowed)
    if job.kind in BOUND_KINDS:
        return Leaving("bound", allowed)
    if job.kind == "batch":
        return Leaving("batch", allowed)
    return Leaving("at_once" if allowed is None else "asked", allowed)


def _jobs(tasks: Sequence[HostTask], ways: Mapping[str, Leaving]) -> list[DrainedJob]:
    """The jobs with most runs there first."""
    runs = Counter(each.job.job_id for each in tasks)
    jobs = {each.job.job_id: each.job for each in tasks}
    return [
        {
            "job_id": job_id,
            "owner": jobs[job_id].owner,
            "runs": count,
            "instances": jobs[job_id].tasks,
            "leaves": ways[job_id].way,
            "allowed": ways[job_id].allowed,
        }
        for job_id, count in sorted(runs.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _notes(tasks: Sequence[HostTask], ways: Mapping[str, Leaving]) -> list[str]:
    """The sentences about what has no SLA, and what is never allowed to leave."""
    notes = []
    runs = Counter(each.job.job_id for each in tasks if ways[each.job.job_id].way == "at_once")
    if runs:
        of_jobs = f"{plural(runs.total(), 'run')} of {plural(len(runs), 'job')} without an SLA"
        notes.append(f"{of_jobs} {'stops' if runs.total() == 1 else 'stop'} at once: {_named(sorted(runs))}")
    never = sorted({each.job.job_id for each in tasks if ways[each.job.job_id].way == "never"})
    if never:
        theirs = "its SLA never lets an instance" if len(never) == 1 else "their SLAs never let an instance"
        notes.append(f"{_named(never)}: {theirs} leave (SLA_NEVER_ALLOWS)")
    return notes


def plan_notes(plan: DrainPlan) -> list[str]:
    """The sentences about what the machines would decide."""
    notes = [f"it would be refused: {plan['message'] or plan['code']} ({plan['code']})"] if plan["refused"] else []
    for each in plan["unplaced"]:
        tasks, why = plural(each["tasks"], "task"), each["message"] or "not decided yet"
        notes.append(f"{each['job_id']}: {tasks} would find no place elsewhere: {why} ({each['code']})")
    if plan["cut_short"]:
        notes.append("there was no time to look at all that would move: what is told of places may lack some")
    return notes


def _named(job_ids: Sequence[str]) -> str:
    more = len(job_ids) - NAMED_MAX
    return ", ".join(job_ids[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
