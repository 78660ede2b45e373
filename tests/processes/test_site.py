"""Two cells, every part a process of its own."""

from pathlib import Path

from paceline.cli.demo import use
from paceline.client.client import Client
from tests.helpers.broker import Broker
from tests.helpers.site import TOKEN, Site, empty

BUSY_JOBS = 20


def test_the_main_job_runs_on_two_cells_of_processes(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 2), cells=2, sim_hosts=0)
    try:
        site.begin("agent.0", "agent.1")
        site.pool("/p", cell=0)
        site.submit("here", 20, command=["sleep", "0.2"])
        with Client(f"http://{site.address('api')}", TOKEN) as client:
            use(client, cell=1)
        site.finish("here")
        site.end()
    finally:
        site.processes.stop_all()
    found = site.verify()
    assert (found["ordered"], found["live"]) == (43, 0)


def test_a_cell_with_too_much_to_do_slows_alone(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 2), cells=2)
    try:
        site.begin()
        site.pool("/p", cell=0)
        site.pool("/q", cell=1)
        for number in range(BUSY_JOBS):
            site.submit(f"busy-{number}", 2000, "5s")
        site.submit("quick", 10, pool="/q")
        site.finish("quick")
        busy = [f"busy-{number}" for number in range(BUSY_JOBS)]
        assert "SUCCEEDED" not in {site.state(job_id) for job_id in busy[BUSY_JOBS // 2 :]}
        for job_id in busy:
            site.request("POST", f"/v1/jobs/{job_id}/stops", {"reason": "enough"})
        site.until(lambda: {site.state(job_id) for job_id in busy} <= {"KILLED", "SUCCEEDED"}, "the busy jobs to end")
        site.end()
    finally:
        site.processes.stop_all()
    assert site.verify()["live"] == 0
