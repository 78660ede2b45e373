"""The faust App that hosts the cells of a processor, of the projector or of the fan-out.

faust gives life cycle, supervision, sensors and signals, and serves the health endpoints; it has no Kafka consumer of
its own here (decisions 008 and 066): components read the log themselves, and `Cells` keeps the membership of the group.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import faust
from faust.app.base import BootStrategy
from faust.contrib.asgi import AsgiService
from mode.types import ServiceT

from events.log.kafka.groups import others_in
from events.log.kafka.membership import Membership
from events.process.error_text import sentence
from hostagent.server import Server
from paceline.services.assigned_cells import Cells, ProcessKind
from paceline.services.cell_thread import CellComponent
from paceline.services.data_folder import CannotStart
from paceline.services.health_pages import pages
from paceline.services.process_setup import tune
from paceline.services.processes import group_of
from paceline.services.settings import Settings
from paceline.services.startup import Start

GRACE_S = 1
"""So long requests for pages may go on at the end."""
SWITCH_INTERVAL_S = 0.0005
"""Threads give way this often: a cell that is busy leaves the others and the health pages their turn."""


class Boot(BootStrategy):
    """Starts sensors, agents and the cells, and no consumer, producer or tables of faust's."""

    enable_kafka = False

    def server(self) -> Iterable[ServiceT]:
        """Implements faust's `Worker`."""
        services: Iterable[ServiceT] = self._chain(
            self.sensors(), self.web_server(), self.agents(), [cells_of(self.app)]
        )
        return services


class HostApp(faust.App):
    """An App whose work is a `Cells` service."""

    BootStrategy = Boot
    cells: Cells


def cells_of(app: Any) -> Cells:
    """The cells of an App of this form."""
    cells: Cells = app.cells
    return cells


def run_cells(settings: Settings, start: Start, topics: Sequence[str], make: Callable[[int], CellComponent]) -> None:
    """Runs what `make` returns for each cell of `topics` that the group of this kind of process gives to it, until
    SIGTERM or SIGINT. Raises `CannotStart` with the fault of all its cells.
    """
    group = group_of(start.kind, start.instance)

    def join() -> Membership:
        return Membership(
            settings.kafka,
            group,
            start.name,
            topics,
            settings.service.session_timeout_ms,
            settings.kafka_options,
            lambda text: start.say(None, text),
        )

    def others() -> set[str]:
        return others_in(settings.kafka, group, start.name, settings.kafka_options)

    fault = _run_app(settings, start, ProcessKind(start.kind, join, others, make))
    if fault:
        raise CannotStart(fault)


def _run_app(settings: Settings, start: Start, kind: ProcessKind) -> str:
    """Runs an App until SIGTERM, SIGINT, or a fault of all its cells; returns the sentence of the fault, if any."""
    tune(SWITCH_INTERVAL_S)
    faults: list[str] = []
    ending: list[asyncio.Future[None]] = []  # the loop alone would not keep it from being collected
    app = HostApp(
        f"paceline.{kind.name}",
        store="memory://",
        datadir=settings.data / "faust",
        agent_supervisor="mode.CrashingSupervisor",
        web_enabled=True,
        web_tables_enabled=False,
    )
    worker = faust.Worker(app, quiet=True, override_logging=False, redirect_stdouts=False, loop=_loop())

    def give_up(fault: str) -> None:
        faults.append(fault)
        ending.append(asyncio.ensure_future(worker.stop(), loop=worker.loop))

    worker.spinner = None  # it writes to the terminal
    app.cells = Cells(kind, start.say, give_up)
    _serve_pages(app, start.listening)
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        if end.code and not faults:
            return sentence(worker.crash_reason or end.__context__ or end)
    return faults[0] if faults else ""


def _serve_pages(app: HostApp, listening: socket.socket) -> None:
    """Serves the health endpoints on a socket that the process has already: faust would choose an address again, and
    says nothing where that is taken.
    """

    class Pages(AsgiService):
        async def on_start(self) -> None:
            self._server = Server(pages(app.cells.health), GRACE_S)
            self._serve_fut = self.add_future(self._server.serve(sockets=[listening]))

    app.web_server(Pages)


class _Loop(asyncio.SelectorEventLoop):
    """A signal that comes when the loop is closed changes nothing: the process is about to end."""

    def remove_signal_handler(self, sig: int) -> bool:
        """Overrides asyncio's method, which would give the signal back to the system, and that would kill the
        process.
        """
        signal.set_wakeup_fd(-1)
        return True


def _loop() -> asyncio.AbstractEventLoop:
    loop = _Loop()
    asyncio.set_event_loop(loop)
    return loop
