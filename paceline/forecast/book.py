"""The state of a cell that forecasts are made from, folded from its log: work that runs and waits, lengths of runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _Job:
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
    since_ms: dict[int, int] = field(default_factory=dict)
    """When the run of each task that has one was ordered, or began."""
    available: set[int] = field(default_factory=set)


class Book:
    """The state that forecasts are made from."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._jobs: dict[str, _Job] = {}
        self._submitted: dict[int, tuple[JobSubmitted, int]] = {}
        self._pools: dict[str, PoolDefined] = {}
        self._capacity: Mapping[str, int] = {}
        self.begun: list[tuple[str, int]] = []
        """Jobs that have begun since somebody last looked, and when; -1: they ended without."""

    def take(self, delivered: Delivered) -> None:
        """The next record in causal order."""
        event, record = delivered.event, delivered.record
        match event:
            case JobSubmitted():
                self._submitted[record.offset] = event, record.at_ms
            case PoolDefined():
                self._pools[event.path] = event
            case PoolRemoved():
                self._pools.pop(event.path, None)
            case RoundCommitted():
                for decision in delivered.decisions():
                    self._decided(decision, event.now)

    def present(self, now_ms: int) -> Present:
        """The state as a forecaster takes it."""
        running: list[RunningWork] = []
        waiting: list[WaitingJob] = []
        for job_id, job in sorted(self._jobs.items(), key=lambda each: each[1].order):
            running += _running(job)
            if needs := list(_needs(job)):
                waits = not job.on_hold and not self._is_closed(job.like.pool)
                waiting.append(
                    WaitingJob(job_id, job.like, needs, job.instances, job.submitted_ms, job.fixed, job.begun, waits)
                )
        parents = {path.rpartition("/")[0] for path in self._pools}
        pools = {path: _line(pool) for path, pool in self._pools.items() if path not in parents}
        return Present(now_ms, self._capacity, pools, running, waiting)

    def _is_closed(self, pool: str) -> bool:
        return pool in self._pools and self._pools[pool].closed

    def _decided(self, event: Event, now: int) -> None:
        match event:
            case JobAccepted():
                self._accepted(event, now)
            case JobRejected():
                self._submitted.pop(event.jobs_offset, None)
            case CapacityChanged():
                self._capacity = event.capacity
            case RunsOrdered():
                for job, instance in self._tasks(event):
                    job.since_ms[instance] = now
            case RunsAvailable():
                self._available(event, now)
            case RunsEnded():
                self._ended(event, now)
            case JobPriorityChanged() if (row := self._jobs.get(event.job_id)) is not None:
                row.order = -event.priority, row.order[1]
            case JobHeld() if (row := self._jobs.get(event.job_id)) is not None:
                row.on_hold = event.held
            case InstancesChanged() if (row := self._jobs.get(event.job_id)) is not None:
                row.instances = event.instances
            case JobChanged() if event.state in ENDED_JOBS and event.job_id in self._jobs:
                if not self._jobs.pop(event.job_id).begun:
                    self.begun.append((event.job_id, -1))

    def _accepted(self, event: JobAccepted, now: int) -> None:
        fact, at_ms = self._submitted.pop(event.jobs_offset, (None, now))
        if event.kind == "daemon":
            return  # its tasks come with hosts
        owner, limit_ms = (fact.owner, fact.max_runtime_ms) if fact is not None else ("", 0)
        self._jobs[event.job_id] = _Job(
            (-event.priority, event.jobs_offset),
            Like(owner, event.pool, limit_ms, event.kind in SERVICES),
            event.shapes[0].resources if event.shapes else {},
            event.instances,
            event.gang_min,
            not event.preemptible,
            at_ms,
        )

    def _tasks(self, event: RunsOrdered | RunsAvailable | RunsEnded) -> Iterator[tuple[_Job, int]]:
        for job, instance, _ in zip(*(column.tolist() for column in event.items()), strict=True):
            if (row := self._jobs.get(event.job_ids[job])) is not None:
                yield row, instance

    def _available(self, event: RunsAvailable, now: int) -> None:
        for job, instance in self._tasks(event):
            job.since_ms[instance] = now
            job.available.add(instance)
        for job_id in event.job_ids:
            if (row := self._jobs.get(job_id)) is not None and not row.begun:
                row.begun = True
                self.begun.append((job_id, now))

    def _ended(self, event: RunsEnded, now: int) -> None:
        outcomes = event.outcome_array.tolist()
        for job_at, instance, outcome in zip(
            event.job_array.tolist(), event.instance_array.tolist(), outcomes, strict=True
        ):
            job = self._jobs.get(event.job_ids[job_at])
            if job is None:
                continue
            since_ms, was_available = job.since_ms.pop(instance, None), instance in job.available
            job.available.discard(instance)
            if outcome == Outcome.SUCCEEDED:
                job.done += 1
                if was_available and since_ms is not None and (instance == 0 or instance >= job.gang):
                    self._past.learn(job.like, now - since_ms)


def _running(job: _Job) -> Iterator[RunningWork]:
    """The runs of a job in groups of about one age."""
    times = sorted(job.since_ms.values())
    is_gang = bool(job.gang) and len(times) == job.gang
    size = len(times) if is_gang else -(-len(times) // PARTS) or 1
    for first in range(0, len(times), size):
        group = times[first : first + size]
        yield RunningWork(job.like, _times(job.need, len(group)), group[len(group) // 2])


def _needs(job: _Job) -> Iterator[Mapping[str, int]]:
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
