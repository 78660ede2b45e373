"""Routes of windows of maintenance: the times at which hosts drain by themselves, or campaigns may start hosts."""

import uuid
from collections.abc import Callable
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.records.hosts import MaintenanceWindowRemoved, MaintenanceWindowSet
from events.spec.maintenance import MaintenanceId, WindowFields
from paceline.client.json_type import Json
from paceline.client.maintenance_models import MaintenanceWindow, MaintenanceWindowList
from projections.api.commands import Reason, answered
from projections.api.context import Context, Reading, Wait
from projections.api.drains import resolved
from projections.api.problems import ANSWERED, not_found
from projections.queries import windows as queries
from projections.views.maintenance_rows import MaintenanceWindowRow
from projections.views.rows import AnswerRow


class Window(WindowFields):
    """A window that is to be set."""

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None


def routes(context: Context) -> APIRouter:
    """The routes under /v1/maintenance-windows."""
    router = APIRouter(prefix="/v1/maintenance-windows", tags=["maintenances"])

    @router.get("")
    async def windows(read: Reading) -> Response:
        """All windows: those that are open or open next first."""

        def look(connection: Connection) -> MaintenanceWindowList:
            return {"windows": [queries.window_json(row) for row in queries.window_rows(connection)]}

        return await read(look)

    @router.get("/{window_id}")
    async def window(window_id: str, read: Reading) -> Response:
        """One window, with its hosts."""

        def look(connection: Connection) -> MaintenanceWindow:
            return queries.window_json(_row(connection, window_id), whole=True)

        return await read(look)

    @router.put("/{window_id}", status_code=202, responses=ANSWERED)
    async def define(window_id: MaintenanceId, body: Window, wait: Wait) -> Response:
        """Sets a window, or changes it: one that is open goes on where its schedule and its zone stay as they are."""

        def hosts() -> list[str]:
            with context.views.read() as connection:
                return resolved(connection, body.hosts)

        host_ids = await run_in_threadpool(hosts)
        fact = body.to_fact(window_id, host_ids, body.command_id or uuid.uuid4().hex)

        def follows(connection: Connection, answer: AnswerRow) -> Json:
            row = queries.window_row(connection, window_id)
            return {"host_ids": host_ids} | ({"window": queries.window_json(row)} if row is not None else {})

        return await _write(context, fact, wait, follows)

    @router.delete("/{window_id}", status_code=202, responses=ANSWERED)
    async def remove(window_id: str, wait: Wait, reason: Reason = "") -> Response:
        """Removes a window; hosts that drain for it are taken back."""

        def must_be() -> None:
            with context.views.read() as connection:
                _row(connection, window_id)

        await run_in_threadpool(must_be)
        fact = MaintenanceWindowRemoved(window_id=window_id, command_id=uuid.uuid4().hex, reason=reason)
        return await _write(context, fact, wait)

    return router


async def _write(
    context: Context,
    fact: MaintenanceWindowSet | MaintenanceWindowRemoved,
    wait: float,
    follows: Callable[[Connection, AnswerRow], Json] | None = None,
) -> Response:
    offset = await run_in_threadpool(context.append, fact, fact.window_id)
    about = f"/v1/maintenance-windows/{quote(fact.window_id, safe='')}"
    return await answered(context, fact, offset, wait, 409, follows=follows, about=about)


def _row(connection: Connection, window_id: str) -> MaintenanceWindowRow:
    row = queries.window_row(connection, window_id)
    if row is None:
        raise not_found("maintenance window", window_id)
    return row
