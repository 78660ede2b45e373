"""The answers about forecasts of starts: of a job, of all that wait, and what came of them."""

from typing import Any

import pytest

from events.codec import encode
from events.log.port import NewRecord
from events.records.forecasts import ForecastsScored
from events.records.lifecycle import JobHeld
from events.topics import FORECASTS
from paceline.forecast.records import made
from tests.helpers.written_cell import admitted, unplaced
from tests.projections.conftest import Api
from tests.projections.ui.test_forecasts import DAY_MS, begin, came, forecast, say

TIMES = {
    "low": "2023-11-15T12:05:00.000Z",
    "median": "2023-11-15T12:10:00.000Z",
    "high": "2023-11-15T12:20:00.000Z",
    "made_at": "2023-11-15T12:00:00.000Z",
}

NEVER_MS = 2**63 - 1


def of(job_id: str, pool: str = "/p", **more: Any) -> dict[str, Any]:
    return {"job_id": job_id, "pool": pool, **TIMES, "method": "ahead", "scored": 0, "inside_percent": None, **more}


def test_a_waiting_job_and_what_explains_it_have_the_forecast(api: Api) -> None:
    begin(api)
    say(api, forecast(api, "web"))
    api.fold()
    assert api.get("/v1/jobs/web")["forecast"] == of("web")
    assert api.get("/v1/jobs/web/explanation")["forecast"] == of("web")


def why_not(api: Api, job_id: str) -> str | None:
    """The code of why a job has no forecast, which both answers have."""
    api.fold()
    job, explanation = api.get(f"/v1/jobs/{job_id}"), api.get(f"/v1/jobs/{job_id}/explanation")
    assert job["no_forecast"] == explanation["no_forecast"]
    assert (job["no_forecast"] is None) == (job["forecast"] is not None or job["started_at"] is not None)
    return str(job["no_forecast"]["code"]) if job["no_forecast"] else None


def test_a_job_without_a_forecast_says_why(api: Api) -> None:
    begin(api)
    assert why_not(api, "web") == "TOO_SOON"
    api.cell.ms += 5 * 60_000
    api.cell.decide("lifecycle", JobHeld(job_id="other", held=True))  # time goes on
    assert why_not(api, "web") == "UNKNOWN"
    say(api, forecast(api, "web"))
    assert why_not(api, "web") is None


def test_a_forecast_of_a_job_that_is_held_doesnt_count_until_it_is_released(api: Api) -> None:
    begin(api)
    say(api, forecast(api, "web"))
    api.cell.decide("lifecycle", JobHeld(job_id="web", held=True))
    assert why_not(api, "web") == "HELD"
    api.cell.decide("lifecycle", JobHeld(job_id="web", held=False))
    assert why_not(api, "web") is None


def test_a_daemon_and_a_job_that_fits_no_host_say_so(api: Api) -> None:
    begin(api)
    api.cell.accept("node-agent", pool="/p", kind="daemon")
    assert why_not(api, "node-agent") == "DAEMON"
    api.cell.decide("entitlement", admitted("web", (0,), 1))
    api.cell.decide("placement", unplaced("web", "NEVER_FITS"))
    assert why_not(api, "web") == "NEVER_FITS"


def test_beside_it_stands_what_came_of_those_of_its_pool_in_seven_days_up_to_then(api: Api) -> None:
    begin(api)
    came(api, forecast(api, "too-old"), 500)
    api.cell.ms += 7 * DAY_MS
    for number, minutes in enumerate((4, 5, 20)):
        came(api, forecast(api, f"of-{number}"), minutes)
    say(api, forecast(api, "web"))
    api.fold()
    found = api.get("/v1/jobs/web")["forecast"]
    assert (found["scored"], found["inside_percent"]) == (3, 67)


def test_a_later_forecast_takes_the_place_of_the_first_until_the_job_has_begun(api: Api) -> None:
    begin(api)
    first = forecast(api, "web")
    say(api, first)
    say(api, first._replace(interval=first.interval._replace(median=360_000)))
    api.fold()
    [row] = api.get("/v1/forecasts?pool=/p")["forecasts"]
    assert row == of("web", median="2023-11-15T12:06:00.000Z")
    came(api, first, 7)
    api.fold()
    assert api.get("/v1/forecasts?pool=/p")["forecasts"] == []


def test_all_forecasts_are_listed_by_id_in_pages_and_those_of_a_pool_with_the_pools_below_it(api: Api) -> None:
    begin(api)
    for path in ("/p/q", "/p-other"):
        api.pool(path)
    say(api, *(forecast(api, *each) for each in (("c", "/p/q"), ("a", "/p"), ("b", "/p-other"))))
    api.fold()
    first = api.get("/v1/forecasts?page_size=2")
    assert [each["job_id"] for each in first["forecasts"]] == ["a", "b"]
    rest = api.get(f"/v1/forecasts?page_size=2&page_token={first['next_page_token']}")
    assert ([each["job_id"] for each in rest["forecasts"]], rest["next_page_token"]) == (["c"], "")
    assert [each["job_id"] for each in api.get("/v1/forecasts?pool=/p")["forecasts"]] == ["a", "c"]


def test_scores_are_of_each_pool_method_and_day(api: Api) -> None:
    begin(api)
    came(api, forecast(api, "old"), 500)
    api.cell.ms += DAY_MS
    came(api, forecast(api, "a"), 10)
    came(api, forecast(api, "b"), 40)
    expected = {"pool": "/p", "method": "ahead", "day": "2023-11-16", "scored": 2, "inside_percent": 50}
    api.fold()
    # 10 minutes: 2/3 of (0.1 * 5 + 0.1 * 10) minutes are 60 s; 40: 2/3 of (0.1 * 35 + 0.5 * 30 + 0.9 * 20) are 1460 s
    assert api.get("/v1/forecasts?days=1")["scores"] == [{**expected, "loss_s": 760.0, "width_s": 900.0}]
    assert [each["day"] for each in api.get("/v1/forecasts?days=2")["scores"]] == ["2023-11-16", "2023-11-15"]


def test_a_pool_that_is_none_isnt_found(api: Api) -> None:
    api.problem(api.client.get("/v1/forecasts?pool=/none"), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    "item",
    [{"pool": [7]}, {"pool": [-1]}, {"began": [NEVER_MS]}, {"low": [-NEVER_MS], "high": [NEVER_MS]}, {"method": []}],
)
def test_an_item_that_can_not_be_is_passed_over(api: Api, item: dict[str, list[int]]) -> None:
    begin(api)
    say(api, forecast(api, "web"))
    now = api.cell.ms
    times = {name: [now] for name in ("made", "low", "median", "high", "began")}
    event = ForecastsScored.pack(job_ids=("web",), pools=("/p",), **{"pool": [0], "method": [1], **times, **item})
    api.cell.log.append([NewRecord(FORECASTS.name, b"", encode(event))])
    api.fold()
    assert api.get("/v1/jobs/web")["forecast"] == of("web")
    assert api.get("/v1/forecasts")["scores"] == []


def test_a_method_of_a_newer_forecaster_is_named_by_its_number(api: Api) -> None:
    begin(api)
    first = forecast(api, "web")
    [event] = made([first._replace(raw=first.raw._replace(method=77))])  # type: ignore[arg-type]
    api.cell.fact(event)
    api.fold()
    assert api.get("/v1/jobs/web")["forecast"] == of("web", method="method 77")
