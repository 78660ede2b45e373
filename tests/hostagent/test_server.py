"""What any peer may do to the HTTP server of a process: it keeps answering the others, within bounds."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from events.bounds import SPEC_BYTES_MAX
from hostagent import server as module
from hostagent.listen_address import bound
from hostagent.server import Connection, Server
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
DEFAULT_SHAPE = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MIB = 1 << 20


class App:
    """Answers with `size` bytes, once `go` is set, and the body is there where it `reads`."""

    def __init__(self) -> None:
        self.size = 2
        self.reads = False
        self.go = threading.Event()
        self.go.set()
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        while not self.go.is_set():
            await asyncio.sleep(0.005)
        while self.reads and (await receive()).get("more_body"):
            pass
        length = str(self.size).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": bytes(self.size)})


class Served:
    """A server in a thread."""

    def __init__(self, connections_max: int) -> None:
        self.app = App()
        self.server = Server(self.app, grace_s=0, connections_max=connections_max)
        self.listening = bound("127.0.0.1:0")
        self.address = self.listening.getsockname()
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]})
        self.thread.start()
        until(lambda: self.server.started)

    @property
    def open(self) -> list[Connection]:
        return list(self.server.server_state.connections)  # type: ignore[arg-type]

    def peer(self, say: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        peer = socket.create_connection(self.address, timeout=20, source_address=(source, 0))
        peer.sendall(say)
        return peer

    def answer(self, source: str = "127.0.0.1") -> int:
        with self.peer(DEFAULT_SHAPE, source) as peer:
            return int(peer.recv(100).split()[1])

    def close(self) -> None:
        self.app.go.set()
        self.server.should_exit = True
        self.thread.join()
        self.listening.close()


def ended(peer: socket.socket) -> bool:
    """Waits until the server has ended a connection."""
    with contextlib.suppress(ConnectionError):
        while peer.recv(MIB):
            pass
    return True


@contextmanager
def peers(*sockets: socket.socket) -> Iterator[tuple[socket.socket, ...]]:
    try:
        yield sockets
    finally:
        for each in sockets:
            each.close()


@pytest.fixture
def served() -> Iterator[Served]:
    held = Served(connections_max=16)
    yield held
    held.close()


def test_answers_on_a_kept_connection_wait_for_no_acknowledgement(served):
    with served.peer(DEFAULT_SHAPE) as peer:
        peer.recv(100)
        taken = served.open[0].transport.get_extra_info("socket")
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_nor_where_asyncio_itself_serves():
    async def accepted() -> int:
        found = asyncio.get_running_loop().create_future()

        async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            taken = writer.get_extra_info("socket")
            found.set_result(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = bound("127.0.0.1:0")
        async with await asyncio.start_server(look, sock=listening):
            with socket.create_connection(listening.getsockname()):
                return int(await found)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(accepted())


def test_half_sent_requests_keep_nobody_out(served):
    with peers(*(served.peer(HALF) for _ in range(100))):
        assert [served.answer() for _ in range(20)] == [200] * 20
        assert len(served.open) <= 16


def test_a_head_has_its_time(served, monkeypatch):
    monkeypatch.setattr(module, "HEAD_S", 0.05)
    with peers(served.peer(), served.peer(HALF), served.peer(DEFAULT_SHAPE + HALF)) as found:
        assert all(ended(each) for each in found)


def test_a_body_has_its_time(served, monkeypatch):
    monkeypatch.setattr(module, "BODY_S", 0.05)
    with served.peer(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nhalf") as peer:
        assert ended(peer)


def test_a_head_and_a_request_have_their_length(served, monkeypatch):
    with contextlib.suppress(ConnectionError), served.peer(HALF + b"x" * MIB) as peer:
        assert ended(peer)
    monkeypatch.setattr(module, "REQUEST_BYTES_MAX", 100_000)
    start = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with contextlib.suppress(ConnectionError), served.peer(start + b"X-Trailer: y\r\n" * 100_000) as peer:
        assert ended(peer)
    assert served.answer() == 200


def test_a_request_that_is_too_large_is_answered_and_what_the_routes_take_is_not(served, monkeypatch):
    assert module.REQUEST_BYTES_MAX >= SPEC_BYTES_MAX + module.HEAD_BYTES_MAX
    monkeypatch.setattr(module, "REQUEST_BYTES_MAX", MIB)
    head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
    for reads in (True, False):  # False: as a route that refuses by the head
        served.app.reads = reads
        with served.peer(head % (8 * MIB) + b"x" * (8 * MIB)) as peer:
            answer = b"".join(iter(lambda: peer.recv(1000), b""))
        if reads:
            assert answer.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
            assert answer.endswith(b"the body of the request is over 33554432 bytes")
        else:
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    served.app.reads = True
    with served.peer(head % (MIB - 200) + b"x" * (MIB - 200)) as peer:
        assert peer.recv(15) == b"HTTP/1.1 200 OK"


def test_a_path_that_is_too_long_is_refused_quietly(served, caplog):
    with served.peer(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as peer:
        assert peer.recv(100).startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))
        assert ended(peer)
    assert not [each for each in caplog.records if each.exc_info]
    assert served.answer() == 200


def test_one_address_has_half_of_the_connections(served):
    served.app.go.clear()
    with peers(*(served.peer(DEFAULT_SHAPE) for _ in range(8))):
        until(lambda: served.app.asked == 8)
        assert served.answer() == 503
        with served.peer(DEFAULT_SHAPE, "127.0.0.2") as other:
            until(lambda: served.app.asked == 9)
            served.app.go.set()
            assert other.recv(100).startswith(b"HTTP/1.1 200")


def test_connections_that_are_answered_are_not_ended_for_new_ones(served):
    served.app.go.clear()
    with peers(*(served.peer(DEFAULT_SHAPE, f"127.0.0.{each % 4 + 1}") for each in range(16))) as found:
        until(lambda: served.app.asked == 16)
        assert served.answer("127.0.0.9") == 503
        served.app.go.set()
        assert all(each.recv(100).startswith(b"HTTP/1.1 200") for each in found)


def test_what_slow_readers_leave_unread_is_bounded_in_all(served, monkeypatch):
    monkeypatch.setattr(module, "UNREAD_BYTES_MAX", 24 * MIB)
    served.app.size = 8 * MIB
    with peers(*(served.peer(DEFAULT_SHAPE) for _ in range(7))):
        until(lambda: served.app.asked == 7)
        until(lambda: sum(each.unread_bytes() for each in served.open) <= 24 * MIB)
        served.app.size = 2
        assert served.answer() == 200


def test_a_reader_that_takes_nothing_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(module, "UNREAD_S", 0.05)
    served.app.size = 32 * MIB
    with served.peer(DEFAULT_SHAPE) as peer:
        until(lambda: served.app.asked and not served.open)
        assert ended(peer)


@pytest.mark.outside
def test_a_cell_survives_a_thousand_half_sent_requests(tmp_path: Path):
    cell = CellProcess(tmp_path / "cell", sim_hosts=3)
    cell.under = ("sh", "-c", 'ulimit -n 512; exec "$@"', "sh")
    cell.start()
    cell.pool("/p")
    port = int(cell.get("/v1/cell").json()["listen"].rpartition(":")[2])
    with peers(*(socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(1000))) as found:
        for each in found:
            with contextlib.suppress(ConnectionError):
                each.sendall(HALF)
        cell.submit("j", 3)
        cell.until(lambda: cell.state("j") == "SUCCEEDED")
    cell.kill(15)
    assert "stopped" in cell.output.read_text()
    assert "Too many open files" not in cell.output.read_text()
