"""Routes of hosts: how they stand, what runs there, and an operator's word that one is lost."""

from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from events.records.hosts import HostLossConfirmed
from projections import queries, task_queries
from projections.api.commands import Command, carry_out
from projections.api.context import Context, Pages, Snapshot, Wait, next_token
from projections.api.problems import not_found
from projections.rows import HostRow


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
    async def confirm(host_id: str, command: Command, wait: Wait) -> Response:
        """Says that a silent host is lost, so that its tasks run elsewhere at once."""

        def fact(command_id: str) -> HostLossConfirmed:
            return HostLossConfirmed(host_id=host_id, command_id=command_id, reason=command.reason)

        return await carry_out(context, command, fact, host_id, lambda connection: _host(connection, host_id), wait)

    return router


def _host(connection: Connection, host_id: str) -> HostRow:
    row = queries.host_row(connection, host_id)
    if row is None:
        raise not_found("host", host_id)
    return row
