"""Routes of pools: the tree as it stands, define, change, remove."""

import re
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.codes import IN_EFFECT, Code
from events.pool_paths import ROOT
from events.records.pools import PoolDefined, PoolRemoved
from events.resources import Kinds, UnknownResource
from events.spec.job import POOL_PATTERN
from events.spec.pool import PoolSpec, from_event
from events.spec.problems import problems
from events.topics import POOLS
from paceline.client.json_type import Json
from paceline.client.pool_models import Pool, PoolTree
from projections.api.commands import Reason
from projections.api.context import Context, Paging, Reading, Wait, next_token
from projections.api.list_requests import PoolPages, PoolsQuery, PoolsRequest, must_have_pool
from projections.api.pool_writes import PoolWrites, Written, must_be_here
from projections.api.preconditions import ANY, Conditional, NoneMatch, knows, tag
from projections.api.problems import ANSWERED, Problem, not_found
from projections.queries import pool_tree
from projections.queries.job_filter import subtree
from projections.queries.known_names import nearest_pool
from projections.queries.resources import kinds_of

DECIDED_S = 10.0
"""Seconds that the cell of a pool has to decide before the other cells are told."""
PATH = re.compile(POOL_PATTERN)


def routes(context: Context) -> APIRouter:
    """The routes under /v1/pools; a path is written without its leading slash."""
    router = APIRouter(prefix="/v1/pools", tags=["pools"])
    _reads(router, context)
    _writes(router, context)
    return router


def _reads(router: APIRouter, context: Context) -> None:
    @router.get("")
    async def pools(read: Reading, page: PoolPages, asked_for: PoolsQuery) -> Response:
        """The pools of the cell, by path, and what the cell has."""
        after = page.after(str, "pools", *asked_for) or ""
        return await read(lambda connection: pools_page({context.cell: connection}, asked_for, page, after))

    @router.get("/{path:path}")
    async def pool(path: str, read: Reading, if_none_match: NoneMatch = "") -> Response:
        """One pool. Its ETag is the version of its definition: amounts and queues change without it."""
        positions: list[str] = []

        def look(connection: Connection) -> Pool:
            rows = pool_tree.pools_in_full(connection, f"/{path}")
            if not rows:
                raise not_found("pool", f"/{path}", nearest_pool([connection], f"/{path}"))
            must_be_here(context, rows[0]["cell"], f"/{path}")
            positions.append(rows[0]["position"])
            return rows[0]

        answer = await read(look)
        headers = {"ETag": tag(positions[0]), "Cache-Control": "no-store"}
        if knows(if_none_match, positions[0]):
            return Response(status_code=304, headers=headers | {"Log-Position": answer.headers["log-position"]})
        answer.headers.update(headers)
        return answer


def _writes(router: APIRouter, context: Context) -> None:
    writes = PoolWrites(context)

    @router.put("/{path:path}", status_code=202, responses=ANSWERED)
    async def define(
        path: str, body: Annotated[Any, Body()], wait: Wait, conditions: Conditional, reason: Reason = ""
    ) -> Response:
        """Creates a pool, or replaces the definition of one that is there: what is left out gets its default. That
        needs If-Match with the version that it replaces, or `*`; with `If-None-Match: *` it only creates.
        """
        if not PATH.fullmatch(f"/{path}"):
            raise Problem(422, Code.INVALID_POOL, f"/{path[:100]} is no path of a pool, such as /maps/tiles")
        spec = await run_in_threadpool(_read, context, body)
        fact = _because(spec.to_event(f"/{path}", uuid.uuid4().hex, context.cell), reason)
        must_be_here(context, fact.cell, fact.path)
        blindly = conditions.match == ANY
        written = await writes.append(fact.path, conditions, lambda present: fact, blindly, required=True)
        return await _answered(context, written, wait)

    @router.patch("/{path:path}", status_code=202, responses=ANSWERED)
    async def change(
        path: str, body: Annotated[Json, Body()], wait: Wait, conditions: Conditional, reason: Reason = ""
    ) -> Response:
        """Changes what the body names; all else stays as it is. `closed` closes a pool, or opens it. With If-Match only
        that version is changed.
        """
        written = await writes.append(f"/{path}", conditions, partial(_merged, context, f"/{path}", body, reason))
        return await _answered(context, written, wait)

    @router.delete("/{path:path}", status_code=202, responses=ANSWERED)
    async def remove(path: str, wait: Wait, conditions: Conditional, reason: Reason = "") -> Response:
        """Removes a pool without children and open jobs; asked again, it tells the cells that were not told. With
        If-Match only that version is removed.
        """
        fact = PoolRemoved(path=f"/{path}", command_id=uuid.uuid4().hex, reason=reason)

        def exists() -> bool:
            with context.views.read() as connection:
                rows = pool_tree.pool_rows(connection, fact.path)
                return bool(rows) or pool_tree.pool_pending(connection, fact.path)

        if not await run_in_threadpool(exists):
            return await _tell_again(context, fact)
        written = await writes.append(fact.path, conditions, lambda present: fact, blindly=not any(conditions))
        return await _answered(context, written, wait)


def pools_page(cells: Mapping[int, Connection], request: PoolsRequest, page: Paging, after: str) -> PoolTree:
    """A page of the pools of cells, by path, and what each cell has. Raises a problem for an unknown pool."""
    must_have_pool(cells.values(), request.pool)
    own, first, end = subtree(request.pool)
    text = request.text.lower()

    def is_shown(path: str) -> bool:
        within = request.pool in ("", ROOT) or path == own or first < path < end
        return path > after and within and text in path.lower()

    pools = [
        each
        for cell, connection in cells.items()
        for each in pool_tree.pools_in_full(connection, is_shown=is_shown)
        if each["cell"] == cell
    ]
    pools.sort(key=lambda pool: pool["path"])
    last = pools[page.size - 1]["path"] if len(pools) > page.size else None
    return {
        "pools": pools[: page.size],
        "cells": [pool_tree.cell_json(connection, cell) for cell, connection in cells.items()],
        "next_page_token": next_token(last, "pools", *request),
    }


def _merged(context: Context, path: str, changes: Json, reason: str, present: PoolDefined | None) -> PoolDefined:
    """The definition of a pool with what is named changed. Raises a problem."""
    if present is None:
        raise not_found("pool", path)
    with context.views.read() as connection:
        kinds = kinds_of(connection)
    spec = checked({**from_event(present, kinds.units), "cell": present.cell, **changes}, kinds)
    return _because(spec.to_event(path, uuid.uuid4().hex, context.cell), reason)


def _because(fact: PoolDefined, reason: str) -> PoolDefined:
    return msgspec.structs.replace(fact, reason=reason) if reason else fact


def _read(context: Context, body: Any) -> PoolSpec:
    with context.views.read() as connection:
        return checked(body, kinds_of(connection))


def checked(body: Any, kinds: Kinds, at: str = "") -> PoolSpec:
    """The spec in a body, which stands `at` a pointer. Raises a problem, also where an amount isn't in the unit that
    the cell has for it.
    """
    try:
        spec = PoolSpec.model_validate(body)
    except ValidationError as error:
        found = [(f"{at}{pointer}", text) for pointer, text in problems(error, PoolSpec)]
        raise Problem(422, Code.INVALID_POOL, "the pool has problems", found) from error
    if unknown := kinds.unknown(name for name, value in spec.limit if value is None):
        told = str(UnknownResource(unknown, kinds.names))
        pointer = f"{at}/limit/{unknown[0].replace('/', '~1')}"
        raise Problem(422, Code.UNKNOWN_RESOURCE, told, [(pointer, told)])
    parts = {"reservation": spec.reservation, "limit": spec.limit}
    misfits = [(part, name, text) for part, amounts in parts.items() for name, text in amounts.misfits(kinds.units)]
    if misfits:
        pointers = [(f"{at}/{part}/{name.replace('/', '~1')}", text) for part, name, text in misfits]
        raise Problem(422, Code.INVALID_POOL, "the pool has problems", pointers)
    return spec


async def _answered(context: Context, written: Written, wait: float) -> Response:
    """The answer to a fact about a pool, once its cell has decided it and the others are told."""
    fact = written.fact
    position, place = f"{POOLS.name}:{written.offset}", f"/v1/pools{fact.path}"
    body: Json = {"path": fact.path, "command_id": fact.command_id, "position": position}
    headers = {"Log-Position": position}
    # The other cells are told what this one has decided, not what somebody wished.
    answer = await context.answer(POOLS.name, written.offset, max(wait, DECIDED_S) if context.others else wait)
    if answer is None and context.others:
        detail = f"cell {context.cell} has not answered yet, so no other cell was told; send it again"
        raise Problem(503, "NOT_REACHED", detail, position=position, headers={"Retry-After": "1"})
    if answer is None:
        return JSONResponse(body, 202, headers | {"Location": place})
    if answer.code not in IN_EFFECT:
        status = 409 if answer.code in (Code.WRONG_CELL, Code.POOL_IN_USE) else 422
        raise Problem(status, answer.code, answer.message, position=position)
    await run_in_threadpool(context.append_to_others, fact, fact.path)
    is_new = isinstance(fact, PoolDefined) and not written.was_there and answer.code == Code.DONE
    if isinstance(fact, PoolDefined) and answer.code == Code.DONE:
        headers["ETag"] = tag(position)
    headers |= {"Location": place} if is_new else {}
    body |= {"code": answer.code, "message": answer.message}
    return JSONResponse(body, 201 if is_new else 200, headers)


async def _tell_again(context: Context, fact: PoolRemoved) -> Response:
    """The answer to the removal of a pool that this cell doesn't have any more: others may not have heard of it."""
    missed = await run_in_threadpool(context.cells_with_pool, fact.path)
    if not missed:
        raise not_found("pool", fact.path)
    for other in missed:
        await run_in_threadpool(other.append, fact, fact.path)
    cells = ", ".join(str(other.cell) for other in missed)
    answer = {"path": fact.path, "command_id": fact.command_id}
    message = f"{fact.path} was removed before; told again: cell {cells}"
    return JSONResponse({**answer, "code": Code.REPEATED, "message": message})
