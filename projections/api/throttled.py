"""The route of tasks that wait before they are run again."""

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from paceline.client.page_models import TasksPage
from projections.api.context import Context, Pages, Place, Reading, next_token
from projections.queries.throttled import throttled

FIRST = (0, -1)
"""Before the first task of the first job."""


def routes(_: Context) -> APIRouter:
    """The route of /v1/throttled-tasks."""
    router = APIRouter(prefix="/v1/throttled-tasks", tags=["jobs"])

    @router.get("")
    async def tasks(read: Reading, page: Pages) -> Response:
        """Tasks of all jobs that wait before they are run again, by job, with the time of the next run."""
        after = page.after(tuple[Place, Place], "throttled") or FIRST

        def look(connection: Connection) -> TasksPage:
            rows = throttled(connection, page.size, after)
            last = (rows.rows[-1]["number"], rows.rows[-1]["instance"]) if rows.more else None
            return {"tasks": rows.rows, "next_page_token": next_token(last, "throttled")}

        return await read(look)

    return router
