"""Traces: jobs that others have published, run on a cell of ours.

The rules of such an experiment: machines take no virtual time, the gateway writes no beats, delays are 0, placement
keeps what was admitted until there is room, ended jobs are forgotten, and the log is dropped once all have read it, so
that a long trace takes no more room than a short one.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from events.bounds import AMOUNT_MAX
from events.codes import TaskState
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.pools import CellConfigured, PoolDefined
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from paceline.client.errors import PacelineError
from paceline.simulate.session import Observers, RunOptions, Session, open_cell
from paceline.simulate.traces import grid, readers
from paceline.simulate.traces.readers import TraceJob
from paceline.simulate.world.cell import Cell
from paceline.simulate.world.expectation_watch import Watch
from paceline.simulate.world.run import Run
from paceline.simulate.world.scripted_actions import Action

NEVER_MS = 1 << 40
"""The most that a setting may be: 34 years."""
NOBODY_LEAVES = -1
"""The preemption delay where no job is preemptible: else placement would look for victims every few seconds, and find
none, for as long as a job waits for hosts.
"""
FORGET_JOBS = 1000
"""After so many jobs those that have ended are forgotten, all at once: one by one would cost a round each."""
PHILLY_HOSTS, ALIBABA_HOSTS = 80, 40
UNBOUNDED = 1 << 30
"""The amount of each host in a resource that a trace doesn't mention."""


class TraceOptions(NamedTuple):
    """Options of the command for a trace."""

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
    actions: Callable[[Cell], Iterator[Action]]
    left_out: Counter[str]
    """Jobs that can't be run so far, by what is with them."""
    endless: bool = False
    """Whether its jobs never end: the run is over when the last has come."""
    reserved: Mapping[str, int] = {}
    """The reservation of each pool: jobs that aren't preemptible need it."""


def session(source: TraceOptions, options: RunOptions) -> Session:
    """A session of a trace. Raises `PacelineError`."""
    trace = _trace(source)
    cell = open_cell(options.data, watches=False)
    observers = Observers(cell, options, for_expectations=False)
    end_ms = NEVER_MS if options.until_ms is None else options.until_ms
    is_at_rest = (lambda: True) if trace.endless else observers.log_summary.at_rest
    run = Run(
        *(cell, observers.log_summary, _actions(cell, trace), Watch([]), end_ms),
        *(is_at_rest if options.until_ms is None else None, (observers.series,)),
        keeps_log=options.data is not None,
    )
    name = source.path.name.partition(".")[0]
    seed = source.seed if source.form == "openb" else 0
    return Session(
        name,
        _rerun_command(source),
        seed,
        run,
        observers.log_summary,
        observers.jobs,
        observers.series,
        options,
        trace.left_out,
    )


def _rerun_command(source: TraceOptions) -> str:
    """The command that runs it again."""
    flags = {
        "trace": source.path,
        "format": source.form,
        "hosts": source.hosts,
        "jobs": source.jobs,
    }
    flags |= {"machines": source.machines, "arrivals": source.arrivals}
    if source.arrivals is not None:
        flags["seed"] = source.seed
    options = (f"--{name} {shlex.quote(str(value))}" for name, value in flags.items() if value is not None)
    return f"paceline simulate {' '.join(options)}"


def _trace(source: TraceOptions) -> Trace:
    path, left_out = source.path, Counter[str]()
    submitted = partial(_submissions, source)
    match source.form:
        case "swf" if source.machines is not None:
            machines = grid.hosts(source.machines)
            jobs = readers.rigid(grid.jobs(path, machines), left_out)
            return Trace(machines, ["/trace"], partial(submitted, jobs), left_out, reserved=_total(machines))
        case "swf":
            count = source.hosts or readers.swf_processors(path)
            if count is None:
                raise PacelineError(f"{path} doesn't say how many processors there are; say it with --hosts")
            hosts = [SimHost(count, {"cpu": 1000, "memory": UNBOUNDED, "disk": UNBOUNDED}, pattern="node-#")]
            jobs = readers.rigid(readers.swf(path, count), left_out)
            return Trace(hosts, ["/trace"], partial(submitted, jobs), left_out, reserved=_total(hosts))
        case "philly":
            hosts = [
                SimHost(
                    source.hosts or PHILLY_HOSTS,
                    {"cpu": UNBOUNDED, "memory": UNBOUNDED, "disk": UNBOUNDED, "gpu": 8000},
                    pattern="gpu-#",
                )
            ]
            pools = [f"/{name}" for name in readers.philly_pools(path)]
            return Trace(hosts, pools, partial(submitted, readers.philly(path)), left_out)
        case "alibaba-batch":
            capacity = {"cpu": 64_000, "memory": readers.MEMORY_MIB, "disk": UNBOUNDED}
            hosts = [SimHost(source.hosts or ALIBABA_HOSTS, capacity, pattern="host-#")]
            return Trace(hosts, ["/trace"], partial(submitted, readers.alibaba_batch(path)), left_out)
        case _:
            if source.machines is None:
                raise PacelineError("openb needs the file of its hosts: name it with --machines")
            pods = readers.openb(path, source.arrivals, source.seed)
            hosts = readers.openb_hosts(source.machines)
            return Trace(hosts, ["/trace"], partial(_arrivals, pods, source.jobs), left_out, endless=True)


def _total(hosts: Iterable[SimHost]) -> dict[str, int]:
    """The sum of what hosts offer, as far as a pool may reserve it."""
    total = Counter[str]()
    for host in hosts:
        total.update({name: host.count * amount for name, amount in host.capacity.items()})
    return {name: min(amount, AMOUNT_MAX) for name, amount in total.items()}


def _actions(cell: Cell, trace: Trace) -> Iterator[Action]:
    yield Action(0, partial(cell.append, _settings("trace", NEVER_MS)))
    for path in trace.pools:
        delay = NOBODY_LEAVES if trace.reserved else None
        pool = PoolDefined(path=path, command_id=path, reservation=dict(trace.reserved), preemption_delay_ms=delay)
        yield Action(0, partial(cell.append, pool))

    def make(gateway: Gateway) -> Fleet:
        return Fleet(gateway, trace.hosts, cell.clock, 0, heartbeat_ms=None)

    yield Action(0, partial(cell.add_fleet, "hosts", make))
    yield from trace.actions(cell)


def _settings(command_id: str, forget_after_ms: int) -> CellConfigured:
    return CellConfigured(
        command_id=command_id,
        placement_patience_ms=NEVER_MS,
        return_backoff_ms=0,
        return_backoff_max_ms=0,
        preemption_delay_ms=0,
        forget_after_ms=forget_after_ms,
    )


def _submissions(source: TraceOptions, jobs: Iterator[TraceJob], cell: Cell) -> Iterator[Action]:
    newest_ms, number = 0, 0
    for number, (at_ms, job) in enumerate(islice(jobs, source.jobs), 1):
        if at_ms < newest_ms:
            late = f"{job.job_id} came {(newest_ms - at_ms) // 1000} s before the one above it"
            raise readers.Malformed(f"{source.path}: {late}: sort the trace by time")
        newest_ms = at_ms
        yield Action(at_ms, partial(cell.append, job, job.job_id.encode()))
        if number % FORGET_JOBS == 0:
            yield Action(at_ms, partial(_forget, cell, number))
    if not number:
        raise readers.Malformed(f"{source.path}: has no job that this cluster can run")


def _forget(cell: Cell, number: int) -> None:
    """Ended jobs leave the state."""
    cell.append(_settings(f"forget-{number}", 0))
    cell.run_until_quiet()
    cell.append(_settings(f"keep-{number}", NEVER_MS))


def _arrivals(pods: Iterator[JobSubmitted], most: int | None, cell: Cell) -> Iterator[Action]:
    """Each pod is placed at once or dropped for good."""
    for number, pod in enumerate(islice(pods, most), 1):
        yield Action(2 * number, partial(cell.append, pod, pod.job_id.encode()))
        yield Action(2 * number + 1, partial(_drop_unplaced, cell, pod.job_id))


def _drop_unplaced(cell: Cell, job_id: str) -> None:
    row = cell.lifecycle.jobs.get(job_id)
    if row is not None and not row.counts[TaskState.RUNNING]:
        cell.append(JobStopRequested(job_id=job_id, command_id=job_id), job_id.encode())
