"""The typed, synchronous client of the API. The command line uses nothing else to reach a cell."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2

from paceline.client import cell_file
from paceline.client.errors import ApiError, NotAuthorised, NotFound, Refused, Unavailable, Unreachable
from paceline.client.lines import Lines
from paceline.client.models import (
    Answer,
    Entitlement,
    Explanation,
    HistoryEntry,
    Host,
    Job,
    Output,
    Pool,
    PoolTree,
    Queue,
    StreamEvent,
    Task,
)
from paceline.client.proven_transport import ProvenTransport, UnprovenServer

TIMEOUT_S = 15.0
"""How long an answer may take, beyond what it was asked to wait."""
STREAM_SILENCE_S = 60.0
PAGE = 500


class Client:
    """A client of the cells behind one API. Whatever it reads is at least as new as what it wrote.

    `cell`: everything is asked of that cell; None: the server finds the cell, and lists are over all that it serves.

    Without `server` it finds the cell that runs on the data folder (`data`, PACELINE_DATA, ~/.paceline) and its token,
    which it shows to nobody who doesn't prove to have it too.
    Methods raise `Unreachable` and the subclasses of `ApiError`: `NotFound`, `Refused`, `NotAuthorised`, `Unavailable`.
    `wait` is how many seconds a write waits for its decision; 0: it returns when the fact is durable.
    """

    def __init__(
        self,
        server: str = "",
        token: str | None = None,
        data: Path | None = None,
        timeout: float = TIMEOUT_S,
        transport: httpx2.BaseTransport | None = None,
        cell: int | None = None,
    ) -> None:
        if not server:
            folder = data or cell_file.data_folder()
            running = cell_file.read(folder)
            if running is None:
                raise Unreachable(
                    f"No cell runs on {folder}. Start one with `paceline up`, wait if it is starting, or name "
                    "one with --server."
                )
            server = running.listen
            token = token or cell_file.token(folder)  # a folder's token goes to that folder's cell only
            transport = transport or (ProvenTransport(token) if token else None)
        self.server = server if "://" in server else f"http://{server}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._written: dict[str, int] = {}
        self._http = httpx2.Client(
            base_url=self.server,
            params={} if cell is None else {"cell": cell},
            headers=headers,
            timeout=timeout,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the connections."""
        self._http.close()

    def submit_job(self, spec: Mapping[str, Any], wait: float = 0) -> Job:
        """Submits a job and returns it; the same id with the same spec again is a repeat. A spec without `job_id` gets
        one; whoever wants to try again safely names it.
        """
        body = {**spec, "job_id": spec.get("job_id") or new_id("job")}
        return cast(Job, self._write("POST", "/v1/jobs", body, wait))

    def check_job(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """What submitting a job would write now, or the job where it was submitted before; nothing is written. Raises
        what submitting it would raise.
        """
        params = {"dry_run": "true"}
        return cast(dict[str, Any], self._send("POST", "/v1/jobs", params=params, **_json(spec)).json())

    def jobs(
        self, state: str | None = None, pool: str | None = None, labels: Sequence[str] = (), page_size: int = PAGE
    ) -> Iterator[Job]:
        """All jobs, the newest first. `state`: one or more, with commas; `labels`: KEY:VALUE, all must hold."""
        return self._all("/v1/jobs", "jobs", {"state": state, "pool": pool, "label": labels, "page_size": page_size})

    def jobs_page(
        self,
        state: str | None = None,
        pool: str | None = None,
        labels: Sequence[str] = (),
        page_size: int = PAGE,
        page_token: str | None = None,
    ) -> dict[str, Any]:
        """One page of jobs, as it came."""
        params = {"state": state, "pool": pool, "label": labels, "page_size": page_size, "page_token": page_token}
        return self._get("/v1/jobs", params)

    def job(self, job_id: str) -> Job:
        """One job."""
        return cast(Job, self._get(_path("jobs", job_id)))

    def tasks(self, job_id: str, state: str | None = None) -> Iterator[Task]:
        """The tasks of a job, in the order of their instances."""
        return self._all(_path("jobs", job_id, "tasks"), "tasks", {"state": state, "page_size": PAGE})

    def explanation(self, job_id: str) -> Explanation:
        """Why a job is where it is."""
        return cast(Explanation, self._get(_path("jobs", job_id, "explanation")))

    def history(self, job_id: str) -> Iterator[HistoryEntry]:
        """What happened to a job, the oldest first."""
        return self._all(_path("jobs", job_id, "history"), "events", {"page_size": PAGE})

    def stop_job(self, job_id: str, reason: str = "", command_id: str | None = None, wait: float = 0) -> Answer:
        """Asks for the end of a job; `command_id` makes a repeat known as one."""
        body = {"command_id": command_id or new_id("stop"), "reason": reason}
        return cast(Answer, self._write("POST", _path("jobs", job_id, "stops"), body, wait))

    def change_priority(
        self, job_id: str, priority: int, reason: str = "", command_id: str | None = None, wait: float = 0
    ) -> Answer:
        """Gives a job another priority; `command_id` makes a repeat known as one."""
        body = {"command_id": command_id or new_id("priority"), "priority": priority, "reason": reason}
        return cast(Answer, self._write("POST", _path("jobs", job_id, "priorities"), body, wait))

    def output(
        self, job_id: str, instance: int, run: int | None = None, stream: str = "stdout", offset: int = 0
    ) -> Output:
        """A piece of the output of a run, by default the task's last; `stream` is stdout or stderr."""
        params = _without_none({"run": run, "stream": stream, "offset": offset})
        response = self._send("GET", _path("jobs", job_id, "tasks", str(instance), "log"), params=params)
        headers = response.headers
        at = int(headers.get("Log-Offset", offset))
        after = int(headers.get("Log-Next-Offset", at + len(response.content)))
        return Output(response.content, at, after, headers.get("Log-Ended") == "1")

    def pools(self) -> list[Pool]:
        """All pools, by path."""
        return cast(list[Pool], self._get("/v1/pools")["pools"])

    def pool(self, path: str) -> Pool:
        """One pool."""
        return cast(Pool, self._get(_pool(path)))

    def define_pool(self, path: str, spec: Mapping[str, Any], wait: float = 0) -> Answer:
        """Creates or changes a pool: reservation, limit, share, static and so on, as pool files have them."""
        return cast(Answer, self._write("PUT", _pool(path), dict(spec), wait))

    def pool_tree(self) -> PoolTree:
        """All pools, by path, and what the cells have."""
        return cast(PoolTree, self._get("/v1/pools"))

    def change_pool(self, path: str, changes: Mapping[str, Any], wait: float = 0) -> Answer:
        """Changes what is named of a pool, such as `closed`; all else stays."""
        return cast(Answer, self._write("PATCH", _pool(path), dict(changes), wait))

    def plan_pools(self, pools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What defining these pools would do in each of their cells, without doing it. Each has its `path`."""
        return cast(dict[str, Any], self._send("POST", "/v1/pool-plans", **_json({"pools": list(pools)})).json())

    def queue(self, path: str, size: int = 10) -> Queue:
        """The first gangs of each class that wait in a pool."""
        return cast(Queue, self._get(_pool(path, "queues"), {"size": size}))

    def entitlement(self, path: str) -> Entitlement:
        """What a pool may use, and how that came about."""
        return cast(Entitlement, self._get(_pool(path, "entitlements")))

    def remove_pool(self, path: str, wait: float = 0) -> Answer:
        """Removes a pool that is not in use."""
        return cast(Answer, self._write("DELETE", _pool(path), None, wait))

    def hosts(self) -> Iterator[Host]:
        """All hosts."""
        return self._all("/v1/hosts", "hosts", {"page_size": PAGE})

    def host(self, host_id: str) -> Host:
        """One host."""
        return cast(Host, self._get(_path("hosts", host_id)))

    def host_tasks(self, host_id: str) -> Iterator[dict[str, Any]]:
        """The tasks on a host."""
        return self._all(_path("hosts", host_id, "tasks"), "tasks", {"page_size": PAGE})

    def confirm_loss(self, host_id: str, reason: str = "", wait: float = 0) -> Answer:
        """Says that a silent host is gone for good, so that its tasks run again elsewhere."""
        body = {"command_id": new_id("loss"), "reason": reason}
        return cast(Answer, self._write("POST", _path("hosts", host_id, "loss-confirmations"), body, wait))

    def remove_host(self, host_id: str, reason: str = "", wait: float = 0) -> Answer:
        """Says that a host has left for good, so that the cell forgets it; it is silent or lost, and has no runs."""
        body = {"command_id": new_id("removal"), "reason": reason}
        return cast(Answer, self._write("POST", _path("hosts", host_id, "removals"), body, wait))

    def round(self, machine: str, number: int) -> dict[str, Any]:
        """A round of a machine, decoded."""
        return self._get(_path("rounds", machine, str(number)))

    def events(self, after: str | None = None) -> Iterator[StreamEvent]:
        """The stream of events, from now or after the event with that id; ends when the cell ends it."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        timeout = httpx2.Timeout(self._timeout, read=STREAM_SILENCE_S)
        try:
            with self._http.stream("GET", "/v1/events", headers=headers, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                    raise _error(response)
                yield from _stream(response.iter_bytes())
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def cell(self) -> dict[str, Any]:
        """The cell: its number, log and address, and where each machine stands."""
        return self._get("/v1/cell")

    def cell_settings(self) -> dict[str, Any]:
        """The settings of the cell, times with their units; `resources`: the kinds that were added to it."""
        return self._get("/v1/cell/settings")

    def change_cell(self, settings: Mapping[str, Any], wait: float = 0) -> Answer:
        """Changes settings of the cell, those that are named; `resources`: kinds to add, or licences to change."""
        return cast(Answer, self._write("PATCH", "/v1/cell/settings", dict(settings), wait))

    def quarantine(self) -> Iterator[dict[str, Any]]:
        """The records that were skipped."""
        return self._all("/v1/log/quarantine", "records", {"page_size": PAGE})

    def ready(self) -> bool:
        """Whether the cell answers and is up to date."""
        try:
            return self._http.get("/readyz").is_success
        except httpx2.TransportError:
            return False

    def metrics(self) -> str:
        """The metrics, in the text format of Prometheus."""
        return self._send("GET", "/metrics").text

    def openapi(self) -> dict[str, Any]:
        """The description of the API."""
        return self._get("/openapi.json")

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return cast(dict[str, Any], self._send("GET", path, params=_without_none(params or {})).json())

    def _all(self, path: str, name: str, params: Mapping[str, Any]) -> Iterator[Any]:
        token = None
        while True:
            page = self._get(path, {**params, "page_token": token})
            yield from page[name]
            token = page.get("next_page_token")
            if not token:
                return

    def _write(self, method: str, path: str, body: dict[str, Any] | None, wait: float) -> Any:
        params = {"wait": f"{round(wait * 1000)}ms"} if wait else {}
        response = self._send(method, path, wait, params=params, **_json(body))
        answer = response.json()
        self._note(str(answer.get("position") or ""), response.headers.get("Log-Cell"))
        return answer

    def _send(self, method: str, path: str, wait: float = 0, **request_options: Any) -> httpx2.Response:
        if method == "GET" and self._written:
            at = ",".join(f"{topic}:{offset}" for topic, offset in self._written.items())
            request_options["headers"] = {"At-Least-Position": at}
        try:
            response = self._http.request(method, path, timeout=self._timeout + wait, **request_options)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise _error(response)
        return response

    def _note(self, position: str, cell: str | None) -> None:
        """Remembers what was written; a server of several cells says to which."""
        for each in filter(None, position.split(",")):
            topic, _, offset = each.rpartition(":")
            topic = f"{topic}@{cell}" if cell else topic
            self._written[topic] = max(self._written.get(topic, 0), int(offset))

    def _unreachable(self, error: httpx2.TransportError) -> Unreachable:
        if isinstance(error, UnprovenServer):
            return Unreachable(
                f"{error}. It was told nothing. Is the cell that ran there up? Start it with `paceline up`."
            )
        return Unreachable(
            f"The cell at {self.server} does not answer ({error or type(error).__name__}). "
            "Start it with `paceline up`, or name another with --server; trying again is safe."
        )


def new_id(stem: str) -> str:
    """An id that nobody else makes, which begins with `stem`."""
    return f"{stem}-{secrets.token_hex(4)}"


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _pool(path: str, noun: str = "pools") -> str:
    return f"/v1/{noun}/{quote(path.strip('/'))}"


def _json(body: Mapping[str, Any] | None) -> dict[str, Any]:
    """A body and its header, as the HTTP client takes them."""
    content = b"" if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return {"content": content, "headers": {"Content-Type": "application/json"}}


def _without_none(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _error(response: httpx2.Response) -> ApiError:
    """The error of a status: its body is a problem, unless something between us and the cell answered."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"title": f"{response.request.url} answered {response.status_code} {response.reason_phrase}"}
    status = response.status_code
    if status in (401, 403, 421):
        return NotAuthorised(status, problem)
    if status == 404:
        return NotFound(status, problem)
    return (Refused if status < 500 else Unavailable)(status, problem)


def _stream(chunks: Iterator[bytes]) -> Iterator[StreamEvent]:
    """The events of a `text/event-stream`."""
    last, kind, data = "", "message", list[str]()
    lines = Lines()
    for line in (each.decode().removesuffix("\r") for chunk in chunks for each in lines.feed(chunk)):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield StreamEvent(last, kind, json.loads("\n".join(data)))
            kind, data = "message", []
        elif name == "data":
            data.append(value)
        elif name == "id":
            last = value
        elif name == "event":
            kind = value
