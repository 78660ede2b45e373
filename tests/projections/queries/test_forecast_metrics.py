"""What Prometheus is told of forecasts that came true or not."""

from prometheus_client import REGISTRY

from projections.queries import view_metrics
from tests.projections.conftest import Api
from tests.projections.ui.test_forecasts import DAY_MS, begin, came, forecast


def value(name: str, pool: str = "/p") -> float | None:
    view_metrics.WATCHED._until = 0.0
    return REGISTRY.get_sample_value(name, {"cell": "0", "pool": pool})


def test_what_came_of_forecasts_of_the_last_week_is_told_by_pool(api: Api, monkeypatch) -> None:
    begin(api)
    came(api, forecast(api, "too-old"), 500)
    api.cell.ms += 7 * DAY_MS
    came(api, forecast(api, "a"), 10)
    came(api, forecast(api, "b"), 40)
    came(api, forecast(api, "c", "/q"), 10)
    api.fold()
    monkeypatch.setattr("time.time", lambda: api.cell.ms / 1000)
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    assert value("paceline_forecast_scored_jobs") == 2
    assert value("paceline_forecast_inside_ratio") == 0.5
    assert value("paceline_forecast_loss_seconds") == 760  # the mean of 60 and 1460 s
    assert value("paceline_forecast_inside_ratio", "/q") == 1
    assert value("paceline_forecast_scored_jobs", "/of-nobody") is None
    unwatch()
