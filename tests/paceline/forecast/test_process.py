"""`paceline up` forecasts a job that waits, and says what came of it."""

import json
import subprocess
from pathlib import Path

import pytest

from events.codec import encode
from events.log.embedded import EmbeddedLog, wall_clock_ms
from events.log.port import NewRecord
from events.records.pools import PoolDefined
from hostagent.fleet import SIM_CAPACITY
from tests.helpers import ROOT
from tests.helpers.forked import PACELINE
from tests.helpers.real_cell import CellProcess, verify
from tests.helpers.written_cell import job

pytestmark = pytest.mark.outside
WAITED_MS = 300_000


def of_all_cpu(job_id: str) -> NewRecord:
    """A job that needs all that the host has."""
    cpu = f"{SIM_CAPACITY['cpu']}m"
    fact = job(job_id, resources={"cpu": cpu}, max_runtime="10m", sim={"duration": "9m"})
    return NewRecord(fact.topic, job_id.encode(), encode(fact))


def test_a_job_that_waits_has_a_forecast_and_when_it_has_begun_that_is_scored(tmp_path: Path) -> None:
    data = tmp_path / "cell"
    log = EmbeddedLog(data / "log", now_ms=lambda: wall_clock_ms() - WAITED_MS)
    pool = PoolDefined(path="/p", command_id="c")
    log.append([NewRecord(pool.topic, b"/p", encode(pool)), of_all_cpu("first"), of_all_cpu("second")])
    log.close()
    cell = CellProcess(data, sim_hosts=1)
    cell.start()
    try:
        cell.until(lambda: cell.get("/v1/jobs/second").json().get("forecast") is not None, 120)
        forecast = cell.get("/v1/jobs/second").json()["forecast"]
        assert (forecast["pool"], forecast["method"], forecast["inside_percent"]) == ("/p", "ahead", None)
        assert forecast["made_at"] <= forecast["low"] <= forecast["median"] <= forecast["high"]
        words = [*PACELINE, "job", "get", "second", "--data", str(data)]
        assert "expected start" in subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60).stdout
        assert cell.get("/v1/jobs/first").json()["forecast"] is None
        cell.request("POST", "/v1/jobs/first/stops", {"reason": "enough"})
        cell.until(lambda: bool(cell.get("/v1/forecasts?pool=/p").json()["scores"]), 60)
        body = cell.get("/v1/forecasts?pool=/p").json()
        assert body["forecasts"] == []
        [score] = body["scores"]
        assert (score["method"], score["scored"]) == ("ahead", 1), json.dumps(body)
    finally:
        cell.stop()
    verify(cell)
