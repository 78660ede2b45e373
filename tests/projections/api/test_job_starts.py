"""Tasks of ended jobs run again by the API, in a whole cell with the views that it reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from events.records.parts import Simulated
from projections.api.app import create_app
from projections.views.projector import Projector
from tests.helpers.whole_cell import Cell
from tests.projections.conftest import LISTEN, TOKEN


class Site:
    """A cell in virtual time, and the API over its views."""

    def __init__(self, folder: Path) -> None:
        self.cell = Cell(hosts=2)
        self.cell.pool("/p")
        self.projector = Projector(self.cell.log, folder)
        app = create_app(self.projector.views, self.cell.log, token=TOKEN, listen=LISTEN, cell_info=dict)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self.client = TestClient(app, f"http://{LISTEN}", headers=headers)

    def run(self, ms: int = 5000) -> None:
        self.cell.run(ms)
        while self.projector.step():
            pass

    def get(self, path: str = "") -> Any:
        return self.client.get(f"/v1/jobs/a{path}").json()

    def start(self, **body: Any) -> tuple[int, Any]:
        answer = self.client.post("/v1/jobs/a/starts", json=body)
        if answer.status_code == 202:
            self.run()
        return answer.status_code, answer.json()

    def runs(self) -> list[int]:
        return [task["run"] for task in self.get("/tasks")["tasks"]]

    def answer(self) -> tuple[str, str]:
        """The last answer to a command."""
        body = self.client.get("/v1/jobs/a/history?page_size=500").json()["events"]
        last = [each["detail"] for each in body if each["event"] == "CommandAnswered"][-1]
        return last["code"], last["message"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    held = Site(tmp_path)
    yield held
    held.client.close()
    held.projector.close()


def failing(site: Site, instances: int = 3, **spec: Any) -> None:
    """All tasks of job a fail in their first run."""
    site.cell.submit("a", instances=instances, simulated=Simulated(duration_ms=1000, fail_runs=1), **spec)
    site.run(10_000)
    assert site.get()["state"] == "FAILED"


def test_failed_tasks_run_again_as_new_runs_and_the_job_succeeds_with_its_history_kept(site: Site) -> None:
    failing(site)
    assert site.start(failed=True, reason="mended")[0] == 202
    site.run(10_000)
    job = site.get()
    assert (job["state"], job["tasks"]["succeeded"], job["reason"]) == ("SUCCEEDED", 3, None)
    assert site.runs() == [2, 2, 2]
    assert [(run["run"], run["outcome"]) for run in site.get("/tasks/1/runs")["runs"]] == [
        (2, "SUCCEEDED"),
        (1, "FAILED"),
    ]
    assert "JobReopened" in [each["event"] for each in site.get("/history?page_size=500")["events"]]
    site.cell.verify()


def test_named_tasks_run_again_and_the_others_stay_as_they_ended(site: Site) -> None:
    failing(site)
    site.start(instances="1")
    site.run(10_000)
    assert site.get()["state"] == "FAILED"
    assert [task["state"] for task in site.get("/tasks")["tasks"]] == ["FAILED", "SUCCEEDED", "FAILED"]
    assert site.answer() == ("DONE", "running 1 of 3 tasks again")
    site.start()
    site.run(10_000)
    assert (site.get()["state"], site.runs()) == ("SUCCEEDED", [3, 2, 3]), "those that succeeded are left alone"
    site.start(instances="0")
    site.run(10_000)
    assert (site.get()["state"], site.runs()) == ("SUCCEEDED", [4, 2, 3]), "unless they are named"


def test_tasks_that_ran_for_as_long_as_they_may_count_as_failed_and_stopped_ones_do_not(site: Site) -> None:
    site.cell.submit("a", instances=2, duration_ms=60_000, max_runtime_ms=8000)
    site.run(20_000)
    assert site.get()["killed_by"] == {"RUN_LIMIT": 2}
    assert site.start(failed=True)[0] == 202
    assert (site.get()["state"], site.get()["killed_by"], site.runs()) == ("RUNNING", {}, [2, 2])
    site.cell.stop("a")
    site.run(10_000)
    assert site.get()["killed_by"] == {"STOP": 2}
    status, problem = site.start(failed=True)
    why = "no task failed or ran for as long as it may; 2 were stopped: `paceline job start a` starts them"
    assert (status, problem["detail"]) == (409, why)
    assert site.start()[0] == 202


def test_a_member_of_a_gang_takes_its_gang_along(site: Site) -> None:
    failing(site, gang_min=2)
    site.start(instances="1")
    site.run(10_000)
    assert [task["state"] for task in site.get("/tasks")["tasks"]] == ["SUCCEEDED", "SUCCEEDED", "FAILED"]


def test_where_nothing_failed_nothing_is_written(site: Site) -> None:
    site.cell.submit("a")
    site.run()
    before = site.cell.log.bounds("paceline.jobs")
    assert site.get()["state"] == "SUCCEEDED"
    for body in ({}, {"failed": True}):
        status, problem = site.start(**body)
        assert (status, problem["code"]) == (409, "REPEATED")
    assert site.start(instances="7")[1]["code"] == "INVALID_SPEC"
    assert site.start(instances="0", failed=True)[0] == 422
    assert site.cell.log.bounds("paceline.jobs") == before


def test_failed_tasks_of_a_job_that_goes_on_run_again_too(site: Site) -> None:
    site.cell.submit("a", instances=2, simulated=Simulated(duration_ms=1000, fail_runs=1), max_running=1)
    site.run(1500)
    assert site.get()["tasks"]["failed"] == 1
    assert site.start(failed=True)[0] == 202
    site.run(20_000)
    assert sorted(site.runs()) == [1, 2]


def test_a_job_that_was_deleted_is_not_found(site: Site) -> None:
    failing(site)
    site.cell.delete("a")
    site.run()
    assert site.start(failed=True)[0] == 404
