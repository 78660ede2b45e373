"""Two cells on one Kafka, a process for each: every job runs where its pool is, however it came."""

import subprocess
import sys
from pathlib import Path

from events.codec import decode, encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import NewRecord
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobRejected
from events.records.parts import Simulated
from events.records.rounds import RoundCommitted
from events.topics import EVERY, SETTINGS
from tests.helpers import ROOT
from tests.helpers.broker import Broker
from tests.helpers.real_cell import CellProcess, verify


def refusals(log: KafkaLog) -> list[JobRejected]:
    """What lifecycle has refused."""
    rounds = (decode(record.value) for record in log.scan("paceline.lifecycle", 0))
    decisions = (decode(each) for event in rounds if isinstance(event, RoundCommitted) for each in event.decisions)
    return [decision for decision in decisions if isinstance(decision, JobRejected)]


def test_a_job_in_the_wrong_partition_is_told_and_the_right_cell_runs_it(tmp_path: Path, broker: Broker) -> None:
    broker.make_topics([topic.name for topic in EVERY], 2, SETTINGS)
    cells = [CellProcess(tmp_path / f"cell{cell}", broker.address, 2, cell) for cell in (0, 1)]
    for each in cells:
        each.start()
    for each in cells:
        path, cell = f"/p{each.cell}", each.cell
        answer = each.request("PUT", f"/v1/pools{path}?wait=20s", {"cell": cell})
        assert answer.status_code == 201, answer.text

    wrong = KafkaLog(broker.address, 0)
    job = JobSubmitted(job_id="far", pool="/p1", simulated=Simulated(duration_ms=100))
    value = encode(job)
    wrong.append([NewRecord("paceline.jobs", b"far", value)])
    cells[0].until(lambda: bool(refusals(wrong)))
    [told] = refusals(wrong)
    assert (told.job_id, told.code, told.cell) == ("far", "WRONG_CELL", 1)
    right = KafkaLog(broker.address, told.cell or 0)
    right.append([NewRecord("paceline.jobs", b"far", value)])
    cells[1].until(lambda: cells[1].state("far") == "SUCCEEDED")
    cells[0].until(lambda: cells[0].state("far") == "REJECTED")

    spec = {"job_id": "near", "pool": "/p1", "sim": {"duration": "100ms"}}
    answer = cells[0].request("POST", "/v1/jobs", spec)
    assert (answer.status_code, answer.json()["code"], answer.json()["cell"]) == (409, "WRONG_CELL", 1)
    assert cells[1].request("POST", "/v1/jobs", spec).status_code < 300
    cells[1].until(lambda: cells[1].state("near") == "SUCCEEDED")
    refused = cells[1].request("PUT", "/v1/pools/p0?wait=20s", {})
    assert (refused.status_code, "belongs to cell 0" in refused.json()["detail"]) == (409, True)
    for log in (wrong, right):
        log.close()
    for each in cells:
        each.stop()
        verify(each)
    other = [sys.executable, "-m", "paceline", "up", "--data", str(cells[0].data), "--cell", "1"]
    done = subprocess.run(other, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert (done.returncode, "is the data folder of cell 0, not 1" in done.stderr) == (1, True), done.stderr
