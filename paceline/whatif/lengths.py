"""The lengths of the runs of a branch, by what history knows of them.

A task's n-th run that no decision cuts short lasts as long as its n-th natural end in history took, with that exit code
and that delay until it had started. What history doesn't know is drawn from tasks like it, by a seed for each task, so
that both branches of a pair draw alike. Each length says by its flag which rule gave it.
"""

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from events.codes import Outcome, RunReport
from events.records.jobs import JobSubmitted
from paceline.forecast.lengths import GUESS_MS, groups_of, longer_than
from paceline.plans.run_reports import RunId
from paceline.whatif.host_faults import HostFaults
from paceline.whatif.run_table import NATURAL, NEVER, Job, Run, RunTable

SERVICES = frozenset({"stateless", "stateful", "daemon"})
OBSERVED, DRAWN, GUESSED, SERVICE, ADDED, FAULT = "observed", "drawn", "guessed", "service", "added", "host fault"
SILENCE_MS = 10_000
"""The gateway says that a host is silent when it hasn't heard it for about so long."""

UNRANKED = 1 << 62
AS_IT_WAS = ("ordered_ms", "started_ms", "reported_ms", "report", "code", "rank")
"""The columns that say how a run went."""


class Length(NamedTuple):
    """The course of a run, in milliseconds since its order. `ends_ms` None: it goes on until it is stopped."""

    starts_ms: int
    ends_ms: int | None
    report: int
    code: int
    flag: str
    health: tuple[tuple[int, int], ...] = ()
    """Reports of health: milliseconds since the order, and the report."""
    rank: int = UNRANKED
    """Among ends of one moment those of lower ranks come first."""


class KnownLengths:
    """All that history tells of lengths: the same for every branch of it, so it is learnt once."""

    def __init__(self, table: RunTable) -> None:
        self.table = table
        self.faults = HostFaults(table)
        self.groups: dict[tuple[object, ...], list[float]] = {}
        """The lengths of tasks alike, ascending, in the unit of the group."""
        self.starts_ms = _median([each for each in self._delays() if each >= 0])
        """The usual time from the order to the start."""
        for job in table.jobs.values():
            self._learn(job)
        for lengths in self.groups.values():
            lengths.sort()

    def _learn(self, job: Job) -> None:
        """Notes how long the tasks of a job ran that ended by themselves; a gang counts once."""
        if job.kind in SERVICES:
            return
        ran = [
            run.reported_ms - run.started_ms
            for instance, rows in job.runs.items()
            if instance == 0 or instance >= job.gang
            for run in map(self.table.run, rows)
            if run.report == RunReport.EXITED and run.code == 0 and run.started_ms != NEVER
        ]
        for group, unit_ms in _groups(job):
            self.groups.setdefault(group, []).extend(each / unit_ms for each in ran)

    def _delays(self) -> Iterator[int]:
        columns = self.table.column
        return (start - order for order, start in zip(columns("ordered_ms"), columns("started_ms"), strict=True))


class Lengths:
    """The lengths of the runs of one branch. `ends_ms`: when history ends, for runs that go on there."""

    def __init__(
        self,
        past: KnownLengths,
        ends_ms: int,
        seed: int,
        jitter_ms: int = 0,
        added: Mapping[str, JobSubmitted] | None = None,
    ) -> None:
        """`jitter_ms`: each run starts, and ends, later by up to so much, as drawn for it. `added`: jobs by id
        that history doesn't have and that say how their tasks are played.
        """
        self.flags: Counter[str] = Counter()
        """Runs by the rule that gave their length."""
        self.core_ms: Counter[str] = Counter()
        """Milli-CPU-milliseconds by the same."""
        self._table = past.table
        self._ends_ms = ends_ms
        self._seed = seed
        self._jitter_ms = jitter_ms
        self._played = added or {}
        self._faults, self._groups, self._starts_ms = past.faults, past.groups, past.starts_ms
        self._columns = [past.table.column(name) for name in AS_IT_WAS]
        self._reports = past.table.column("report")

    def of(
        self, job: Job, run: RunId, natural: int, passed_ms: int = 0, host_id: str = "", ordered_ms: int = NEVER
    ) -> Length:
        """The length of a run of a task that has had so many natural ends before; it has lasted `passed_ms` already.
        `host_id`, `ordered_ms`: where, and since when.
        """
        if (row := self._faults.at(run, host_id, ordered_ms)) != NEVER and job.kind not in SERVICES:
            length = self._as_it_was(row)._replace(flag=FAULT)
        elif job.job_id in self._played:
            length = _as_played(self._played[job.job_id], run)
        elif job.kind in SERVICES:
            length = self._of_service(run)
        else:
            instance = run[1]
            length = self._known(job, instance, natural, passed_ms) or self._drawn(job, instance, natural, passed_ms)
        if self._jitter_ms:
            length = self._jittered(length, run)
        self.flags[length.flag] += 1
        if length.ends_ms is not None:
            self.core_ms[length.flag] += (length.ends_ms - length.starts_ms) * job.resources.get("cpu", 0)
        return length

    def natural_ends(self, job: Job, instance: int) -> list[int]:
        """The rows of the runs of a task that ended by themselves, the oldest first, without those that a fault of
        their host has ended.
        """
        rows, reports = job.runs.get(instance, ()), self._reports
        return [row for row in rows if reports[row] in NATURAL and row not in self._faults.rows]

    def stop_ms(self, job: Job, run: RunId) -> int:
        """The time that a run takes to stop, in milliseconds: as that run took, or the last of its job."""
        if (fact := self._played.get(job.job_id)) is not None and fact.simulated is not None:
            return max(1, fact.stop_grace_ms) if fact.simulated.ignores_stop else 0
        own = self._table.row_of(run)
        rows = [self._table.run(row) for rows in job.runs.values() for row in reversed(rows)]
        if own != NEVER and (it := self._table.run(own)).stopping_ms != NEVER and it.reported_ms >= it.stopping_ms:
            return it.reported_ms - it.stopping_ms
        return next((each.reported_ms - each.stopping_ms for each in rows if each.report == RunReport.STOPPED), 0)

    def _jittered(self, length: Length, run: RunId) -> Length:
        draws = random.Random(f"{self._seed}:{run}")
        starts_ms = length.starts_ms + draws.randint(0, self._jitter_ms)
        if length.ends_ms is None:
            return length._replace(starts_ms=starts_ms)
        return length._replace(
            starts_ms=starts_ms, ends_ms=max(starts_ms, length.ends_ms) + draws.randint(0, self._jitter_ms)
        )

    def _known(self, job: Job, instance: int, natural: int, passed_ms: int) -> Length | None:
        rows = self.natural_ends(job, instance)
        if natural < len(rows):
            length = self._as_it_was(rows[natural])
            if length.ends_ms is not None and length.ends_ms >= passed_ms:
                return length
        return None

    def _of_service(self, run: RunId) -> Length:
        """The run of that number ends as it did where nobody had stopped it; any other goes on."""
        row = self._table.row_of(run)
        if row != NEVER and _is_natural(self._table.run(row)):
            return self._as_it_was(row)
        health = tuple(self._table.extra.get(row, ()))
        starts_ms = self._starts_ms if row == NEVER else _starts_ms(self._table.run(row), self._starts_ms)
        return Length(starts_ms, None, 0, 0, SERVICE, health)

    def _as_it_was(self, row: int) -> Length:
        ordered_ms, started_ms, reported_ms, report, code, rank = [column[row] for column in self._columns]
        starts_ms = started_ms - ordered_ms if started_ms != NEVER else 0
        health = tuple(self._table.extra.get(row, ()))
        return Length(starts_ms, reported_ms - ordered_ms, report, code, OBSERVED, health, rank)

    def _drawn(self, job: Job, instance: int, natural: int, passed_ms: int) -> Length:
        """A length among those of tasks like it that are longer than what is known of this one."""
        member = instance < job.gang
        drawn = random.Random(f"{self._seed}:{job.job_id}:{'gang' if member else instance}:{natural}").random()
        members = range(job.gang) if member else (instance,)
        floor_ms = max([passed_ms, *(self._lasted_ms(job, each) for each in members)])
        for group, unit_ms in _groups(job):
            lengths = self._groups.get(group, [])
            if longer := longer_than(lengths, floor_ms / unit_ms):
                return self._ending(int(lengths[longer[int(drawn * len(longer))]] * unit_ms), DRAWN)
        if job.limit_ms > floor_ms:
            return self._ending(floor_ms + int(drawn * (job.limit_ms - floor_ms)), GUESSED)
        return self._ending(floor_ms + max(GUESS_MS, floor_ms), GUESSED)

    def _ending(self, ran_ms: int, flag: str) -> Length:
        return Length(self._starts_ms, self._starts_ms + max(1, ran_ms), RunReport.EXITED, 0, flag)

    def _lasted_ms(self, job: Job, instance: int) -> int:
        """The longest that a run of a task has lasted that was cut short after its last natural end."""
        lasted_ms = 0
        for run in reversed([*self._table.runs_of(job, instance)]):
            if _is_natural(run):
                break
            if run.began_ms != NEVER:
                lasted_ms = max(lasted_ms, self._cut_ms(run) - run.began_ms)
        return lasted_ms

    def _cut_ms(self, run: Run) -> int:
        """When a run was cut short: of one that was lost when its host was last heard, of one that goes on the end."""
        if run.outcome == Outcome.LOST:
            silent = self._table.silent_ms.get(self._table.hosts[run.host], [])
            at = bisect_right(silent, run.over_ms)
            return silent[at - 1] - SILENCE_MS if at else run.began_ms
        return run.over_ms if run.over_ms != NEVER else self._ends_ms


def _as_played(fact: JobSubmitted, run: RunId) -> Length:
    """The course of a run of a job that says how it is played, as simulated hosts play it."""
    play = fact.simulated
    assert play is not None
    _, instance, number = run
    lengths = play.durations_ms
    ends_ms = lengths[instance % len(lengths)] if lengths else play.duration_ms
    code = 1 if number <= play.fail_runs or number == play.fail_run else play.exit_code
    if fact.health is None:
        return Length(play.ready_ms, ends_ms, RunReport.EXITED, code, ADDED)
    fails = play.unhealthy_ms is not None and number <= (play.unhealthy_runs or number)
    health: tuple[tuple[int, int], ...] = ()
    if not fails or play.ready_ms < (play.unhealthy_ms or 0):
        health = ((play.ready_ms, RunReport.HEALTHY),)
    if fails:
        health = (*health, (play.unhealthy_ms or 0, RunReport.UNHEALTHY))
    return Length(0, ends_ms, RunReport.EXITED, code, ADDED, health)


def _groups(job: Job) -> Iterator[tuple[tuple[object, ...], int]]:
    """The groups of tasks like those of a job, the nearest first, and the units of their lengths."""
    yield ("job", job.job_id), 1
    yield from groups_of(job.owner, job.pool, job.limit_ms)


def _is_natural(run: Run) -> bool:
    return run.report in NATURAL


def _starts_ms(run: Run, otherwise_ms: int) -> int:
    """Milliseconds from the order to the first report that it runs."""
    if run.started_ms == NEVER:
        return otherwise_ms
    return run.started_ms - run.ordered_ms


def _median(values: list[int]) -> int:
    return sorted(values)[len(values) // 2] if values else 0
