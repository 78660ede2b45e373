"""HTTP of the processes that serve it themselves: uvicorn in the main thread, ended by SIGTERM or SIGINT."""

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from hostagent.listening import bound

GRACE_S = 3
"""So long streams may go on after the end was asked for."""


class Late:
    """An app that stands in until another is ready."""

    def __init__(self, first: ASGIApp) -> None:
        self.app = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self.app(scope, receive, send)


class Server(uvicorn.Server):
    """Uvicorn without its handlers of signals, which would take the place of ours."""

    def __init__(self, app: ASGIApp, grace_s: int = GRACE_S) -> None:
        super().__init__(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=grace_s)
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See uvicorn."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn. Streams that are cut off at the end are no errors."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


def serve(app: ASGIApp, listen: tuple[str, int], stop: threading.Event, beside: Callable[[], None]) -> None:
    """Serves until `stop` is set, by a signal or by the end of `beside`, which runs in a thread of its own and whose
    fault is raised. Raises `OSError` where it can't listen.
    """
    host, port = listen
    listening = bound(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    server = Server(app)
    faults: list[Exception] = []

    def end(*_: Any) -> None:
        stop.set()
        server.should_exit = True

    def work() -> None:
        try:
            beside()
        except Exception as fault:  # whatever it is: the process must end and say it
            faults.append(fault)
        finally:
            end()

    thread = threading.Thread(target=work, name="beside")
    thread.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    server.run(sockets=[listening])
    stop.set()
    thread.join()
    if faults:
        raise faults[0]
