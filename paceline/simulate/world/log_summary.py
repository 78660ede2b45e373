"""The story of a cell: what the log says of its past, folded as it comes, a batch of tasks at a time.

For each job when it began, ended and waited, for each moment how much runs and waits. Ended jobs are told to whoever
wants them and forgotten, so the story of a long trace takes no more room than the jobs that are open.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from events.acceptance import Chain
from events.codes import ENDED_JOBS, Code, Outcome, UpdateState
from events.columns import distinct
from events.delivery import Inbox
from events.log.port import Log
from events.records.base import Event
from events.records.entitlement import GangsHeld, PoolAnswered
from events.records.hosts import HostOffered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import (
    CommandAnswered,
    JobAccepted,
    JobChanged,
    JobRejected,
    RunsAvailable,
    RunsEnded,
    UpdateEnded,
    UpdateStarted,
)
from events.records.placement import GangsReturned, GangsUnplaced, HostAnswered, HostsAnswered, TasksPlaced
from events.records.rounds import RoundCommitted
from events.resources import is_gpu
from events.rounds import Delivered
from events.topics import ALL, MACHINES, rounds_of

RECORDS = 2000
NEVER = -1
Answer = JobRejected | CommandAnswered | PoolAnswered | HostAnswered | HostsAnswered
REFUSALS_MAX = 20


@dataclass(slots=True)
class JobSummary:
    """The summary of a job. Times in milliseconds of virtual time, NEVER: not yet."""

    job_id: str
    pool: str
    tasks: int
    cpu_milli: int
    gpu_milli: int
    gang: int
    submitted_ms: int
    state: str = "PENDING"
    started_ms: int = NEVER
    """When its first run was available."""
    ended_ms: int = NEVER
    waited_ms: int = 0
    """The waits of all tasks for their first run, together."""
    began: int = 0
    """Tasks that have had a first run."""
    runs: int = 0
    preempted: int = 0
    lost: int = 0


class HostSnapshot(NamedTuple):
    """A host as it was when a run was placed there: its id, and its attributes by name."""

    host_id: str
    attributes: frozenset[tuple[str, str]] = frozenset()


@dataclass
class ObservedEvents:
    """The past of a cell as it was told so far, as far as expectations ask for it."""

    ended: dict[str, JobChanged] = field(default_factory=dict)
    """The ends of jobs, with the counts of their tasks."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The last reason of each job that waits."""
    refusals: dict[str, GangsHeld] = field(default_factory=dict)
    """The last refusal of entitlement for each job that waits, with its numbers."""
    unplaced: dict[str, GangsUnplaced] = field(default_factory=dict)
    """The same of placement."""
    updates: dict[str, dict[int, str]] = field(default_factory=dict)
    """The ends of each job's updates, by their numbers; ROLLING: not yet."""
    preempted: Counter[str] = field(default_factory=Counter)
    """Runs of each job that were preempted."""
    ran_on: dict[str, Counter[HostSnapshot]] = field(default_factory=dict)
    """Runs of each job by host."""
    events: dict[str, list[int]] = field(default_factory=dict)
    """Places of the events of each name in the order of all, each run of the same one once."""
    last_event: tuple[str, int] = ("", -1)
    """Name and place of the newest."""

    def event(self, name: str) -> None:
        """The next event."""
        last, at = self.last_event
        if name != last:
            self.events.setdefault(name, []).append(at + 1)
            self.last_event = (name, at + 1)

    def event_after(self, name: str, place: int) -> int | None:
        """The place of the first event of a name after a place; None: there is none."""
        places = self.events.get(name, [])
        at = bisect_right(places, place)
        return places[at] if at < len(places) else None


class LogSummary:
    """The history of a cell in short. `keep`: whether it has also what only expectations need."""

    def __init__(self, keep: bool, on_end: Callable[[JobSummary], None] = lambda job: None) -> None:
        self.observed = ObservedEvents()
        self.open: dict[str, JobSummary] = {}
        self.facts = self.rounds = self.decisions = 0
        self.rejected = 0
        """Jobs that were not accepted."""
        self.preempted = 0
        """Runs that were preempted."""
        self.refusals: list[str] = []
        """The first refusals of what users and operators asked for: what, code, message."""
        self.last: tuple[str, int] = (rounds_of("lifecycle"), 0)
        """Topic and offset of the newest accepted round."""
        self._keep = keep
        self.hosts: dict[str, HostSnapshot] = {}
        """Hosts as they were when they last said what they have."""
        self._on_end = on_end
        self._unplaced: dict[str, int] = {}
        """The number of tasks of each job that placement has explained, less those that have a place since."""
        self._submitted: dict[int, int] = {}
        """When the jobs came that nobody has answered yet, by the offset of their submission."""

    def at_rest(self) -> bool:
        """Whether every job that was submitted has ended or was rejected."""
        return not self.open and not self._submitted

    def take(self, delivered: Delivered) -> None:
        """Folds the next record in causal order."""
        record, event = delivered.record, delivered.event
        if event is None:
            return
        if not isinstance(event, RoundCommitted):
            self.facts += 1
            self._name(event)
            if isinstance(event, JobSubmitted):
                self._submitted[record.offset] = record.at_ms
            elif isinstance(event, HostOffered) and self._keep:
                self.hosts[event.host_id] = HostSnapshot(event.host_id, frozenset(event.attributes.items()))
            return
        self.rounds += 1
        self.decisions += len(event.decisions)
        self.last = (record.topic, record.offset)
        for decision in delivered.decisions():
            self._name(decision)
            self._decision(decision, event.now)

    def _name(self, event: Event) -> None:
        if self._keep:
            self.observed.event(type(event).__name__)

    def _decision(self, event: Event, now: int) -> None:
        match event:
            case JobAccepted():
                self._accepted(event, now)
            case JobRejected():
                self.rejected += self._submitted.pop(event.jobs_offset, None) is not None
                self._refused(f"job {event.job_id}", event)
            case CommandAnswered():
                if self._submitted.pop(event.jobs_offset, None) is not None:
                    self._repeated(event)
                self._refused(f"job {event.job_id}", event)
            case PoolAnswered():
                self._refused("cell" if event.path == "/" else f"pool {event.path}", event)
            case HostAnswered():
                self._refused(f"host {event.host_id}", event)
            case HostsAnswered():
                self._refused("hosts", event)
            case RunsAvailable():
                self._available(event, now)
            case RunsEnded():
                self._ended(event)
            case JobChanged():
                self._changed(event, now)
            case UpdateStarted() if self._keep:
                self.observed.updates.setdefault(event.job_id, {})[event.number] = UpdateState.ROLLING
            case UpdateEnded() if self._keep:
                self.observed.updates[event.job_id][event.number] = event.state
            case GangsUnplaced() if self._keep:
                self.observed.reasons[event.job_id] = event.code
                self.observed.unplaced[event.job_id] = event
                self._unplaced[event.job_id] = event.tasks
            case GangsHeld() if self._keep:
                self.observed.reasons |= dict.fromkeys(event.job_ids, event.code)
                self.observed.refusals |= dict.fromkeys(event.job_ids, event)
            case GangsReturned() if self._keep:
                self.observed.reasons |= dict.fromkeys(event.job_ids, event.code)
            case TasksPlaced() if self._keep:
                self._placed(event)

    def _refused(self, what: str, event: Answer) -> None:
        if event.code not in (Code.DONE, Code.REPEATED) and len(self.refusals) < REFUSALS_MAX:
            self.refusals.append(f"{what}: {event.code}: {event.message}")

    def _repeated(self, event: CommandAnswered) -> None:
        """A job was submitted that is there already."""
        self.rejected += 1
        if len(self.refusals) < REFUSALS_MAX:
            self.refusals.append(f"job {event.job_id}: {event.code}: it was submitted before")

    def _accepted(self, event: JobAccepted, now: int) -> None:
        at_ms = self._submitted.pop(event.jobs_offset, now)
        need = event.shapes[0].resources
        gpus = sum(amount for name, amount in need.items() if is_gpu(name))
        self.open[event.job_id] = JobSummary(
            event.job_id,
            event.pool,
            event.instances,
            need.get("cpu", 0),
            gpus,
            event.gang_min,
            at_ms,
        )

    def _available(self, event: RunsAvailable, now: int) -> None:
        runs, job_of = event.run_array, event.job_array
        for at, job_id in enumerate(event.job_ids):
            job = self.open.get(job_id)
            if job is None:
                continue
            mine = runs[job_of == at]
            first = int(np.count_nonzero(mine == 1))
            if job.started_ms == NEVER:
                job.started_ms = now
            job.began += first
            job.waited_ms += first * (now - job.submitted_ms)
            job.runs += len(mine)

    def _ended(self, event: RunsEnded) -> None:
        outcome, job_of = event.outcome_array, event.job_array
        for at in distinct(job_of[(outcome == Outcome.PREEMPTED) | (outcome == Outcome.LOST)]).tolist():
            job_id, mine = event.job_ids[at], outcome[job_of == at]
            preempted = int(np.count_nonzero(mine == Outcome.PREEMPTED))
            self.preempted += preempted
            if self._keep and preempted:
                self.observed.preempted[job_id] += preempted
            job = self.open.get(job_id)
            if job is not None:
                job.preempted += preempted
                job.lost += int(np.count_nonzero(mine == Outcome.LOST))

    def _changed(self, event: JobChanged, now: int) -> None:
        job = self.open.get(event.job_id)
        if job is None:
            return
        job.state = event.state
        if event.state in ENDED_JOBS:
            job.ended_ms = now
            del self.open[event.job_id]
            for by_job in (self.observed.reasons, self.observed.refusals, self.observed.unplaced, self._unplaced):
                by_job.pop(event.job_id, None)
            if self._keep:
                self.observed.ended[event.job_id] = event
            self._on_end(job)

    def _placed(self, event: TasksPlaced) -> None:
        jobs, hosts = event.job_array, event.host_array
        pairs, counts = np.unique(np.stack([jobs, hosts], axis=1), axis=0, return_counts=True)
        for (job, host), count in zip(pairs.tolist(), counts.tolist(), strict=True):
            self._found_place(event.job_ids[job], count)
            then = self.hosts.get(event.host_ids[host]) or HostSnapshot(event.host_ids[host])
            self.observed.ran_on.setdefault(event.job_ids[job], Counter())[then] += count

    def _found_place(self, job_id: str, tasks: int) -> None:
        """Once all have a place of whom placement had said why not, the reason that entitlement gave holds."""
        self._unplaced[job_id] = self._unplaced.get(job_id, 0) - tasks
        if self._unplaced[job_id] > 0 or self.observed.unplaced.pop(job_id, None) is None:
            return
        refusal = self.observed.refusals.get(job_id)
        self.observed.reasons[job_id] = refusal.code if refusal is not None else ""


class LogSummaryComponent(LogSummary):
    """The story as a part of the cell, told from its log. A `Component`."""

    def __init__(self, log: Log, keep: bool, on_end: Callable[[JobSummary], None]) -> None:
        super().__init__(keep, on_end)
        self._inbox = Inbox({topic.name: 0 for topic in ALL}, {}, {machine: Chain() for machine in MACHINES}, log.cell)
        self._reader = log.reader(self._inbox.positions)

    def step(self) -> bool:
        """Implements `Component.step`."""
        self._inbox.add(self._reader.poll(RECORDS, 0))
        records = 0
        for delivered in self._inbox.deliver(RECORDS):
            self.take(delivered)
            records += 1
        return records > 0

    def wait_ms(self) -> int | None:
        """Implements `Component.wait_ms`."""
        return None

    def close(self) -> None:
        """Implements `Component.close`."""
        self._reader.close()
