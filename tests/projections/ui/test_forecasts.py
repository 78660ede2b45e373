"""Forecasts of starts on the pages of a job and of a pool."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from events.codes import ForecastMethod
from events.records.lifecycle import RunsAvailable
from paceline.client.forecast_models import Forecasts
from paceline.forecast.conformal import Quantiles
from paceline.forecast.forecaster import Forecast, Raw
from paceline.forecast.records import Outcome, made, scored
from projections.ui import app
from projections.ui.app import Ui
from tests.helpers.written_cell import runs
from tests.projections.conftest import TOKEN, Api
from tests.projections.ui.views import Pages, pages, text_of

MINUTE_MS, DAY_MS = 60_000, 86_400_000


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as held_pages:
        yield held_pages


def forecast(ui: Api, job_id: str, pool: str = "/p", method: ForecastMethod = ForecastMethod.AHEAD) -> Forecast:
    """It begins in 5 to 20 minutes, most likely in 10."""
    waits = Quantiles(5 * MINUTE_MS, 10 * MINUTE_MS, 20 * MINUTE_MS)
    return Forecast(job_id, pool, ui.cell.ms, waits, Raw(method, waits, 0.0), 1, MINUTE_MS)


def say(ui: Api, *forecasts: Forecast) -> None:
    for event in made(forecasts):
        ui.cell.fact(event)


def came(ui: Api, forecast: Forecast, minutes: int) -> None:
    """The job of a forecast began so many minutes after it was made."""
    for event in scored([Outcome(forecast, forecast.made_ms + minutes * MINUTE_MS)]):
        ui.cell.fact(event)


def shown(ui: Pages, path: str, later_ms: int = 0) -> str:
    """A page as it is so long after the newest record."""
    ui.fold()
    with patch.object(app.time, "time", lambda: (ui.cell.ms + later_ms) / 1000):
        return ui.page(path)


def begin(ui: Api) -> None:
    """Noon of a day, and a job that waits."""
    ui.cell.ms += DAY_MS - ui.cell.ms % DAY_MS + DAY_MS // 2
    ui.pool("/p")
    ui.cell.accept("web", pool="/p")
    ui.cell.ms -= ui.cell.ms % MINUTE_MS


def test_a_waiting_job_shows_when_it_is_expected_to_begin(ui):
    begin(ui)
    say(ui, forecast(ui, "web"))
    card = text_of(shown(ui, "/jobs/web", 2 * MINUTE_MS), "live_why")
    assert "expected start 12:05Z … 12:20Z (80 %) most likely 12:10Z, in 8 min" in card
    assert "forecast made 2 min ago, simulated ahead" in card
    assert "right no forecast of /p was scored yet" in card
    assert "later than that" not in card


def test_it_says_how_often_forecasts_of_its_pool_were_right(ui):
    begin(ui)
    for number, minutes in enumerate((6, 12, 20, 21)):
        came(ui, forecast(ui, f"before-{number}"), minutes)
    came(ui, forecast(ui, "elsewhere", "/q"), 500)
    say(ui, forecast(ui, "web"))
    assert "right 75 % of 4 forecasts of /p last week" in text_of(shown(ui, "/jobs/web"), "live_why")


def test_a_job_that_is_later_than_its_forecast_says_so(ui):
    begin(ui)
    say(ui, forecast(ui, "web"))
    card = text_of(shown(ui, "/jobs/web", 30 * MINUTE_MS), "live_why")
    assert "late it is 10 min later than that" in card
    assert "12:10Z, in" not in card


def test_a_time_of_another_day_has_its_date(ui):
    begin(ui)
    ui.cell.ms += DAY_MS // 2 - 12 * MINUTE_MS
    say(ui, forecast(ui, "web"))
    card = text_of(shown(ui, "/jobs/web"), "live_why")
    assert "expected start 23:53Z … 16 Nov 00:08Z" in card


def test_a_waiting_job_without_a_forecast_shows_why_and_one_that_has_begun_nothing(ui):
    begin(ui)
    assert "expected start not known why TOO_SOON it waits for less" in text_of(shown(ui, "/jobs/web"), "live_why")
    say(ui, forecast(ui, "web"))
    assert "most likely" in shown(ui, "/jobs/web")
    ui.cell.host()
    ui.cell.run("web")
    ui.cell.decide("lifecycle", RunsAvailable(**runs("web", (0,))))
    assert "expected start" not in shown(ui, "/jobs/web")


def test_a_new_forecast_is_sent_to_those_who_look(ui):
    begin(ui)
    say(ui, forecast(ui, "web"))
    ui.fold()
    load = Ui({0: ui.app.state.context}, TOKEN, None)._load_of("/jobs/web")
    with patch.object(app.time, "time", lambda: ui.cell.ms / 1000):
        before = dict(load())
        ui.cell.ms += 30 * MINUTE_MS
        say(ui, forecast(ui, "web"))
        ui.fold()
        after = dict(load())
    assert "12:05Z … 12:20Z" in before["live_why"]
    assert "12:35Z … 12:50Z" in after["live_why"]


def test_a_pool_shows_how_good_its_forecasts_were_by_method(ui):
    begin(ui)
    ui.pool("/p/q")
    came(ui, forecast(ui, "old"), 500)
    ui.cell.ms += 8 * DAY_MS
    came(ui, forecast(ui, "a"), 10)
    came(ui, forecast(ui, "b", "/p/q"), 30)
    came(ui, forecast(ui, "c", "/other"), 10)
    came(ui, forecast(ui, "d", method=ForecastMethod.CLASS), 10)
    card = text_of(shown(ui, "/pools/p"), "forecasts")
    body: Forecasts = ui.get("/v1/forecasts?pool=/p&days=7")
    assert "simulated ahead 2 jobs 50 %" in card
    assert "by what jobs of its size have waited 1 job 100 % 1 min 15 min" in card
    assert sum(each["scored"] for each in body["scores"]) == 3


def test_a_pool_without_scores_shows_no_table(ui):
    begin(ui)
    assert "How good forecasts" not in shown(ui, "/pools/p")
