"""The state of a cell that forecasts are made from, folded from its log: work that runs and waits, lengths of runs."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from events.codes import ENDED_JOBS, Outcome
from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.lifecycle import (
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
)
from events.records.placement import CapacityChanged
from events.records.pools import PoolDefined, PoolRemoved
from events.records.rounds import RoundCommitted
from events.rounds import Delivered
from events.topics import JOBS, POOLS, rounds_of
from paceline.forecast.forecaster import PoolLine, Present, RunningWork, WaitingJob
from paceline.forecast.lengths import Like, Past

TOPICS = (JOBS.name, POOLS.name, rounds_of("lifecycle"), rounds_of("placement"))
MACHINES = ("lifecycle", "placement")
PARTS = 20
"""The tasks of a job are modelled as so many units, at most, and its runs as so many groups."""
SERVICES = frozenset({"stateless", "stateful"})
SHARE_0 = 1e-6
"""The weight of a pool with share 0: it comes last."""


class JobState(msgspec.Struct):
    """A job that hasn't ended."""

    order: tuple[int, int]
    """Less is served first: priority and when it was accepted."""
    like: Like
    need: Mapping[str, int]
    instances: int
    gang: int
    fixed: bool
    submitted_ms: int
    done: int = 0
    begun: bool = False
    on_hold: bool = False
    since_ms: dict[int, int] = {}
    """When the run of each task that has one was ordered, or began."""
    available: set[int] = set()


class Submission(NamedTuple):
    """The part of a submitted job that the decision on it doesn't repeat."""

    owner: str
    limit_ms: int
    at_ms: int


class PoolState(NamedTuple):
    """A pool, and whether nothing of it may start."""

    line: PoolLine
    is_closed: bool


class BookState(msgspec.Struct):
    """All that is known; `submitted`: by offset, jobs that aren't decided on yet."""

    jobs: dict[str, JobState] = {}
    submitted: dict[int, Submission] = {}
    pools: dict[str, PoolState] = {}
    capacity: dict[str, int] = {}
    begun: list[tuple[str, int]] = []
    """Jobs that have begun, and when, until that was looked at; -1: they ended without."""


class Book:
    """The state that forecasts are made from."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.state = BookState()

    def take(self, delivered: Delivered) -> None:
        """The next record in causal order."""
        event, record = delivered.event, delivered.record
        match event:
            case JobSubmitted():
                self.state.submitted[record.offset] = Submission(event.owner, event.max_runtime_ms, record.at_ms)
            case PoolDefined():
                self.state.pools[event.path] = PoolState(_line(event), event.closed)
            case PoolRemoved():
                self.state.pools.pop(event.path, None)
            case RoundCommitted():
                for decision in delivered.decisions():
                    self._decided(decision, event.now)

    def present(self, now_ms: int) -> Present:
        """The state as a forecaster takes it."""
        running: list[RunningWork] = []
        waiting: list[WaitingJob] = []
        for job_id, job in sorted(self.state.jobs.items(), key=lambda each: each[1].order):
            running += _running(job)
            if needs := list(_needs(job)):
                waits = not job.on_hold and not self._is_closed(job.like.pool)
                waiting.append(
                    WaitingJob(job_id, job.like, needs, job.instances, job.submitted_ms, job.fixed, job.begun, waits)
                )
        parents = {path.rpartition("/")[0] for path in self.state.pools}
        pools = {path: pool.line for path, pool in self.state.pools.items() if path not in parents}
        return Present(now_ms, self.state.capacity, pools, running, waiting)

    def _is_closed(self, pool: str) -> bool:
        return pool in self.state.pools and self.state.pools[pool].is_closed

    def _decided(self, event: Event, now: int) -> None:
        match event:
            case JobAccepted():
                self._accepted(event, now)
            case JobRejected():
                self.state.submitted.pop(event.jobs_offset, None)
            case CapacityChanged():
                self.state.capacity = dict(event.capacity)
            case RunsOrdered():
                for job, instance in self._tasks(event):
                    job.since_ms[instance] = now
            case RunsAvailable():
                self._available(event, now)
            case RunsEnded():
                self._ended(event, now)
            case JobPriorityChanged() if (row := self.state.jobs.get(event.job_id)) is not None:
                row.order = -event.priority, row.order[1]
            case JobHeld() if (row := self.state.jobs.get(event.job_id)) is not None:
                row.on_hold = event.held
            case InstancesChanged() if (row := self.state.jobs.get(event.job_id)) is not None:
                row.instances = event.instances
            case JobChanged() if event.state in ENDED_JOBS and event.job_id in self.state.jobs:
                if not self.state.jobs.pop(event.job_id).begun:
                    self.state.begun.append((event.job_id, -1))

    def _accepted(self, event: JobAccepted, now: int) -> None:
        fact = self.state.submitted.pop(event.jobs_offset, None) or Submission("", 0, now)
        if event.kind == "daemon":
            return  # its tasks come with hosts
        self.state.jobs[event.job_id] = JobState(
            (-event.priority, event.jobs_offset),
            Like(fact.owner, event.pool, fact.limit_ms, event.kind in SERVICES),
            event.shapes[0].resources if event.shapes else {},
            event.instances,
            event.gang_min,
            not event.preemptible,
            fact.at_ms,
        )

    def _tasks(self, event: RunsOrdered | RunsAvailable | RunsEnded) -> Iterator[tuple[JobState, int]]:
        for job, instance, _ in zip(*(column.tolist() for column in event.items()), strict=True):
            if (row := self.state.jobs.get(event.job_ids[job])) is not None:
                yield row, instance

    def _available(self, event: RunsAvailable, now: int) -> None:
        for job, instance in self._tasks(event):
            job.since_ms[instance] = now
            job.available.add(instance)
        for job_id in event.job_ids:
            if (row := self.state.jobs.get(job_id)) is not None and not row.begun:
                row.begun = True
                self.state.begun.append((job_id, now))

    def _ended(self, event: RunsEnded, now: int) -> None:
        outcomes = event.outcome_array.tolist()
        for job_at, instance, outcome in zip(
            event.job_array.tolist(), event.instance_array.tolist(), outcomes, strict=True
        ):
            job = self.state.jobs.get(event.job_ids[job_at])
            if job is None:
                continue
            since_ms, was_available = job.since_ms.pop(instance, None), instance in job.available
            job.available.discard(instance)
            if outcome == Outcome.SUCCEEDED:
                job.done += 1
                if was_available and since_ms is not None and (instance == 0 or instance >= job.gang):
                    self._past.learn(job.like, now - since_ms)


def _running(job: JobState) -> Iterator[RunningWork]:
    """The runs of a job in groups of about one age."""
    times = sorted(job.since_ms.values())
    is_gang = bool(job.gang) and len(times) == job.gang
    size = len(times) if is_gang else -(-len(times) // PARTS) or 1
    for first in range(0, len(times), size):
        group = times[first : first + size]
        yield RunningWork(job.like, _times(job.need, len(group)), group[len(group) // 2])


def _needs(job: JobState) -> Iterator[Mapping[str, int]]:
    """The units of a job that wait: its gang, else a task, then the others in parts."""
    waiting = job.instances - job.done - len(job.since_ms)
    first = job.gang if job.gang and waiting >= job.gang else 1
    if waiting <= 0:
        return
    yield _times(job.need, first)
    rest = waiting - first
    size = -(-rest // PARTS) or 1
    while rest > 0:
        yield _times(job.need, min(size, rest))
        rest -= size


def _times(need: Mapping[str, int], count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in need.items() if amount}


def _line(pool: PoolDefined) -> PoolLine:
    return PoolLine(float(pool.share_default) or SHARE_0, pool.limit, pool.reservation)
