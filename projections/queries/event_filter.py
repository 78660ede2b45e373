"""The filter of the stream of events: which things an event is about, and whether they are asked for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from events.actors import writer_of
from events.id_digests import job_digest, split
from events.records.base import Event
from events.records.entitlement import RightsSet
from events.records.hosts import HostsLoaded
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobAccepted, JobChanged, JobRejected, JobsForgotten
from events.records.tasks import HostInventory
from paceline.client.json_type import Json
from projections.queries.job_filter import JobFilter
from projections.views import job_history
from projections.views.job_states import REJECTED, SUBMITTED

KINDS = ("jobs", "pools", "hosts")
NAMED_MAX = 100
"""Jobs and hosts of one event that are about."""
IDS_MAX = 500
"""Jobs asked for in one statement."""
_QUIET = (RightsSet, HostsLoaded, HostInventory)
"""Said again and again while nothing changes; they come where nothing is filtered."""


class Subjects(NamedTuple):
    """The things that an event is about, each once."""

    jobs: Sequence[str] = ()
    pools: Sequence[str] = ()
    hosts: Sequence[str] = ()


class EventFilter(NamedTuple):
    """A filter of events; an empty field lets all through, and what is given must hold together."""

    about: frozenset[str] = frozenset()
    """Kinds of things, of which it must be about one."""
    job_ids: frozenset[str] = frozenset()
    host_ids: frozenset[str] = frozenset()
    pools: Sequence[str] = ()
    """The pool itself, one below it, or a job there."""
    states: frozenset[str] = frozenset()
    """A job has come into one of these states."""
    owners: Sequence[str] = ()
    labels: Sequence[tuple[str, str]] = ()
    text: str = ""
    since_ms: int = 0
    actors: Sequence[str] = ()
    """A fact that one of these has written."""

    def of_jobs(self) -> bool:
        """Whether the rows of jobs must be looked at."""
        return bool(self.pools or self.owners or self.labels or self.text)

    def of_jobs_alone(self) -> bool:
        """Whether only what is about jobs may pass."""
        return bool(self.job_ids or self.owners or self.labels or self.text or self.states)


def subjects(event: Event, ids: Collection[str] = ()) -> Subjects:
    """The things that an event is about. `ids`: ids of jobs, by which those that were forgotten are named."""
    if isinstance(event, _QUIET):
        return Subjects()
    if isinstance(event, JobsForgotten):
        digests = {*split(event.digests)}
        return Subjects(_each_once((*event.job_ids, *(each for each in ids if job_digest(each) in digests))))
    jobs = [getattr(event, name, "") for name in ("job_id", "for_job", "victim_job_id")]
    pools = [getattr(event, name, "") for name in ("path", "pool", "for_pool")]
    return Subjects(
        _each_once((*jobs, *getattr(event, "job_ids", ()))),
        _each_once((*pools, *getattr(event, "pools", ()), *getattr(event, "from_pools", ()))),
        _each_once((getattr(event, "host_id", ""), *getattr(event, "host_ids", ()))),
    )


def _each_once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, names)))


def state_of(event: Event) -> str:
    """The state that a job has by an event from then on; empty: it says none."""
    match event:
        case JobChanged():
            return event.state
        case JobSubmitted():
            return SUBMITTED
        case JobAccepted():
            return "PENDING"
        case JobRejected():
            return REJECTED
        case _:
            return ""


def wanted_jobs(connection: Connection, criteria: EventFilter, job_ids: Iterable[str]) -> tuple[set[str], set[str]]:
    """Those of some jobs that a filter asks for, by their rows, and those that have none, as they were deleted."""
    conditions, values = JobFilter(labels=criteria.labels, owners=criteria.owners, text=criteria.text).conditions()
    ids = list(job_ids)
    matching, absent = set[str](), set(ids)
    for start in range(0, len(ids), IDS_MAX):
        part = ids[start : start + IDS_MAX]
        marks = ", ".join("?" * len(part))
        query = f"SELECT job_id, pool, {' AND '.join(conditions) or '1'} FROM jobs WHERE job_id IN ({marks})"
        rows = list(connection.exec_driver_sql(query, (*values, *part)))
        absent.difference_update(row[0] for row in rows)
        matching.update(job_id for job_id, pool, passes in rows if passes and _in_pools(criteria.pools, pool))
    return matching, absent


def _in_pools(criteria: Sequence[str], path: str) -> bool:
    return not criteria or any(each == "/" or path == each or path.startswith(f"{each}/") for each in criteria)


def passing(criteria: EventFilter, event: Event, about: Subjects, matching: set[str]) -> Subjects | None:
    """The part of an event that is asked for; None: there is none. `matching`: the jobs that pass by their rows."""
    jobs = [
        each
        for each in about.jobs
        if (not criteria.job_ids or each in criteria.job_ids) and (not criteria.of_jobs() or each in matching)
    ]
    if criteria.states and state_of(event) not in criteria.states:
        return None
    if criteria.actors and writer_of(event) not in criteria.actors:
        return None
    pools = [each for each in about.pools if _in_pools(criteria.pools, each)]
    hosts = [each for each in about.hosts if not criteria.host_ids or each in criteria.host_ids]
    if (criteria.of_jobs_alone() and not jobs) or (criteria.host_ids and not hosts):
        return None
    if criteria.pools and not (jobs or pools):
        return None
    passed = Subjects(jobs, pools, hosts)
    if criteria.about and not any(getattr(passed, kind) for kind in criteria.about):
        return None
    return passed


def about_json(event: Event, passed: Subjects) -> Json:
    """The words of an event about each job that is asked for, as its history has them, and the pools and hosts."""
    jobs: Mapping[str, Any] = {}
    if passed.jobs:
        details = dict(job_history.details(event))
        jobs = {job_id: job_history.detail_of(details.get(job_id, {})) for job_id in passed.jobs[:NAMED_MAX]}
        for detail in jobs.values():
            detail.pop("actor", None)  # it stands beside what the event is about
    return {"jobs": jobs, "pools": list(passed.pools[:NAMED_MAX]), "hosts": list(passed.hosts[:NAMED_MAX])}
