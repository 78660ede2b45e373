"""Traces: jobs that others have published, run on a cell of ours.

The rules of such an experiment: machines take no virtual time, the gateway writes no beats, delays are 0, placement
keeps what was admitted until there is room, ended jobs are forgotten, and the log is dropped once all have read it, so
that a long trace takes no more room than a short one.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from events.codes import TaskState
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.pools import CellConfigured, PoolDefined
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from paceline.client.errors import PacelineError
from paceline.simulate.session import Ready, Session, Wanted, open_cell
from paceline.simulate.traces import grid, readers
from paceline.simulate.traces.readers import TraceJob
from paceline.simulate.world.cell import Cell
from paceline.simulate.world.expectation_watch import Watch
from paceline.simulate.world.run import Run
from paceline.simulate.world.scripted_actions import Act

NEVER_MS = 1 << 40
"""The most that a setting may be: 34 years."""
FORGET_JOBS = 1000
"""After so many jobs those that have ended are forgotten, all at once: one by one would cost a round each."""
PHILLY_HOSTS, ALIBABA_HOSTS = 80, 40
ROOM = 1 << 30
"""Of a resource that a trace says nothing of, a host has this much."""


class Asked(NamedTuple):
    """What the command says of a trace."""

    path: Path
    form: str
    hosts: int | None = None
    jobs: int | None = None
    machines: Path | None = None
    arrivals: Path | None = None
    seed: int = 42


class Trace(NamedTuple):
    """A trace with its cluster: hosts, pools, and what happens."""

    hosts: list[SimHost]
    pools: list[str]
    acts: Callable[[Cell], Iterator[Act]]
    left_out: Counter[str]
    """Jobs that can't be run so far, by what is with them."""
    endless: bool = False
    """Whether its jobs never end: the run is over when the last has come."""


def session(asked: Asked, wanted: Wanted) -> Session:
    """A session of a trace. Raises `PacelineError`."""
    trace = _trace(asked)
    cell = open_cell(wanted.data, watches=False)
    made = Ready(cell, wanted, keeps=False)
    end_ms = NEVER_MS if wanted.until_ms is None else wanted.until_ms
    rests = (lambda: True) if trace.endless else made.story.at_rest
    run = Run(
        *(cell, made.story, _acts(cell, trace), Watch([]), end_ms),
        *(rests if wanted.until_ms is None else None, (made.series,)),
        keeps_log=wanted.data is not None,
    )
    name = asked.path.name.partition(".")[0]
    seed = asked.seed if asked.form == "openb" else 0
    return Session(name, _again(asked), seed, run, made.story, made.jobs, made.series, wanted, trace.left_out)


def _again(asked: Asked) -> str:
    """The command that runs it again."""
    named = {"trace": asked.path, "format": asked.form, "hosts": asked.hosts, "jobs": asked.jobs}
    named |= {"machines": asked.machines, "arrivals": asked.arrivals}
    if asked.arrivals is not None:
        named["seed"] = asked.seed
    options = (f"--{name} {shlex.quote(str(value))}" for name, value in named.items() if value is not None)
    return f"paceline simulate {' '.join(options)}"


def _trace(asked: Asked) -> Trace:
    path, left_out = asked.path, Counter[str]()
    submitted = partial(_submissions, asked)
    match asked.form:
        case "swf" if asked.machines is not None:
            machines = grid.hosts(asked.machines)
            jobs = readers.rigid(grid.jobs(path, machines), left_out)
            return Trace(machines, ["/trace"], partial(submitted, jobs), left_out)
        case "swf":
            count = asked.hosts or readers.swf_processors(path)
            if count is None:
                raise PacelineError(f"{path} doesn't say how many processors there are; say it with --hosts")
            hosts = [SimHost(count, {"cpu": 1000, "memory": ROOM, "disk": ROOM}, pattern="node-#")]
            jobs = readers.rigid(readers.swf(path, count), left_out)
            return Trace(hosts, ["/trace"], partial(submitted, jobs), left_out)
        case "philly":
            hosts = [
                SimHost(
                    asked.hosts or PHILLY_HOSTS,
                    {"cpu": ROOM, "memory": ROOM, "disk": ROOM, "gpu": 8000},
                    pattern="gpu-#",
                )
            ]
            pools = [f"/{name}" for name in readers.philly_pools(path)]
            return Trace(hosts, pools, partial(submitted, readers.philly(path)), left_out)
        case "alibaba-batch":
            capacity = {"cpu": 64_000, "memory": readers.MEMORY_MIB, "disk": ROOM}
            hosts = [SimHost(asked.hosts or ALIBABA_HOSTS, capacity, pattern="host-#")]
            return Trace(hosts, ["/trace"], partial(submitted, readers.alibaba_batch(path)), left_out)
        case _:
            if asked.machines is None:
                raise PacelineError("openb needs the file of its hosts: name it with --machines")
            pods = readers.openb(path, asked.arrivals, asked.seed)
            hosts = readers.openb_hosts(asked.machines)
            return Trace(hosts, ["/trace"], partial(_arrivals, pods, asked.jobs), left_out, endless=True)


def _acts(cell: Cell, trace: Trace) -> Iterator[Act]:
    yield Act(0, partial(cell.append, _settings("trace", NEVER_MS)))
    for path in trace.pools:
        yield Act(0, partial(cell.append, PoolDefined(path=path, command_id=path)))

    def make(gateway: Gateway) -> Fleet:
        return Fleet(gateway, trace.hosts, cell.clock, 0, heartbeat_ms=None)

    yield Act(0, partial(cell.add_fleet, "hosts", make))
    yield from trace.acts(cell)


def _settings(command_id: str, forget_after_ms: int) -> CellConfigured:
    return CellConfigured(
        command_id=command_id,
        placement_patience_ms=NEVER_MS,
        return_backoff_ms=0,
        return_backoff_max_ms=0,
        preemption_delay_ms=0,
        forget_after_ms=forget_after_ms,
    )


def _submissions(asked: Asked, jobs: Iterator[TraceJob], cell: Cell) -> Iterator[Act]:
    newest_ms, number = 0, 0
    for number, (at_ms, job) in enumerate(islice(jobs, asked.jobs), 1):
        if at_ms < newest_ms:
            late = f"{job.job_id} came {(newest_ms - at_ms) // 1000} s before the one above it"
            raise readers.Malformed(f"{asked.path}: {late}: sort the trace by time")
        newest_ms = at_ms
        yield Act(at_ms, partial(cell.append, job, job.job_id.encode()))
        if number % FORGET_JOBS == 0:
            yield Act(at_ms, partial(_forget, cell, number))
    if not number:
        raise readers.Malformed(f"{asked.path}: has no job that this cluster can run")


def _forget(cell: Cell, number: int) -> None:
    """Ended jobs leave the state."""
    cell.append(_settings(f"forget-{number}", 0))
    cell.quiet()
    cell.append(_settings(f"keep-{number}", NEVER_MS))


def _arrivals(pods: Iterator[JobSubmitted], most: int | None, cell: Cell) -> Iterator[Act]:
    """Each pod is placed at once or dropped for good."""
    for number, pod in enumerate(islice(pods, most), 1):
        yield Act(2 * number, partial(cell.append, pod, pod.job_id.encode()))
        yield Act(2 * number + 1, partial(_drop_unplaced, cell, pod.job_id))


def _drop_unplaced(cell: Cell, job_id: str) -> None:
    row = cell.lifecycle.jobs.get(job_id)
    if row is not None and not row.counts[TaskState.RUNNING]:
        cell.append(JobStopRequested(job_id=job_id, command_id=job_id), job_id.encode())
