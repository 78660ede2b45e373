"""Forecasts of starts on the command line."""

import pytest

from tests.paceline.cli.test_commands import EXPLANATION
from tests.paceline.fake import job

FORECAST = {
    "job_id": "a",
    "pool": "/maps",
    "low": "2026-08-21T12:12:00Z",
    "median": "2026-08-21T12:14:29Z",
    "high": "2026-08-21T12:16:59Z",
    "made_at": "2026-08-21T12:10:31Z",
    "method": "ahead",
    "scored": 412,
    "inside_percent": 79,
}
LINE = "12:12 … 12:16 (80 %), most likely 12:14; made 12:10; forecasts of /maps last week: 79 % right"


def line_of(out: str) -> str:
    """The line of the forecast, without what stands before it."""
    [line] = [each for each in out.splitlines() if "expected start" in each]
    return line.split("expected start", 1)[1].lstrip(": ")


def test_a_waiting_job_says_when_it_is_expected_to_begin(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job("a", state="PENDING", forecast=FORECAST))
    assert line_of(cli("job", "get", "a", "--utc")[1]) == LINE


def test_what_explains_a_job_says_it_too(cli, cell):
    cell.answer("GET", "/v1/jobs/a/explanation", EXPLANATION | {"forecast": FORECAST})
    out = cli("job", "explain", "a", "--utc")[1]
    assert line_of(out) == LINE
    assert out.splitlines()[2].startswith("  expected start: ")


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"high": "2026-08-22T00:05:00Z"}, "12:12 … 22 Aug 00:05 (80 %), most likely 12:14; made 12:10"),
        (
            {"made_at": "2026-08-20T23:59:00Z"},
            "21 Aug 12:12 … 21 Aug 12:16 (80 %), most likely 21 Aug 12:14; made 23:59",
        ),
    ],
)
def test_a_time_of_another_day_than_the_forecast_has_its_date(cli, cell, times, said):
    cell.answer("GET", "/v1/jobs/a", job("a", forecast=FORECAST | times))
    assert line_of(cli("job", "get", "a", "--utc")[1]).startswith(said)


def test_a_pool_without_scores_says_so(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job("a", forecast=FORECAST | {"scored": 0, "inside_percent": None}))
    line = line_of(cli("job", "get", "a", "--utc")[1])
    assert line.endswith("; no forecast of /maps was scored yet")


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        (None, "TOO_SOON", "not known: TOO_SOON, it waits for less than two minutes"),
        ("HELD", "HELD", "not known: HELD"),
        ("BEHIND_IN_QUEUE", "UNKNOWN", "not known: UNKNOWN, it waits for less than two minutes"),
    ],
)
def test_a_waiting_job_without_a_forecast_says_why(cli, cell, reason, code, said):
    more = {"forecast": None, "no_forecast": {"code": code, "message": "it waits for less than two minutes"}}
    headline = {"code": reason, "message": "so it is", "actor": "you"} if reason else None
    cell.answer("GET", "/v1/jobs/a", job("a", reason=headline, **more))
    assert line_of(cli("job", "get", "a")[1]) == said
    cell.answer("GET", "/v1/jobs/a/explanation", EXPLANATION | more | ({"headline": headline} if headline else {}))
    assert line_of(cli("job", "explain", "a")[1]).startswith("not known: ")


@pytest.mark.parametrize("more", [{}, {"forecast": None}, {"forecast": None, "no_forecast": None}])
def test_without_a_forecast_there_is_no_line(cli, cell, more):
    cell.answer("GET", "/v1/jobs/a", job("a", **more))
    assert "expected start" not in cli("job", "get", "a")[1]
    cell.answer("GET", "/v1/jobs/a/explanation", EXPLANATION | more)
    assert "expected start" not in cli("job", "explain", "a")[1]
