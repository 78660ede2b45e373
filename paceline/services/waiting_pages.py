"""The pages of a process that waits for something at its start: it lives, isn't ready, and says what it waits for."""

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from events.process.health import Health
from hostagent.server import Server
from hostagent.tls import ServerContext
from paceline.services.health_pages import waiting

GRACE_S = 1
"""So long requests that are being answered may go on when the process comes up."""


class WaitingPages:
    """Serves them from the first thing that is waited for until the end of the `with`, on the socket that `listening`
    opens; the process then takes over the address. `report` says it to whoever reads the process's lines.
    """

    def __init__(
        self,
        listening: Callable[[], socket.socket],
        report: Callable[[str], object],
        tls: ServerContext | None = None,
    ) -> None:
        self._listening = listening
        self._tls = tls
        self._report = report
        self._reason = ""
        self._serving: tuple[Server, socket.socket, threading.Thread] | None = None

    def wait_for(self, reason: str) -> None:
        """Says it from now on. Raises what `listening` raises."""
        self._reason = reason
        self._report(reason)
        if self._serving is not None:
            return
        socket_ = self._listening()
        app = waiting(lambda: Health(False, False, {"trouble": self._reason}), lambda: self._reason)
        server = Server(app, GRACE_S, tls=self._tls)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket_]}, name="waiting", daemon=True)
        self._serving = server, socket_, thread
        thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._serving is not None:
            server, socket_, thread = self._serving
            server.should_exit = True
            thread.join(2 * GRACE_S)
            socket_.close()
