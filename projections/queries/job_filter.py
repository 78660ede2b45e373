"""The filter of a list of jobs, as conditions of a query over the table of jobs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from projections.access.limits import limits
from projections.views.limited_tables import jobs_seen

INDEXED = "main.jobs INDEXED BY jobs_by_group"
"""The table of all jobs, by an index that has all columns that a filter may ask for. The conditions of a filter leave
out what a limited reader may not see.
"""

_LABELLED = (
    "instr(labels, ?) AND EXISTS (SELECT 1 FROM json_each(labels) AS each WHERE each.key = ? AND each.value = ?)"
)


class JobFilter(NamedTuple):
    """A filter of jobs; an empty field lets all through."""

    states: Sequence[str] = ()
    pool: str = ""
    """Jobs of it and of the pools below it."""
    labels: Sequence[tuple[str, str]] = ()
    owners: Sequence[str] = ()
    text: str = ""
    """Part of the id or of the command, in whatever case."""
    since_ms: int = 0
    """When they were submitted at the earliest."""
    waiting: bool = False
    """Only jobs with tasks that are queued, the longest wait first; otherwise the newest job is."""
    submitters: Sequence[str] = ()
    """Subjects of which one has submitted them first."""

    def narrows(self) -> bool:
        """Whether more than the state is asked for; those of who may not see all jobs are narrowed by that."""
        fields = self.pool or self.labels or self.owners or self.submitters or self.text or self.since_ms
        return bool(fields) or limits() is not None

    def conditions(self) -> tuple[list[str], list[Any]]:
        """The conditions, and the values of their marks."""
        found: list[tuple[str, Sequence[Any]]] = []
        if (of := limits()) is not None:
            found.append((jobs_seen(of), ()))
        if self.states:
            found.append((f"state IN ({_marks(self.states)})", self.states))
        if self.pool and self.pool != "/":
            found.append(("(pool = ? OR pool > ? AND pool < ?)", subtree(self.pool)))
        if self.owners:
            found.append((f"owner IN ({_marks(self.owners)})", self.owners))
        if self.submitters:
            found.append((f"submitter IN ({_marks(self.submitters)})", self.submitters))
        if self.since_ms:
            found.append(("submitted_ms >= ?", (self.since_ms,)))
        if self.text:
            text = self.text.lower()
            found.append(("(instr(lower(job_id), ?) OR instr(lower(command), ?))", (text, text)))
        if self.waiting:
            found.append(("waits_ms > 0", ()))
        for key, value in self.labels:
            # The first part reads none of the labels but passes over nearly all jobs that lack it.
            pair = f"{msgspec.json.encode(key).decode()}:{msgspec.json.encode(value).decode()}"
            found.append((_LABELLED, (pair, key, value)))
        return [condition for condition, _ in found], [value for _, values in found for value in values]


def subtree(pool: str) -> tuple[str, str, str]:
    """A pool, and what the paths below it lie between."""
    return pool, f"{pool}/", f"{pool}0"


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
