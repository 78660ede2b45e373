"""Folds forecasts: the newest of each job that waits, and what came of the first of each that began (decision 128)."""

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from events.forecasts import pinball
from events.records.base import Event
from events.records.forecasts import ForecastsMade, ForecastsScored
from projections.views.cache import Cache
from projections.views.forecast_rows import ForecastRow, ForecastScoreRow

DAY_MS = 86_400_000
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999."""


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
    columns = event.method_array, event.low_array, event.median_array, event.high_array
    for job_id, pool, method, *times in _items(event, *columns):
        yield ForecastRow(job_id, pool, method, event.made_ms, *times)


def _scored(event: ForecastsScored) -> Iterator[tuple[ForecastRow, int]]:
    columns = (
        event.method_array,
        event.made_array,
        event.low_array,
        event.median_array,
        event.high_array,
        event.began_array,
    )
    for job_id, pool, *rest, began in _items(event, *columns):
        yield ForecastRow(job_id, pool, *rest), began


def _items(event: ForecastsMade | ForecastsScored, *columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Job, pool and numbers of each item that can be. No machine reads this topic, so nobody has refused the others."""
    if any(len(column) != len(event.job_ids) for column in (event.pool_array, *columns)):
        return
    rows = zip(event.job_ids, *(column.tolist() for column in (event.pool_array, *columns)), strict=True)
    for job_id, pool, *numbers in rows:
        if 0 <= pool < len(event.pools) and all(-1 <= number <= TIME_MAX_MS for number in numbers):
            yield job_id, event.pools[pool], *numbers
