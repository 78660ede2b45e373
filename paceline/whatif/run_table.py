"""The runs of a stretch of history, or of a branch of it: when each was ordered, began and ended, how, and where.

One row a run, in columns of numbers: a million runs take some 200 MB.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from events.codes import ENDED_JOBS, LIVE_REPORTS, RunReport
from events.records.base import Event
from events.records.hosts import HostSilent
from events.records.jobs import JobSubmitted
from events.records.lifecycle import (
    JobAccepted,
    JobChanged,
    JobRejected,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.rounds import RoundCommitted
from events.records.tasks import RunsReported
from events.rounds import Delivered
from events.topics import rounds_of
from paceline.plans.run_reports import RunId

LIFECYCLE = rounds_of("lifecycle")
NEVER = -1
"""A time that hasn't come."""
NATURAL = frozenset({RunReport.EXITED, RunReport.NOT_STARTED, RunReport.CANNOT_START})
"""The reports of runs that nobody has cut short."""
EXTRA = frozenset({RunReport.HEALTHY, RunReport.UNHEALTHY})
COLUMNS = (
    "ordered_ms",
    "started_ms",
    "reported_ms",
    "report",
    "code",
    "host",
    "began_ms",
    "over_ms",
    "outcome",
    "stopping_ms",
    "rank",
)


@dataclass(slots=True)
class Job:
    """A job, as far as lengths and figures ask for it. Times in milliseconds since 1970."""

    job_id: str
    pool: str
    kind: str
    owner: str
    submitted_ms: int
    tasks: int
    limit_ms: int
    """`max_runtime`; 0: none."""
    gang: int
    """Size of its gang; 0: none."""
    resources: dict[str, int] = field(default_factory=dict)
    """The request of one task."""
    began_ms: int = NEVER
    """When its first run was available."""
    ended_ms: int = NEVER
    runs: dict[int, list[int]] = field(default_factory=dict)
    """The rows of the runs of each instance, the oldest first."""


class Run(NamedTuple):
    """One row. `host` is an index into `RunTable.hosts`; `report` and `outcome` are 0 where none came; `rank` is the
    place of its last report among those of all runs.
    """

    ordered_ms: int
    started_ms: int
    reported_ms: int
    report: int
    code: int
    host: int
    began_ms: int
    over_ms: int
    outcome: int
    stopping_ms: int
    rank: int


class Refusal(NamedTuple):
    """A submission of a batch job that was refused."""

    pool: str
    owner: str
    submitted_ms: int


class RunTable:
    """Folds what a log says of jobs and their runs, in causal order."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        """`jobs`: those that were accepted before."""
        self.jobs = {job.job_id: job for job in jobs}
        self.hosts: list[str] = []
        self.extra: dict[int, list[tuple[int, int]]] = {}
        """Reports of health, by row: milliseconds since the order, and the report."""
        self.silent_ms: dict[str, list[int]] = {}
        """By host when it fell silent, in milliseconds since 1970."""
        self.count = self._ends = 0
        self.refused: list[Refusal] = []
        self.begun: list[str] = []
        """Jobs in the order of their first runs."""
        self._columns = {name: array("q") for name in COLUMNS}
        self._numbers: dict[str, int] = {}
        self._rows: dict[RunId, int] = {}
        self._submitted: dict[int, tuple[JobSubmitted, int]] = {}

    def take(self, delivered: Delivered) -> None:
        """The next record in causal order."""
        event, record = delivered.event, delivered.record
        if isinstance(event, JobSubmitted):
            self._submitted[record.offset] = event, record.at_ms
        elif isinstance(event, RunsReported):
            self.reported(event, record.at_ms)
        elif isinstance(event, HostSilent):
            self.silent_ms.setdefault(event.host_id, []).append(record.at_ms)
        elif isinstance(event, RoundCommitted) and record.topic == LIFECYCLE:
            for decision in delivered.decisions():
                self.decided(decision, record.at_ms, event.now)

    def decided(self, event: Event, at_ms: int, now: int) -> None:
        """A decision of lifecycle. `at_ms`: when its round was appended; `now`: the logical time of it."""
        match event:
            case JobAccepted():
                self._accepted(event, now)
            case JobRejected():
                if (submitted := self._submitted.pop(event.jobs_offset, None)) is not None:
                    fact, at_ms = submitted
                    if fact.kind == "batch":
                        self.refused.append(Refusal(fact.pool, fact.owner, at_ms))
            case JobChanged() if event.state in ENDED_JOBS and event.job_id in self.jobs:
                self.jobs[event.job_id].ended_ms = now
            case RunsOrdered():
                self._ordered(event, at_ms)
            case RunsStopping():
                for row in self._rows_of(event):
                    if row != NEVER and self._columns["stopping_ms"][row] == NEVER:
                        self._columns["stopping_ms"][row] = at_ms
            case RunsAvailable():
                self._available(event, now)
            case RunsEnded():
                for row, outcome in zip(self._rows_of(event), event.outcome_array.tolist(), strict=True):
                    if row != NEVER:
                        self._columns["over_ms"][row], self._columns["outcome"][row] = now, outcome

    def reported(self, event: RunsReported, at_ms: int) -> None:
        """Takes the reports of hosts."""
        started, ends, codes = (self._columns[name] for name in ("started_ms", "report", "code"))
        ordered, reported, ranks = (self._columns[name] for name in ("ordered_ms", "reported_ms", "rank"))
        reports = event.state_array.tolist()
        for row, report, code in zip(self._rows_of(event), reports, event.exit_code_array.tolist(), strict=True):
            if row == NEVER:
                continue
            if report in LIVE_REPORTS:
                if started[row] == NEVER:
                    started[row] = at_ms
                if report in EXTRA:
                    self.extra.setdefault(row, []).append((at_ms - ordered[row], report))
            elif ends[row] == 0:
                reported[row], ends[row], codes[row] = at_ms, report, code
                self._ends += 1
                ranks[row] = self._ends

    def run(self, row: int) -> Run:
        """One row."""
        return Run._make([column[row] for column in self._columns.values()])

    def runs_of(self, job: Job, instance: int) -> Iterator[Run]:
        """The runs of a task, the oldest first."""
        return map(self.run, job.runs.get(instance, ()))

    def column(self, name: str) -> "array[int]":
        """A column of all rows."""
        return self._columns[name]

    def bytes_of_columns(self) -> dict[str, bytes]:
        """All columns as `restore` takes them, 8 bytes a run."""
        return {name: column.tobytes() for name, column in self._columns.items()}

    def restore(self, columns: "Mapping[str, array[int]]") -> None:
        """Takes the columns of another table, whose jobs and hosts this one has; to be looked at alone."""
        self._columns = {name: columns[name] for name in COLUMNS}
        self.count = len(columns[COLUMNS[0]])

    def row_of(self, run: RunId) -> int:
        """The row of a run; NEVER where it isn't known."""
        return self._rows.get(run, NEVER)

    def _accepted(self, event: JobAccepted, now: int) -> None:
        fact, at_ms = self._submitted.pop(event.jobs_offset, (None, now))
        shape = event.shapes[0].resources if event.shapes else {}
        self.jobs[event.job_id] = Job(
            event.job_id,
            event.pool,
            event.kind,
            fact.owner if fact is not None else "",
            at_ms,
            event.instances,
            fact.max_runtime_ms if fact is not None else 0,
            event.gang_min,
            dict(shape),
        )

    def _ordered(self, event: RunsOrdered, at_ms: int) -> None:
        job_ids = event.job_ids
        runs = [
            (job_ids[job], instance, run)
            for job, instance, run in zip(*(column.tolist() for column in event.items()), strict=True)
        ]
        hosts = [self._host(host_id) for host_id in event.host_ids]
        self._add(runs, [hosts[host] for host in event.host_array.tolist()], at_ms)

    def add(self, run: RunId, host_id: str, ordered_ms: int) -> int:
        """A run was ordered; returns its row."""
        self._add([run], [self._host(host_id)], ordered_ms)
        return self.count - 1

    def _add(self, runs: Sequence[RunId], hosts: Sequence[int], ordered_ms: int) -> None:
        for row, run in enumerate(runs, self.count):
            self._rows[run] = row
            if (job := self.jobs.get(run[0])) is not None:
                job.runs.setdefault(run[1], []).append(row)
        count, columns = len(runs), self._columns
        self.count += count
        for name in ("started_ms", "reported_ms", "began_ms", "over_ms", "stopping_ms"):
            columns[name].extend([NEVER] * count)
        for name in ("report", "code", "outcome", "rank"):
            columns[name].extend([0] * count)
        columns["ordered_ms"].extend([ordered_ms] * count)
        columns["host"].extend(hosts)

    def _available(self, event: RunsAvailable, now: int) -> None:
        for row in self._rows_of(event):
            if row != NEVER:
                self._columns["began_ms"][row] = now
        for job_id in event.job_ids:
            job = self.jobs.get(job_id)
            if job is not None and job.began_ms == NEVER:
                job.began_ms = now
                self.begun.append(job_id)

    def _rows_of(self, event: RunsAvailable | RunsEnded | RunsReported | RunsStopping) -> list[int]:
        """The row of each item; NEVER where its order isn't in the table."""
        job_ids, row_of = event.job_ids, self._rows.get
        items = zip(*(column.tolist() for column in event.items()), strict=True)
        return [row_of((job_ids[job], instance, run), NEVER) for job, instance, run in items]

    def _host(self, host_id: str) -> int:
        number = self._numbers.get(host_id)
        if number is None:
            number = self._numbers[host_id] = len(self.hosts)
            self.hosts.append(host_id)
        return number
