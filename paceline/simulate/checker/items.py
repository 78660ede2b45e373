"""The columns of decisions as plain items."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from events.columns import ints, longs, pack_ints
from events.instance_changes import instance_change
from events.records.entitlement import AdmissionsRanked, GangsAdmitted
from events.records.lifecycle import GangsQueued, InstancesChanged, JobAccepted, RunsOrdered
from events.records.parts import TaskShape
from events.records.placement import TasksPlaced
from events.task_shapes import queued_shapes, shape_index

FINAL = ("SUCCEEDED", "FAILED", "KILLED")
Task = tuple[str, int]
"""Job and instance."""


class _Runs(Protocol):
    @property
    def job_ids(self) -> tuple[str, ...]: ...
    @property
    def job(self) -> bytes: ...
    @property
    def instance(self) -> bytes: ...
    @property
    def run(self) -> bytes: ...


class _Ranges(Protocol):
    @property
    def job_ids(self) -> tuple[str, ...]: ...
    @property
    def job(self) -> bytes: ...
    @property
    def first(self) -> bytes: ...
    @property
    def count(self) -> bytes: ...
    @property
    def run(self) -> bytes: ...
    @property
    def gang(self) -> bytes: ...


class Range(NamedTuple):
    """Instances of a job at one run; `gang`: whole or not at all."""

    job_id: str
    first: int
    size: int
    run: int
    gang: bool

    def tasks(self) -> Iterator[Task]:
        """Each instance."""
        return ((self.job_id, instance) for instance in range(self.first, self.first + self.size))


def tasks_of(job: JobAccepted) -> list[Task]:
    """Each task of a job."""
    return [(job.job_id, instance) for instance in range(job.instances)]


def is_guarded(job: JobAccepted) -> bool:
    """Whether a job has an SLA."""
    return job.max_unavailable is not None or job.sla is not None


def reshaped(jobs: dict[str, JobAccepted], event: GangsQueued) -> list[Range]:
    """Tasks that are queued with another shape ask that from now on; returns their ranges."""
    changed = []
    for each, at in zip(ranges_of(event), queued_shapes(event).tolist(), strict=True):
        job = jobs.get(each.job_id)
        if at < 0 or job is None:
            continue
        shapes = [job.shapes[index] for index in shape_index(job).tolist()]
        shapes[each.first : each.first + each.size] = [event.shapes[at]] * each.size
        jobs[each.job_id] = _asking(job, shapes)
        changed.append(each)
    return changed


def added(jobs: dict[str, JobAccepted], event: InstancesChanged) -> list[Task]:
    """The instances that a job gets, with what they ask. One that is removed stays a task that nothing runs of."""
    job, change = jobs.get(event.job_id), instance_change(event)
    if job is None:
        return []
    shapes = [job.shapes[index] for index in shape_index(job).tolist()]
    shapes += [job.shapes[0]] * (event.instances - len(shapes))
    for instance, index in zip(change.added.tolist(), change.shape.tolist(), strict=True):
        shapes[instance] = event.shapes[index]
    jobs[event.job_id] = _asking(job, shapes)
    return [(event.job_id, instance) for instance in change.added.tolist()]


def _asking(job: JobAccepted, shapes: list[TaskShape]) -> JobAccepted:
    """A job whose tasks ask this, one after the other."""
    distinct = list(dict.fromkeys(map(repr, shapes)))
    by_text = {repr(shape): shape for shape in shapes}
    texts = [*map(repr, shapes)]
    starts = [number for number, text in enumerate(texts) if not number or text != texts[number - 1]]
    ends = [*starts[1:], len(shapes)]
    return replace(
        job,
        instances=len(shapes),
        shapes=tuple(by_text[text] for text in distinct),
        first=pack_ints(starts),
        count=pack_ints(end - start for start, end in zip(starts, ends, strict=True)),
        shape=pack_ints(distinct.index(texts[start]) for start in starts),
    )


def gangs_of(tasks: Iterable[Task], gangs: Mapping[Task, Range]) -> list[Range]:
    """The gangs that tasks are of, each once."""
    return sorted({gangs[task] for task in tasks if task in gangs})


def runs_of(event: _Runs) -> list[tuple[Task, int]]:
    """Task and run of each item."""
    jobs = (event.job_ids[at] for at in ints(event.job).tolist())
    tasks = zip(jobs, ints(event.instance).tolist(), strict=True)
    return list(zip(tasks, ints(event.run).tolist(), strict=True))


def ranges_of(event: _Ranges) -> list[Range]:
    """The ranges of a decision about gangs."""
    columns = zip(
        ints(event.job).tolist(),
        ints(event.first).tolist(),
        ints(event.count).tolist(),
        ints(event.run).tolist(),
        ints(event.gang).tolist(),
        strict=True,
    )
    return [Range(event.job_ids[job], first, size, run, bool(gang)) for job, first, size, run, gang in columns]


def flags_of(event: GangsAdmitted | AdmissionsRanked) -> list[tuple[Range, bool]]:
    """Each range of an admission, and whether it is entitled."""
    return [(each, rank > 0) for each, rank in ranks_of(event)]


def ranks_of(event: GangsAdmitted | AdmissionsRanked) -> list[tuple[Range, int]]:
    """Each range of an admission: 1 it is entitled, 0 borrowed, 2 entitled and to be parked."""
    ranges = ranges_of(event)
    ranks = ints(event.entitled).tolist() if event.entitled else [1] * len(ranges)
    return list(zip(ranges, ranks, strict=True))


def places_of(event: TasksPlaced | RunsOrdered) -> list[tuple[Task, int, str, int, list[int]]]:
    """Task, run, host, session of the host and port numbers of each item."""
    sessions, hosts = longs(event.host_session).tolist(), ints(event.host).tolist()
    counts = ints(event.port_count).tolist() or [0] * len(hosts)
    ports, at, places = ints(event.ports).tolist(), 0, []
    for (task, run), host, count in zip(runs_of(event), hosts, counts, strict=True):
        places.append((task, run, event.host_ids[host], sessions[host], ports[at : at + count]))
        at += count
    return places


@cache
def upwards(path: str) -> tuple[str, ...]:
    """A pool and those above it, the root aside, from the top."""
    parts = path.split("/")[1:]
    return tuple("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))
