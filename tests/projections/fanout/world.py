"""A cell's history made by the real machines, what the fan-out must make of it, and the fan-out as a process."""

import json
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from confluent_kafka import Consumer, TopicPartition

from deploy.processes import Processes
from events.log.kafka.kafka_log import KafkaLog
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.pools import CellConfigured
from events.topics import FANOUT, MACHINES, rounds_of
from tests.helpers.asking import ask
from tests.helpers.whole_cell import Cell
from tests.projections.fanout.complete import caught_up

PATIENCE_S = 120.0
SESSION_MS = 1500
END_S = 10.0
NOWHERE = "127.0.0.1:9"
"""Where nobody answers."""


@cache
def history(number: int = 0) -> MemoryLog:
    """Jobs that succeed, fail, are refused, stopped and preempted; gangs, ports, and bytes that are no record."""
    cell = Cell(hosts=3, number=number)
    cell.append(CellConfigured(command_id="quick", preemption_delay_ms=300))
    cell.pool("/p", cell=number)
    cell.pool("/q", reservation={"cpu": 8000}, cell=number)
    cell.run(1000)
    cell.submit("many", instances=10, resources={"cpu": 1000}, duration_ms=4000, ports=("http", "admin"))
    cell.submit("gang", instances=4, gang_min=3, resources={"cpu": 500})
    cell.submit("two-ports", instances=2, resources={"cpu": 100}, ports=("http",), duration_ms=2000)
    cell.log.append([NewRecord("paceline.jobs", b"k", b"no record")])
    cell.submit("nowhere", pool="/none")
    cell.submit("many", instances=3)
    cell.run(1000)
    cell.submit("urgent", pool="/q", instances=6, resources={"cpu": 1000})
    cell.submit("long", instances=2, resources={"cpu": 100}, duration_ms=600_000)
    cell.run(3000)
    cell.stop("long")
    for number_ in range(20):
        cell.submit(f"small-{number_}", instances=2, resources={"cpu": 100})
        cell.run(300)
    cell.run(20_000)
    return cell.log


def copy(source: MemoryLog, target: KafkaLog, until: float = 1.0, start: float = 0.0) -> None:
    """Appends a part of each machine's rounds, from one fraction of them to another."""
    for machine in MACHINES:
        records = list(source.scan(rounds_of(machine), 0))
        part = records[round(len(records) * start) : round(len(records) * until)]
        target.append([NewRecord(record.topic, record.key, record.value) for record in part])


def crowd(tasks: int) -> MemoryLog:
    """One job of so many tasks that are placed and end: a few large rounds of each machine."""
    cell = Cell(hosts=10, capacity={"cpu": 10**9, "memory": 10**9, "disk": 10**9})
    cell.pool("/p")
    cell.run(1000)
    cell.submit("crowd", instances=tasks, resources={"cpu": 100})
    cell.run(5000)
    return cell.log


class Site:
    """Fan-outs as processes of their own, by name."""

    def __init__(self, folder: Path, bootstrap: str, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.starts = 0
        self._names: dict[str, None] = {}
        environment = {
            "PACELINE_KAFKA": bootstrap,
            "PACELINE_KAFKA_OPTIONS": json.dumps(options or {}),
            "PACELINE_SERVICE__SESSION_TIMEOUT_MS": str(SESSION_MS),
            "PACELINE_LOGS__FORM": "json",
        }
        self.processes = Processes(folder, environment)

    def start(self, name: str = "one") -> None:
        """Starts a process; it keeps its name and data folder over restarts."""
        self.starts += 1
        self._names[name] = None
        self._address_file(name).unlink(missing_ok=True)
        own = ["--data", str(self.folder / "data" / name), "--name", name]
        listen = ["--listen", "127.0.0.1:0", "--address-file", str(self._address_file(name))]
        self.processes.start(name, ["paceline", "fanout", *own, *listen])

    def get(self, page: str, name: str = "one") -> httpx2.Response:
        """One of its pages. Raises `httpx2.TransportError`."""
        file = self._address_file(name)
        address = file.read_text().strip() if file.exists() else NOWHERE
        return ask(f"http://{address}{page}", timeout=5.0)

    def health(self, name: str = "one") -> dict[str, Any]:
        """What /readyz says; empty where it doesn't answer."""
        with suppress(httpx2.TransportError):
            return dict(self.get("/readyz", name).json())
        return {}

    def standing(self, cell: int) -> dict[str, Any]:
        """What /readyz of the first says of a cell; empty where it doesn't answer, or hasn't the cell."""
        return dict(self.health().get("cells", {}).get(str(cell), {}))

    def cells(self, name: str = "one") -> list[int]:
        """The cells that it has."""
        return [int(cell) for cell in self.health(name).get("cells", {})]

    def until(self, holds: Callable[[], Any]) -> None:
        """Waits for a condition while all processes run."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert not self.processes.ended(), self.all_said()
            assert time.monotonic() < deadline, self.all_said()
            time.sleep(0.02)

    def until_caught_up(self, name: str = "one", cells: int = 1) -> None:
        """Waits until all that is decided is published."""
        self.until(lambda: caught_up(self.health(name), cells))

    def until_ended(self, name: str = "one") -> int:
        """Waits until a process has ended by itself; returns its code."""
        deadline = time.monotonic() + PATIENCE_S
        while name not in self.processes.ended():
            assert time.monotonic() < deadline, self.all_said()
            time.sleep(0.02)
        return self.processes.stop(name)

    def kill(self, name: str = "one") -> None:
        """SIGKILL."""
        self.processes.kill(name)

    def stop(self, name: str = "one") -> None:
        """SIGTERM; it must end by itself, soon, with 0."""
        begin = time.monotonic()
        code = self.processes.stop(name)
        assert code == 0, (code, self.said(name))
        assert time.monotonic() - begin < END_S

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.processes.send(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.processes.send(name, signal.SIGCONT)

    def said(self, name: str = "one") -> str:
        """What it has said."""
        return self.processes.output(name).read_text(errors="replace")

    def all_said(self) -> str:
        """The end of what each has said."""
        return "\n".join(f"{name}:\n{self.said(name)[-3000:]}" for name in self._names)

    def _address_file(self, name: str) -> Path:
        return self.folder / f"{name}.address"


def ends(bootstrap: str, cell: int = 0) -> int:
    """How many messages stand in the topics of the fan-out."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    found = [consumer.get_watermark_offsets(TopicPartition(topic.name, cell), timeout=PATIENCE_S) for topic in FANOUT]
    consumer.close()
    return sum(end - start for start, end in found)
