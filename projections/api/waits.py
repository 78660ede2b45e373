"""Routes of the ledger of waits: for how long tasks waited and for what, of a job and of pools and owners by week."""

from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from events.bounds import WORD_MAX
from events.pool_paths import ROOT
from paceline.client.waits_models import JobLedger, WaitLedger
from projections.api.context import PAGE_MAX, Context, Reading
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found
from projections.asked_values import since_ms
from projections.queries.usage import is_pool
from projections.queries.waits import job_ledger, pool_waits
from projections.views.ledger_rows import WEEK_MS

WEEKS_MAX = 520
"""Weeks that one answer looks at."""


class WaitsRequest(NamedTuple):
    """The waits that are summed, and by what."""

    by: str
    since: datetime | None
    pool: str
    owner: str | None
    page_size: int


async def waits_request(
    by: Annotated[Literal["pool", "owner", "week"], Query(description="Sums by this.")] = "week",
    since: Annotated[
        datetime | None,
        Query(
            description="From the Monday (UTC) of the week of this time on, ten years at most; without it this week."
        ),
    ] = None,
    pool: Annotated[str, Query(max_length=WORD_MAX, description="Of this pool and those below it.")] = ROOT,
    owner: Annotated[str | None, Query(max_length=WORD_MAX, description="Of this owner only.")] = None,
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> WaitsRequest:
    """The parameters of the sums."""
    return WaitsRequest(by, since, pool or ROOT, owner, page_size)


Sought = Annotated[WaitsRequest, Depends(waits_request)]


def routes(context: Context) -> APIRouter:
    """The routes of the ledger."""
    router = APIRouter(prefix="/v1", tags=["waits"])

    @router.get("/jobs/{job_id}/ledger")
    async def of_job(job_id: str, read: Reading) -> Response:
        """For how long the tasks of a job waited, by reason code, and ran: all the time from submission to end."""

        def look(connection: Connection) -> JobLedger:
            return job_ledger(connection, find_job(connection, job_id), context.time_of(connection))

        return await read(look)

    @router.get("/waits")
    async def waits(read: Reading, sought: Sought) -> Response:
        """For how long tasks waited, by reason code, and ran, summed by pool, owner or week. Sums are kept by week:
        they begin with a Monday, `since` in the answer, and end now, `until`. `page_size` groups at most, those that
        waited longest.
        """

        def look(connection: Connection) -> WaitLedger:
            if sought.pool != ROOT and not is_pool(connection, sought.pool):
                raise not_found("pool", sought.pool)
            now_ms = context.time_of(connection)
            first_ms = since_ms(sought.since) if sought.since else now_ms
            if now_ms - first_ms > WEEKS_MAX * WEEK_MS:
                detail = f"since may be {WEEKS_MAX} weeks ago at most"
                raise Problem(422, "INVALID_REQUEST", detail, [("/query/since", "too long ago")])
            size = sought.page_size
            return pool_waits(connection, sought.by, min(first_ms, now_ms), now_ms, sought.pool, sought.owner, size)

        return await read(look)

    return router
