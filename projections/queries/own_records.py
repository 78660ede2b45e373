"""Records of the log as a limited reader is told them (decision 101): those about jobs and pools that may be seen, with
nothing of others in them.
"""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection

from events.codes import Code
from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobRejected
from events.records.placement import GangsUnplaced, HostsReserved, MatchingHostsChanged
from events.resources import Kinds
from paceline.client.json_type import Json
from projections.access.limits import Limits, Names, limits
from projections.queries import story, story_cell, story_jobs
from projections.queries.event_filter import EventFilter, Subjects, subjects, wanted_jobs
from projections.queries.story_parts import Line, Part, by, job, joined
from projections.record_json import brief
from projections.views.job_history import detail_of, details

_OF_ANY_HOSTS = (GangsUnplaced, HostsReserved, MatchingHostsChanged)
"""Records about a job that name hosts on which it doesn't run."""


class OwnRecords:
    """Tells one reader of records. `connection`: one of that reader."""

    def __init__(self, connection: Connection, of: Limits) -> None:
        self._connection = connection
        self._limits = of
        self.names = Names(connection, of)

    def subjects(self, event: Event, ids: Collection[str] = ()) -> Subjects | None:
        """The things that may be seen that a record is about; None: neither a job nor a pool is. `ids`: jobs that
        could be seen before they were deleted.
        """
        about = subjects(event, ids)
        pool = getattr(event, "pool", "")
        if pool and about.jobs and not self._has_pool(pool, about.jobs):
            return None  # of a job that had the id before, or would have liked to
        if isinstance(event, JobRejected) and event.code == Code.ID_TAKEN:
            return None
        own, absent = wanted_jobs(self._connection, EventFilter(), about.jobs)
        own |= absent.intersection(ids)
        jobs = [each for each in about.jobs if each in own]
        pools = [each for each in about.pools if self._limits.has_pool(each)]
        if not jobs and not pools:
            return None
        return Subjects(jobs, pools, [each for each in about.hosts if self.names.has_host(each)])

    def is_of_another(self, name: str, words: Json) -> bool:
        """Whether an entry in the history of a job is about something else that was submitted under its id."""
        if name == JobSubmitted.__name__:
            return not self._is_shown(words["pool"])
        return name == JobRejected.__name__ and words["code"] == Code.ID_TAKEN

    def _has_pool(self, pool: str, job_ids: Iterable[str]) -> bool:
        """Whether jobs in a pool may be seen."""
        return self._limits.has_pool(pool) or self._limits.job_id in job_ids

    def is_own(self, event: Event, own: Subjects) -> bool:
        """Whether a record is about nothing else. `own`: what may be seen of it."""
        about = subjects(event)
        has_all = all(map(self._is_shown, about.pools))
        return has_all and len(about.jobs) <= len(own.jobs) and not isinstance(event, _OF_ANY_HOSTS)

    def _is_shown(self, pool: str) -> bool:
        return self.names.pool(pool) == pool

    def data(self, event: Event, own: Subjects) -> Json:
        """A record as JSON; of one that is about others too nothing."""
        return self.names.told(brief(event)) if self.is_own(event, own) else {}

    def line(self, event: Event, kinds: Kinds, own: Subjects, about: str = "") -> Line:
        """The sentence about a record, and about those of its jobs that may be seen."""
        name = type(event).__name__
        if name in story_cell.SENTENCES and self.is_own(event, own):
            return story.line_of(event, kinds, about)
        parts = sorted((each for each in details(event) if each[0] in own.jobs), key=lambda each: each[0] != about)
        lines: list[list[Part]] = []
        if name in story_jobs.SENTENCES:
            lines = [
                [job(of), ": ", *story_jobs.line_of(name, self.names.told(detail_of(detail)))] for of, detail in parts
            ]
        actor = getattr(event, "actor", None)
        return (*joined(lines, "; "), *(by(actor) if actor else ())) if lines else (name,)


def own_records(connection: Connection) -> OwnRecords | None:
    """Tells who asks of records; None: it may see all of them."""
    of = limits()
    return None if of is None else OwnRecords(connection, of)
