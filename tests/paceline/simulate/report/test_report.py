"""What a run leaves behind: rows that add up, and a page that stands alone."""

import csv
import json
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.main import run
from paceline.simulate.report import plots
from paceline.simulate.report.html import _of_jobs
from paceline.simulate.report.results import bounded_slowdown
from paceline.simulate.report.terminal import summary
from tests.helpers import ROOT
from tests.helpers.page import Page
from tests.helpers.play import CELL, play


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    assert run(["simulate", str(ROOT / "examples" / "scenarios" / "first.yaml"), "--out", str(folder)]) == 0
    return folder


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_for_each_job(out):
    found = {row["job_id"]: row for row in rows(out / "jobs.csv")}
    assert set(found) == {"nightly", "tiles"}
    tiles = found["tiles"]
    assert (tiles["pool"], tiles["state"], tiles["tasks"], tiles["cpu_milli"]) == ("/maps", "SUCCEEDED", "8", "1000")
    assert float(tiles["submitted_s"]) == 30
    wait, ran = float(tiles["wait_s"]), float(tiles["run_s"])
    assert float(tiles["ended_s"]) == pytest.approx(30 + wait + ran)
    assert float(tiles["bounded_slowdown"]) == pytest.approx(bounded_slowdown(wait, ran), abs=1e-4)
    assert int(found["nightly"]["runs"]) == 60 + int(found["nightly"]["lost"]) + int(found["nightly"]["preempted"])


def test_series_add_up(out):
    series = rows(out / "series.csv")
    times = [float(row["time_s"]) for row in series]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] == 300
    assert max(int(row["cpu_used"]) for row in series) == 28_000
    assert {int(row["cpu_capacity"]) for row in series[1:]} <= {24_000, 28_000}
    held: dict[str, int] = {}
    for row in rows(out / "pools.csv"):
        if row["resource"] == "cpu":
            held[row["time_s"]] = held.get(row["time_s"], 0) + int(row["allocation"])
    for row, later in zip(series, (*series[1:], series[-1]), strict=True):
        assert int(row["cpu_used"]) <= int(row["cpu_capacity"]) + 4000, "a lost host holds until its runs are ended"
        assert 0 <= float(row["fragmentation"]) <= 1
        said = max(held.get(each["time_s"], 0) for each in (row, later))
        assert int(row["cpu_used"]) <= said, "the run of a pool has a place; what pools hold is said within a second"
    jobs = rows(out / "jobs.csv")
    assert sum(int(row["preempted_runs"]) for row in series) == sum(int(job["preempted"]) for job in jobs)
    assert sum(int(row["ended_jobs"]) for row in series) == len(jobs)
    for column, of_job in (("mean_wait_s", "wait_s"), ("mean_bounded_slowdown", "bounded_slowdown")):
        total = sum(int(row["ended_jobs"]) * float(row[column]) for row in series if row[column])
        assert total == pytest.approx(sum(float(job[of_job]) for job in jobs), abs=0.01)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["jobs"] == {"SUCCEEDED": 2}
    assert all(each["holds"] for each in summary["expectations"])


def test_the_past_between_two_samples_is_told():
    """`b` takes two thirds of what `a` has, which goes on when `b` has ended."""
    session = play("""
hosts: [{name: h, count: 3, resources: {cpu: 1}}]
pools: [{path: /p}, {path: /q, reservation: {cpu: 2}}]
cell: {preemption_delay: 2s}
jobs:
  - {job_id: a, pool: /p, instances: 3, resources: {cpu: 1}, sim: {duration: 60s}}
  - {job_id: b, at: 10s, pool: /q, instances: 2, resources: {cpu: 1}, sim: {duration: 20s}}
""")
    assert (session.jobs.states, session.jobs.preempted) == ({"SUCCEEDED": 2}, 2)
    totals = [sample.totals for sample in session.series.samples]
    assert (totals[0].jobs, totals[0].preempted) == (0, 0)
    assert (totals[-1].jobs, totals[-1].preempted) == (2, 2)
    at_ms = next(sample.at_ms for sample in session.series.samples if sample.totals.preempted)
    assert 10_000 <= at_ms < 60_000, "it isn't counted when the job has ended, but when it was preempted"


def test_jobs_are_plotted_by_what_the_title_names():
    session = play("""
hosts: [{name: h, resources: {cpu: 64, gpu: 8}}]
pools: [{path: /p}]
jobs:
  - {job_id: a, pool: /p, instances: 32, resources: {cpu: 1}, sim: {duration: 10s}}
  - {job_id: b, pool: /p, instances: 2, resources: {cpu: 1.25}, sim: {duration: 10s}}
  - {job_id: c, pool: /p, instances: 3, resources: {cpu: 1, gpu: 1}, sim: {duration: 10s}}
  - {job_id: d, pool: /p, instances: 4, resources: {cpu: 1, gpu: 1}, sim: {duration: 10s}}
""")
    by_size = {at: "".join(chart for _, _, chart in _of_jobs(session.jobs, at)) for at in ("cpu", "gpu")}
    assert re.findall(r"<title>([\d. -]+): (\d) jobs, median", by_size["cpu"]) == [
        ("2.5 - 4", "3"),
        ("32", "1"),
    ]
    assert re.findall(r"<title>([\d. -]+): (\d) jobs, median", by_size["gpu"]) == [("3 - 4", "2")]
    assert "GPUs that the whole job asks for" in by_size["gpu"]


def test_pools_use_what_has_a_place_and_ask_for_all_that_runs_or_waits(capsys):
    """`large` can't be admitted, `wide` is and finds no host for its last task."""
    session = play("""
end: 10s
hosts: [{name: h, count: 3, resources: {cpu: 8, gpu: 4}}]
pools: [{path: /a}, {path: /b}, {path: /b/c, limit: {gpu: 4}}]
jobs:
  - {job_id: wide, pool: /a, instances: 4, resources: {cpu: 1, gpu: 3}, sim: {duration: 1h}}
  - {job_id: large, pool: /b/c, instances: 4, gang: {min: 4}, resources: {cpu: 1, gpu: 2}, sim: {duration: 1h}}
""")
    summary(session)
    lines = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    head = next(line for line in lines if line[0] == "POOL")
    used, asked = head.index("GPU USED"), head.index("GPU ASKED")
    assert {line[0]: (line[used], line[asked]) for line in lines if line[0][:1] == "/"} == {
        "/a": ("9", "12"),
        "/b": ("0", "8"),
        "/b/c": ("0", "8"),
    }


def test_the_page_stands_alone_and_shows_everything(out):
    page = Page()
    text = (out / "report.html").read_text()
    page.feed(text)
    assert page.open == []
    assert page.foreign == []
    assert "default-src 'none'" in text, "a browser loads nothing, whatever stands in it"
    assert page.titles == [
        *("Expectations", "The cluster over time", "Tasks", "Entitlement and allocation by pool"),
        *("Waiting times", "Slowdown by size of job", "Hosts"),
    ]
    assert len(page.charts) == 7
    assert all(page.charts)
    for word in ("/batch", "/maps", "small-2", "large-1", "cores", "time from the start", "job nightly is SUCCEEDED"):
        assert word in text
    assert "NaN" not in "".join(re.findall(r'<script type="application/json".*?</script>', text))


def test_a_run_without_anything_has_a_page_too(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("end: 1s\n")
    assert run(["simulate", str(path), "--out", str(tmp_path / "out")]) == 0
    page = Page()
    page.feed((tmp_path / "out" / "report.html").read_text())
    assert page.charts == []


def test_names_of_users_do_nothing_in_the_page(tmp_path):
    path = tmp_path / "hostile.yaml"
    path.write_text("name: '</title></script><script>hostile=1</script>'\nend: 1s\n")
    assert run(["simulate", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "<script>hostile" not in (tmp_path / "out" / "report.html").read_text()


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_ticks_are_few_round_and_reach_the_top(top):
    found = plots.ticks(top)
    assert 2 <= len(found) <= 7
    assert found[-1] >= top * (1 - 1e-9)
    assert found[-2] < top


@given(st.integers(min_value=1, max_value=10**9))
def test_times_on_an_axis_are_few_and_round(end_s):
    found = plots.time_ticks(end_s)
    assert 1 <= len(found) <= 12
    assert found[0] == 0
    assert found[-1] <= end_s
    assert [plots.duration(at) for at in (0, 90, 3600, 90_000)] == ["0", "1m30s", "1h", "1d1h"]


def test_a_run_that_somebody_looks_at_has_one_thread_too(tmp_path, monkeypatch):
    (tmp_path / "scenario.yaml").write_text(f"end: 5s\n{CELL}")
    begun = []
    monkeypatch.setattr("paceline.simulate.play.live", lambda stream: True)
    monkeypatch.setattr(threading.Thread, "start", begun.append)
    assert run(["simulate", str(tmp_path / "scenario.yaml")]) == 0
    assert begun == []
