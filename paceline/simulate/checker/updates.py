"""Checks updates: one of a job at a time, within its batch and the SLA, none before hosts have pulled its image, and
each run of the version that its instance was taken to.
"""

from dataclasses import dataclass, field

from events.codes import RunCause
from events.columns import ints
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.job_versions import wanted_spec
from events.records.base import Event
from events.records.jobs import JobReopenRequested, JobUpdateRequested
from events.records.lifecycle import (
    ImagePrefetchOrdered,
    InstancesChanged,
    InstancesReturned,
    InstancesTaken,
    JobAccepted,
    JobChanged,
    JobSlaChanged,
    RunsOrdered,
    RunsStopping,
    UpdateEnded,
    UpdateImagePulled,
    UpdateProgressed,
    UpdateStarted,
)
from events.records.parts import SlaPolicy
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import runs_of
from paceline.simulate.checker.services import Bounds


@dataclass
class _Job:
    instances: int
    max_unavailable: int | None
    sla: SlaPolicy | None
    goal: int = 0
    """The instances that it is to have by its update."""
    version: int = 1
    number: int = 0
    """The number of the update in progress; 0: none is."""
    batch: int = 0
    creates: bool = False
    """It is being created, so nothing of it becomes unavailable."""
    restarts: bool = False
    """Its instances keep their versions."""
    pulls: bool = False
    """Hosts pull its image, and it begins when they have answered."""
    flight: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)
    least_version: dict[int, int] = field(default_factory=dict)
    """The least version of the runs of instances that an update took for good."""

    def most_down(self) -> int | None:
        """The most instances that its SLA lets be updated at a time; None: all."""
        sla = self.sla or SlaPolicy()
        bounds = Bounds(self.max_unavailable, sla.max_unavailable_percent, sla.min_available, sla.min_available_percent)
        limit = bounds.limit(max(self.instances, self.goal))
        return limit if limit is None or sla.replace != "before" else max(limit, sla.surge)


class Updates:
    """Follows what lifecycle decides of updates."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._sizes: dict[int, int] = {}
        """The instances of specifications, by offset."""

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle. Raises `Violation`."""
        for _, offset, event, _ in round_.inputs:
            if isinstance(event, JobUpdateRequested | JobReopenRequested) and (spec := wanted_spec(event)) is not None:
                self._sizes[offset] = spec.instances
        for event in round_.decisions:
            self._decided(event, round_)

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case JobAccepted():
                self._jobs[event.job_id] = _Job(event.instances, event.max_unavailable, event.sla)
            case InstancesChanged():
                self._jobs[event.job_id].instances += len(instance_change(event).added)
                self._jobs[event.job_id].instances -= len(instance_change(event).removed)
            case JobSlaChanged():
                self._jobs[event.job_id].max_unavailable = event.max_unavailable
                self._jobs[event.job_id].sla = event.sla
            case JobChanged() if is_over(event):
                if self._jobs.pop(event.job_id).number:
                    raise Violation(f"{round_} ends {event.job_id} and not its update")
            case UpdateStarted():
                self._started(event, round_)
            case InstancesTaken() | InstancesReturned() | UpdateProgressed() | UpdateEnded():
                job = self._jobs[event.job_id]
                if event.number != job.number:
                    raise Violation(f"{round_} goes on with update {event.number} of {event.job_id}, not {job.number}")
                self._moved(event, job, round_)
            case ImagePrefetchOrdered() if event.host_ids:
                self._jobs[event.job_id].pulls = True
            case UpdateImagePulled():
                self._jobs[event.job_id].pulls = event.waits
            case RunsOrdered():
                self._ordered(event, round_)
            case RunsStopping():
                self._stopping(event, round_)

    def _started(self, event: UpdateStarted, round_: Round) -> None:
        job = self._jobs[event.job_id]
        if job.number or event.version != job.version + (event.kind != "create"):
            raise Violation(f"{round_} starts update {event.number} of {event.job_id} at version {job.version}")
        job.version, job.number, job.batch = event.version, event.number, event.policy.batch
        job.creates, job.restarts = event.kind == "create", event.kind == "restart"
        job.pulls, job.flight, job.bad = False, set(), set()
        job.goal = self._sizes.get(event.jobs_offset, 0)

    def _moved(
        self, event: InstancesTaken | InstancesReturned | UpdateProgressed | UpdateEnded, job: _Job, round_: Round
    ) -> None:
        match event:
            case InstancesTaken():
                if job.pulls:
                    raise Violation(f"{round_} takes instances of {event.job_id} while hosts pull its image")
                job.flight.update(_instances(event))
                if not job.restarts:
                    job.least_version |= dict.fromkeys(_instances(event), job.version)
                down = len(job.flight) + len(job.bad)
                most = min((each for each in (job.batch, not job.creates and job.most_down()) if each), default=down)
                if down > most:
                    raise Violation(f"{round_} has {down} instances of {event.job_id} updated at a time, not {most}")
            case InstancesReturned():
                job.flight.difference_update(_instances(event))
                for instance in _instances(event):
                    job.least_version.pop(instance, None)
            case UpdateProgressed():
                for instance, step in zip(_instances(event), _steps(event), strict=True):
                    for instances, numbers in ((job.flight, (2,)), (job.bad, (4, 5))):
                        (instances.add if step in numbers else instances.discard)(instance)
                if (len(job.flight), len(job.bad)) != (event.flight, event.bad):
                    raise Violation(f"{round_} counts {event.flight} and {event.bad} instances, not {job}")
            case UpdateEnded():
                for instance in job.flight:  # they may stay as they are
                    job.least_version.pop(instance, None)
                job.number = 0

    def _ordered(self, event: RunsOrdered, round_: Round) -> None:
        runs = runs_of(event)
        versions = ints(event.version).tolist() or [1] * len(runs)
        for ((job_id, instance), run), version in zip(runs, versions, strict=True):
            job = self._jobs[job_id]
            if not job.least_version.get(instance, 1) <= version <= job.version:
                raise Violation(f"{round_} orders run {run} of {job_id} {instance} by version {version}: {job}")

    def _stopping(self, event: RunsStopping, round_: Round) -> None:
        """No more runs are stopped for updates than those of instances that were taken, and count as down."""
        runs = runs_of(event)
        whys, kills = (ints(column).tolist() or [0] * len(runs) for column in (event.why, event.kill))
        for ((job_id, instance), run), why, kill in zip(runs, whys, kills, strict=True):
            if why == RunCause.UPDATE and not kill and instance not in self._jobs[job_id].flight:
                raise Violation(f"{round_} stops run {run} of {job_id} {instance}, which no update has taken")


def _instances(event: InstancesTaken | InstancesReturned | UpdateProgressed) -> list[int]:
    pairs = zip(ints(event.first).tolist(), ints(event.count).tolist(), strict=True)
    return [at for first, count in pairs for at in range(first, first + count)]


def _steps(event: UpdateProgressed) -> list[int]:
    pairs = zip(ints(event.step).tolist(), ints(event.count).tolist(), strict=True)
    return [step for step, count in pairs for _ in range(count)]
