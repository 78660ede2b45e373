"""When waiting jobs are expected to begin, and how good such forecasts were (decision 128)."""

from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from events.codes import ForecastMethod
from paceline.client.forecast_models import Forecast, ForecastScore
from projections.queries.pages import rows_of
from projections.record_json import at
from projections.views import tables
from projections.views.forecast_rows import ForecastRow, ForecastScoreRow
from projections.views.forecasts import DAY_MS
from projections.views.rows import JobRow

DAYS = 7
"""The scores of so many days stand beside a forecast: up to the day on which it was made."""
METHODS: dict[int, str] = {
    ForecastMethod.AHEAD: "ahead",
    ForecastMethod.LIMITS: "limits",
    ForecastMethod.CLASS: "class",
}
_SCORES, _FORECASTS = tables.forecast_scores.c, tables.forecasts.c


def forecast_of(connection: Connection, job: JobRow) -> Forecast | None:
    """The forecast of a job; None: it has begun or ended, or has none yet."""
    if job.started_ms or job.ended_ms:
        return None
    query = select(tables.forecasts).where(_FORECASTS.job_id == job.job_id)
    rows: list[ForecastRow] = rows_of(connection, ForecastRow, query)
    return _forecast_json(connection, rows[0]) if rows else None


def forecasts(connection: Connection, pool: str, size: int, after: str) -> tuple[list[Forecast], str]:
    """The forecasts of jobs that wait, by id, at most so many, behind one; and the last of them if there are more."""
    query = select(tables.forecasts).where(_FORECASTS.job_id > after, _below(_FORECASTS.pool, pool))
    rows: list[ForecastRow] = rows_of(connection, ForecastRow, query.order_by(_FORECASTS.job_id).limit(size + 1))
    return [_forecast_json(connection, row) for row in rows[:size]], rows[size - 1].job_id if len(rows) > size else ""


def scores(connection: Connection, pool: str, days: int) -> list[ForecastScore]:
    """The scores of the last so many days on which a job began, the newest first."""
    newest = connection.execute(select(func.max(_SCORES.day)).where(_below(_SCORES.pool, pool))).scalar()
    if newest is None:
        return []
    query = select(tables.forecast_scores).where(_below(_SCORES.pool, pool), _SCORES.day > newest - days)
    rows: list[ForecastScoreRow] = rows_of(
        connection, ForecastScoreRow, query.order_by(_SCORES.day.desc(), _SCORES.pool, _SCORES.method)
    )
    return [
        {
            "pool": row.pool,
            "method": method_name(row.method),
            "day": _day(row.day).isoformat(),
            "scored": row.count,
            "inside_percent": round(100 * row.inside / row.count),
            "loss_s": round(row.pinball_ms / row.count / 1000, 1),
            "width_s": round(row.width_ms / row.count / 1000, 1),
        }
        for row in rows
    ]


class ScoreSum(NamedTuple):
    """The sums of the scores of a method; see `ForecastScoreRow`."""

    method: str
    scored: int
    inside: int
    pinball_ms: int
    width_ms: int


def score_sums(connection: Connection, pool: str, days: int, now_ms: int) -> list[ScoreSum]:
    """The scores of a pool and those below it, by method, over the last so many days up to a time."""
    sums = (func.sum(_SCORES[name]) for name in ("count", "inside", "pinball_ms", "width_ms"))
    last = now_ms // DAY_MS
    within = _below(_SCORES.pool, pool) & (_SCORES.day > last - days) & (_SCORES.day <= last)
    query = select(_SCORES.method, *sums).where(within).group_by(_SCORES.method).order_by(_SCORES.method)
    return [ScoreSum(method_name(method), *map(int, rest)) for method, *rest in connection.execute(query)]


def _below(column: Any, pool: str) -> Any:
    """The condition that a column names a pool or one below it; of an empty one: any."""
    return (column == pool) | column.startswith(f"{pool}/", autoescape=True) if pool not in ("", "/") else column != ""


def _day(number: int) -> date:
    return datetime.fromtimestamp(number * DAY_MS / 1000, UTC).date()


def _forecast_json(connection: Connection, row: ForecastRow) -> Forecast:
    last = row.made_ms // DAY_MS
    within = (_SCORES.pool == row.pool) & (_SCORES.day > last - DAYS) & (_SCORES.day <= last)
    sums = select(func.total(_SCORES["count"]), func.total(_SCORES.inside)).where(within)
    scored, inside = map(int, connection.execute(sums).one())
    return {
        "job_id": row.job_id,
        "pool": row.pool,
        "low": at(row.low_ms),
        "median": at(row.median_ms),
        "high": at(row.high_ms),
        "made_at": at(row.made_ms),
        "method": method_name(row.method),
        "scored": scored,
        "inside_percent": round(100 * inside / scored) if scored else None,
    }


def method_name(method: int) -> str:
    """The name of a `ForecastMethod`, or the number of one that only a newer forecaster knows."""
    return METHODS.get(method, f"method {method}")
