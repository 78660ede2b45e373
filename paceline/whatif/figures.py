"""Figures of pools, owners and the cell in a stretch of time: waits, turnaround, counts and use."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from events.codes import Outcome
from events.resources import STANDARD, Unit
from paceline.whatif.run_table import NEVER, Job, RunTable

CELL = "cell"
Group = tuple[str, str]
"""`pool` and its path, `owner` and its name, or `cell` and nothing."""
OF_TIMES = ("mean_wait", "p95_wait", "turnaround")
FIGURES = (*OF_TIMES, "begun", "waiting", "ended", "refused", "use", "preempted", "lost_work")
"""Seconds, but for `begun`, `waiting` (at the end), `ended`, `refused` and `preempted`, which count jobs and runs;
`use` is the amount of a resource on average, `lost_work` that of runs that were preempted, times seconds.
"""
BY_RESOURCE = frozenset({"use", "lost_work"})
CPU = "cpu"
"""The resource of a figure by resource that names none."""
OF_LENGTHS = frozenset({"turnaround", "ended", "use"})
"""Figures that lengths of runs decide more than anything else."""
GUESSED_MAX = 0.5
"""Where more of the core-seconds than this are guessed, nothing is told of them."""
Figure = tuple[str, str]
"""A figure and its resource, which is empty but for those of `BY_RESOURCE`."""
COUNTS = frozenset({"begun", "waiting", "ended", "refused", "preempted"})
MORE_IS_BETTER = frozenset({"begun", "ended", "use"})
LESS_IS_BETTER = frozenset({*OF_TIMES, "waiting", "refused", "preempted", "lost_work"})


@dataclass
class _Sums:
    waits_ms: list[int] = field(default_factory=list)
    turnarounds_ms: list[int] = field(default_factory=list)
    begun: int = 0
    waiting: int = 0
    ended: int = 0
    refused: int = 0
    preempted: int = 0
    used: Counter[str] = field(default_factory=Counter)
    """By resource its amounts times milliseconds."""
    lost: Counter[str] = field(default_factory=Counter)

    def figures(self, span_ms: int, units: Mapping[str, Unit]) -> dict[Figure, float]:
        numbers = {
            "mean_wait": fmean(self.waits_ms) / 1000 if self.waits_ms else 0.0,
            "p95_wait": float(np.quantile(self.waits_ms, 0.95)) / 1000 if self.waits_ms else 0.0,
            "turnaround": fmean(self.turnarounds_ms) / 1000 if self.turnarounds_ms else 0.0,
            "begun": self.begun,
            "waiting": self.waiting,
            "ended": self.ended,
            "refused": self.refused,
            "preempted": self.preempted,
        }
        figures = {(figure, ""): number for figure, number in numbers.items()}
        for resource in {CPU, *self.used}:
            scale = 1 if units.get(resource) is Unit.MIB else 1000
            figures["use", resource] = self.used[resource] / scale / span_ms
            figures["lost_work", resource] = self.lost[resource] / scale / 1000
        return figures


@dataclass(frozen=True)
class Wait:
    """The wait of a job up to its first run, or to the end of the stretch, in milliseconds."""

    waited_ms: int
    began_ms: int
    host: str


class Measured:
    """The figures of one course of events, between two times in milliseconds since 1970. It doesn't keep the table."""

    def __init__(
        self,
        table: RunTable,
        from_ms: int,
        to_ms: int,
        units: Mapping[str, Unit] = STANDARD,
        without: Set[str] = frozenset(),
    ) -> None:
        """`units`: those of the kinds of the cell. `without`: jobs that don't count."""
        self.waits: dict[str, Wait] = {}
        """The wait of each job that waited within the stretch."""
        sums = _Summing(table, from_ms, to_ms, self.waits, without).sums
        self.figures = {group: each.figures(to_ms - from_ms, units) for group, each in sums.items()}
        """By group, which is `pool` and its path, `owner` and its name, or `cell`. Sizes are in MiB."""


class _Summing:
    """Sums up a table."""

    def __init__(self, table: RunTable, from_ms: int, to_ms: int, waits: dict[str, Wait], without: Set[str]) -> None:
        self.sums: dict[Group, _Sums] = defaultdict(_Sums)
        self._span = from_ms, to_ms
        self._table = table
        self._waits = waits
        for job in table.jobs.values():
            if job.job_id not in without:
                self._add(job)
        for pool, owner, submitted_ms in table.refused:
            if from_ms <= submitted_ms < to_ms:
                for group in groups_of(pool, owner):
                    self.sums[group].refused += 1

    def _add(self, job: Job) -> None:
        from_ms, to_ms = self._span
        if job.kind != "batch" or job.submitted_ms >= to_ms:
            return
        sums = [self.sums[group] for group in groups_of(job.pool, job.owner)]
        began_ms = job.began_ms if NEVER < job.began_ms < to_ms else NEVER
        if job.submitted_ms != NEVER and (began_ms == NEVER or began_ms >= from_ms):
            ended_before = NEVER < job.ended_ms < from_ms
            if not ended_before:
                self._waited(job, began_ms, sums)
        self._turned_around(job, sums)
        self._used(job, sums)

    def _waited(self, job: Job, began_ms: int, sums: Iterable[_Sums]) -> None:
        to_ms = self._span[1]
        until_ms = began_ms if began_ms != NEVER else min(to_ms, job.ended_ms if job.ended_ms != NEVER else to_ms)
        first = next((row for rows in job.runs.values() for row in rows), None)
        host = self._table.hosts[self._table.run(first).host] if first is not None else ""
        self._waits[job.job_id] = Wait(until_ms - job.submitted_ms, began_ms, host)
        for each in sums:
            each.waits_ms.append(until_ms - job.submitted_ms)
            each.begun += began_ms != NEVER
            each.waiting += began_ms == NEVER and not NEVER < job.ended_ms < to_ms

    def _turned_around(self, job: Job, sums: Iterable[_Sums]) -> None:
        """One that hasn't ended counts up to the end: else a change that lets none end would seem to be the best."""
        from_ms, to_ms = self._span
        ended = NEVER < job.ended_ms < to_ms
        if job.submitted_ms == NEVER or (ended and job.ended_ms < from_ms):
            return
        for each in sums:
            each.ended += ended
            each.turnarounds_ms.append((job.ended_ms if ended else to_ms) - job.submitted_ms)

    def _used(self, job: Job, sums: Iterable[_Sums]) -> None:
        from_ms, to_ms = self._span
        ran_ms = preempted = lost_ms = 0
        for rows in job.runs.values():
            for run in map(self._table.run, rows):
                if run.began_ms == NEVER:
                    continue
                over_ms = run.over_ms if run.over_ms != NEVER else to_ms
                ran_ms += max(0, min(over_ms, to_ms) - max(run.began_ms, from_ms))
                if run.outcome == Outcome.PREEMPTED and from_ms <= over_ms < to_ms:
                    preempted, lost_ms = preempted + 1, lost_ms + over_ms - run.began_ms
        for each in sums:
            each.preempted += preempted
            for resource, amount in job.resources.items():
                each.used[resource] += ran_ms * amount
                each.lost[resource] += lost_ms * amount


def groups_of(pool: str, owner: str) -> list[Group]:
    """The groups that a job counts in: its pool and those above it, its owner, the cell."""
    parts = pool.strip("/").split("/")
    pools = [("pool", "/" + "/".join(parts[:count])) for count in range(1, len(parts) + 1)]
    return [*pools, *([("owner", owner)] if owner else []), (CELL, "")]


def share_within(recorded: Mapping[str, Wait], again: Mapping[str, Wait], within_ms: int) -> float | None:
    """The share of the jobs that begin in history or again which do so in both, within so many milliseconds of
    each other; None: none does.
    """
    before, after = (
        {job_id: wait.began_ms for job_id, wait in waits.items() if wait.began_ms != NEVER}
        for waits in (recorded, again)
    )
    if not (either := before.keys() | after.keys()):
        return None
    both = before.keys() & after.keys()
    return sum(abs(after[job_id] - before[job_id]) <= within_ms for job_id in both) / len(either)


def share_on_same_host(recorded: Mapping[str, Wait], again: Mapping[str, Wait]) -> float | None:
    """The share of those jobs that have their first run on the same host."""
    begun = {job_id: wait for job_id, wait in recorded.items() if wait.began_ms != NEVER}
    if not begun:
        return None
    return sum(job_id in again and again[job_id].host == wait.host for job_id, wait in begun.items()) / len(begun)
