"""A proxy between a client and a server that cuts connections where a test says."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Hands on what a server answers: of each connection so many bytes as `allowed` says, then it is cut, by turns as
    if all were well and by a reset. While it `is_away` it takes no connections.
    """

    def __init__(self, server: str, allowed: Callable[[int], int]) -> None:
        host, _, port = server.rpartition(":")
        self._server = host, int(port)
        self._allowed = allowed
        self.cuts = 0
        self.is_away = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            if self.is_away:
                return
            asking = threading.Thread(target=self._ask, args=(client, server), daemon=True)
            asking.start()
            self._answer(client, server)
            if self.cuts % 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for each in (client, server):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RD)  # a socket that is read isn't closed by `close`
            asking.join()

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        rest = self._allowed(self.cuts)
        while rest > 0 and not self.is_away:
            data = server.recv(min(rest, 65_536))
            if not data:
                return
            client.sendall(data)
            rest -= len(data)
        self.cuts += 1

    @staticmethod
    def _ask(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                server.sendall(data)

    def close(self) -> None:
        """Takes no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def cutting(server: str, allowed: Callable[[int], int]) -> Iterator[CuttingProxy]:
    """A proxy in front of a server; `allowed` gets how many connections were cut so far."""
    proxy = CuttingProxy(server, allowed)
    try:
        yield proxy
    finally:
        proxy.close()
