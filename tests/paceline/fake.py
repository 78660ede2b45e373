"""A cell that says what a test tells it to, over real HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paceline.client.proof import Proving
from tests.helpers.answer_types import unknown_parameters

OF_FOLDER = "of the folder"
"""The token that it proves to have."""


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class FakeCell:
    """Answers each (method, path) with what was said of it, the last answer again and again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.said = threading.Condition()
        self._answers: dict[tuple[str, str], list[Response]] = {}
        self.address = ""
        self.unknown = set[str]()
        """Parameters that a real cell would refuse."""

    def answer(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> None:
        """Adds an answer; a body of bytes goes out as it is."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self._answers.setdefault((method, path), []).append(Response(raw, status, sent, media_type=kind))

    def problem(self, method: str, path: str, status: int, code: str, detail: str, **more: Any) -> None:
        body = {"type": "/problems/x", "title": "No", "status": status, "code": code, "detail": detail, **more}
        self.answer(method, path, body, status)

    def until(self, count: int, path: str) -> None:
        """Waits until a path was asked for so often."""
        with self.said:
            assert self.said.wait_for(lambda: sum(each.path == path for each in self.asked) >= count, 60)

    def writes(self) -> list[Asked]:
        asks = [each for each in self.asked if each.method != "GET" and "dry_run" not in each.query]
        return [each for each in asks if each.path not in ("/v1/job-plans", "/v1/pool-plans")]

    async def serve(self, request: Request) -> Response:
        raw = await request.body()
        body = json.loads(raw) if raw else None
        path = request.url.path
        self.unknown |= unknown_parameters(request.method, path, request.query_params)
        with self.said:
            self.asked.append(Asked(request.method, path, dict(request.query_params), dict(request.headers), body))
            self.said.notify_all()
        if "dry_run" in request.query_params:
            path += "?dry_run"
        answers = self._answers.get((request.method, path))
        if not answers and path == "/v1/jobs?dry_run":
            return Response(json.dumps({"job_id": body["job_id"], "events": []}), media_type="application/json")
        if not answers and path.startswith("/v1/job-batches"):
            done = {"events": []} if "dry_run" in request.query_params else {"state": "PENDING"}
            jobs = [{"job_id": each["job_id"], "status": 201, **done} for each in body["jobs"]]
            return Response(json.dumps({"jobs": jobs, "position": ""}), media_type="application/json")
        if not answers:
            return Response(b'{"code": "NOT_FOUND", "detail": "there is no such thing"}', 404)
        return answers.pop(0) if len(answers) > 1 else answers[0]


@contextmanager
def running(cell: FakeCell) -> Iterator[FakeCell]:
    app = Starlette(routes=[Route("/{path:path}", cell.serve, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])])
    with served(Proving(app, OF_FOLDER)) as cell.address:
        yield cell
    assert not cell.unknown, "parameters that the API doesn't have"


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serves an app over HTTP, and gives its address."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1,
        server_header=False, headers=[("server", "paceline")],
    )  # fmt: skip
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    socket.listen()  # who comes before the server does waits
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def job(job_id: str = "a", state: str = "RUNNING", **fields: Any) -> dict[str, Any]:
    tasks = dict.fromkeys(("queued", "ordered", "running", "stopping", "backoff", "succeeded", "failed", "killed"), 0)
    return {
        "job_id": job_id,
        "pool": "/maps/tiles",
        "kind": "batch",
        "state": state,
        "instances": 3,
        "priority": 0,
        "owner": "ann",
        "labels": {"team": "maps"},
        "submitted_at": "2026-08-21T10:41:07.000Z",
        "started_at": "2026-08-21T10:41:08.000Z",
        "ended_at": None,
        "tasks": tasks | fields.pop("tasks", {"running": 2, "succeeded": 1}),
        "reason": None,
        "version": 1,
        "update": None,
        "spec": {"pool": "/maps/tiles", "command": ["true"]},
        "position": "paceline.lifecycle:7",
        **fields,
    }
