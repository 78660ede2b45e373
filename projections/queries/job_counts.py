"""The number of jobs that a filter lets through, by state and by group: the head of the list of jobs."""

from collections import Counter
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from events.codes import Code
from projections.queries.backoff_reasons import code_of
from projections.queries.job_filter import INDEXED, JobFilter
from projections.queries.last_failure import failures_of
from projections.views.reader import folded, rows_as_text
from projections.views.reasons import WAITS
from projections.views.rows import JobRow

KEPT_MAX = 16
"""Counts that are kept: pages that are looked at again while nothing has happened."""
By = Literal["pool", "owner", "label"]


class JobGroup(NamedTuple):
    """Jobs of one pool, owner or label that have one state, and how many of their tasks wait, queued or not yet."""

    name: str
    state: str
    jobs: int
    waiting: int


class JobCounts:
    """The counts of a cell, each found once for a state of the views. Any thread may ask."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], list[JobGroup]] = {}

    def of(self, connection: Connection, wanted: JobFilter, by: By, label_key: str = "") -> list[JobGroup]:
        """The groups of the jobs that a filter lets through; by label: by the values of that key, those without it by
        an empty name; with no key by the keys, so that a job counts for each of its labels.
        """
        conditions, values = wanted.conditions()
        key = (by, label_key, *conditions, *values, *folded(connection).items())
        found = self._kept.get(key)
        if found is None:
            where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
            name, more, first = str(by), "", list[str]()
            if by == "label" and label_key:
                name, first = "coalesce((SELECT value FROM json_each(labels) WHERE key = ?), '')", [label_key]
            elif by == "label":
                name, more = "pair.key", ", json_each(labels) AS pair"
            query = f"SELECT {name}, state, count(*), sum(queued + backoff) FROM {INDEXED}{more}{where} GROUP BY 1, 2"
            found = [JobGroup(*row) for row in rows_as_text(connection, query, [*first, *values])]
            self._kept[key] = found
            while len(self._kept) > KEPT_MAX:
                self._kept.pop(next(iter(self._kept), ()), None)
        return found


class WaitReason(NamedTuple):
    """A reason of waiting: its code, and how many jobs and tasks wait by it."""

    code: str
    jobs: int
    tasks: int


def wait_reasons(connection: Connection, wanted: JobFilter) -> list[WaitReason]:
    """The reasons of waiting of the jobs that a filter lets through, most tasks first: of those that aren't admitted
    what entitlement says, of those that are and have no place what placement says of their job, of those that aren't
    queued what lifecycle waits for.
    """
    conditions, values = wanted._replace(waiting=True).conditions()
    placed = ", ".join(f"'{kind}'" for kind in WAITS)
    unplaced = f"SELECT code FROM explanations AS e WHERE e.job_id = w.job_id AND e.kind IN ({placed}) AND e.tasks > 0"
    query = (
        f"SELECT coalesce(h.code, ({unplaced} LIMIT 1), '{Code.NOT_YET_EVALUATED}') AS code, "
        "count(DISTINCT w.job_id), sum(w.tasks) FROM waiting AS w LEFT JOIN holds AS h ON h.number = w.standing "
        f"WHERE w.job_id IN (SELECT job_id FROM jobs WHERE {' AND '.join(conditions)}) GROUP BY 1"
    )
    found = [WaitReason(*row) for row in rows_as_text(connection, query, values)]
    return sorted([*found, *_not_queued(connection, wanted)], key=lambda each: (-each.tasks, each.code))


def _not_queued(connection: Connection, wanted: JobFilter) -> list[WaitReason]:
    """The reasons of tasks that aren't queued yet."""
    conditions, values = wanted.conditions()
    query = f"SELECT * FROM jobs WHERE {' AND '.join(['backoff > 0', 'ended_ms = 0', *conditions])}"
    waiting = [JobRow(*row) for row in rows_as_text(connection, query, values)]
    failures = failures_of(connection, [job for job in waiting if job.kind != "batch"], with_words=False)
    jobs, tasks = Counter[str](), Counter[str]()
    for job in waiting:
        code = code_of(job, failures.get(job.job_id))
        jobs[code] += 1
        tasks[code] += job.backoff
    return [WaitReason(code, count, tasks[code]) for code, count in jobs.items()]
