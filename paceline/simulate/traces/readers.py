"""Readers of published traces: each gives the jobs one after the other, by the time of their submission.

The rules of each trace, its columns and its quirks stand in `bench/traces/README.md`. A line that the rules leave out
is passed over; one that can't be read is an error with its number.
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from events.records.jobs import JobSubmitted
from events.records.parts import Constraint, Simulated
from hostagent.fleet import SimHost
from paceline.client.errors import PacelineError

MEMORY_MIB = 1_000_000
"""Alibaba gives memory as a part of one host's: so many MiB stand for the whole."""
GPUS = 8
"""The number of GPUs of a host in the Philly experiments."""
ALIBABA = ("submit_time", "duration", "cpu", "memory", "job_id", "task_id", "instances_num")
PHILLY = ("job_id", "vc", "num_gpus", "submit_s", "duration_s")


class TraceJob(NamedTuple):
    """A job and when it is submitted, in milliseconds from the start of the trace."""

    at_ms: int
    job: JobSubmitted


class TaskRequest(NamedTuple):
    """The needs of each task of a job."""

    tasks: int
    cpus: int = 1
    memory_mib: int = 0
    constraints: tuple[Constraint, ...] = ()


class Row(NamedTuple):
    """A line of a log of the Standard Workload Format: when its job came, how long it ran and might have run."""

    number: int
    submit_s: int
    run_s: int
    limit_s: int
    request: TaskRequest


class Malformed(PacelineError):
    """A trace that can't be read."""


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """The text of a file, unpacked where it is packed. Raises `Malformed`, while it is read too."""
    packed = path.suffix == ".gz"
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8", newline="")
            if packed
            else path.open(encoding="utf-8", newline="") as file
        ):
            yield file
    except UnicodeDecodeError as error:
        raise Malformed(f"{path}: is not UTF-8 text; if it is packed, its name must end with .gz") from error
    except (EOFError, zlib.error, csv.Error) as error:
        raise Malformed(f"{path}: is cut off or broken: {error}") from error
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror or error}") from error


def _table(path: Path, lines: Iterable[str], *columns: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table under its header, each with its line. Raises `Malformed` where a column is missing."""
    rows = csv.DictReader(lines)
    missing = [name for name in columns if name not in (rows.fieldnames or ())]
    if missing:
        raise Malformed(f"{path}:1: lacks the columns {', '.join(missing)}: is --format that of the file?")
    for row in rows:
        yield rows.line_num, row


def rigid(rows: Iterable[Row | None], left_out: Counter[str]) -> Iterator[TraceJob]:
    """The jobs of a log, gangs of all their tasks, which nobody preempts; time begins with the first. A run is cut at
    its limit.

    Left out, and counted: jobs that ran for no time or had no limit, and, None, those that the cluster can't hold.
    """
    begin: int | None = None
    for row in rows:
        if row is None:
            left_out["ask for more than the cluster has"] += 1
            continue
        number, submit_s, run_s, limit_s, request = row
        if run_s <= 0 or limit_s <= 0 or submit_s < 0:
            left_out["have no run time or no limit"] += 1
            continue
        begin = submit_s if begin is None else begin
        job = JobSubmitted(
            job_id=f"job-{number}",
            pool="/trace",
            instances=request.tasks,
            resources={"cpu": request.cpus * 1000, "memory": request.memory_mib},
            preemptible=False,
            gang_min=request.tasks if request.tasks > 1 else 0,
            constraints=request.constraints,
            simulated=Simulated(min(run_s, limit_s) * 1000),
        )
        yield TraceJob((submit_s - begin) * 1000, job)


def swf(path: Path, processors: int) -> Iterator[Row | None]:
    """The Standard Workload Format, or the CSV that was made of it: tasks of one processor each. None: a job of more
    processors than there are, or of none.
    """
    with opened(path) as file:
        first = file.readline()
        lines = chain([first], file)
        rows = _csv_jobs(path, lines) if first.startswith("job_id,") else _swf_jobs(path, lines)
        for number, submit_s, run_s, allocated, requested, limit_s in rows:
            procs = requested if requested > 0 else allocated
            processors_used = allocated if allocated > 0 else requested
            fits = 1 <= procs <= processors and 1 <= processors_used <= processors
            yield Row(number, submit_s, run_s, limit_s, TaskRequest(procs)) if fits else None


def swf_processors(path: Path) -> int | None:
    """The processors of the machine, as the header of an SWF file says it; its nodes where it says no more."""
    with opened(path) as file:
        header = (line.lstrip("; ").partition(":") for line in takewhile(lambda line: line.startswith(";"), file))
        values = {name: int(value) for name, _, value in header if value.strip().isdecimal()}
    return values.get("MaxProcs", values.get("MaxNodes"))


def _swf_jobs(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, ...]]:
    for at, line in enumerate(lines, 1):
        if line.startswith(";") or not line.strip():
            continue
        try:
            field = [int(float(value)) for value in line.split()[:9]]
            yield field[0], field[1], field[3], field[4], field[7], field[8]
        except (ValueError, IndexError, ArithmeticError) as error:
            raise Malformed(f"{path}:{at}: is no line of the Standard Workload Format") from error


def _csv_jobs(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, ...]]:
    for at, row in _table(path, lines, "job_id", "submit_s", "run_s", "procs", "req_s"):
        with _line(path, at):
            procs = int(row["procs"])
            yield int(row["job_id"]), int(row["submit_s"]), int(row["run_s"]), procs, procs, int(row["req_s"])


class _line:
    """Names the line of what goes wrong inside."""

    def __init__(self, path: Path, at: int) -> None:
        self._where = f"{path}:{at}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TypeError | LookupError):
            raise Malformed(f"{self._where}: has too few columns") from error
        if isinstance(error, ValueError | ArithmeticError):
            raise Malformed(f"{self._where}: {error}") from error


def philly(path: Path) -> Iterator[TraceJob]:
    """GPU jobs of virtual clusters, a pool each. More GPUs than a host has: a gang of equal parts, a host each."""
    with opened(path) as file:
        for at, row in _table(path, file, *PHILLY):
            with _line(path, at):
                gpus = int(row["num_gpus"])
                parts = -(-gpus // GPUS)
                if gpus < 1 or gpus % parts:
                    raise ValueError(f"{gpus} GPUs don't make {parts} equal parts")
                job = JobSubmitted(
                    job_id=f"job-{row['job_id']}",
                    pool=f"/{row['vc']}",
                    instances=parts,
                    resources={"gpu": gpus // parts * 1000},
                    gang_min=parts if parts > 1 else 0,
                    simulated=Simulated(int(row["duration_s"]) * 1000),
                )
                yield TraceJob(int(row["submit_s"]) * 1000, job)


def philly_pools(path: Path) -> list[str]:
    """The pools of a trace."""
    with opened(path) as file:
        return sorted({row["vc"] for _, row in _table(path, file, *PHILLY)})


def alibaba_batch(path: Path) -> Iterator[TraceJob]:
    """Batch jobs of many tasks: a task of the trace is a job here, its instances are tasks. Sorted first."""
    submissions: list[tuple[int, int, dict[str, str]]] = []
    with opened(path) as file:
        for at, row in _table(path, file, *ALIBABA):
            with _line(path, at):
                submissions.append((int(row["submit_time"]), at, row))
    submissions.sort(key=lambda each: each[:2])
    for submit_s, at, row in submissions:
        with _line(path, at):
            job = JobSubmitted(
                job_id=f"job-{row['job_id']}-{row['task_id']}",
                pool="/trace",
                instances=int(row["instances_num"]),
                resources={
                    "cpu": round(float(row["cpu"]) * 1000),
                    "memory": max(1, round(float(row["memory"]) * MEMORY_MIB)),
                },
                simulated=Simulated(max(1, round(float(row["duration"]) * 1000))),
            )
            yield TraceJob(submit_s * 1000, job)


def openb(path: Path, arrivals: Path | None, seed: int) -> Iterator[JobSubmitted]:
    """Pods, of which none ever ends, in the order of the file, or in that of a published run with that seed."""
    with opened(path) as file:
        rows = list(_table(path, file, "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
    order: Sequence[int] = range(len(rows))
    if arrivals is not None:
        order = _order(arrivals, seed, len(rows))
    for number, index in enumerate(order):
        at, row = rows[index]
        with _line(path, at):
            yield _pod(number, row)


def _order(path: Path, seed: int, pods: int) -> list[int]:
    """The order of arrival of a published run."""
    try:
        with opened(path) as file:
            seeds = msgspec.json.decode(file.read(), type=_Arrivals).seeds
    except msgspec.DecodeError as error:
        raise Malformed(f"{path}: holds no orders of arrival: {error}") from error
    if str(seed) not in seeds:
        raise Malformed(f"{path} has no seed {seed}, only {', '.join(seeds)}")
    order = seeds[str(seed)].arrival
    if order and not 0 <= min(order) <= max(order) < pods:
        raise Malformed(f"{path}: orders pods that aren't among the {pods} of the trace")
    return order


class _Arrival(msgspec.Struct):
    arrival: list[int]


class _Arrivals(msgspec.Struct):
    seeds: dict[str, _Arrival]


def _pod(number: int, row: dict[str, str]) -> JobSubmitted:
    models = tuple(dict.fromkeys(model for model in (row.get("gpu_spec") or "").split("|") if model))
    return JobSubmitted(
        job_id=f"pod-{number}",
        pool="/trace",
        resources={
            "cpu": int(row["cpu_milli"]),
            "memory": int(row["memory_mib"]),
            "gpu": int(row["num_gpu"]) * int(row["gpu_milli"]),
        },
        constraints=(Constraint("gpu_model", "in", models),) if models else (),
        simulated=Simulated(1 << 40),
    )


def openb_hosts(path: Path) -> list[SimHost]:
    """The hosts of openb's machine file, with the model of their GPUs as attribute `gpu_model`."""
    hosts = []
    with opened(path) as file:
        for at, row in _table(path, file, "sn", "cpu_milli", "memory_mib", "gpu", "model"):
            with _line(path, at):
                amounts = {
                    "cpu": int(row["cpu_milli"]),
                    "memory": int(row["memory_mib"]),
                    "gpu": int(row["gpu"]) * 1000,
                }
                hosts.append(SimHost(1, amounts, {"gpu_model": row["model"]} if row["model"] else {}, row["sn"]))
    return hosts
