"""The whole system as a user starts it: 1,000 simulated hosts, eight shapes of work, a cell of its own for each.

On Kafka the broker is a process beside the cell, on the same two cores; with `--processes` each part is one too.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import Options, Result

SHAPES = ("one_job", "many_jobs", "single_jobs", "file", "steady", "http", "idle")
TIMEOUT_S = 400


def run(log: str, options: Options) -> Result:
    """Runs all shapes on the embedded log or on Kafka."""
    if log == "memory":
        raise SystemExit("a cell keeps its log: --log embedded or kafka")
    if options.hosts:
        if log != "kafka":
            raise SystemExit("a cell at size has processes of its own, which meet in Kafka: --log kafka")
        from bench import _at_size

        return _at_size.run(options)
    if options.processes:
        if log != "kafka":
            raise SystemExit("processes of their own meet in Kafka: --log kafka")
        from bench import _processes

        return _processes.run(options)
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    for shape in SHAPES:
        measured = _on_kafka(shape, options.folder) if log == "kafka" else _shape(shape, options.folder / shape, log)
        figures |= measured["figures"]
        references |= measured["references"]
    figures["file_to_single_jobs_cpu_ratio"] = figures["file_jobs_cpu_us_per_job"] / _cpu_of_single_jobs(figures)
    lone = _printed(["bench._cost", "lone"])
    return Result(figures | lone["figures"], references | lone["references"])


def _cpu_of_single_jobs(figures: Mapping[str, float]) -> float:
    """CPU of the cell, and of its broker where there is one, for a job that is appended to the log."""
    return sum(
        value for name, value in figures.items() if name.startswith("single_jobs") and name.endswith("cpu_us_per_job")
    )


def _on_kafka(shape: str, folder: Path) -> dict[str, dict[str, float]]:
    from events.log.kafka.topics import create
    from events.topics import SETTINGS
    from tests.helpers.broker import Broker

    with Broker(folder / f"kafka-{shape}") as broker:
        create(broker.address, 1)
        broker.make_topics(["bench.raw"], 1, SETTINGS)
        return _shape(shape, folder / shape, broker.address, str(broker.pid))


def _shape(shape: str, folder: Path, *log: str) -> dict[str, dict[str, float]]:
    return _printed(["bench._shapes", shape, str(folder), *log])


def _printed(module: list[str]) -> dict[str, dict[str, float]]:
    done = subprocess.run([sys.executable, "-m", *module], capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode or not done.stdout:
        raise SystemExit(f"{module} did not end well:\n{done.stderr[-2000:]}")
    printed: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    if printed.get("failed"):
        raise SystemExit(f"{module}: {printed['failed']}\n{done.stderr[-2000:]}")
    return printed
