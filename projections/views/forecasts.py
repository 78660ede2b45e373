"""Folds forecasts: the newest of each job that waits, and what came of the first of each that began (decision 128)."""

from collections.abc import Iterator

from events.forecasts import pinball
from events.records.base import Event
from events.records.forecasts import ForecastsMade, ForecastsScored
from projections.views.cache import Cache
from projections.views.forecast_rows import ForecastRow, ForecastScoreRow

DAY_MS = 86_400_000


class ForecastFold:
    """The rows of forecasts."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def fact(self, event: Event) -> None:
        """A record of the topic."""
        if isinstance(event, ForecastsMade):
            for row in _made(event):
                self._cache.forecasts.put(row)
        elif isinstance(event, ForecastsScored):
            for row, began_ms in _scored(event):
                self._cache.forecasts.remove(row.job_id)
                if began_ms >= 0:
                    self._score(row, began_ms)

    def _score(self, row: ForecastRow, began_ms: int) -> None:
        scores, key = self._cache.forecast_scores, (row.pool, row.method, began_ms // DAY_MS)
        score = scores.change(key) or scores.put(ForecastScoreRow(*key))
        score.count += 1
        score.inside += row.low_ms <= began_ms <= row.high_ms
        score.pinball_ms += round(pinball((row.low_ms, row.median_ms, row.high_ms), began_ms))
        score.width_ms += row.high_ms - row.low_ms


def _made(event: ForecastsMade) -> Iterator[ForecastRow]:
    columns = (event.pool_array, event.method_array, event.low_array, event.median_array, event.high_array)
    for job_id, pool, method, *times in zip(event.job_ids, *(each.tolist() for each in columns), strict=True):
        yield ForecastRow(job_id, event.pools[pool], method, event.made_ms, *times)


def _scored(event: ForecastsScored) -> Iterator[tuple[ForecastRow, int]]:
    columns = (
        *(event.pool_array, event.method_array, event.made_array),
        *(event.low_array, event.median_array, event.high_array, event.began_array),
    )
    for job_id, pool, *rest, began in zip(event.job_ids, *(each.tolist() for each in columns), strict=True):
        yield ForecastRow(job_id, event.pools[pool], *rest), began
