"""Commands that look at the past."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Self

import pytest

from paceline.cli.commands import common
from tests.paceline.fake import FakeCell, job

Cli = Callable[..., tuple[int, str, str]]
MAKING = "MOMENT_IN_THE_MAKING"
JOBS = {"jobs": [], "next_page_token": ""}
MARKS = {"At": "0/placement/round/8", "As_Of": "2023-11-14T22:13:40.000Z"}


def test_every_page_of_an_answer_is_asked_for_with_the_moment(cell: FakeCell, cli: Cli) -> None:
    cell.answer("GET", "/v1/hosts", {"hosts": [], "next_page_token": "more"}, **MARKS)
    cell.answer("GET", "/v1/hosts", {"hosts": [], "next_page_token": ""}, **MARKS)
    code, out, err = cli("host", "list", "--at", "placement/round/8", "-o", "json")
    assert (code, json.loads(out)) == (0, {"hosts": [], "next_page_token": ""})
    assert [asked.query["at"] for asked in cell.asked] == ["placement/round/8", "placement/round/8"]
    assert err == "as of 0/placement/round/8, 2023-11-14T22:13:40.000Z\n"


def test_ages_are_those_at_the_moment(cell: FakeCell, cli: Cli) -> None:
    first = {"jobs": [job()], "next_page_token": ""}
    cell.answer("GET", "/v1/jobs", first, At="0/placement/round/8", As_Of="2026-08-21T10:42:00.000Z")
    cell.answer("GET", "/v1/jobs", first)
    assert " 53s ago" in cli("job", "list", "--at", "placement/round/8")[1]
    assert " 3m12s ago" in cli("job", "list")[1]


def test_a_time_without_a_zone_is_local(cell: FakeCell, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cell.answer("GET", "/v1/jobs", JOBS)
    cli("job", "list", "--at", "2023-11-14T22:13:40+01:00")
    assert cell.asked[-1].query["at"] == "2023-11-14T21:13:40.000Z"
    local = "2023-11-14T22:13:40"
    cli("job", "list", "--at", local)
    shown = cell.asked[-1].query["at"]
    assert shown.endswith(":13:40.000Z")


NOW = datetime(2026, 8, 21, 10, 44, 19, tzinfo=UTC)


class FixedClock(datetime):
    """It is always the time of the fake jobs."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW.timestamp(), tz)


@pytest.mark.parametrize("written", ["10m", "10m ago"])
@pytest.mark.parametrize(("option", "name"), [("--at", "at"), ("--since", "since")])
def test_a_time_may_be_so_long_ago(
    cell: FakeCell, cli: Cli, monkeypatch: pytest.MonkeyPatch, option: str, name: str, written: str
) -> None:
    monkeypatch.setattr(common, "datetime", FixedClock)
    cell.answer("GET", "/v1/jobs", JOBS)
    cli("job", "list", option, written)
    assert cell.asked[-1].query[name] == "2026-08-21T10:34:19.000Z"


def test_days_are_a_unit_and_what_is_no_time_says_both_forms(
    cell: FakeCell, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "datetime", FixedClock)
    cell.answer("GET", "/v1/jobs", JOBS)
    cli("job", "list", "--since", "1d")
    assert cell.asked[-1].query["since"] == "2026-08-20T10:44:19.000Z"
    code, _, err = cli("job", "list", "--since", "yesterday")
    assert code == 2
    assert "neither so long ago, such as 24h or 7d, nor a time, such as 2026-08-21T10:44:07Z" in err
    assert cli("job", "wait", "a", "--timeout", "1w")[0] == 2


def test_what_names_no_moment_says_all_forms(cell: FakeCell, cli: Cli) -> None:
    code, _, err = cli("job", "list", "--at", "yesterday")
    assert code == 2
    assert "'yesterday' names no moment: write how long ago it was (10m)" in err
    assert cell.asked == []
    cell.answer("GET", "/v1/jobs", JOBS)
    for written in ("placement/round/8", "0/paceline.lifecycle:57"):
        cli("job", "list", "--at", written)
        assert cell.asked[-1].query["at"] == written


def test_while_views_are_made_the_command_waits_and_says_how_far_they_are(cell: FakeCell, cli: Cli) -> None:
    cell.problem("GET", "/v1/jobs", 503, MAKING, "being made", done=2_000, of=9_000)
    cell.answer("GET", "/v1/jobs", JOBS, **MARKS)
    code, _, err = cli("job", "list", "--at", "placement/round/8")
    assert code == 0
    assert err.splitlines()[0] == "the views of that moment are being made: 2,000 of 9,000 records"
    assert len(cell.asked) == 2


@pytest.mark.parametrize(
    "command",
    [
        "job get web", "job list", "job tasks web", "job runs web 0", "job throttled", "job history web",
        "job versions web", "job diff web", "job updates web", "job explain web", "pool get /p", "pool list",
        "pool tree", "pool queue /p", "pool explain /p", "host get h", "host list", "volume list", "cell get",
    ],
)  # fmt: skip
def test_each_command_that_reads_takes_a_moment(cell: FakeCell, cli: Cli, command: str) -> None:
    code, _, err = cli(*command.split(), "--at", "placement/round/8")
    assert (code, "no such option" in err.lower()) != (2, True)
    assert cell.asked
    assert {asked.query.get("at") for asked in cell.asked} == {"placement/round/8"}


def test_the_present_says_nothing_of_moments(cell: FakeCell, cli: Cli) -> None:
    cell.answer("GET", "/v1/jobs", JOBS)
    code, _, err = cli("job", "list", "-o", "json")
    assert (code, err) == (0, "")
