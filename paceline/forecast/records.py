"""Forecasts as records of the log, and back (`schemas/forecasts`)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from events.codes import ForecastMethod as Method
from events.records.forecasts import ForecastsMade, ForecastsScored
from paceline.forecast.conformal import Quantiles
from paceline.forecast.forecaster import Forecast, Raw

NEVER = -1
"""The job ended without a run."""
ITEMS_MAX = 2000
"""Jobs in one record, at most."""


class Outcome(NamedTuple):
    """A forecast, and when its job began; `NEVER`: it didn't."""

    forecast: Forecast
    began_ms: int


def made(forecasts: Sequence[Forecast]) -> Iterator[ForecastsMade]:
    """Records of forecasts that were made at one time."""
    for first in range(0, len(forecasts), ITEMS_MAX):
        part = forecasts[first : first + ITEMS_MAX]
        pools = tuple(sorted({each.pool for each in part}))
        yield ForecastsMade.pack(
            made_ms=part[0].made_ms,
            job_ids=tuple(each.job_id for each in part),
            pools=pools,
            pool=[pools.index(each.pool) for each in part],
            method=[each.raw.method for each in part],
            low=[round(each.made_ms + each.interval.low) for each in part],
            median=[round(each.made_ms + each.interval.median) for each in part],
            high=[round(each.made_ms + each.interval.high) for each in part],
            raw_low=[round(each.made_ms + each.raw.quantiles.low) for each in part],
            raw_high=[round(each.made_ms + each.raw.quantiles.high) for each in part],
            by_limits=[round(each.raw.by_limits) for each in part],
            waited=[each.waited_ms for each in part],
            size=[each.size for each in part],
        )


def read(event: ForecastsMade) -> Iterator[Forecast]:
    """The forecasts of a record."""
    at = event.made_ms
    columns = (
        *(event.pool_array, event.method_array, event.low_array, event.median_array, event.high_array),
        *(event.raw_low_array, event.raw_high_array, event.by_limits_array, event.waited_array, event.size_array),
    )
    rows = zip(event.job_ids, *(column.tolist() for column in columns), strict=True)
    for job_id, pool, method, low, median, high, raw_low, raw_high, by_limits, waited, size in rows:
        interval = Quantiles(low - at, median - at, high - at)
        raw = Raw(Method(method), Quantiles(raw_low - at, median - at, raw_high - at), by_limits)
        yield Forecast(job_id, event.pools[pool], at, interval, raw, size, waited)


def scored(outcomes: Sequence[Outcome]) -> Iterator[ForecastsScored]:
    """Records of what came of forecasts."""
    for first in range(0, len(outcomes), ITEMS_MAX):
        part = outcomes[first : first + ITEMS_MAX]
        forecasts = [each.forecast for each in part]
        pools = tuple(sorted({each.pool for each in forecasts}))
        yield ForecastsScored.pack(
            job_ids=tuple(each.job_id for each in forecasts),
            pools=pools,
            pool=[pools.index(each.pool) for each in forecasts],
            method=[each.raw.method for each in forecasts],
            made=[each.made_ms for each in forecasts],
            low=[round(each.made_ms + each.interval.low) for each in forecasts],
            median=[round(each.made_ms + each.interval.median) for each in forecasts],
            high=[round(each.made_ms + each.interval.high) for each in forecasts],
            began=[each.began_ms for each in part],
        )
