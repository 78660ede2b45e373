"""The rows of forecasts, which follow from their topic alone (see `forecasts.py`)."""

import msgspec


class ForecastRow(msgspec.Struct):
    """The newest forecast of a job that waits for its first run. `method` is a `ForecastMethod`."""

    job_id: str
    pool: str
    method: int
    made_ms: int
    low_ms: int
    median_ms: int
    high_ms: int


class ForecastScoreRow(msgspec.Struct):
    """The outcome of the first forecasts of jobs of a pool that began on a day of UTC, counted from 1970. `inside`: so
    many began within their interval; `pinball_ms`, `width_ms`: sums of the losses and of the widths of the intervals.
    """

    pool: str
    method: int
    day: int
    count: int = 0
    inside: int = 0
    pinball_ms: int = 0
    width_ms: int = 0
