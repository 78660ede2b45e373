"""Metrics of what came of forecasts in the last week, by pool (decision 128)."""

from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, func, select

from projections.queries.forecasts import DAYS
from projections.queries.metric_families import Family, Samples
from projections.views import tables
from projections.views.forecasts import DAY_MS

SCORED = Family(
    GaugeMetricFamily, "paceline_forecast_scored_jobs", "Jobs with a forecast that began in the last 7 days.", ("pool",)
)
INSIDE = Family(
    GaugeMetricFamily,
    "paceline_forecast_inside_ratio",
    "The part of them that began within the first interval of 80 %.",
    ("pool",),
)
LOSS = Family(
    GaugeMetricFamily,
    "paceline_forecast_loss_seconds",
    "Twice the mean pinball loss of their first forecasts.",
    ("pool",),
)
FAMILIES = (SCORED, INSIDE, LOSS)


def look(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    """Adds the samples of a cell."""
    scores = tables.forecast_scores.c
    sums = (func.sum(scores[name]) for name in ("count", "inside", "pinball_ms"))
    query = select(scores.pool, *sums).where(scores.day > now_ms // DAY_MS - DAYS).group_by(scores.pool)
    for pool, count, inside, pinball_ms in connection.execute(query.order_by(scores.pool)):
        labels = cell, pool
        samples[SCORED.name].append((labels, count))
        samples[INSIDE.name].append((labels, inside / count))
        samples[LOSS.name].append((labels, pinball_ms / count / 1000))
