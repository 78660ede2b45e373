"""The route of forecasts: when waiting jobs are expected to begin, and how good such forecasts were."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from events.bounds import WORD_MAX
from paceline.client.forecast_models import Forecasts
from projections.api.context import Context, Pages, Reading, next_token
from projections.api.problems import not_found
from projections.queries.forecasts import forecasts, scores
from projections.queries.usage import is_pool

DAYS_MAX = 366


def routes(context: Context) -> APIRouter:
    """The route under /v1/forecasts."""
    router = APIRouter(prefix="/v1", tags=["jobs"])

    @router.get("/forecasts")
    async def forecasts_and_scores(
        read: Reading,
        page: Pages,
        pool: Annotated[str, Query(max_length=WORD_MAX, description="Of this pool and those below it.")] = "",
        days: Annotated[int, Query(ge=1, le=DAYS_MAX, description="Scores of so many days.")] = 7,
    ) -> Response:
        """When the jobs that wait are expected to begin, by id, and by pool, method and day what came of the first
        forecast of each job that began, the last days first.
        """
        words = "forecasts", pool, days
        after = page.after(str, *words) or ""

        def look(connection: Connection) -> Forecasts:
            if pool not in ("", "/") and not is_pool(connection, pool):
                raise not_found("pool", pool)
            rows, last = forecasts(connection, pool, page.size, after)
            token = next_token(last or None, *words)
            return {"forecasts": rows, "scores": scores(connection, pool, days), "next_page_token": token}

        return await read(look)

    return router
