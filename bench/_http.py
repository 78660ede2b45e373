"""Answers a second over HTTP, as a client in another process sees them over eight kept connections.

    python -m bench._http load HOST:PORT SECONDS     asks the requests on stdin in turn; prints answers a second
    python -m bench._http bare SIZE                  a bare FastAPI app that returns SIZE prepared bytes; prints where

The bare app is what a figure stands beside: the same client, machine, HTTP parser and event loop, and nothing to do.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import httpx2
import uvicorn
import uvloop
from fastapi import FastAPI, Response

from bench import sized

CONNECTIONS = 8
SECONDS = sized(50, 2) / 10


def request(method: str, path: str, token: str = "", body: Any = None) -> bytes:
    """A request as it stands on the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    content = b"" if body is None else json.dumps(body).encode()
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"] if content else []
    return "\r\n".join([*lines, "\r\n"]).encode() + content


def answers_per_s(listen: str, requests: Sequence[bytes], seconds: float = SECONDS) -> float:
    """Counts the answers a second that a client in another process gets."""
    command = [sys.executable, "-m", "bench._http", "load", listen, str(seconds)]
    body = json.dumps([each.decode() for each in requests])
    done = subprocess.run(command, input=body, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode or done.stderr:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout)


@contextmanager
def bare(size: int) -> Iterator[str]:
    """The address of a bare app that runs meanwhile."""
    command = [sys.executable, "-m", "bench._http", "bare", str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            listen = process.stdout.readline().strip()
            httpx2.get(f"http://{listen}/", timeout=60, trust_env=False).raise_for_status()
            yield listen
        finally:
            process.terminate()


def ratio(listen: str, requests: Sequence[bytes], size: int) -> tuple[float, float]:
    """Answers a second, and those of the bare app with a body of that size, measured right after."""
    answers_per_s(listen, requests, SECONDS / 5)
    own_rate = answers_per_s(listen, requests)
    with bare(size) as beside:
        plain = [request("GET", "/")]
        answers_per_s(beside, plain, SECONDS / 5)
        return own_rate, answers_per_s(beside, plain)


class Kept(asyncio.Protocol):
    """One connection: the next request follows each answer."""

    def __init__(self, requests: Iterator[bytes], count: list[int]) -> None:
        self._requests = requests
        self._count = count
        self._data = bytearray()
        self._end = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Implements `asyncio.Protocol`."""
        self._transport = transport
        transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`."""
        self._data += data
        if not self._end:
            head = self._data.find(b"\r\n\r\n")
            if head < 0:
                return
            first, *lines = bytes(self._data[:head]).lower().split(b"\r\n")
            if not first.startswith(b"http/1.1 2"):
                raise SystemExit(bytes(self._data).decode())
            length = next(line for line in lines if line.startswith(b"content-length:"))
            self._end = head + 4 + int(length.partition(b":")[2])
        if len(self._data) >= self._end:
            self._data.clear()
            self._end = 0
            self._count[0] += 1
            with contextlib.suppress(StopIteration):
                self._transport.write(next(self._requests))


async def _load(listen: str, seconds: float, requests: list[bytes]) -> float:
    host, _, port = listen.rpartition(":")
    count = [0]
    turn = cycle(requests)
    for _ in range(CONNECTIONS):
        await asyncio.get_running_loop().create_connection(lambda: Kept(turn, count), host, int(port))
    begin = time.perf_counter()
    await asyncio.sleep(seconds)
    return count[0] / (time.perf_counter() - begin)


def _bare(size: int) -> None:
    app, prepared = FastAPI(), b"x" * size

    @app.get("/")
    async def answer() -> Response:
        return Response(prepared, media_type="application/json")

    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    print(f"{host}:{port}", flush=True)
    config = uvicorn.Config(app, http="httptools", loop="uvloop", access_log=False, log_level="error", lifespan="off")
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        _bare(int(sys.argv[2]))
    else:
        posts = [each.encode() for each in json.load(sys.stdin)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(runner.run(_load(sys.argv[2], float(sys.argv[3]), posts)))
