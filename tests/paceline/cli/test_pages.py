"""Commands that pages name as saying the same."""

import shlex
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.datastructures import QueryParams

from projections.ui.pages.job_filters import asked

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    "query",
    [
        "",
        "state=FAILED,RUNNING&pool=/a%20b&owner=it's&label=k:v&text=--a&sort=wait&since=2026-01-01",
        "since=24h&group=owner",
        "owner=a&owner=b&label=x:&label=y:z",
    ],
)
def test_the_command_of_the_list_of_jobs_asks_for_the_same_as_the_address(cli, cell, query):
    cell.answer("GET", "/v1/jobs", {"jobs": [], "next_page_token": ""})
    wish = asked(QueryParams(query))
    assert cli(*shlex.split(wish.command(NOW_MS))[1:])[0] == 0
    said = {name: value for name, value in cell.asked[0].query.items() if name != "page_size"}
    there = {name: values[-1] for name, values in parse_qs(urlsplit(wish.api(NOW_MS)).query).items()}
    if "24h" in query:
        assert said.pop("since") > there.pop("since")  # counted back from when the command is run
    assert said == there
