"""The simulator: the whole KTH SP2 trace, and 50,000 tasks on 1,000 hosts, from first submission to last end."""

import csv
import gzip
import heapq
import time
from collections.abc import Iterable
from pathlib import Path

from bench import Options, Result, sized
from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.tasks import RunsReported
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, Session, of_scenario
from paceline.simulate.traces import TraceOptions, session

KTH = Path(__file__).parent / "traces" / "kth_sp2_jobs.csv.gz"
PROCESSORS = 100
HOSTS, TASKS = sized(1000, 20), sized(50_000, 500)
HEAD = sized(395, 20)
"""The first jobs of the trace: 4,218 tasks."""
WHOLE = sized(1_000_000, 40)
"""All of them."""


def run(log: str, options: Options) -> Result:
    """On the memory log, whichever is asked for: a simulation keeps no other unless a user wants it."""
    many = played(of_scenario(fleet(), "", RunOptions()))
    began = time.process_time()
    head = played(session(TraceOptions(KTH, "swf", PROCESSORS, jobs=HEAD), RunOptions()))
    head_s = time.process_time() - began
    kth = played(session(TraceOptions(KTH, "swf", PROCESSORS, jobs=WHOLE), RunOptions()))
    if head.log_summary.open or kth.log_summary.open or many.log_summary.open or many.jobs.tasks != TASKS:
        raise SystemExit("not every job ended")
    began = time.perf_counter()
    plain = first_come_first_served()
    plain_s = time.perf_counter() - began
    figures = {
        "kth_head_cpu_s": head_s,
        "kth_head_rounds": head.log_summary.rounds,
        "kth_wall_s": kth.run.wall_s,
        "kth_jobs_per_s": len(kth.jobs.wait_s) / kth.run.wall_s,
        "kth_rounds_per_s": kth.log_summary.rounds / kth.run.wall_s,
        "kth_mean_wait_s": kth.jobs.figures()["mean_wait_s"],
        "kth_mean_bounded_slowdown": kth.jobs.figures()["mean_bounded_slowdown"],
        "tasks_per_s": TASKS / many.run.wall_s,
    }
    references = {
        "raw_fcfs_of_the_same_trace_s": plain_s,
        "raw_fcfs_mean_bounded_slowdown": plain,
        "raw_appends_and_encodes_per_s": appends(),
    }
    return Result(figures, references)


def played(observers: Session) -> Session:
    """A session that has run."""
    observers.run.run_to_end()
    observers.finish()
    return observers


def fleet() -> Scenario:
    """1,000 hosts of 16 CPU, and one job of 50,000 tasks of 0.1 CPU that run a minute."""
    return Scenario.model_validate(
        {
            "name": "fleet",
            "hosts": [{"name": "host", "count": HOSTS, "resources": {"cpu": 16}}],
            "pools": [{"path": "/bench"}],
            "jobs": [
                {
                    "job_id": "many",
                    "pool": "/bench",
                    "instances": TASKS,
                    "resources": {"cpu": 0.1},
                    "sim": {"duration": "1m"},
                }
            ],
        }
    )


def first_come_first_served() -> float:
    """The trace in plain Python, each job after the one before it: the mean bounded slowdown."""
    with gzip.open(KTH, "rt", newline="") as file:
        jobs = [tuple(int(row[name]) for name in ("submit_s", "run_s", "procs")) for row in csv.DictReader(file)]
    waits = in_order(jobs, PROCESSORS)
    slowdowns = [max(1.0, (wait + run_s) / max(run_s, 10)) for wait, (_, run_s, _) in zip(waits, jobs, strict=True)]
    return sum(slowdowns) / len(jobs)


def in_order(jobs: Iterable[tuple[float, ...]], processors: int) -> list[float]:
    """Waits in seconds of jobs (submitted, run, processors) that start in the order in which they come."""
    free, now, out = processors, 0.0, []
    running: list[tuple[float, int]] = []
    for submit, run_s, options in jobs:
        procs = int(options)
        now = max(now, submit)
        while running and (running[0][0] <= now or free < procs):
            end, back = heapq.heappop(running)
            now, free = max(now, end), free + back
        heapq.heappush(running, (now + run_s, procs))
        free -= procs
        out.append(now - submit)
    return out


def appends() -> float:
    """Small records encoded, appended and read again with nothing else, a second."""
    count, log = 20_000, MemoryLog(lambda: 0)
    reader = log.reader({RunsReported.topic: 0})
    columns = dict.fromkeys(("job", "instance", "run", "host", "state", "exit_code"), b"")
    record = RunsReported(gateway="g", host_ids=("h",), job_ids=("j",), **columns)
    began = time.perf_counter()
    for _ in range(count):
        log.append([NewRecord(RunsReported.topic, b"", encode(record))])
        reader.poll(10, 0)
    return count / (time.perf_counter() - began)
