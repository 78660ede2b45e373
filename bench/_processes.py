"""The shapes of `python -m bench cell` through a cell whose parts are processes of their own.

Times to an order are the broker's: the difference between the append times of two records. The receipt of an order is
taken from the record that says so (`RunsReported`, STARTED), so the latency holds that append too.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench import Options, Result, peak_memory_mib
from bench._shapes import (
    BATCHES,
    HOSTS,
    RAW,
    STEADY_RATE,
    STEADY_S,
    Meter,
    append,
    bytes_by_topic,
    five_appends,
    http,
    job,
    jobs_done,
    raw,
    until,
)
from deploy.processes import Processes
from events.codec import decode
from events.codes import RunReport
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.topics import create
from events.log.port import LogRecord
from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.lifecycle import HostReconciled, RunsOrdered
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from events.records.tasks import RunsReported
from events.topics import JOBS, SETTINGS, TASKS, rounds_of
from paceline.services.processes import IN_KAFKA, PROCESSES
from projections.views.tables import attach
from tests.helpers.broker import Broker

LIFECYCLE = rounds_of("lifecycle")
IDLE_S = 30
LOOK_S = 0.1


def run(options: Options) -> Result:
    """All shapes and the idle cell, each with a broker and processes of its own."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    for shape in (*BATCHES, "steady", "http", "idle"):
        with cell(options.folder / shape) as (log, processes, broker, listen):
            data, meter, begin = options.folder / shape / "data", Meter(pids(processes, broker)), time.monotonic()
            if shape == "idle":
                time.sleep(IDLE_S)
            elif shape == "steady":
                figures |= steady(log)
            elif shape == "http":
                figures |= prefixed(http(listen, data, log))
            else:
                figures |= batch(log, shape, data)
            figures |= used(shape, meter.spent_s(), time.monotonic() - begin)
            figures |= {
                f"processes_{shape}_{name}_peak_memory_mib": peak_memory_mib(pid)
                for name, pid in pids(processes, broker).items()
                if shape != "idle"
            }
            if shape == "steady":
                references |= prefixed(five_appends(log))
            elif shape in BATCHES:
                tasks = sum(each.instances for each in BATCHES[shape])
                references |= {f"processes_{shape}_{name}": value for name, value in raw(log, tasks).items()}
    return Result(figures, references)


def prefixed(figures: dict[str, float]) -> dict[str, float]:
    """Figures by the names that they have here."""
    return {f"processes_{name}": value for name, value in figures.items()}


@contextmanager
def cell(folder: Path, hosts: int = HOSTS) -> Iterator[tuple[KafkaLog, Processes, Broker, str]]:
    """A broker and one process of each kind; yields when all hosts are up, with the address of the API."""
    with Broker(folder / "kafka") as broker:
        create(broker.address, 1)
        broker.make_topics([RAW], 1, SETTINGS)
        log = KafkaLog(broker.address)
        processes = Processes(
            folder / "logs", {"PACELINE_KAFKA": broker.address, "PACELINE_DATA": str(folder / "data")}
        )
        address_files = {kind: folder / f"{kind}.address" for kind in IN_KAFKA}
        for kind, file in address_files.items():
            command = ["paceline", *PROCESSES[kind].command.split()]
            command += ["--sim-hosts", str(hosts)] if kind == "gateway" else []
            processes.start(kind, [*command, "--listen", "127.0.0.1:0", "--address-file", str(file)])
        try:
            append(log, PoolDefined(path="/bench", command_id="bench"))
            until(lambda: settled(log) >= hosts, LOOK_S)
            time.sleep(3.0)
            yield log, processes, broker, address_files["api"].read_text().strip()
        finally:
            processes.stop_all()
            log.close()


def decisions(log: KafkaLog, start: int = 0) -> Iterator[tuple[LogRecord, Event]]:
    """The decisions of lifecycle with the records that hold them."""
    for record in log.scan(LIFECYCLE, start):
        event = decode(record.value)
        if isinstance(event, RoundCommitted):
            for value in event.decisions:
                yield record, decode(value)


def settled(log: KafkaLog) -> int:
    """Hosts that may get tasks."""
    return sum(isinstance(event, HostReconciled) for _, event in decisions(log))


def batch(log: KafkaLog, shape: str, data: Path) -> dict[str, float]:
    """All jobs of a shape at once, to their ends in the views of a data folder."""
    jobs = BATCHES[shape]
    tasks = sum(each.instances for each in jobs)
    before, start = bytes_by_topic(log), log.bounds(LIFECYCLE)[1]
    views, begin = attach(data / "cell-0" / "views.sqlite"), time.monotonic()
    assert views is not None
    append(log, *jobs)
    until(lambda: jobs_done(views) >= len(jobs), 0.02)
    done_s = time.monotonic() - begin
    views.dispose()
    first = next(iter(log.scan(JOBS.name, 0))).at_ms
    last = max(record.at_ms for record, event in decisions(log, start) if isinstance(event, RunsOrdered))
    after = bytes_by_topic(log)
    name = "single_jobs" if shape == "single_jobs" else f"{shape}_tasks"
    return {
        f"processes_{name}_per_s": 1000 * tasks / max(1, last - first),
        f"processes_{name}_to_done_in_views_per_s": tasks / done_s,
        f"processes_{shape}_bytes_per_task": (sum(after.values()) - sum(before.values())) / tasks,
    }


def steady(log: KafkaLog) -> dict[str, float]:
    """Single-task jobs at a steady rate."""
    begin = time.perf_counter()
    for number in range(STEADY_RATE * STEADY_S):
        time.sleep(max(0.0, begin + number / STEADY_RATE - time.perf_counter()))
        append(log, job(f"steady-{number}", 1))
    until(lambda: len(started(log)) >= STEADY_RATE * STEADY_S, 0.5)
    submit_times = {event.job_id: record.at_ms for record in log.scan(JOBS.name, 0) if (event := submitted(record))}
    latencies = np.array([at - submit_times[job_id] for job_id, at in started(log).items()])
    return {
        "processes_submit_to_order_p50_ms": float(np.percentile(latencies, 50)),
        "processes_submit_to_order_p99_ms": float(np.percentile(latencies, 99)),
        "processes_submit_to_order_max_ms": float(latencies.max()),
    }


def submitted(record: LogRecord) -> JobSubmitted | None:
    """The job in a record of the topic of jobs."""
    event = decode(record.value)
    return event if isinstance(event, JobSubmitted) else None


def started(log: KafkaLog) -> dict[str, int]:
    """When a run of each job was first reported as started."""
    start_times: dict[str, int] = {}
    for record in log.scan(TASKS.name, 0):
        event = decode(record.value)
        if isinstance(event, RunsReported):
            for index in event.job_array[event.state_array == RunReport.STARTED].tolist():
                start_times.setdefault(event.job_ids[index], record.at_ms)
    return start_times


def pids(processes: Processes, broker: Broker) -> dict[str, int]:
    """Process ids by name."""
    return {**{name: processes.pid(name) for name in processes.names()}, "broker": broker.pid}


def used(shape: str, spent_s: dict[str, float], wall_s: float) -> dict[str, float]:
    """CPU by process: per task, or in percent of a core where there are none."""
    if shape in BATCHES:
        tasks = sum(each.instances for each in BATCHES[shape])
        return {f"processes_{shape}_{name}_cpu_us_per_task": 1e6 * each / tasks for name, each in spent_s.items()}
    shares = {f"processes_{shape}_{name}_cpu_percent": 100 * each / wall_s for name, each in spent_s.items()}
    own = 100 * sum(each for name, each in spent_s.items() if name != "broker") / wall_s
    return {**shares, f"processes_{shape}_without_broker_cpu_percent": own}
