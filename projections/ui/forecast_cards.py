"""When a waiting job is expected to begin, and how good forecasts of a pool were, as pages show them (decision 128)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from projections.queries.forecasts import DAYS, score_sums
from projections.queries.no_forecasts import forecast_or_why_not
from projections.queries.reason import Reason
from projections.ui.format import iso, lasts, ms_of
from projections.ui.page_values import PageValues
from projections.views.rows import JobRow

MADE_BY = {
    "ahead": "simulated ahead",
    "limits": "by limits alone",
    "class": "by what jobs of its size have waited",
}


def of_job(connection: Connection, job: JobRow, reasons: Sequence[Reason], now_ms: int) -> PageValues | None:
    """The forecast of a job, or the code and sentence of why it has none; None: it has begun."""
    forecast, why_not = forecast_or_why_not(connection, job, reasons)
    if forecast is None:
        return dict(why_not) if why_not is not None else None
    low, median, high, made_ms = (ms_of(forecast[name]) for name in ("low", "median", "high", "made_at"))
    scored, inside = forecast["scored"], forecast["inside_percent"]
    of_pool = f"of {scored:,} {'forecast' if scored == 1 else 'forecasts'} of {forecast['pool']} last week"
    return {
        "interval": f"{_clock(low, now_ms)} … {_clock(high, now_ms)} (80 %)",
        "exactly": f"{iso(low)} … {iso(high)}",
        "median": _clock(median, now_ms),
        "ahead": f"in {lasts(median - now_ms)}" if median > now_ms else "",
        "late": f"it is {lasts(now_ms - high)} later than that" if now_ms > high else "",
        "made": f"{lasts(now_ms - made_ms)} ago, {MADE_BY[forecast['method']]}",
        "made_at": forecast["made_at"],
        "right": f"{inside} % {of_pool}" if inside is not None else f"no forecast of {forecast['pool']} was scored yet",
    }


def of_pool(connection: Connection, path: str, now_ms: int) -> list[PageValues]:
    """The scores of a pool and those below it in the last week, by method."""
    return [
        {
            "method": MADE_BY[each.method],
            "scored": each.scored,
            "inside": f"{100 * each.inside / each.scored:.0f} %",
            "loss": lasts(each.pinball_ms / each.scored),
            "width": lasts(each.width_ms / each.scored),
        }
        for each in score_sums(connection, path, DAYS, now_ms)
    ]


def _clock(ms: int, now_ms: int) -> str:
    """A time of day to the minute in UTC, with its date where that isn't today."""
    at, today = (datetime.fromtimestamp(each / 1000, UTC) for each in (ms, now_ms))
    return f"{at:%H:%M}Z" if at.date() == today.date() else f"{at:%d %b %H:%M}Z"
