"""Routes that look into pools: who waits, how what a pool may use came about, what a change would do."""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.codes import Code
from events.pool_paths import ROOT
from paceline.client.json_type import Json
from paceline.client.page_models import HistoryPage
from paceline.client.pool_models import Entitlement, PoolPlans
from projections.access.identity import present
from projections.api.context import HISTORY_KEY, Context, Pages, Reading, next_token
from projections.api.job_plans import plans_of
from projections.api.list_requests import Actors
from projections.api.pools import PATH, checked
from projections.api.problems import Problem, not_found, wrong_cell
from projections.queries import entitlements, pool_tree
from projections.queries.other_histories import history_page
from projections.queries.pool_plans import PoolWish
from projections.queries.resources import kinds_of
from projections.views.other_histories import of_pool

GANGS_MAX = 1000
PLANNED_MAX = 1000


class PoolPlan(BaseModel):
    """Pools as they shall be, each with its path; parents before what is below them."""

    model_config = ConfigDict(extra="forbid")

    pools: Annotated[list[Json], Field(max_length=PLANNED_MAX)]


def routes(context: Context) -> APIRouter:
    """The routes under /v1/queues, /v1/entitlements and /v1/pool-plans; paths are written without leading slash."""
    router = APIRouter(tags=["pools"])

    @router.get("/v1/queues/{path:path}")
    async def queue(path: str, read: Reading, size: Annotated[int, Query(ge=1, le=GANGS_MAX)] = 10) -> Response:
        """The first gangs of each class that wait in a pool, with their codes."""
        return await read(lambda connection: pool_tree.queue_json(connection, known(context, connection, path), size))

    @router.get("/v1/entitlements/{path:path}")
    async def entitlement(path: str, read: Reading) -> Response:
        """The entitlement of a pool, and how it came about: for each resource a line for each pool down to it."""

        def look(connection: Connection) -> Entitlement:
            of = known(context, connection, path) if path else ROOT
            return entitlements.entitlement_json(connection, context.cell, of)

        return await read(look)

    @router.get("/v1/pool-histories/{path:path}")
    async def history(path: str, read: Reading, page: Pages, actors: Actors) -> Response:
        """The history of a pool, of one that was removed too: what was asked of it and of the pools right below, and
        what entitlement answered; without a path that of the settings of the cell. The oldest first.
        """
        words = "pool history", path, *actors
        after = page.after(HISTORY_KEY, *words)

        def look(connection: Connection) -> HistoryPage:
            rows = history_page(connection, of_pool(f"/{path}"), page.size, after, actors=actors)
            first = rows.items or after or history_page(connection, of_pool(f"/{path}"), 1, None).items
            if path and not first:
                known(context, connection, path)
            return {"events": rows.items, "next_page_token": next_token(rows.next, *words)}

        return await read(look)

    @router.post("/v1/pool-plans")
    async def plan(body: PoolPlan, read: Reading) -> Response:
        """Tells the effects of a change of pools, without changing them: the machines decide on a copy of their state,
        once with the change and once without it.
        """
        return JSONResponse(await run_in_threadpool(plan_json, body, [read.context]), 200)

    return router


def known(context: Context, connection: Connection, path: str) -> str:
    """The path of a pool that a route names without its first slash. Raises a problem where the cell has none."""
    rows = pool_tree.pool_rows(connection, f"/{path}")
    if not rows:
        raise not_found("pool", f"/{path}")
    cell = pool_tree.spec_of(rows[0]).cell
    if cell != context.cell:
        raise wrong_cell(f"pool /{path}", cell, [context.cell])
    return f"/{path}"


def plan_json(body: PoolPlan, contexts: Sequence[Context]) -> PoolPlans:
    """The plans of some cells. Raises a problem, also for a pool of another cell."""
    cells = [context.cell for context in contexts]
    cell_of_path: dict[str, int] = {}
    with ExitStack() as reading:
        connections = [reading.enter_context(context.views.read()) for context in contexts]
        wishes = [_wish(number, pool, connections) for number, pool in enumerate(body.pools)]
        for wish in wishes:
            cell_of_path[wish.path] = cell = _cell_of(wish, cell_of_path, connections, cells)
            if cell not in cells:
                raise wrong_cell(f"pool {wish.path}", cell, cells)
    plans = []
    for context in contexts:
        own = [wish for wish in wishes if cell_of_path[wish.path] == context.cell]
        if own or len(contexts) == 1:
            facts = [wish.spec.to_event(wish.path, uuid.uuid4().hex, context.cell) for wish in own]
            for fact in () if present().is_nobody else facts:  # who shows nothing asks as anybody may
                context.permits.fact(fact)
            plans.append(plans_of(context).plan_pools(facts))
    return {"cells": plans}


def _wish(number: int, pool: Json, connections: Sequence[Connection]) -> PoolWish:
    path = pool.get("path")
    if not isinstance(path, str) or not PATH.fullmatch(path):
        fault = "must be the path of a pool, such as /maps/tiles"
        raise Problem(422, Code.INVALID_POOL, "a pool has problems", [(f"/pools/{number}/path", fault)])
    body = {name: value for name, value in pool.items() if name != "path"}
    return PoolWish(path, checked(body, kinds_of(connections[0]), f"/pools/{number}"))


def _cell_of(
    wish: PoolWish, cell_of_path: dict[str, int], connections: Sequence[Connection], cells: Sequence[int]
) -> int:
    """The cell that a pool names, or that it belongs to, or the one above it; the first where nothing says which."""
    if wish.spec.cell is not None:
        return wish.spec.cell
    path = wish.path
    while path:
        if path in cell_of_path:
            return cell_of_path[path]
        for connection in connections:
            if rows := pool_tree.pool_rows(connection, path):
                return pool_tree.spec_of(rows[0]).cell
        path = path.rpartition("/")[0]
    return cells[0]
