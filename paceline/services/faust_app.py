"""The faust App that hosts the cells of a processor or of the projector.

faust gives life cycle, supervision, sensors and signals, and serves the health pages; it has no Kafka consumer of its
own here (decision 008): reading is the matter of the parts, who joins is the matter of `Cells`.
"""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import faust
from faust.app.base import BootStrategy
from faust.contrib.asgi import AsgiService
from mode.types import ServiceT

from events.process.error_text import sentence
from hostagent.server import Server
from paceline.services.assigned_cells import Cells
from paceline.services.health_pages import pages
from projections.health import Health

GRACE_S = 1
"""So long requests for pages may go on at the end."""
SWITCH_INTERVAL_S = 0.0005
"""Threads give way this often: a cell that is busy leaves the others and the health pages their turn."""
GC_THRESHOLDS = (50_000, 20, 100)
"""State is rows that live long: looking through all of them for cycles every few rounds shows in the latency."""


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


def run(
    name: str, listening: socket.socket, folder: Path, make_cells: Callable[[Callable[[str], None]], Cells]
) -> str | None:
    """Runs an App until SIGTERM, SIGINT, or a fault of all its cells; returns the sentence of the fault, if any.
    `folder`: where faust may keep what it likes.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*GC_THRESHOLDS)
    faults: list[str] = []
    ending: list[asyncio.Future[None]] = []  # the loop alone would not keep it from being collected
    app = HostApp(
        name,
        store="memory://",
        datadir=folder / "faust",
        agent_supervisor="mode.CrashingSupervisor",
        web_enabled=True,
        web_tables_enabled=False,
    )
    worker = faust.Worker(app, quiet=True, override_logging=False, redirect_stdouts=False, loop=_loop())

    def give_up(fault: str) -> None:
        faults.append(fault)
        ending.append(asyncio.ensure_future(worker.stop(), loop=worker.loop))

    worker.spinner = None  # it writes to the terminal
    app.cells = make_cells(give_up)
    serve_pages(app, app.cells.health, listening)
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        if end.code and not faults:
            return sentence(worker.crash_reason or end.__context__ or end)
    return faults[0] if faults else None


def serve_pages(app: faust.App, look: Callable[[], Health], listening: socket.socket) -> None:
    """An App serves the pages on a socket that is its own already: faust's way chooses an address again, and says
    nothing where that is taken.
    """

    class Pages(AsgiService):
        async def on_start(self) -> None:
            self._server = Server(pages(look), GRACE_S)
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
