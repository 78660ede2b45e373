"""Types of answers about forecasts."""

from typing import TypedDict


class Forecast(TypedDict):
    """When a waiting job is expected to begin: with 80 % between `low` and `high`, as likely before `median` as after.
    `method`: ahead, limits or class. Beside it how good forecasts of its pool were in the 7 days up to that day: of
    `scored` jobs `inside_percent` began within their interval; null: none began.
    """

    job_id: str
    pool: str
    low: str | None
    median: str | None
    high: str | None
    made_at: str | None
    method: str
    scored: int
    inside_percent: int | None


class NoForecast(TypedDict):
    """Why a waiting job has no forecast. `code`: TOO_SOON, DAEMON or UNKNOWN, or that of the reason for which it waits,
    where somebody has to act before it can begin.
    """

    code: str
    message: str


class ForecastScore(TypedDict):
    """The outcome of the first forecasts of jobs of a pool that began on a day of UTC, by method. `loss_s`: twice the
    mean pinball loss of the three quantiles, which for a single number would be its distance; `width_s`: the mean
    width of the intervals.
    """

    pool: str
    method: str
    day: str
    scored: int
    inside_percent: int
    loss_s: float
    width_s: float


class Forecasts(TypedDict):
    """Forecasts of the jobs that wait, by id, and the scores of the last days, the newest first."""

    forecasts: list[Forecast]
    scores: list[ForecastScore]
    next_page_token: str
