"""Routes of pools: the tree as it stands, define, remove."""

import re
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Body, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from events.codes import Code
from events.records.pools import PoolDefined, PoolRemoved
from events.spec import POOL_PATTERN, PoolSpec, problems
from events.topics import POOLS
from projections import queries
from projections.api.context import Context, Snapshot, Wait
from projections.api.problems import Problem, not_found

_PATH = re.compile(POOL_PATTERN)


def routes(context: Context) -> APIRouter:
    """The routes under /v1/pools; a path is written without its leading slash."""
    router = APIRouter(prefix="/v1/pools", tags=["pools"])

    @router.get("")
    def pools(connection: Snapshot) -> dict[str, Any]:
        """All pools by path."""
        return {"pools": queries.pools_json(connection)}

    @router.get("/{path:path}")
    def pool(path: str, connection: Snapshot) -> dict[str, Any]:
        """One pool."""
        found = queries.pools_json(connection, f"/{path}")
        if not found:
            raise not_found("pool", f"/{path}")
        return found[0]

    @router.put("/{path:path}", status_code=202)
    async def define(path: str, body: Annotated[Any, Body()], wait: Wait) -> Response:
        """Creates a pool or changes it; what is left out gets its default."""
        if not _PATH.fullmatch(f"/{path}"):
            raise Problem(422, Code.INVALID_POOL, f"/{path[:100]} is no path of a pool, such as /maps/tiles")
        try:
            spec = PoolSpec.model_validate(body)
        except ValidationError as error:
            raise Problem(422, Code.INVALID_POOL, "the pool has problems", problems(error)) from error
        return await _write(spec.to_event(f"/{path}", uuid.uuid4().hex), wait)

    @router.delete("/{path:path}", status_code=202)
    async def remove(path: str, wait: Wait) -> Response:
        """Removes a pool without children and open jobs."""

        def exists() -> bool:
            with context.views.read() as connection:
                return bool(queries.pools_json(connection, f"/{path}")) or queries.pool_pending(connection, f"/{path}")

        if not await run_in_threadpool(exists):
            raise not_found("pool", f"/{path}")
        return await _write(PoolRemoved(path=f"/{path}", command_id=uuid.uuid4().hex), wait)

    async def _write(fact: PoolDefined | PoolRemoved, wait: float) -> Response:
        offset = await run_in_threadpool(context.append, fact, fact.path)
        position = f"{POOLS.name}:{offset}"
        told: dict[str, Any] = {"path": fact.path, "command_id": fact.command_id, "position": position}
        answer = await context.answer(POOLS.name, offset, wait)
        if answer is None:
            return JSONResponse(told, 202, {"Log-Position": position})
        if answer.code not in (Code.DONE, Code.REPEATED):
            raise Problem(422, answer.code, answer.message, position=position)
        return JSONResponse({**told, "code": answer.code, "message": answer.message}, 200)

    return router
