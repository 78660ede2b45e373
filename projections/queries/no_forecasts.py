"""Why a job that waits for its first run has no forecast (decision 128)."""

from collections.abc import Sequence

from sqlalchemy import Connection

from events.codes import Code
from events.reasons import kind_of
from paceline.client.forecast_models import Forecast, NoForecast
from projections.queries.forecasts import forecast_of
from projections.queries.log_time import newest_ms
from projections.queries.reason import Reason
from projections.views.rows import JobRow

SOON_MS = 120_000
"""A job has its first forecast when it has waited for a minute, and the next pass comes in another."""
SOON, DAEMON, UNKNOWN = "TOO_SOON", "DAEMON", "UNKNOWN"
_WAITS_FOR_SOMEBODY = frozenset((Code.HELD, Code.POOL_CLOSED, Code.NO_SUCH_POOL))
MESSAGES = {
    SOON: "it waits for less than two minutes",
    DAEMON: "a daemon has a task on each host that meets its constraints, and begins with the first",
    UNKNOWN: "no end is known of what holds its place, or it is more than its pool may ever hold",
}


def forecast_or_why_not(
    connection: Connection, job: JobRow, reasons: Sequence[Reason]
) -> tuple[Forecast | None, NoForecast | None]:
    """The forecast of a job, or why it has none; neither: it has begun or ended. While somebody has to act before it
    can begin, such as to release it or to add hosts, no forecast of it counts.
    """
    if job.started_ms or job.ended_ms:
        return None, None
    if job.kind == "daemon":
        return None, _of(DAEMON)
    if (first := _blocks(reasons)) is not None:
        return None, {"code": first.code, "message": first.message}
    if (forecast := forecast_of(connection, job)) is not None:
        return forecast, None
    return None, _of(SOON if newest_ms(connection) - job.submitted_ms < SOON_MS else UNKNOWN)


def _blocks(reasons: Sequence[Reason]) -> Reason | None:
    """The first reason, if it goes on until somebody acts."""
    first = reasons[0] if reasons else None
    return first if first and (first.code in _WAITS_FOR_SOMEBODY or kind_of(first.code).lasting) else None


def _of(code: str) -> NoForecast:
    return {"code": code, "message": MESSAGES[code]}
