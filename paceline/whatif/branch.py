"""A branch of history: the records before a moment as they are, and from there on rounds of the real machines, on the
facts that were recorded then, with hosts that run things as long as they ran.
"""

import gc
import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from events.codes import RunReport, TaskState
from events.records.base import Event
from events.records.hosts import HostSilent
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.tasks import HostInventory
from events.rounds import Delivered
from events.topics import ALL
from paceline.plans.branch import branch_log
from paceline.plans.follower import starts_of
from paceline.plans.run_reports import STOPPED_CODE, RunId, runs_on_hosts
from paceline.simulate.world.cell import USER, Cell, SimLog, VirtualClock
from paceline.whatif.decided import TOPICS, Decided, DecisionReader, FactAt
from paceline.whatif.facts import RULES, Rule
from paceline.whatif.hosts import Going, RecordedHosts
from paceline.whatif.lengths import OBSERVED, SERVICES, Length, Lengths
from paceline.whatif.run_table import LIFECYCLE, NEVER, Job, Run, RunTable
from paceline.whatif.stretch import Stretch
from processors.lifecycle.machine import Lifecycle

DROP_RECORDS = 20_000
"""The log of a branch is dropped after so many records: all have read them."""
GOING = (TaskState.ORDERED, TaskState.RUNNING, TaskState.STOPPING)


class Timed(NamedTuple):
    """A fact that a change adds, its time in milliseconds since 1970, and its key."""

    at_ms: int
    event: Event
    key: bytes


@dataclass(frozen=True)
class Change:
    """A difference from history: facts at the start, and a function over recorded ones (None: it is left out)."""

    first: Sequence[Event] = ()
    alter: Callable[[Event], Event | None] = lambda event: event
    lines: Sequence[str] = ()
    """Each change in words."""
    later: Sequence[Timed] = ()
    """Facts that nobody wrote, in any order."""
    jobs: Mapping[str, JobSubmitted] = field(default_factory=dict)
    """The jobs among them that say how they are played, by id."""
    left_out: frozenset[str] = frozenset()
    """Jobs that aren't submitted, by id."""


class Branch:
    """One branch, from the start of a stretch to its end."""

    def __init__(
        self,
        stretch: Stretch,
        change: Change,
        seed: int,
        jitter_ms: int = 0,
        resolution_ms: int = 1,
        keeps: bool = False,
    ) -> None:
        """`seed`: of what is drawn. `jitter_ms`: runs start and end up to so much later than history says.
        `resolution_ms`: what runs report comes at multiples of it. `keeps`: the log is kept whole.
        """
        self.lengths = Lengths(stretch.lengths, stretch.to_ms, seed, jitter_ms, change.jobs)
        self.rules: Counter[str] = Counter()
        """Facts by what became of them."""
        self._stretch = stretch
        self._change = change
        self._keeps = keeps
        self._clock = VirtualClock(stretch.from_ms)
        folds = stretch.folds()
        lifecycle = folds["lifecycle"]
        assert isinstance(lifecycle.machine, Lifecycle)
        chain = deepcopy(lifecycle.own)
        starts = starts_of(folds.values(), stretch.starts)
        log = branch_log(stretch.base(), starts, stretch.starts, self._clock)
        self._clock.ms = max(self._clock.ms, stretch.from_ms)
        self.table = RunTable(self._open_jobs(lifecycle.machine))
        self.log = log
        """Its records; the older ones are dropped on the way unless it keeps them."""
        self.cell = Cell(SimLog(log, self._clock), self._clock, folds=folds)
        self._hosts = RecordedHosts(
            self.cell.log,
            self._clock,
            stretch.starts,
            chain,
            self.lengths,
            self.table,
            self._job,
            _silences(stretch, change),
            resolution_ms,
        )
        self.cell.add("hosts", self._hosts, [LIFECYCLE])
        self._hosts.begins(*self._under_way(lifecycle.machine))
        self.decided = Decided(stretch)
        chains = {name: fold.own for name, fold in folds.items()}
        self.cell.add("decisions", DecisionReader(self.cell.log, stretch.starts, chains, self.decided), TOPICS)
        self.origins: dict[FactAt, FactAt] = {}
        """By topic and offset of a fact of the branch those of the fact in history that it is."""
        self.added: dict[FactAt, tuple[str, str]] = {}
        """The same of facts that the change adds: their kind, and what they are about."""
        self._ties = itertools.count()
        self._later: list[tuple[int, int, Event, bytes, FactAt | None]] = [
            (each.at_ms, next(self._ties), each.event, each.key, None) for each in change.later
        ]
        heapq.heapify(self._later)
        self._stops = self._stops_of_runs()
        self._seen_begun = 0
        self._dropped_at = 0

    def run(self, on_moment: Callable[[int], None] = lambda now: None) -> None:
        """Runs to the end of the stretch. `on_moment` is told of each moment, in milliseconds since 1970."""
        gc.collect()  # of a branch before
        gc.freeze()  # what is known of history is looked through no more
        facts = iter(self._stretch.facts)
        fact = next(facts, None)
        for event in self._change.first:
            self._append(event, USER, None)
        while True:
            now = self._clock.ms
            while fact is not None and fact.record.at_ms <= now:
                self._replay(fact)
                fact = next(facts, None)
            while self._later and self._later[0][0] <= now:
                _, _, event, key, origin = heapq.heappop(self._later)
                if isinstance(event, HostInventory):
                    event = self._hosts.inventory(event.host_id, event.session, lost=True)
                self._append(event, key, origin)
            self.cell.run_until_quiet()
            self._schedule_stops()
            on_moment(now)
            self._drop()
            if now >= self._stretch.to_ms:
                self.decided.series.finish()
                return
            times = [self._stretch.to_ms, self.cell.next_ms(), fact.record.at_ms if fact is not None else None]
            times += [each[0] for each in self._later[:1]]
            self._clock.ms = max(now, min(at_ms for at_ms in times if at_ms is not None))

    def close(self) -> None:
        """Ends its machines."""
        gc.unfreeze()
        self.cell.close()

    # What it begins with

    def _open_jobs(self, lifecycle: Lifecycle) -> Iterator[Job]:
        """The jobs that are open at the start, without their runs."""
        recorded = self._stretch.runs.jobs
        for job_id, row in lifecycle.jobs.items():
            job = recorded.get(job_id)
            if job is None:  # accepted before what the log has
                job = recorded[job_id] = Job(
                    job_id, row.pool, row.kind, "", NEVER, row.instances, row.max_runtime_ms, row.gang_min
                )
            began_ms = job.began_ms if job.began_ms < self._stretch.from_ms else NEVER
            yield replace(job, runs={}, began_ms=began_ms, ended_ms=NEVER)

    def _under_way(self, lifecycle: Lifecycle) -> tuple[list[tuple[RunId, Going]], dict[tuple[str, int], int]]:
        """The runs that go on at the start, and how many ends of their own each task has had before."""
        runs, from_ms = self._stretch.runs, self._stretch.from_ms
        natural: dict[tuple[str, int], int] = {}
        for job in self.table.jobs.values():
            for instance in runs.jobs[job.job_id].runs:
                rows = self.lengths.natural_ends(runs.jobs[job.job_id], instance)
                if ends := sum(runs.run(row).reported_ms < from_ms for row in rows):
                    natural[job.job_id, instance] = ends
        going = []
        for (run, host_id), state in runs_on_hosts(lifecycle, GOING):
            row = runs.row_of(run)
            before = runs.run(row) if row != NEVER else None
            ordered_ms = before.ordered_ms if before is not None else from_ms
            if state == TaskState.STOPPING:
                length = _of_stopping(before, from_ms)
            else:
                ends = natural.get(run[:2], 0)
                length = self.lengths.of(runs.jobs[run[0]], run, ends, from_ms - ordered_ms, host_id, ordered_ms)
            new = self.table.add(run, host_id, ordered_ms)
            if before is not None and before.began_ms != NEVER and before.began_ms < from_ms:
                self.table.column("began_ms")[new] = before.began_ms
            going.append((run, Going(host_id, ordered_ms, length)))
        return going, natural

    def _job(self, job_id: str) -> Job:
        """A job as history knows it; one that the change has added, as the branch does, without the runs there."""
        return self._stretch.runs.jobs.get(job_id) or replace(self.table.jobs[job_id], runs={})

    # Facts

    def _replay(self, fact: Delivered) -> None:
        """Appends what becomes of a fact."""
        event, record = fact.event, fact.record
        assert event is not None
        rule = RULES[type(event).__name__]
        altered = self._change.alter(event)
        if altered is None:
            self.rules[Rule.LEFT_OUT] += 1
            return
        if rule is not Rule.MOVED:
            self.rules[rule] += 1
        if isinstance(altered, HostInventory):
            lost = self._is_lost(altered, record.at_ms)
            self.cell.append(self._hosts.inventory(altered.host_id, altered.session, lost), record.key)
        elif isinstance(altered, JobStopRequested):
            self._stop(altered, record.offset, record.key)
        elif rule is Rule.REPLAYED:
            self._append(altered, record.key, (record.topic, record.offset))

    def _append(self, event: Event, key: bytes, origin: FactAt | None) -> None:
        offset = self.cell.append(event, key)
        if not (hasattr(event, "command_id") or isinstance(event, JobSubmitted)):
            return  # nobody answers it
        if origin is None:
            self.added[event.topic, offset] = type(event).__name__, subject_of(event)
        else:
            self.origins[event.topic, offset] = origin

    def _is_lost(self, event: HostInventory, at_ms: int) -> bool:
        """Whether a host that connected had lost what ran there in history."""
        runs = self._stretch.runs
        if len(event.items().job) or event.host_id not in runs.hosts:
            return False
        column = {
            name: np.frombuffer(runs.column(name), dtype=np.int64) for name in ("host", "ordered_ms", "reported_ms")
        }
        reported = column["reported_ms"]
        there = (column["ordered_ms"] < at_ms) & ((reported == NEVER) | (reported >= at_ms))
        return bool((there & (column["host"] == runs.hosts.index(event.host_id))).any())

    def _stops_of_runs(self) -> dict[str, list[tuple[int, Event, bytes, FactAt]]]:
        """Stops of batch jobs that ran: as long after the first run as in history."""
        stops: dict[str, list[tuple[int, Event, bytes, FactAt]]] = defaultdict(list)
        self._moved: set[int] = set()
        for fact in self._stretch.facts:
            event, at_ms = fact.event, fact.record.at_ms
            if not isinstance(event, JobStopRequested):
                continue
            job = self._stretch.runs.jobs.get(event.job_id)
            if self._change.alter(event) is None:
                continue
            if job is None or job.kind in SERVICES or not self._stretch.from_ms <= job.began_ms <= at_ms:
                continue
            self._moved.add(fact.record.offset)
            origin = fact.record.topic, fact.record.offset
            stops[event.job_id].append((at_ms - job.began_ms, event, fact.record.key, origin))
        return stops

    def _stop(self, event: JobStopRequested, offset: int, key: bytes) -> None:
        """A stop of what runs comes with the run; one of what waited only if it still waits."""
        if offset in self._moved:
            self.rules[Rule.MOVED] += 1
            return
        recorded, here = self._stretch.runs.jobs.get(event.job_id), self.table.jobs.get(event.job_id)
        waited = recorded is not None and recorded.kind not in SERVICES and recorded.began_ms == NEVER
        if waited and here is not None and here.began_ms != NEVER:
            self.rules[Rule.LEFT_OUT] += 1
            return
        self.rules[Rule.REPLAYED] += 1
        self._append(event, key, (event.topic, offset))

    def _schedule_stops(self) -> None:
        begun = self.table.begun
        for job_id in begun[self._seen_begun :]:
            for after_ms, event, key, origin in self._stops.get(job_id, ()):
                at_ms = self.table.jobs[job_id].began_ms + after_ms
                heapq.heappush(self._later, (at_ms, next(self._ties), event, key, origin))
        self._seen_begun = len(begun)

    def _drop(self) -> None:
        log = self.cell.log
        if self._keeps or log.appended - self._dropped_at < DROP_RECORDS:
            return
        self._dropped_at = log.appended
        self.cell.read_all()
        for topic, end in log.ends([topic.name for topic in ALL]).items():
            log.truncate(topic, end)


def _of_stopping(run: Run | None, from_ms: int) -> Length:
    """The course of a run that was told to stop before the branch begins: it ends as in history, or never."""
    if run is None:
        return Length(0, 0, RunReport.STOPPED, STOPPED_CODE, OBSERVED)
    if run.reported_ms < from_ms:  # nobody has said so
        return Length(0, None, 0, 0, OBSERVED)
    return Length(0, run.reported_ms - run.ordered_ms, run.report, run.code, OBSERVED, rank=run.rank)


def _silences(stretch: Stretch, change: Change) -> list[tuple[int, str]]:
    """When which hosts fall silent."""
    silences = [(fact.record.at_ms, fact.event.host_id) for fact in stretch.facts if isinstance(fact.event, HostSilent)]
    added = [(each.at_ms, each.event.host_id) for each in change.later if isinstance(each.event, HostSilent)]
    return sorted(silences + added)


def subject_of(event: Event | None) -> str:
    """The job, pool, host or other thing that a fact is about."""
    names = ("job_id", "path", "host_id", "host_ids", "maintenance_id", "window_id", "group", "host_pool")
    value = next((value for name in names if (value := getattr(event, name, None))), "")
    return ", ".join(value) if isinstance(value, tuple) else str(value)
