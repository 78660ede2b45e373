"""`paceline up`: a whole cell in one process, on the embedded log or on Kafka.

One thread steps the four machines, the projector, the gateway and the simulated hosts; another serves HTTP; the agent
of this machine has a third.
"""

import faulthandler
import functools
import gc
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from events.clock import SystemClock
from events.log import Log, LogError
from events.records.parts import Amounts
from hostagent.agent import Agent, AgentFault, AgentSettings
from hostagent.fleet import Fleet, OnOrder, SimHost
from hostagent.gateway.component import Gateway
from paceline.data import CannotStart, lock, prepare
from paceline.machines import machines
from paceline.services.common import listening, reached
from processors.fold import HistoryDiffers
from processors.inprocess import Component, Host, Ownership, Processor
from processors.store import RocksStore, StoreFault
from projections.projector import Projector, ViewsFault

if TYPE_CHECKING:
    from events.kafka_membership import Membership
    from paceline.settings import UpSettings

SWITCH_INTERVAL_S = 0.0002
"""The thread that steps the machines gives way this often: the HTTP thread answers within a few milliseconds."""
GC_THRESHOLDS = (50_000, 20, 100)
"""State is rows that live long: looking through all of them for cycles every few rounds shows in the latency."""
SIM_HOST = Amounts(cpu_milli=16_000, memory_mib=65_536, disk_mib=1_000_000, gpu_milli=0)


def say(text: str) -> None:
    """A line for the operator."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def run_up(settings: "UpSettings") -> int:
    """Runs a cell until SIGINT or SIGTERM; returns the exit code. A library that crashes in C says where."""
    faulthandler.enable(2)  # stderr
    try:
        return Up(settings).run()
    except (AgentFault, CannotStart, LogError, StoreFault, HistoryDiffers, ViewsFault) as error:
        say(f"paceline: {error}")
        return 1
    except OSError as error:
        say(f"paceline: {error.filename or settings.data}: {error.strerror}. Choose another folder with --data.")
        return 1


class KafkaOwnership:
    """The membership of this process in the group of its cell: polled as a component, asked by the processors."""

    def __init__(self, membership: "Membership", name: str, cell: int) -> None:
        self._membership = membership
        self._name = name
        self._cell = cell
        self._owns = False
        self._next = 0.0
        self._waits = False

    def owns(self) -> bool:
        """Whether the cell is assigned to this process."""
        return self._owns

    def step(self) -> bool:
        """Keeps the membership going."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + (0.5 if self._owns else 0.05)
        owned, self._owns = self._owns, self._cell in (self._membership.cells() or ())
        if not self._owns and not self._waits:
            self._waits = True
            say(f"waiting for the cell: another process may have it (group {self._name})")
        return self._owns != owned

    def wait_ms(self) -> int | None:
        """Asked twenty times a second until the cell is its own."""
        return 500 if self._owns else 50

    def close(self) -> None:
        """Leaves the group."""
        self._membership.close()


class Up:
    """The parts of a cell in one process."""

    def __init__(self, settings: "UpSettings", on_order: OnOrder | None = None) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.set_threshold(*GC_THRESHOLDS)
        self._settings = settings
        self._on_order = on_order
        self._data = settings.data
        self._stop = threading.Event()
        self._token = prepare(self._data)
        self._lock = lock(self._data)
        keep_cell(self._data, settings.cell)
        self._socket = listening(settings.listen)
        self._others: list[Log] = []
        self.log = self._open_log()
        self._ownership: Ownership | None = None
        components: list[Component] = []
        claimant = f"{socket.gethostname()}-{os.getpid()}"
        if settings.kafka:
            components.append(self._join(settings.kafka))
        self._processors = [self._processor(make, name, claimant) for name, make in machines(settings.cell).items()]
        self._components = [*components, *self._processors, *self._rest()]

    def run(self) -> int:
        """Serves until stopped."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())
        server = self._serve()
        agent: Agent | None = None
        try:
            agent = self._start_agent()
            self._write_cell_file()
            say(f"cell {self.log.cell} is up at http://{self.listen()}, data in {self._data}; stop with Ctrl-C")
            Host(self.log, self._components, self.projector).run(self._stop)
        finally:
            left = agent.stop() if agent else 0
            server.should_exit = True
            self._server_thread.join(timeout=5)
            for log in (self.log, *self._others):
                log.close()
            (self._data / "cell.json").unlink(missing_ok=True)
            self._lock.close()
        if left:
            say(f"stopped; {left} runs go on on this host, `paceline down --stop-runs` ends them")
        else:
            say("stopped")
        return 0

    def stop(self) -> None:
        """Ends `run`; from any thread."""
        self._stop.set()

    def _open_log(self) -> Log:
        """The log of the cell; on Kafka those of the other cells too, which are told of pools."""
        cell = self._settings.cell
        if not self._settings.kafka:
            from events.embedded import EmbeddedLog

            return EmbeddedLog(self._data / "log", cell)
        from events.kafka import KafkaLog
        from events.kafka_topics import cells, check

        options = self._settings.kafka_options
        kafka = self._settings.kafka
        differences, count = reached(lambda: (check(kafka, cell + 1, options), cells(kafka, options)), say)
        if differences:
            raise CannotStart("the topics on Kafka are not as they must be:\n  " + "\n  ".join(differences))
        if self._settings.schema_registry_url:
            from events import registry

            registry.use(self._settings.schema_registry_url, say)
        logs = [KafkaLog(kafka, each, options, say, shared=each == cell) for each in range(count)]
        self._others = [log for log in logs if log.cell != cell]
        return logs[cell]

    def _join(self, bootstrap: str) -> KafkaOwnership:
        from events.kafka_membership import Membership

        instance = f"{socket.gethostname()}-{self._data.resolve()}".replace("/", "_")
        group = f"paceline.up.{self._settings.cell}"
        membership = Membership(bootstrap, group, instance, extra=self._settings.kafka_options)
        self._ownership = KafkaOwnership(membership, group, self._settings.cell)
        return self._ownership

    def _processor(self, make: Callable[[], Any], name: str, claimant: str) -> Processor:
        folder = self._data / "store" / name
        return Processor(make, self.log, lambda: RocksStore(folder), claimant, self._ownership, say)

    def _rest(self) -> Sequence[Component]:
        clock = SystemClock()
        self.projector = Projector(self.log, self._data)
        self._gateway = Gateway(self.log, self._data / "gateway.msgpack", clock, "gateway-0")
        rest: list[Component] = [self._gateway]
        if self._settings.sim_hosts:
            hosts = [SimHost(self._settings.sim_hosts, SIM_HOST)]
            rest.append(Fleet(self._gateway, hosts, clock, int(time.time() * 1000), self._on_order))
        return rest

    def _serve(self) -> uvicorn.Server:
        config = uvicorn.Config(self._app(), log_level="warning", access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        self._server_thread = threading.Thread(
            target=server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True
        )
        self._server_thread.start()
        return server

    def _app(self) -> FastAPI:
        from hostagent.gateway.http import read_output, routes
        from projections.api.app import create_app

        return create_app(
            self.projector.views,
            self.log,
            token=self._token,
            listen=self._settings.listen,
            gateway=routes(self._gateway, self._token),
            cell_info=self._cell_info,
            task_log=functools.partial(read_output, self._gateway),
            others=self._others,
        )

    def _start_agent(self) -> Agent | None:
        if not self._settings.agent:
            return None
        agent = Agent(
            AgentSettings(
                urls=(f"http://{self.listen()}",),
                token=self._token,
                folder=self._data / "agent",
                host_id=socket.gethostname().lower()[:100] or "localhost",
            ),
            say,
        )
        agent.start()
        return agent

    def listen(self) -> str:
        """The address that HTTP is served on."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _cell_info(self) -> dict[str, Any]:
        standing = {}
        for processor in self._processors:
            driver = processor.driver
            standing[processor.name] = {
                "epoch": driver.epoch if driver else 0,
                "round": driver.fold.own.round if driver else 0,
                "hash": driver.fold.state.hash.hex() if driver else "",
                "lag": driver.lag() if driver and driver.epoch else {},
            }
        log = f"kafka {self._settings.kafka}" if self._settings.kafka else "embedded"
        return {"cell": self.log.cell, "listen": self.listen(), "log": log, "machines": standing}

    def _write_cell_file(self) -> None:
        facts = {"pid": os.getpid(), "listen": self.listen(), "kafka": self._settings.kafka}
        target = self._data / "cell.json"
        target.with_suffix(".tmp").write_text(json.dumps(facts))
        target.with_suffix(".tmp").replace(target)


def keep_cell(data: Path, cell: int) -> None:
    """Remembers which cell a data folder is of. Raises `CannotStart` where it is another's."""
    held = data / "cell"
    if not held.exists():
        held.write_text("0\n" if (data / "store").exists() else f"{cell}\n")
    kept = held.read_text().strip()
    if kept != str(cell):
        raise CannotStart(f"{data} is the data folder of cell {kept}, not {cell}: choose another with --data")
