"""The runs that a drain concerns, told before it is asked for: which leave at once, which are asked for, which stay."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, select

from events.codes import Stage
from events.quantities import write_ms
from events.records import parts
from events.words import listed, plural
from paceline.client.maintenance_models import DrainedHost, DrainedJob, DrainEffects, DrainPlan
from projections.queries.drain_pace import slowest
from projections.queries.host_maintenance import HostTask, tasks_on
from projections.queries.leaving import Leaving, ways_of
from projections.queries.pages import rows_of
from projections.views import tables
from projections.views.rows import HostRow

NAMED_MAX = 3
_SOME = 500
COLUMNS = {
    **dict.fromkeys(("at_once", "forced", "moved"), "at_once"),
    **dict.fromkeys(("asked", "replaced", "never"), "asked"),
    "batch": "batch",
    "bound": "bound",
}
"""By way the column in which its runs are counted."""


def host_rows_of(connection: Connection, host_ids: Sequence[str]) -> list[HostRow]:
    """The rows of hosts, in the order of the ids; those that aren't known are left out."""
    rows: dict[str, HostRow] = {}
    for start in range(0, len(host_ids), _SOME):
        part = select(tables.hosts).where(tables.hosts.c.host_id.in_(host_ids[start : start + _SOME]))
        rows |= {row.host_id: row for row in rows_of(connection, HostRow, part)}
    return [rows[host_id] for host_id in host_ids if host_id in rows]


def effects_of(
    connection: Connection,
    host_ids: Sequence[str],
    timed: bool = False,
    drain: parts.DrainPlan | None = None,
    force: bool = False,
) -> DrainEffects:
    """The effects of a drain of hosts, as the views stand; `timed`: also how long it takes, and what happens at its
    deadline; `force`: all that runs there ends at once.
    """
    hosts = host_rows_of(connection, host_ids)
    tasks = tasks_on(connection, hosts)
    ways = ways_of(connection, {each.job.job_id: each.job for each in tasks}, drain, force)
    counts = Counter((task.host_id, COLUMNS[ways[task.job.job_id].way]) for task in tasks)
    effects: DrainEffects = {
        "hosts": [_host(row.host_id, counts) for row in hosts],
        "jobs": _jobs(tasks, ways),
        "notes": _notes(tasks, ways),
    }
    if timed:
        effects["notes"] += _deadline(drain, force)
        if bound := slowest(tasks, ways).text:
            effects["bound"] = bound
    return effects


def _deadline(drain: parts.DrainPlan | None, force: bool) -> Iterator[str]:
    """The sentences about the deadline of a drain."""
    if drain is None or force or not drain.deadline_ms or drain.escalate == "wait":
        return
    yield f"{write_ms(drain.deadline_ms)} after it begins, preemptible batch tasks that are left leave as SLAs allow"
    if drain.escalate == "force":
        yield f"{write_ms(drain.force_after_ms)} later, all that is left is ended, whatever SLAs say"


def last_hosts(connection: Connection, effects: DrainEffects) -> Iterator[str]:
    """The sentence about hosts of which no other takes tasks, where some are to move."""
    moved = sum(each["at_once"] + each["asked"] for each in effects["hosts"])
    if not moved:
        return
    host_ids = {each["host_id"] for each in effects["hosts"]}
    hosts, stages = tables.hosts.c, tables.host_stages.c
    takes = (hosts.silent_ms == 0) & (hosts.offered > 0) & (hosts.reconciled_session >= hosts.session)
    takes &= (hosts.avoided_ms == 0) & ((hosts.lost_code == "") | (hosts.lost_session < hosts.session))
    away = select(stages.host_id).where(stages.stage != Stage.UP)
    query = select(hosts.host_id).where(takes, hosts.host_id.not_in(away)).limit(len(host_ids) + 1)
    if host_ids.issuperset(connection.execute(query).scalars()):
        yield f"no host is left that takes tasks: {plural(moved, 'task')} would wait for one"


def _host(host_id: str, counts: Mapping[tuple[str, str], int]) -> DrainedHost:
    of_host = {column: counts.get((host_id, column), 0) for column in ("at_once", "asked", "batch", "bound")}
    return {"host_id": host_id, "runs": sum(of_host.values()), **of_host}  # type: ignore[typeddict-item]


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
            "per_hour": ways[job_id].per_hour,
            "at_a_time": _at_a_time(ways[job_id]),
        }
        for job_id, count in sorted(runs.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _at_a_time(way: Leaving) -> int | None:
    """So many leave at a time, by the SLA or its group, or are replaced; None: it has no SLA."""
    if way.way == "replaced" or way.allowed is None:
        return way.surge or None
    return min(way.allowed, way.of_group) if way.group else way.allowed


def _notes(tasks: Sequence[HostTask], ways: Mapping[str, Leaving]) -> list[str]:
    """The sentences about what is ended, what has no SLA, and what is never allowed to leave."""
    notes = []
    for way, without, does in (("forced", "", "ended by force, whatever SLAs say"), ("at_once", " without an SLA", "")):
        runs = Counter(each.job.job_id for each in tasks if ways[each.job.job_id].way == way)
        if not runs:
            continue
        one = runs.total() == 1
        does = f"{'is' if one else 'are'} {does}" if does else f"{'stops' if one else 'stop'} at once"
        of_jobs = f"{plural(runs.total(), 'run')} of {plural(len(runs), 'job')}{without}"
        notes.append(f"{of_jobs} {does}: {listed(sorted(runs), NAMED_MAX)}")
    never = sorted({each.job.job_id for each in tasks if ways[each.job.job_id].why})
    for job_id in never[:NAMED_MAX]:
        before = " before it ends" if ways[job_id].way == "batch" else ""
        notes.append(f"{job_id}: its SLA never lets an instance leave{before}: {ways[job_id].why} (SLA_NEVER_ALLOWS)")
    if more := never[NAMED_MAX:]:
        their = "its SLA never lets" if len(more) == 1 else "their SLAs never let"
        notes.append(f"{listed(more, NAMED_MAX)}: {their} an instance leave (SLA_NEVER_ALLOWS)")
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
