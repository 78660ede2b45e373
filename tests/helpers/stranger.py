"""Somebody who listens at an address and is no cell: answers each request with the same bytes, whatever it is."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat


def of_json(value: object, status: str = "200 OK") -> bytes:
    return answer(json.dumps(value).encode(), status=status)


def answer(body: bytes, kind: str = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


_JOB = {"job_id": "a\ud800", "state": "RUNNING", "reason": None, "pool": "/x", "kind": "batch", "instances": 1}
STRANGE = {
    "another server": of_json({"name": "es"}),
    "nothing": of_json({}),
    "list": of_json([1, 2]),
    "null": of_json(None),
    "text": of_json("jobs"),
    "wrong types": of_json({"jobs": "abc", "names": 5, "hosts": {"a": 1}, "pools": None, "job_id": 3, "events": [1]}),
    "no lists": of_json({key: {"a": 1} for key in ("jobs", "names", "hosts", "pools", "events", "records", "tasks")}),
    "turning": of_json({"jobs": [], "hosts": [], "pools": [], "events": [], "tasks": [], "next_page_token": "again"}),
    "surrogates": of_json({"jobs": [_JOB | {"tasks": {}, "submitted_at": "2026-01-01T00:00:00Z"}]}),
    "no time": of_json({"jobs": [_JOB | {"job_id": "a", "tasks": {}, "submitted_at": "yesterday", "cell": 0}]}),
    "deep": answer(b'{"jobs":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "long": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    "problem": of_json({"type": "x", "status": "abc", "code": 5, "detail": ["x"], "errors": "zz"}, "422 X"),
    "problem of numbers": of_json({"done": "x", "of": [], "errors": [1]}, "503 X"),
    "html": answer(b"<html>hi</html>", "text/html"),
    "redirect": answer(b"", "text/html", "302 Found", "Location: http://127.0.0.1:1/\r\n"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "no http": b"hello\r\n\r\n",
    "numbers": of_json({"position": "a:b,c:d", "machines": [], "jobs": [{"status": []}]}),
    "stream": answer(b'id: 1\nevent: x\ndata: {"about":5}\n\n', "text/event-stream"),
    "bad bytes": answer(b"id: 1\nevent: \xff\ndata: {}\n\n", "text/event-stream"),
    "squeezed": answer(b"abcd", more="Content-Encoding: gzip\r\n"),
}
"""Answers that are none of a cell."""


def dripping(head: bytes, drop: bytes, pause: threading.Event) -> Iterator[bytes]:
    """An answer that goes on and on, a bit each 20 ms, until `pause` is set."""
    return chain([head], (drop for _ in repeat(None) if not pause.wait(0.02)))


class Stranger:
    def __init__(self) -> None:
        self.says: Callable[[], Iterator[bytes]] = lambda: iter(())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            asked = b""
            while b"\r\n\r\n" not in asked:
                if not (data := client.recv(65_536)):
                    return
                asked += data
            for each in self.says():
                client.sendall(each)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                pass

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def stranger() -> Iterator[Stranger]:
    there = Stranger()
    serving = threading.Thread(target=there.serve, daemon=True)
    serving.start()
    try:
        yield there
    finally:
        there.close()
        serving.join()
