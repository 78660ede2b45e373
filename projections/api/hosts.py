"""Routes of hosts: how they stand, what runs there, and an operator's word that one is lost."""

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.codes import Code
from events.records.hosts import HostLossConfirmed
from events.topics import HOSTS
from projections import queries, task_queries
from projections.api.context import Context, Pages, Snapshot, Wait, next_token
from projections.api.problems import Problem, not_found
from projections.rows import HostRow


class LossConfirmation(BaseModel):
    """An operator's word that a host will not come back with its runs."""

    model_config = ConfigDict(extra="forbid", strict=True)

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


def routes(context: Context) -> APIRouter:
    """The routes under /v1/hosts."""
    router = APIRouter(prefix="/v1/hosts", tags=["hosts"])

    @router.get("")
    def hosts(connection: Snapshot, page: Pages) -> dict[str, Any]:
        """Hosts by id."""
        rows = queries.host_rows(connection, page.size + 1, page.after("hosts") or "")
        more = rows[page.size - 1].host_id if len(rows) > page.size else None
        shown = [queries.host_json(row) for row in rows[: page.size]]
        return {"hosts": shown, "next_page_token": next_token(more, "hosts")}

    @router.get("/{host_id}")
    def host(host_id: str, connection: Snapshot) -> dict[str, Any]:
        """One host."""
        return queries.host_json(_host(connection, host_id))

    @router.get("/{host_id}/tasks")
    def tasks(host_id: str, connection: Snapshot, page: Pages) -> dict[str, Any]:
        """Tasks that hold something of the host."""
        first = page.after("host", host_id) or 0
        found = task_queries.host_tasks(connection, _host(connection, host_id), page.size, int(first))
        return {"tasks": found.items, "next_page_token": next_token(found.next, "host", host_id)}

    @router.post("/{host_id}/loss-confirmations", status_code=202)
    async def confirm(host_id: str, word: LossConfirmation, wait: Wait) -> Response:
        """Says that a silent host is lost, so that its tasks run elsewhere at once."""
        command_id = word.command_id or uuid.uuid4().hex
        fact = HostLossConfirmed(host_id=host_id, command_id=command_id, reason=word.reason)

        def append() -> int:
            with context.views.read() as connection:
                _host(connection, host_id)
            return context.append(fact, host_id)

        offset = await run_in_threadpool(append)
        told: dict[str, Any] = {"command_id": command_id, "position": f"{HOSTS.name}:{offset}"}
        answer = await context.answer(HOSTS.name, offset, wait)
        if answer is None:
            return JSONResponse(told, 202)
        if answer.code not in (Code.DONE, Code.REPEATED):
            status = 404 if answer.code == Code.NOT_FOUND else 409
            raise Problem(status, answer.code, answer.message, position=told["position"])
        return JSONResponse({**told, "code": answer.code, "message": answer.message}, 200)

    return router


def _host(connection: Connection, host_id: str) -> HostRow:
    row = queries.host_row(connection, host_id)
    if row is None:
        raise not_found("host", host_id)
    return row
