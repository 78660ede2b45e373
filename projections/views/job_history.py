"""The history of each job: one entry per fact or decision and job, however many tasks it is about."""

from typing import Any

import msgspec
import numpy as np

from events.codec import decode
from events.codes import Outcome, RunCause, UpdateStep, Way
from events.columns import I32
from events.instance_changes import instance_change
from events.instance_ranges import write_ranges
from events.ranks import are_entitled, ranks_of
from events.records.base import Event, RangesEvent
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered, RightsSet
from events.records.jobs import (
    JobActionRequested,
    JobPriorityRequested,
    JobReopenRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
)
from events.records.lifecycle import (
    DisruptionAsked,
    InstancesChanged,
    InstancesReturned,
    InstancesTaken,
    JobAccepted,
    JobRejected,
    JobsForgotten,
    RunsEnded,
    RunsStopping,
    UpdateProgressed,
    UpdateStarted,
)
from events.records.parts import Cause, SlaPolicy
from events.records.placement import MatchingHostsChanged, PreemptionAsked
from events.records.sla import DisruptionAllowed, DisruptionDeferred, SurplusSet
from events.sla import Bounds
from events.topics import JOBS, RANK
from paceline.client.json_type import Json
from projections.actor_names import kept
from projections.views.cache import Cache
from projections.views.cause_ties import LEADING, windows
from projections.views.record_context import RecordContext
from projections.views.rows import JobRow, to_json

HOSTS_SHOWN = 3
JOBS_SHOWN = 3
RANGES_SHOWN = 20
Details = list[tuple[str, Json]]
Command = JobStopRequested | JobActionRequested | JobUpdateRequested | JobPriorityRequested | JobReopenRequested
ANSWERS = (JobAccepted, JobRejected)
SHORT = 512
"""Bytes: a record of one job that is no longer is kept as it is, and what is told of it found when somebody asks."""
_LEFT_OUT = frozenset(("job_id", "actor", "jobs_offset", "shapes", "hosts_by_reason", "nearest", "groups", "need"))


def record(cache: Cache, moment: RecordContext, event: Event, value: bytes) -> list[str]:
    """Adds one fact or decision, encoded in `value`, to the histories of jobs; a decision only to those of jobs that it
    `concerns`. Returns the jobs.
    """
    kind = type(event)
    place = (moment.at_ms, moment.depth, moment.rank, moment.offset, moment.place, moment.round, kind.__name__)
    if hasattr(event, "job_id"):
        return _record_one(cache, moment, event, value, place)
    runs, texts = windows(event), dict(details(event))
    if isinstance(event, DisruptionAllowed):
        _add_waits(cache, moment, event, texts)
    jobs = list(texts if not runs or texts.keys() >= runs.keys() else {**texts, **runs})
    if moment.machine:
        rows = cache.jobs.get_all(jobs)
        jobs = [job_id for job_id, row in zip(jobs, rows, strict=True) if concerns(row, moment)]
    cache.history.add(place, jobs, texts, runs)
    return jobs


def _add_waits(cache: Cache, moment: RecordContext, event: DisruptionAllowed, texts: dict[str, Json]) -> None:
    """Adds to the details of each job the seconds that the longest of its runs has waited, where one has."""
    columns = (column.tolist() for column in event.items())
    runs = {(event.job_ids[job], instance): run for job, instance, run in zip(*columns, strict=True)}
    cache.disruptions.load(runs)
    for key, run in runs.items():
        row, detail = cache.disruptions.get(key), texts[key[0]]
        if row is not None and row.run == run and (waited_s := moment.now // 1000 - row.since_s) > 0:
            detail["waited_s"] = max(waited_s, detail.get("waited_s", 0))


def _record_one(cache: Cache, moment: RecordContext, event: Any, value: bytes, place: tuple[Any, ...]) -> list[str]:
    job_id, kind = event.job_id, type(event)
    if moment.machine and kind not in ANSWERS and not concerns(cache.jobs.get(job_id), moment):
        return []
    short = len(value) <= SHORT and kind is not JobSubmitted and job_id
    runs = windows(event).get(job_id, ()) if kind in LEADING else ()
    cache.history.add_one(job_id, (*place, value if short else details(event)[0][1], *runs))
    return [job_id]


def detail_of(content: bytes | Json) -> Json:
    """The details of a record, from what is kept of it; as JSON has it, with sorted keys."""
    detail = details(decode(content))[0][1] if isinstance(content, bytes) else content
    plain: Json = msgspec.json.decode(to_json(detail))
    return plain


def concerns(job: JobRow | None, moment: RecordContext) -> bool:
    """Whether a decision that names the id of a job is about that job: its machine knew that it was accepted."""
    return job is not None and job.base >= 0 and (moment.machine == "lifecycle" or moment.seen > job.accepted)


def strike(cache: Cache, job_id: str, offset: int) -> None:
    """A fact of the topic of jobs was about no job: it is no part of the history of one that may come."""
    fact = RANK[JOBS.name], offset
    cache.history.keep((job_id,), lambda _, entry: (entry.topic, entry.offset) != fact)


def details(event: Event) -> Details:
    """The details of a record for each job that it is about, in the order of the record."""
    if isinstance(event, JobSubmitted):
        detail = {"pool": event.pool, "instances": event.instances, "owner": event.owner}
        return [(event.job_id, _with_actor(detail, event))]
    if isinstance(event, Command):
        return [(event.job_id, _with_actor(_of_command(event), event))]
    if isinstance(event, UpdateStarted):
        return [(event.job_id, _of_update(event))]
    if isinstance(event, InstancesTaken | InstancesReturned | UpdateProgressed):
        return [(event.job_id, _of_steps(event))]
    if isinstance(event, JobsForgotten | RightsSet):
        return []
    if isinstance(event, PreemptionsOrdered):
        return _of_order(event)
    if isinstance(event, PreemptionAsked):
        return [(event.job_id, _of_ask(event))] if event.job_id else []
    if isinstance(event, InstancesChanged):
        change = instance_change(event)
        return [(event.job_id, {"added": len(change.added), "removed": len(change.removed)})]
    if isinstance(event, MatchingHostsChanged):
        return _of_matching(event)
    if isinstance(event, SurplusSet):
        columns = zip(event.job_array.tolist(), event.surplus_array.tolist(), strict=True)
        return [(event.job_ids[job], {"surplus": surplus}) for job, surplus in columns]
    if hasattr(event, "job_ids"):
        return _of_many(event)
    if hasattr(event, "job_id"):
        fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _LEFT_OUT}
        detail = {name: value for name, value in fields.items() if not isinstance(value, bytes)}
        if isinstance(policy := detail.pop("sla", None), SlaPolicy):
            detail["sla"] = Bounds.of(getattr(event, "max_unavailable", None), policy).words() or "no bound of its own"
        if isinstance(cause := getattr(event, "cause", None), Cause):
            detail["cause"] = _cause_text(cause)
        return [(event.job_id, _with_actor(detail, event))]
    return []


def _with_actor(detail: Json, event: Any) -> Json:
    """The details, with who wrote the fact where it says so."""
    actor = getattr(event, "actor", None)
    return detail if actor is None else {**detail, "actor": kept(actor)}


def _of_matching(event: MatchingHostsChanged) -> Details:
    """For each daemon how many hosts match it from now on, how many no longer, and some of them."""
    job, host, matches = event.job_array, event.host_array, event.matches_array
    out: Details = []
    for index, job_id in enumerate(event.job_ids):
        mine = job == index
        some = [event.host_ids[number] for number in host[mine][:HOSTS_SHOWN].tolist()]
        counts = {"match": int(matches[mine].sum()), "no_longer": int((matches[mine] == 0).sum())}
        out.append((job_id, {**counts, "hosts": some}))
    return out


def _of_command(event: Command) -> Json:
    """The fields of a command; those that were left out are not shown."""
    names = ("action", "priority", "batch", "version", "force", "expected_version", "reason", "data", "command_id")
    fields = {name: value for name in names if (value := getattr(event, name, None))}
    if isinstance(event, JobStopRequested | JobActionRequested | JobReopenRequested) and event.first:
        fields["instances"] = _ranges_text(event.first_array, event.count_array)
    return fields


def _of_update(event: UpdateStarted) -> Json:
    names = ("number", "kind", "from_version", "version", "like", "added", "updated", "removed", "unchanged", "paused")
    fields = {name: value for name in names if (value := getattr(event, name))}
    policy = {name: value for name in event.policy.__struct_fields__ if (value := getattr(event.policy, name))}
    cause = {"cause": _cause_text(event.cause)} if event.cause is not None else {}
    return {**fields, "policy": policy, **cause}


def _of_steps(event: InstancesTaken | InstancesReturned | UpdateProgressed) -> Json:
    """The instances of an update that have gone a step further, by step where there are several."""
    first, count = event.first_array, event.count_array
    if not isinstance(event, UpdateProgressed):
        return {"number": event.number, "instances": _ranges_text(first, count)}
    step = event.step_array
    by_step = {each.name.lower(): _ranges_text(first[step == each], count[step == each]) for each in UpdateStep}
    counts = {"pending": event.pending, "in_flight": event.flight, "done": event.done, "failed": event.bad}
    moved = {f"now_{name}": text for name, text in by_step.items() if text}
    return {"number": event.number, **moved, "counts": counts, **({"waits": True} if event.waits else {})}


def _ranges_text(first: Any, count: Any) -> str:
    """Ranges of instances, the first of them."""
    text = write_ranges(zip(first[:RANGES_SHOWN].tolist(), count[:RANGES_SHOWN].tolist(), strict=True))
    return text if len(first) <= RANGES_SHOWN else f"{text} and {int(count[RANGES_SHOWN:].sum())} more"


def _cause_text(cause: Cause) -> str:
    """Where what led to a decision stands."""
    if cause.topic:
        return f"{cause.topic}:{cause.offset}"
    return f"round {cause.round} of {cause.machine}" if cause.machine else "time"


def _of_many(event: Any) -> Details:
    """The details of a record with columns over tasks or ranges of tasks: how many, and the first of each job."""
    job = event.job_array
    count = event.sizes()
    tasks = np.bincount(job, count, len(event.job_ids)).astype(np.int64)
    indices, first = np.unique(job, return_index=True) if len(job) != 1 else (job, np.zeros(1, dtype=np.int64))
    instance = (event.first_array if isinstance(event, RangesEvent) else event.instance_array)[first].tolist()
    run = event.run_array[first].tolist()
    of_all = {name: getattr(event, name) for name in ("code", "at") if hasattr(event, name)}
    columns = zip(indices.tolist(), tasks[indices].tolist(), instance, run, strict=True)
    out: Details = [
        (event.job_ids[index], {"tasks": count, "instance": first, "run": number, **of_all})
        for index, count, first, number in columns
    ]
    if isinstance(event, GangsAdmitted | AdmissionsRanked):
        _add_borrowed(event, job, count, out, indices.tolist())
    if hasattr(event, "host"):
        _add_hosts(event, job, out)
    if isinstance(event, RunsEnded):
        _add_counts("outcomes", Outcome, event.outcome_array, job, out, indices.tolist())
    if isinstance(event, DisruptionAllowed) and event.free:
        for (_, detail), index in zip(out, indices.tolist(), strict=True):
            detail["free"] = int(event.free_array[job == index].sum())
    if isinstance(event, DisruptionDeferred):
        _add_numbers(event, out, indices.tolist())
    if isinstance(event, RunsEnded | RunsStopping | DisruptionAsked) and event.why:
        _add_counts("why", RunCause, event.why_array, job, out, indices.tolist())
        if event.causes:
            _add_led_by(event, job, out, indices.tolist())
    return out


def _of_order(event: PreemptionsOrdered) -> Details:
    """Each victim is told for whom it leaves, and the winner who leaves for it."""
    job, pool, way = event.job_array, event.from_pool_array, event.way_array
    out: Details = []
    shared = {"order": event.order, "code": event.code, "for_job": event.for_job, "for_pool": event.for_pool}
    for index, job_id in enumerate(event.job_ids):
        mine = np.flatnonzero(job == index)
        if len(mine):
            ways = [each.name for each in Way if (way[mine] == each).any()]
            detail = {"tasks": len(mine), "from_pool": event.from_pools[pool[mine[0]]], "ways": ways}
            detail |= {"instance": int(event.instance_array[mine[0]]), "run": int(event.run_array[mine[0]])}
            out.append((job_id, {**shared, **detail}))
    if not event.for_job:
        return out
    by_job_id = {job_id: int((job == index).sum()) for index, job_id in enumerate(event.job_ids[:JOBS_SHOWN])}
    won = {"victims": len(job), "from_jobs": by_job_id, "from_pools": event.from_pools, "spared": event.spared}
    hosts = {"hosts": event.host_ids[:HOSTS_SHOWN]}
    return [*out, (event.for_job, {**shared, "instance": event.for_first, "run": event.for_run, **won, **hosts})]


def _of_ask(event: PreemptionAsked) -> Json:
    counts = {"victims": len(event.job_array), "from_jobs": event.job_ids[:JOBS_SHOWN], "spared": event.spared}
    unit = {"instance": event.first, "tasks": event.count, "run": event.run}
    choice = {"alternative": event.alternative, "passed_codes": event.passed_codes} if event.alternative >= 0 else {}
    return {**unit, **counts, "hosts": event.host_ids[:HOSTS_SHOWN], **choice}


def _add_borrowed(event: Any, job: Any, count: Any, out: Details, indices: list[int]) -> None:
    """Adds the number of tasks of each job that are beyond the entitlement of their pool."""
    if not event.entitled:
        return
    borrowed = np.bincount(job, np.where(are_entitled(ranks_of(event)), 0, count), len(event.job_ids)).astype(np.int64)
    for (_, detail), index in zip(out, indices, strict=True):
        detail["borrowed"] = int(borrowed[index])


def _add_numbers(event: DisruptionDeferred, out: Details, indices: list[int]) -> None:
    """Adds the numbers of the verdict about each job."""
    unavailable, most = event.unavailable_array.tolist(), event.max_unavailable_array.tolist()
    for (_, detail), index in zip(out, indices, strict=True):
        detail |= {"unavailable": unavailable[index], "max_unavailable": most[index]}
        if event.groups and event.groups[index]:
            detail["group"] = event.groups[index]


def _add_hosts(event: Any, job: Any, out: Details) -> None:
    order = np.argsort(job, kind="stable")
    host = event.host_array[order].tolist()
    start = 0
    for _, detail in out:
        if detail["tasks"] == 1:
            detail["hosts"] = [event.host_ids[host[start]]]
        else:
            some = dict.fromkeys(host[start : start + min(detail["tasks"], 4 * HOSTS_SHOWN)])
            detail["hosts"] = [event.host_ids[number] for number in list(some)[:HOSTS_SHOWN]]
        start += detail["tasks"]


def _add_led_by(event: RunsEnded | RunsStopping | DisruptionAsked, job: I32, out: Details, indices: list[int]) -> None:
    """Adds where the record stands by which the runs of each job leave, where it is the same for all of them."""
    which = event.cause_array if isinstance(event, RunsEnded) else event.led_by_array
    which = np.where(np.isin(event.why_array, (RunCause.DRAIN, RunCause.EVICT)), which, -1)
    for (_, detail), index in zip(out, indices, strict=True):
        numbers = np.unique(which[job == index]).tolist()
        cause = event.causes[numbers[0]] if len(numbers) == 1 and numbers[0] >= 0 else None
        if cause is not None and cause.machine:
            detail["led_by"] = f"{cause.machine}/round/{cause.round}/{cause.index}"


def _add_counts(
    name: str, kinds: type[Outcome] | type[RunCause], column: I32, job: I32, out: Details, indices: list[int]
) -> None:
    """Adds the number of tasks of each job for each number in a column, by its name."""
    width = max(kinds) + 1
    counts = np.bincount(job * width + column, minlength=(int(job.max(initial=0)) + 1) * width).tolist()
    for (_, detail), index in zip(out, indices, strict=True):
        by_name = {kind.name: counts[index * width + kind] for kind in kinds if kind and counts[index * width + kind]}
        if by_name:
            detail[name] = by_name
