"""A way to a server that a test can cut."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Passes bytes to a server and back, while it isn't cut."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        self._pairs: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._cut = False
        self.address = ""
        self.refused = 0
        """Connections that were closed since it is cut."""

    def cut(self) -> None:
        """Ends all connections, and each new one at once."""

        def end() -> None:
            self._cut = True
            for writer in self._pairs:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(end)

    def mend(self) -> None:
        """Lets connections through again."""
        self._cut = False

    async def serve(self, ready: threading.Event, end: asyncio.Event) -> None:
        """Runs until `end`."""
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await end.wait()
        server.close()
        self.cut()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            self.refused += 1
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(*self._server)
        self._pairs |= {writer, back}
        await asyncio.gather(_copy(reader, back), _copy(there, writer))
        self._pairs -= {writer, back}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()


@contextmanager
def proxy(address: str) -> Iterator[Proxy]:
    """A proxy in a thread of its own."""
    made, ready, end = Proxy(address), threading.Event(), asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(made._loop)
        made._loop.run_until_complete(made.serve(ready, end))
        for task in asyncio.all_tasks(made._loop):
            task.cancel()
        made._loop.run_until_complete(asyncio.sleep(0))
        made._loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(20)
        yield made
    finally:
        made._loop.call_soon_threadsafe(end.set)
        thread.join()
