"""Forecasts of when jobs start, over two published traces: how wide they miss, beside scaled limits and past waits.

The schedule is that of the four machines by the rules of `paceline simulate --trace`: first come, first served, which
plain Python gives to the second; the head of each trace is played on the machines in the same run and compared. Each
job that still waits is forecast once, at the first pass after it has waited a minute; the second half is scored.

Metacentrum's trace isn't kept here, as its licence is unclear: `--traces FOLDER` with its two files plays it whole.
"""

import csv
import gzip
import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

from bench import Options, Result, sized
from events.forecasts import pinball
from paceline.forecast.conformal import Quantiles
from paceline.forecast.forecaster import WAITED_MS, Forecast, Forecaster, PoolLine, Present, RunningWork, WaitingJob
from paceline.forecast.lengths import Like
from paceline.simulate.session import RunOptions
from paceline.simulate.traces import TraceOptions, grid, readers, session

TRACES = Path(__file__).parent / "traces"
EVERY_MS = {"kth": 7_200_000, "ctc": 36_000_000, "metacentrum": 1_800_000}
"""Between two passes: the process passes each minute where it has the CPU, which would take days over a year."""
MACHINES_JOBS = sized(300, 20)
WHOLE = sized(1_000_000, 2000)
OVER, COVERAGE_MIN, COVERAGE_MAX = 0.9, 75, 85


class TraceJob(NamedTuple):
    """A job of a trace with its schedule, in milliseconds."""

    job_id: str
    submitted_ms: int
    began_ms: int
    ended_ms: int
    like: Like
    need: dict[str, int]


class Losses:
    """The pinball losses of one method, and how often it was right."""

    def __init__(self) -> None:
        self.count = self.inside = 0
        self.loss_ms = 0.0

    def add(self, quantiles: Quantiles, waited_ms: int) -> None:
        """One forecast has come true or not."""
        self.count += 1
        self.inside += quantiles.low <= waited_ms <= quantiles.high
        self.loss_ms += pinball(quantiles, waited_ms)


def run(log: str, options: Options) -> Result:
    """The log is none of it."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    targets: dict[str, float] = {}
    for name, processors in (("kth", 100), ("ctc", 338)):
        path = TRACES / f"{name}_sp2_jobs.csv.gz"
        jobs = list(first_come_first_served(path, processors))
        figures[f"{name}_head_as_on_the_machines_percent"] = alike(path, processors, jobs)
        ours, theirs = measured(name, jobs, {"cpu": processors * 1000})
        figures |= ours
        references |= theirs
        targets[f"{name}_pinball_over_scaled_limits"] = OVER
    of_grid, capacity = on_the_machines(options.traces) if options.traces else ([], {})
    ours, theirs = measured("metacentrum", of_grid, capacity)
    return Result(figures | ours, references | theirs, targets)


def first_come_first_served(path: Path, processors: int) -> Iterator[TraceJob]:
    """The jobs of a trace, each after the one before it."""
    free, now = processors, 0
    running: list[tuple[int, int]] = []
    begin: int | None = None
    with gzip.open(path, "rt", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if number >= WHOLE:
                return
            submit, run_s, procs, limit = (int(row[each]) * 1000 for each in ("submit_s", "run_s", "procs", "req_s"))
            begin = submit if begin is None else begin
            now = max(now, submit - begin)
            while running and (running[0][0] <= now or free * 1000 < procs):
                end, back = heapq.heappop(running)
                now, free = max(now, end), free + back
            end = now + min(run_s, limit)
            heapq.heappush(running, (end, procs // 1000))
            free -= procs // 1000
            like = Like(row["user_id"], "/trace", limit)
            yield TraceJob(f"job-{row['job_id']}", submit - begin, now, end, like, {"cpu": procs})


def alike(path: Path, processors: int, jobs: list[TraceJob]) -> float:
    """The share of the first jobs that begin on the four machines when they do here."""
    with TemporaryDirectory() as folder:
        times = played(TraceOptions(path, "swf", processors, jobs=MACHINES_JOBS), Path(folder))
    return 100 * sum(times[job.job_id][0] == job.began_ms for job in jobs[:MACHINES_JOBS]) / len(times)


def played(source: TraceOptions, folder: Path) -> dict[str, tuple[int, int]]:
    """When each job began and ended on the four machines, in milliseconds."""
    observers = session(source, RunOptions(out=folder))
    observers.run.run_to_end()
    observers.finish()
    with (folder / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["job_id"]: (round(float(row["started_s"]) * 1000), round(float(row["ended_s"]) * 1000)) for row in rows}


def on_the_machines(folder: Path) -> tuple[list[TraceJob], dict[str, int]]:
    """The trace of Metacentrum as the four machines serve it, and what its hosts have together."""
    path, machines = folder / "wagap-2013.swf.gz", folder / "wagap-2013.swf.machines"
    hosts = grid.hosts(machines)
    with TemporaryDirectory() as out:
        times = played(TraceOptions(path, "swf", machines=machines, jobs=WHOLE), Path(out))
    capacity = Counter[str]()
    for host in hosts:
        capacity.update({name: amount * host.count for name, amount in host.capacity.items()})
    rows = {f"job-{row.number}": row for row in grid.jobs(path, hosts) if row is not None}
    jobs = []
    for at_ms, job in readers.rigid(grid.jobs(path, hosts), Counter()):
        if job.job_id in times:
            need = {name: amount * job.instances for name, amount in job.resources.items() if amount}
            like = Like("", "/trace", rows[job.job_id].limit_s * 1000)
            jobs.append(TraceJob(job.job_id, at_ms, *times[job.job_id], like, need))
    return jobs, dict(capacity)


def measured(name: str, jobs: list[TraceJob], capacity: dict[str, int]) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of a trace, and the references."""
    losses: defaultdict[str, Losses] = defaultdict(Losses)
    began = process_time()
    for forecast, waited_ms, scaled, of_size in forecasts(jobs, capacity, EVERY_MS[name]):
        if scaled is None or of_size is None:
            continue
        losses["forecast"].add(forecast.interval, waited_ms)
        losses["scaled"].add(scaled, waited_ms)
        losses["class"].add(of_size, waited_ms)
    cpu_s = process_time() - began
    ahead, limits, of_size_ = losses["forecast"], losses["scaled"], losses["class"]
    nothing = float("nan")
    figures = {
        f"{name}_pinball_over_scaled_limits": ahead.loss_ms / limits.loss_ms if limits.count else nothing,
        f"{name}_coverage_percent": 100 * ahead.inside / ahead.count if ahead.count else nothing,
        f"{name}_pinball_s": ahead.loss_ms / ahead.count / 1000 if ahead.count else nothing,
        f"{name}_forecasts": float(ahead.count) if jobs else nothing,
        f"{name}_cpu_s": cpu_s if jobs else nothing,
    }
    references = {}
    for label, each in (("scaled_limits", limits), ("class_waits", of_size_)):
        references[f"{name}_{label}_pinball_s"] = each.loss_ms / each.count / 1000 if each.count else nothing
        references[f"{name}_{label}_coverage_percent"] = 100 * each.inside / each.count if each.count else nothing
    return figures, references


Scored = tuple[Forecast, int, Quantiles | None, Quantiles | None]


def forecasts(jobs: list[TraceJob], capacity: dict[str, int], every_ms: int) -> Iterator[Scored]:
    """The first forecast of each job of the second half, what came of it, and what others would have said then."""
    forecaster = Forecaster()
    starts = [job.began_ms for job in jobs]
    by_start = sorted(range(len(jobs)), key=starts.__getitem__)
    starts.sort()
    ends = sorted(range(len(jobs)), key=lambda at: jobs[at].ended_ms)
    pools = {"/trace": PoolLine(1.0, {}, capacity)}
    due: list[tuple[int, int, Scored]] = []
    seen: set[str] = set()
    waiting: dict[int, None] = {}
    running: dict[int, None] = {}
    came = learnt = begun = 0
    now = jobs[len(jobs) // 4].submitted_ms if jobs else 0
    while jobs and (came < len(jobs) or waiting):
        while came < len(jobs) and jobs[came].submitted_ms <= now:
            waiting[came] = None
            came += 1
        at = bisect_right(starts, now)
        for number in by_start[begun:at]:
            waiting.pop(number, None)
            running[number] = None
        begun = max(begun, at)
        while learnt < len(jobs) and jobs[ends[learnt]].ended_ms <= now:
            job = jobs[ends[learnt]]
            forecaster.past.learn(job.like, job.ended_ms - job.began_ms)
            running.pop(ends[learnt], None)
            learnt += 1
        while due and due[0][0] <= now:
            _, number, scored = heapq.heappop(due)
            forecaster.learn(scored[0], scored[1])
            if number >= len(jobs) // 2:
                yield scored
        new = [at for at in waiting if jobs[at].job_id not in seen and now - jobs[at].submitted_ms >= WAITED_MS]
        if new:
            for scored, number in _pass(forecaster, jobs, capacity, pools, now, running, waiting, seen):
                heapq.heappush(due, (jobs[number].began_ms, number, scored))
        now += every_ms
    while due:
        _, number, scored = heapq.heappop(due)
        if number >= len(jobs) // 2:
            yield scored


def _pass(
    forecaster: Forecaster,
    jobs: list[TraceJob],
    capacity: dict[str, int],
    pools: dict[str, PoolLine],
    now: int,
    running: dict[int, None],
    waiting: dict[int, None],
    seen: set[str],
) -> Iterator[tuple[Scored, int]]:
    """The forecasts of jobs that had none, with the number of each job."""
    numbers = {jobs[at].job_id: at for at in waiting}
    work = [RunningWork(jobs[at].like, jobs[at].need, jobs[at].began_ms) for at in running]
    line = [
        WaitingJob(job.job_id, job.like, [job.need], job.need["cpu"] // 1000, job.submitted_ms, fixed=True)
        for job in map(jobs.__getitem__, waiting)
    ]
    for forecast in forecaster.make(Present(now, capacity, pools, work, line)):
        if forecast.job_id in seen:
            continue
        seen.add(forecast.job_id)
        number = numbers[forecast.job_id]
        scaled = forecaster.scaled(forecast.raw.by_limits)
        of_size = forecaster.of_size(forecast.pool, forecast.size, forecast.waited_ms)
        yield (forecast, jobs[number].began_ms - now, scaled, of_size), number
