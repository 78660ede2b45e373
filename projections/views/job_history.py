"""What happened to each job: one row per fact or decision and job, however many tasks it is about."""

from typing import Any

import numpy as np

from events.codes import Outcome, Way
from events.columns import ints
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered, RightsSet
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.lifecycle import InstancesChanged, JobAccepted, JobRejected, JobsForgotten, RunsEnded
from events.records.parts import Cause
from events.records.placement import PreemptionAsked
from events.topics import JOBS, RANK
from projections.views.cache import Cache
from projections.views.record_context import RecordContext
from projections.views.rows import JobRow, to_json

HOSTS_SHOWN = 3
JOBS_SHOWN = 3
ANSWERS = (JobAccepted, JobRejected)
_LEFT_OUT = frozenset(("job_id", "jobs_offset", "shapes", "hosts_by_reason", "nearest", "need"))


def record(cache: Cache, moment: RecordContext, event: Event) -> list[str]:
    """Adds the rows of one fact or decision; of a decision only those about jobs that it `concerns`. Returns
    the jobs.
    """
    details = _details(event)
    if moment.machine:
        cache.jobs.load(job_id for job_id, _ in details)
        details = [each for each in details if isinstance(event, ANSWERS) or concerns(cache.jobs.get(each[0]), moment)]
    for job_id, detail in details:
        cache.history.add(
            job_id,
            moment.at_ms,
            moment.depth,
            moment.rank,
            moment.offset,
            moment.place,
            moment.round,
            type(event).__name__,
            to_json(detail),
        )
    return [job_id for job_id, _ in details]


def concerns(job: JobRow | None, moment: RecordContext) -> bool:
    """Whether a decision that names the id of a job is about that job: its machine knew that it was accepted."""
    return job is not None and job.base >= 0 and (moment.machine == "lifecycle" or moment.seen > job.accepted)


def strike(cache: Cache, job_id: str, offset: int) -> None:
    """A fact of the topic of jobs was about no job: it is no part of the history of one that may come."""
    assert cache.history.connection is not None
    cache.history.flush()
    text = "DELETE FROM history WHERE job_id = ? AND topic = ? AND offset = ?"
    cache.history.connection.exec_driver_sql(text, (job_id, RANK[JOBS.name], offset))


def _details(event: Event) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(event, JobSubmitted):
        return [(event.job_id, {"pool": event.pool, "instances": event.instances, "owner": event.owner})]
    if isinstance(event, JobStopRequested):
        return [(event.job_id, {"command_id": event.command_id, "reason": event.reason})]
    if isinstance(event, JobsForgotten | RightsSet):
        return []
    if isinstance(event, PreemptionsOrdered):
        return _of_order(event)
    if isinstance(event, PreemptionAsked):
        return [(event.job_id, _of_ask(event))]
    if isinstance(event, InstancesChanged):
        change = instance_change(event)
        return [(event.job_id, {"added": len(change.added), "removed": len(change.removed)})]
    if hasattr(event, "job_ids"):
        return _of_many(event)
    if hasattr(event, "job_id"):
        fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _LEFT_OUT}
        detail = {name: value for name, value in fields.items() if not isinstance(value, bytes)}
        if isinstance(cause := getattr(event, "cause", None), Cause):
            detail["cause"] = _cause_text(cause)
        return [(event.job_id, detail)]
    return []


def _cause_text(cause: Cause) -> str:
    """Where what led to a decision stands."""
    if cause.topic:
        return f"{cause.topic}:{cause.offset}"
    return f"round {cause.round} of {cause.machine}" if cause.machine else "time"


def _of_many(event: Any) -> list[tuple[str, dict[str, Any]]]:
    """The details of a record with columns over tasks or ranges of tasks: how many, and the first of each job."""
    job = ints(event.job)
    count = ints(event.count) if hasattr(event, "count") else np.ones(len(job), dtype=np.int32)
    tasks = np.zeros(len(event.job_ids), dtype=np.int64)
    np.add.at(tasks, job, count)
    found, first = np.unique(job, return_index=True)
    instance = ints(event.first if hasattr(event, "first") else event.instance)[first].tolist()
    run = ints(event.run)[first].tolist()
    out: list[tuple[str, dict[str, Any]]] = []
    for at, index in enumerate(found.tolist()):
        detail = {"tasks": int(tasks[index]), "instance": instance[at], "run": run[at]}
        detail |= {name: getattr(event, name) for name in ("code", "at") if hasattr(event, name)}
        out.append((event.job_ids[index], detail))
    if isinstance(event, GangsAdmitted | AdmissionsRanked):
        _add_borrowed(event, job, count, out, found.tolist())
    if hasattr(event, "host"):
        _add_hosts(event, job, out)
    if isinstance(event, RunsEnded):
        _add_outcomes(event, job, out, found.tolist())
    return out


def _of_order(event: PreemptionsOrdered) -> list[tuple[str, dict[str, Any]]]:
    """Each victim is told for whom it leaves, and the winner who leaves for it."""
    job, pool, way = ints(event.job), ints(event.from_pool), ints(event.way)
    out: list[tuple[str, dict[str, Any]]] = []
    shared = {"order": event.order, "code": event.code, "for_job": event.for_job, "for_pool": event.for_pool}
    for index, job_id in enumerate(event.job_ids):
        mine = np.flatnonzero(job == index)
        if len(mine):
            ways = [each.name for each in Way if (way[mine] == each).any()]
            detail = {"tasks": len(mine), "from_pool": event.from_pools[pool[mine[0]]], "ways": ways}
            detail |= {"instance": int(ints(event.instance)[mine[0]]), "run": int(ints(event.run)[mine[0]])}
            out.append((job_id, {**shared, **detail}))
    named = {job_id: int((job == index).sum()) for index, job_id in enumerate(event.job_ids[:JOBS_SHOWN])}
    won = {"victims": len(job), "from_jobs": named, "from_pools": event.from_pools, "spared": event.spared}
    hosts = {"hosts": event.host_ids[:HOSTS_SHOWN]}
    return [*out, (event.for_job, {**shared, "instance": event.for_first, "run": event.for_run, **won, **hosts})]


def _of_ask(event: PreemptionAsked) -> dict[str, Any]:
    asked = {"victims": len(ints(event.job)), "from_jobs": event.job_ids[:JOBS_SHOWN], "spared": event.spared}
    unit = {"instance": event.first, "tasks": event.count, "run": event.run}
    return {**unit, **asked, "hosts": event.host_ids[:HOSTS_SHOWN]}


def _add_borrowed(event: Any, job: Any, count: Any, out: list[tuple[str, dict[str, Any]]], found: list[int]) -> None:
    """How many of the tasks of each job are beyond the entitlement of their pool."""
    if not event.entitled:
        return
    borrowed = np.bincount(job, np.where(ints(event.entitled) > 0, 0, count), len(event.job_ids)).astype(np.int64)
    for (_, detail), index in zip(out, found, strict=True):
        detail["borrowed"] = int(borrowed[index])


def _add_hosts(event: Any, job: Any, out: list[tuple[str, dict[str, Any]]]) -> None:
    order = np.argsort(job, kind="stable")
    host = ints(event.host)[order].tolist()
    start = 0
    for _, detail in out:
        some = dict.fromkeys(host[start : start + 4 * HOSTS_SHOWN])
        detail["hosts"] = [event.host_ids[number] for number in list(some)[:HOSTS_SHOWN]]
        start += detail["tasks"]


def _add_outcomes(event: RunsEnded, job: Any, out: list[tuple[str, dict[str, Any]]], found: list[int]) -> None:
    kinds = len(Outcome) + 1
    counts = np.bincount(job * kinds + ints(event.outcome), minlength=len(event.job_ids) * kinds).tolist()
    for (_, detail), index in zip(out, found, strict=True):
        detail["outcomes"] = {
            kind.name: counts[index * kinds + kind] for kind in Outcome if counts[index * kinds + kind]
        }
