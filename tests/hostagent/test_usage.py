"""What the runs of a real cell use is told live, beside what was asked for, and counted when they end."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.forked import PACELINE
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until

pytestmark = [pytest.mark.outside, pytest.mark.xdist_group("usage")]
BUSY = [sys.executable, "-c", "x = b'x' * (64 << 20)\nwhile True: pass"]
ASKED = {"cpu": 0.5, "memory": "96MiB"}


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    made = CellProcess(tmp_path_factory.mktemp("usage") / "data", sim_hosts=1, agent=True)
    made.start()
    try:
        made.pool("/p")
        yield made
    finally:
        made.end()


def submit(cell: CellProcess, job_id: str, command: list[str], **more: Any) -> None:
    measured = {"attribute": "paceline/usage", "operator": "exists"}
    spec = {"job_id": job_id, "pool": "/p", "command": command, "resources": ASKED, "constraints": [measured]}
    answer = cell.request("POST", "/v1/jobs", {**spec, **more})
    assert answer.status_code < 300, answer.text


def test_runs_say_what_they_use_beside_what_they_asked_for(cell: CellProcess) -> None:
    submit(cell, "busy", BUSY, instances=2)
    submit(cell, "idle", ["sleep", "1000"])
    found: dict[str, Any] = {}

    def measured() -> bool:
        found.update(cell.get("/v1/jobs/busy/usage").json())
        runs = found.get("runs", [])  # before the job is in the views there is a problem
        return len(runs) == 2 and all(run["cpu_milli"] > 0 for run in runs)

    until(measured, "both runs to be measured twice", 60)
    first = found["runs"][0]
    assert (first["instance"], first["run"], found["silent"], found["hosts_left_out"]) == (0, 1, [], 0)
    assert (first["asked_cpu_milli"], first["asked_memory_kib"]) == (500, 96 * 1024)
    assert 64 * 1024 < first["memory_kib"] < 128 * 1024
    host = cell.get(f"/v1/hosts/{first['host_id']}/usage").json()
    assert {run["job_id"] for run in host["runs"]} == {"busy", "idle"}
    [idle] = [run for run in host["runs"] if run["job_id"] == "idle"]
    assert (idle["cpu_milli"], idle["idle_s"] >= 4) == (0, True)


def paceline(cell: CellProcess, *words: str) -> list[list[str]]:
    """The words of each line that a command prints."""
    done = subprocess.run([*PACELINE, *words, "--data", str(cell.data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_top_shows_it_for_a_job_a_host_and_all_hosts(cell: CellProcess) -> None:
    until(lambda: len(cell.get("/v1/jobs/busy/usage").json()["runs"]) == 2, "both runs to be measured")
    title, *rows = paceline(cell, "job", "top", "busy", "--once")
    assert title[:6] == ["TASK", "RUN", "HOST", "CPU", "ASKED", "MiB"]
    assert [row[:2] for row in rows] == [["0", "1"], ["1", "1"]]
    host_id = rows[0][2]
    assert {row[0] for row in paceline(cell, "host", "top", host_id)} == {"JOB", "busy", "idle"}
    assert any(row[0] == host_id for row in paceline(cell, "host", "top"))


def test_a_host_that_measures_nothing_says_so(cell: CellProcess) -> None:
    [simulated] = [each for each in cell.get("/v1/hosts").json()["hosts"] if "paceline/usage" not in each["attributes"]]
    answer = cell.get(f"/v1/hosts/{simulated['host_id']}/usage")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the host doesn't measure its runs")
    assert cell.get("/v1/hosts/nobody/usage").status_code == 404
    assert cell.get("/v1/jobs/nobody/usage").status_code == 404


def test_ended_runs_are_summed_and_written_as_a_table_and_as_csv(cell: CellProcess) -> None:
    submit(cell, "done", [sys.executable, "-c", "x = sum(range(20_000_000))"], owner="ann")
    until(lambda: cell.state("done") == "SUCCEEDED", "the job to end")
    title, row = paceline(cell, "usage", "--by", "owner", "--owner", "ann")
    assert (title[0], row[:2]) == ("OWNER", ["ann", "1"])
    [names, values] = [
        line.split(",") for [line] in paceline(cell, "usage", "--by", "job", "--owner", "ann", "-o", "csv")
    ]
    sums = dict(zip(names, values, strict=True))
    assert (sums["job_id"], sums["pool"], sums["owner"], sums["measured_runs"]) == ("done", "/p", "ann", "1")
    assert int(sums["used_cpu_ms"]) > 100
    assert int(sums["peak_memory_kib"]) > 4096
    assert paceline(cell, "usage", "--by", "owner", "--since", "2999-01")[1:] == []


def test_the_pages_of_a_job_and_of_its_host_ask_for_it(cell: CellProcess) -> None:
    until(lambda: cell.get("/v1/jobs/busy/usage").json()["runs"], "a run to be measured")
    host_id = cell.get("/v1/jobs/busy/usage").json()["runs"][0]["host_id"]
    assert 'data-usage="/v1/jobs/busy/usage"' in cell.get("/ui/jobs/busy").text
    assert f'data-usage="/v1/hosts/{host_id}/usage"' in cell.get(f"/ui/hosts/{host_id}").text
    [other] = {each["host_id"] for each in cell.get("/v1/hosts").json()["hosts"]} - {host_id}
    assert "data-usage" not in cell.get(f"/ui/hosts/{other}").text
