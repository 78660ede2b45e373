"""The list of jobs as a page: what it shows, counts and links to."""

import csv
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from events.codes import Outcome
from projections.ui.job_columns import COLUMNS
from projections.ui.pages import jobs
from projections.ui.pages.jobs import SHOWN
from tests.helpers.written_cell import ended, held
from tests.projections.queries.test_job_list import fill
from tests.projections.ui.views import Pages, links, pages, text_of

HOSTILE = "\"'><script>alert(1)</script>\u202e\x07"


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as held_pages:
        yield held_pages


def ids(html: str) -> list[str]:
    """The jobs of a page, from the first to the last."""
    return re.findall(r'<tr id="job-\d+-([^"]+)"', html)


def every_page(ui: Pages, path: str) -> list[str]:
    """The jobs of all pages, by the link to the next one."""
    found: list[str] = []
    while path:
        html = ui.page(path.removeprefix("/ui"))
        found += ids(html)
        path = next(iter(links(html, "Next")), "")
    return found


def test_a_job_that_waits_says_why_and_who_can_act(ui):
    ui.cell.accept("tile-server", instances=3, owner="maps", pool="/p", priority=7)
    ui.cell.run("tile-server", (0,))
    ui.cell.changed("RUNNING", "tile-server")
    ui.cell.decide("entitlement", held("tile-server", (1, 2), limit={"cpu": 1000}, allocated={"cpu": 1000}))
    ui.fold()
    row = text_of(ui.page("/jobs"), "job-0-tile-server")
    for each in ("Running", "LIMIT_REACHED", "pool owner", "would exceed the limit of pool /p", "/p", "maps", "7"):
        assert each in row
    assert "of 3" in row


def test_a_job_that_is_over_says_how_much_of_it_is_done(ui):
    ui.cell.accept("night", instances=2)
    ui.cell.run("night", (0, 1))
    ui.cell.decide("lifecycle", ended("night", (0, 1), Outcome.SUCCEEDED))
    ui.cell.changed("SUCCEEDED", "night")
    ui.fold()
    assert "2 of 2 done" in text_of(ui.page("/jobs"), "job-0-night")


@pytest.mark.parametrize(
    "query", ["", "?pool=/a", "?state=PENDING,RUNNING&owner=ann", "?text=tile&label=k:v", "?sort=wait&group=owner"]
)
def test_the_page_shows_what_the_address_in_its_foot_answers(ui, query):
    fill(ui, 3, jobs=140)
    html = ui.page(f"/jobs{query}")
    address = unescape(re.search(r'<a href="(/v1/jobs[^"]*)">JSON</a>', html)[1])
    answered = ui.get(address, params={**parse_qs(urlsplit(address).query), "page_size": 1000})["jobs"]
    listed = [job["job_id"] for job in answered]
    assert every_page(ui, f"/jobs{query}") == listed
    assert text_of(html, "live_jobs_total").split()[0] == f"{len(listed):,}"
    assert len(listed) > 3
    assert len(ids(html)) == min(SHOWN, len(listed))


def test_a_pool_needs_no_slash(ui):
    fill(ui, 3)
    assert ids(ui.page("/jobs?pool=a")) == ids(ui.page("/jobs?pool=%2Fa")) != []


def test_states_are_counted_and_lead_to_their_jobs(ui):
    fill(ui, 5)
    html = ui.page("/jobs?pool=/a")
    for state in ("Running", "Pending", "Failed"):
        [address] = links(html.split('id="live_jobs_facets"')[1].split("</nav>")[0], state)
        count = int(re.search(rf"{state}</span></span> <b>(\d+)</b>", html)[1])
        shown = ui.page(address.removeprefix("/ui"))
        assert len(ids(shown)) == count > 0
        assert "pool=%2Fa" in address


@pytest.mark.parametrize("group", ["pool", "owner", "state"])
def test_a_group_leads_to_as_many_jobs_as_it_counts(ui, group):
    fill(ui, 6)
    table = ui.page(f"/jobs?group={group}").split('id="live_jobs_groups"')[1].split("</table>")[0]
    rows = re.findall(r'<a href="([^"]+)">(?:.*?)</td><td class="n">(\d+)</td>', table)
    assert len(rows) >= 2
    for address, count in rows:
        found = every_page(ui, unescape(address))
        assert len(found) >= int(count) if group == "pool" else len(found) == int(count)
    counts = re.findall(r'</td><td class="n">(\d+)</td><td', table)
    assert sum(map(int, counts)) == 60


def test_jobs_are_grouped_by_the_keys_of_labels_and_by_the_values_of_one(ui):
    for job_id, labels in (("a", {"team": "maps", "env": "x"}), ("b", {"team": "maps"}), ("c", {"team": "web"})):
        ui.cell.accept(job_id, labels=labels)
    ui.cell.run("a", (0,))
    ui.cell.changed("RUNNING", "a")
    ui.cell.accept("d")
    ui.fold()
    keys = ui.page("/jobs?group=label")
    assert text_of(keys, "live_jobs_groups").endswith("team 3 2 env 1 0")
    [address] = links(keys.split('id="live_jobs_groups"')[1].split("</table>")[0], "team")
    values = ui.page(address.removeprefix("/ui")).split("</table>")[0]
    assert "maps 2 1" in text_of(values, "live_jobs_groups")
    assert "without it 1 1" in text_of(values, "live_jobs_groups")
    assert 'aria-label="1 pending, 1 running"' in values
    [address] = links(values.split('id="live_jobs_groups"')[1], "maps")
    assert ids(ui.page(address.removeprefix("/ui"))) == ["b", "a"]


def test_a_list_has_the_columns_that_its_address_names(ui):
    ui.cell.accept("a", owner="ann", labels={"team": "maps"}, priority=7)
    ui.fold()
    html = ui.page("/jobs?columns=job,owner&columns=labels,PRIORITY,reason,ended")
    heads = re.findall(r"<th[^>]*>(?:<span.*?</span>)?(\w*)</th>", html.split('id="live_jobs"')[1])
    assert heads == ["", "Job", "Owner", "Labels", "Priority", "Reason", "Ended"]
    assert text_of(html, "job-0-a").split() == ["a", "a", "ann", "team:maps", "7", "NOT_YET_EVALUATED", "-"]
    assert "columns=job%2Cowner%2Clabels%2Cpriority%2Creason%2Cended" in links(html, "longest wait first")[0]
    assert "paceline job list --columns job,owner,labels,priority,reason,ended" in html


def exported(ui: Pages, query: str) -> list[list[str]]:
    answer = ui.browser.get(f"/ui/jobs.csv?{query}")
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.reader(answer.text.splitlines()))


@pytest.mark.parametrize("query", ["", "pool=/a&state=PENDING,RUNNING", "sort=wait", "text=tile&columns=owner,job"])
def test_what_is_filtered_is_exported(ui, query, monkeypatch):
    monkeypatch.setattr(jobs, "EXPORTED_AT_ONCE", 7)
    fill(ui, 3, jobs=140)
    titles, *rows = exported(ui, query)
    assert titles == (["owner", "job"] if "columns" in query else [name for name in COLUMNS if name != "cell"])
    assert [row[titles.index("job")] for row in rows] == every_page(ui, f"/jobs?{query}")
    [address] = links(ui.page(f"/jobs?{query}"), "CSV")
    assert exported(ui, urlsplit(address).query)[1:] == rows


def test_an_export_has_no_formulas(ui):
    hostile = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", " =1", "＝1"]
    for number, text in enumerate(hostile):
        ui.cell.accept(f"j{number}", owner=text, labels={text: 'a"b,c'}, priority=3)
    ui.fold()
    rows = exported(ui, "columns=owner,labels,priority")[1:]
    assert rows == [[f"'{text}", f"'{text}:a\"b,c", "3"] for text in reversed(hostile)]


def test_an_export_of_too_many_jobs_says_so(ui, monkeypatch):
    monkeypatch.setattr(jobs, "EXPORTED_MAX", 1)
    fill(ui, 3, jobs=4)
    answer = ui.browser.get("/ui/jobs.csv")
    assert (answer.status_code, answer.json()["code"]) == (422, "TOO_LARGE")
    assert "4 jobs are asked for; an export has 1 at most" in answer.json()["detail"]


def test_reasons_are_counted_by_tasks(ui):
    ui.cell.accept("a", instances=3)
    ui.cell.decide("entitlement", held("a", (0, 1)))
    ui.fold()
    table = text_of(ui.page("/jobs?group=reason"), "live_jobs_groups")
    assert "LIMIT_REACHED 1 2" in table
    assert "NOT_YET_EVALUATED 1 1" in table


def test_names_of_users_are_text_and_nothing_else(ui):
    ui.cell.accept("a", owner=HOSTILE, labels={HOSTILE: HOSTILE}, command=[HOSTILE])
    ui.fold()
    html = ui.page("/jobs", params={"text": HOSTILE, "owner": HOSTILE, "label": f"x:{HOSTILE}", "pool": HOSTILE})
    html += ui.page("/jobs", params={"group": "owner"})
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert r"\u202e" in html


def test_an_empty_list_says_what_would_fill_it(ui):
    assert "paceline job submit" in ui.page("/jobs")
    assert "Show all" in ui.page("/jobs?text=nothing")


@pytest.mark.parametrize("query", ["state=NONE", "label=k", "since=yesterday", "page_token=x", "columns=age"])
def test_what_cannot_be_asked_for_is_refused_in_words(ui, query):
    assert ui.browser.get(f"/ui/jobs?{query}").status_code in (400, 422)
