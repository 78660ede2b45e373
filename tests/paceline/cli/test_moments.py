"""Commands that look at the past."""

import json
from collections.abc import Callable

import pytest

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
