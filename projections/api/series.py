"""Routes of time series and marks: what plots of a cell and of its pools show."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from events.pool_paths import ROOT
from projections.api.context import Context, Reading
from projections.api.pool_views import known
from projections.api.problems import Problem
from projections.asked_values import time_ms
from projections.queries.marks import marks
from projections.queries.series import cell_series, pool_series
from projections.queries.series_points import POINTS, end_ms, newest_s, times_of
from projections.record_json import at

POINTS_MAX = 2_000
DAY_MS = 24 * 3600 * 1000
YEARS_MAX_MS = 100 * 366 * DAY_MS


class Span(NamedTuple):
    """From when to when, in milliseconds; None: nothing was said."""

    from_ms: int | None
    to_ms: int | None

    def of(self, connection: Connection) -> tuple[int, int]:
        """The times that are meant: to the end of the newest step, from a day before that. Raises a problem."""
        to_ms = end_ms(newest_s(connection)) if self.to_ms is None else self.to_ms
        from_ms = max(0, to_ms - DAY_MS) if self.from_ms is None else self.from_ms
        if not 0 <= to_ms - from_ms <= YEARS_MAX_MS:
            detail = f"from {at(from_ms)} to {at(to_ms)} is no span of time"
            raise Problem(422, "INVALID_REQUEST", detail, [("/query/from", "must be before `to`")])
        return from_ms, to_ms


async def span(
    begin: Annotated[str | None, Query(alias="from", description="A time, RFC 3339; a day before `to`.")] = None,
    end: Annotated[str | None, Query(alias="to", description="A time; the end of the newest step.")] = None,
) -> Span:
    """The parameters `from` and `to`."""
    return Span(_ms("from", begin), _ms("to", end))


def _ms(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    ms = time_ms(text)
    if ms is None:
        told = "must be a time such as 2026-11-24T10:41:07Z"
        raise Problem(422, "INVALID_REQUEST", f"{name} {told}", [(f"/query/{name}", told)])
    return ms


Asked = Annotated[Span, Depends(span)]
Points = Annotated[int, Query(ge=1, le=POINTS_MAX, description="About how many points.")]


def routes(context: Context) -> APIRouter:
    """The routes under /v1/series, /v1/pool-series and /v1/marks."""
    router = APIRouter(tags=["series"])

    @router.get("/v1/series")
    async def series(read: Reading, asked: Asked, points: Points = POINTS) -> Response:
        """The cell over time: tasks by state, waiting tasks by reason, hosts, machines, events, capacity. Each point
        begins at one of `times` and is `step_ms` long.
        """

        def look(connection: Connection) -> Any:
            return cell_series(connection, times_of(connection, *asked.of(connection), points))

        return await read(look)

    @router.get("/v1/pool-series/{path:path}")
    async def of_pool(path: str, read: Reading, asked: Asked, points: Points = POINTS) -> Response:
        """A pool over time: what it is entitled to, demands and holds, and its tasks."""

        def look(connection: Connection) -> Any:
            pool = known(context, connection, path) if path else ROOT
            return pool_series(connection, [pool], times_of(connection, *asked.of(connection), points))[pool]

        return await read(look)

    @router.get("/v1/marks")
    async def listed(read: Reading, asked: Asked) -> Response:
        """What stands out on the time axis: lost hosts, changes to pools, preemptions, restarts, failed jobs; the
        oldest first.
        """

        def look(connection: Connection) -> Any:
            return {"marks": marks(connection, *asked.of(connection))}

        return await read(look)

    return router
