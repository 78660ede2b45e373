"""Benchmarks: `python -m bench NAME [--log memory|embedded|kafka] [--processes] [--hosts N] [--seeds N]
[--workloads N] [--traces FOLDER] [--quick] [--json]`.

`log` runs on all three logs, `cell` on those that last, `agent`, `replay` and `ui` on the embedded one, `simulate` on
that in memory. All of it, with what it starts, has two cores.

A bench is a module of this folder with `run(log, options) -> Result`. It prints each figure beside a reference measured
in the same run, because machines differ; units stand in the names. `--quick` runs all of a bench on little work, to
see that it runs; its figures say nothing.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from events.log.embedded import EmbeddedLog, wall_clock_ms
from events.log.kafka.kafka_log import KafkaLog
from events.log.memory import MemoryLog
from events.log.port import Log
from events.topics import EVERY, SETTINGS

CORES = 2
"""The number of cores that the targets are for."""
LOGS = ("memory", "embedded", "kafka")
QUICK = "PACELINE_BENCH_QUICK"
"""Set by `--quick`, so that the processes of a bench know it too."""


def sized(whole: int, quick: int) -> int:
    """A size of a bench, as its targets are for; with `--quick` a small one."""
    return quick if os.environ.get(QUICK) else whole


@dataclass(frozen=True, slots=True)
class Options:
    """The setting of a bench beside the log: an empty folder that is removed afterwards, whether the parts of a cell
    are processes of their own, the hosts of a cell at size, 0 for the usual shapes, and how many orders of arrival are
    drawn of those that there are, and the workloads, 0 for all; `traces`: where traces are that aren't kept here.
    """

    folder: Path
    processes: bool = False
    hosts: int = 0
    seeds: int = 0
    workloads: int = 0
    traces: Path | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """Figures and the references beside them, by name; a name ends in its unit. Some figures have a target: at
    least for rates (`_per_s`), for what `placement-quality` counts and allocates and for what is reproduced
    (`_reproduced_percent`), else at most.
    """

    figures: Mapping[str, float]
    references: Mapping[str, float]
    targets: Mapping[str, float] = field(default_factory=dict)


@contextmanager
def open_log(kind: str, folder: Path) -> Iterator[Log]:
    """An empty log of cell 0 of a kind of `LOGS`; for Kafka a broker is started, which needs Java and Maven."""
    if kind == "kafka":
        from tests.helpers.broker import Broker  # only where it is asked for: it needs the checkout

        with Broker(folder / "kafka") as broker:
            broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
            log: Log = KafkaLog(broker.address)
            yield log
            log.close()
        return
    log = EmbeddedLog(folder / "log") if kind == "embedded" else MemoryLog(wall_clock_ms)
    yield log
    log.close()


def per_second(count: int, began: float) -> float:
    """The rate per second since `began` (`time.perf_counter`)."""
    return count / (time.perf_counter() - began)


def peak_memory_mib(pid: int) -> float:
    """The most memory that a process has had, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) / 1024


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the values doesn't exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
