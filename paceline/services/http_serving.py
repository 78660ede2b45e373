"""HTTP of the processes that serve it themselves: uvicorn in the main thread, ended by SIGTERM or SIGINT."""

import socket
import threading
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from hostagent.server import Server
from hostagent.tls import ServerContext
from paceline.services.process_setup import on_end

GRACE_S = 3
"""So long streams may go on after the end was asked for."""
END_S = 5.0
"""So long what runs beside may take to end, which may be in the middle of a question to Kafka."""


class LateApp:
    """An app that stands in until another is ready."""

    def __init__(self, first: ASGIApp) -> None:
        self.app = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Implements the ASGI application."""
        await self.app(scope, receive, send)


def serve_http(
    app: ASGIApp,
    listening: socket.socket,
    stop: threading.Event,
    background: Callable[[], None],
    tls: ServerContext | None = None,
) -> None:
    """Serves until `stop` is set, by a signal or by the end of `beside`, which runs in a thread of its own and whose
    fault is raised.
    """
    server = Server(app, GRACE_S, tls=tls)
    faults: list[Exception] = []

    def end() -> None:
        stop.set()
        server.should_exit = True

    def work() -> None:
        try:
            background()
        except Exception as fault:  # whatever it is: the process must end and say it
            faults.append(fault)
        finally:
            end()

    thread = threading.Thread(target=work, name="beside", daemon=True)
    thread.start()
    on_end(end)
    server.run(sockets=[listening])
    stop.set()
    thread.join(END_S)
    if faults:
        raise faults[0]
