"""One server for several cells: each request goes to the app of its cell.

`?cell=N` names it. Otherwise a job goes to the cell of its pool, what names a job, a pool or a host goes where that is,
lists are over all cells. Every answer of one cell says so in the header Log-Cell, and positions in headers carry the
cell: `paceline.jobs@1:17`; those in bodies are of that cell.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from fastapi import Depends, FastAPI
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from events.codes import Code
from projections.api import all_cells, job_batches, job_plans
from projections.api.app import Guarded, add_past, app_over
from projections.api.context import Context, client_of, of_cell, spread
from projections.api.errors import install
from projections.api.moments import MomentSource
from projections.api.parameters import known_parameters
from projections.api.permits import taken
from projections.api.problems import Problem, wrong_cell
from projections.host_states import HostState
from projections.queries import entities, pool_tree
from projections.queries.blame_fields import BadTarget, Target, read_target
from projections.views.job_states import REJECTED

ABSENT, REMOVED, PRESENT = range(3)
"""The knowledge that a cell has of an object; the highest wins."""


def create_cells_app(apps: Mapping[int, FastAPI], moments: MomentSource | None = None) -> FastAPI:
    """The app over the apps of cells, each made by `create_app` with the same token and address. What a cell decides
    of pools goes to the logs of the others; `moments` makes views of the past.
    """
    contexts: dict[int, Context] = {cell: apps[cell].state.context for cell in sorted(apps)}
    for cell, context in contexts.items():
        with_log = {cell, *(facts.cell for facts in context.others)}
        context.others.extend(other.facts for number, other in contexts.items() if number not in with_log)
        context.beside.extend(other for number, other in contexts.items() if number != cell)
    guards: Guarded = next(iter(apps.values())).state.guards
    for other in list(apps.values())[1:]:
        guards.authentication.provers.extend(other.state.guards.authentication.provers)
    app = _app_over(apps, contexts, guards)

    def past(then: Mapping[int, Context]) -> FastAPI:
        for cell, context in then.items():
            context.beside.extend(other for number, other in then.items() if number != cell)
        return _app_over({cell: app_over(context, guards) for cell, context in then.items()}, then, guards)

    add_past(app, contexts, moments, past)
    return app


def _app_over(apps: Mapping[int, FastAPI], contexts: Mapping[int, Context], guards: Guarded) -> FastAPI:
    app = FastAPI(title="Paceline", version="1", openapi_url=None)
    app.state.guards = guards
    router = Router(apps, contexts)
    checks = [Depends(known_parameters)]
    for part in (
        all_cells.routes(contexts),
        job_batches.routes_over(router.finder),
        job_plans.routes_over(router.finder),
    ):
        app.include_router(part, dependencies=checks)
    app.mount("/", router)
    install(app)
    return app


class Router:
    """Finds the cell of a request and hands it on. Problems are raised."""

    def __init__(self, apps: Mapping[int, FastAPI], contexts: Mapping[int, Context]) -> None:
        self._apps = apps
        self._contexts = contexts
        self._first = next(iter(contexts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, as ASGI has it."""
        if scope["type"] != "http":
            await self._apps[self._first](scope, receive, send)
            return
        request = Request(scope, receive)
        text = request.headers.get("at-least-position")
        positions = spread(text) if text else {}
        cell = _named(request)
        if cell is None:
            await self._reach(request)
            if _names_pool(request):
                body = await request.body()
                cell, receive = await self._of_body(request, _json(body)), _again(body, receive)
            else:
                cell = await self._find(request)
        self._must_be_served("what was asked for", cell)
        here = ",".join(positions[number] for number in (None, cell) if number in positions)
        await self._apps[cell](_with_positions(scope, here), receive, _signed(cell, send))

    def finder(self, request: Request) -> job_plans.Find:
        """Finds the cells of the jobs that a request plans."""
        number, has_reached = _named(request), False

        async def find(body: Any) -> Context:
            nonlocal has_reached
            if not has_reached:
                await self._reach(request)
                has_reached = True
            wish = body if isinstance(body, dict) else {}
            cell = await self._of_submission(wish.get("pool"), wish.get("job_id")) if number is None else number
            self._must_be_served("what was asked for", cell)
            return self._contexts[cell]

        return find

    async def _reach(self, request: Request) -> None:
        """Waits until the views of cells are as far as a request says of each."""
        text = request.headers.get("at-least-position")
        for cell, positions in (spread(text) if text else {}).items():
            if cell is not None and cell in self._contexts:
                await self._contexts[cell].at_least(positions, client_of(request))

    async def _find(self, request: Request) -> int:
        """The cell of what a path names; the first where it says nothing."""
        match request.scope["path"].split("/")[1:]:
            case ["v1", "blame"] if (of := _blamed(request)) is not None and of.kind != "cell":
                if of.kind == "pool":
                    cell = await self._pool_cell(of.name)
                    return self._first if cell is None else cell
                rank = _host if of.kind == "host" else _job
                return await self._cell_with(lambda connection: rank(connection, of.name))
            case ["v1", "causes", cell, _, *_] if cell.isdecimal() and len(cell) < 10:
                return int(cell)
            case ["v1", "jobs", job_id, *_] | ["v1", "causes", job_id] if ":" not in job_id:
                return await self._cell_with(lambda connection: _job(connection, job_id))
            case ["v1", "usage" | "waits"] if pool := request.query_params.get("pool", "").strip("/"):
                cell = await self._pool_cell(f"/{pool}")
                return self._first if cell is None else cell
            case ["v1", "hosts", host_id, *_]:
                return await self._cell_with(lambda connection: _host(connection, host_id))
            case [
                "v1",
                "pools" | "pool-lockdowns" | "pool-histories" | "queues" | "entitlements" | "pool-series",
                *parts,
            ]:
                cell = await self._pool_cell("/" + "/".join(parts))
                return self._first if cell is None else cell
            case (
                ["v1", "audit" | "blame" | "events" | "log" | "usage" | "waits"]
                | ["v1", "host-drains" | "host-cordons" | "host-uncordons" | "host-resumptions" | "host-invitations"]
                | ["v1", "maintenances" | "maintenance-windows" | "host-pools" | "slas" | "sla-groups", *_]
                | ["v1", "rounds" | "causes" | "secrets" | "what-ifs", *_]
                | ["v1", "cell", "settings" | "operations" | "lockdown"]
                | ["v1", "lockdowns"]
            ) if len(self._contexts) > 1:
                listed = ", ".join(map(str, self._contexts))
                wish = "say which cell: --cell N of a command, ?cell=N of a request"
                raise Problem(422, "CELL_NEEDED", f"{wish}; this server serves {listed}")
        return self._first

    async def _of_body(self, request: Request, body: Any) -> int:
        """The cell of what a body defines or submits; the first where nothing says which."""
        wish = body if isinstance(body, dict) else {}
        if request.method == "POST":
            return await self._of_submission(wish.get("pool"), wish.get("job_id"))
        cell, path = wish.get("cell"), request.scope["path"].removeprefix("/v1/pools")
        if isinstance(cell, int) and not isinstance(cell, bool) and cell >= 0:
            return cell
        while path:
            cell = await self._pool_cell(path)
            if cell is not None:
                return cell
            path = path.rpartition("/")[0]
        return self._first

    async def _of_submission(self, pool: Any, job_id: Any) -> int:
        if not isinstance(pool, str):
            return self._first
        cell = await self._pool_cell(pool)
        if cell is None:
            for context in self._contexts.values():
                await context.settle_pools()
            cell = await self._pool_cell(pool)
        if cell is None:
            return self._first
        self._must_be_served(f"pool {pool}", cell)
        for other in self._contexts if isinstance(job_id, str) else ():
            if other != cell and await run_in_threadpool(_has_job, self._contexts[other], job_id):
                raise Problem(409, Code.ID_TAKEN, taken(job_id, f" to cell {other}"))
        return cell

    async def _pool_cell(self, path: str) -> int | None:
        """The cell that a pool belongs to, as the cells served here know it."""
        found = None
        for cell in self._contexts:
            known = await self._ask(cell, lambda connection: pool_tree.pools_json(connection, path))
            if known and known[0]["cell"] == cell:
                return cell
            found = known[0]["cell"] if known else found
        return found

    async def _cell_with(self, rank: Callable[[Connection], int]) -> int:
        """The cell where something is; the first where it is nowhere, which says so."""
        ranks = [await self._ask(cell, rank) for cell in self._contexts]
        return list(self._contexts)[ranks.index(max(ranks))]

    async def _ask(self, cell: int, look: Callable[[Connection], Any]) -> Any:
        def ask() -> Any:
            with self._contexts[cell].views.read() as connection:
                return look(connection)

        return await run_in_threadpool(ask)

    def _must_be_served(self, what: str, cell: int) -> None:
        if cell not in self._apps:
            raise wrong_cell(what, cell, list(self._contexts))


def _blamed(request: Request) -> Target | None:
    """The target of a request about blame; None: it can't be read, which the cell says."""
    with suppress(BadTarget):
        return read_target(request.query_params.get("of", ""))
    return None


def _has_job(context: Context, job_id: str) -> bool:
    """Whether a cell has a job, one that may not be seen too: its id is taken."""
    with context.views.read_all() as connection:
        return _job(connection, job_id) == PRESENT


def _job(connection: Connection, job_id: str) -> int:
    """Tells how much a cell has of a job: one that was refused here may have been taken elsewhere."""
    row = entities.job_row(connection, job_id)
    if row is None:
        return ABSENT
    return REMOVED if row.state == REJECTED else PRESENT


def _host(connection: Connection, host_id: str) -> int:
    """Tells how much a cell has of a host: one that was lost here may have come back elsewhere."""
    row = entities.host_row(connection, host_id)
    if row is None:
        return ABSENT
    return REMOVED if entities.host_state(row) == HostState.LOST else PRESENT


def _named(request: Request) -> int | None:
    """The cell that the query names."""
    text = request.query_params.get("cell")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Problem(422, "INVALID_REQUEST", "cell must be the number of a cell", [("/query/cell", "no number")])
    return int(text)


def _names_pool(request: Request) -> bool:
    """Whether the body says which cell is meant."""
    path = request.scope["path"]
    of_job = request.method == "POST" and path == "/v1/jobs"
    return of_job or (request.method == "PUT" and path.startswith("/v1/pools/"))


def _json(body: bytes) -> Any:
    """Decodes a body; None where it can't be read, which the app of a cell tells better."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read once more, then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def _with_positions(scope: Scope, positions: str) -> Scope:
    """The request with the positions of its cell."""
    headers = [pair for pair in scope["headers"] if pair[0] != b"at-least-position"]
    if positions:
        headers.append((b"at-least-position", positions.encode()))
    return {**scope, "headers": headers}


def _signed(cell: int, send: Send) -> Send:
    """Names the cell in an answer."""

    async def signed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Log-Cell"] = str(cell)
            if "log-position" in headers:
                headers["Log-Position"] = of_cell(headers["log-position"], cell)
        await send(message)

    return signed
