"""The whole cell, as a user starts it, on the embedded log and on a real Kafka: killed, interrupted, raced for."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from events.codec import decode, encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import NewRecord
from events.records.base import Event
from events.records.hosts import GatewayBeat, HostConnected
from events.records.jobs import JobSubmitted
from events.records.parts import Actor
from events.topics import EVERY, HOSTS, MACHINES, SETTINGS
from tests.helpers import ROOT
from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.ports import kept_address
from tests.helpers.real_cell import CellProcess, verify
from tests.storms.storm import CELL, storm, ways

PACELINE = [sys.executable, "-m", "paceline"]


@pytest.fixture
def kafka(broker: Broker) -> Broker:
    """The broker of this test process, with empty topics."""
    broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
    return broker


def run(*arguments: str, timeout: float = 150.0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(arguments, capture_output=True, text=True, timeout=timeout, cwd=ROOT, env=environment)


def test_make_storm_storms_everywhere_and_counts() -> None:
    done = run(sys.executable, "-m", "tests.storms", "3", "200", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    totals = json.loads(done.stdout.splitlines()[-1])
    assert totals["kills"] >= 3 + len(MACHINES)  # each machine is taken over first
    assert totals["tasks"] > 200
    assert {totals[name] for name in ("lost", "doubled", "hash_mismatches", "violations")} == {0}


@pytest.mark.parametrize("embedded", [True, False], ids=["the embedded log", "kafka"])
def test_harmed_in_each_way_under_load(tmp_path: Path, kafka: Broker, embedded: bool) -> None:
    faults = [(way, CELL) for way in ("kill -9", *ways(embedded), "kill -9", "kill -9")]
    found = storm(tmp_path, faults, 1, "" if embedded else kafka.address)
    assert (found.lost, found.doubled, found.hash_mismatches, found.violations) == (0, 0, 0, 0), found
    assert len(found.times_s) == len(faults)


def test_a_foreign_producer_needs_nothing_of_ours(tmp_path: Path, kafka: Broker) -> None:
    cell = CellProcess(tmp_path / "cell", kafka.address)
    cell.start()
    cell.pool("/maps")
    cell.pool("/maps/tiles")
    done = run(sys.executable, str(ROOT / "examples" / "foreign_producer.py"), kafka.address, "from-afar")
    assert done.returncode == 0, done.stderr
    jobs: list[str] = []

    def one_has_ended() -> bool:
        jobs[:] = [job["job_id"] for job in cell.get("/v1/jobs").json()["jobs"] if job["state"] == "SUCCEEDED"]
        return bool(jobs)

    cell.until(one_has_ended)
    cell.stop()
    verify(cell)


def test_a_producer_that_signs_is_known_by_its_key_and_one_that_only_claims_so_is_not(
    tmp_path: Path, kafka: Broker
) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "key.pub.pem"
    key = Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    cell = CellProcess(tmp_path / "cell", kafka.address)
    cell.start()
    cell.pool("/maps")
    cell.pool("/maps/tiles")
    words = ("token", "create", "--subject", "ci", "--public-key", str(public), "-o", "json", "--data", str(cell.data))
    made = run(sys.executable, "-m", "paceline", *words)
    assert made.returncode == 0, made.stderr
    key_id = json.loads(made.stdout)["token_id"]
    producer = (sys.executable, str(ROOT / "examples" / "signed_producer.py"), kafka.address)
    assert run(*producer, "signed", str(private), key_id, "ci").returncode == 0
    assert run(*producer, "other", str(private), key_id, "ann").returncode == 0
    forged = JobSubmitted(
        job_id="forged", pool="/maps/tiles", command=("true",), actor=Actor("ci", "token", credential=key_id)
    )
    log = KafkaLog(kafka.address, 0)
    log.append([NewRecord(forged.topic, b"forged", encode(forged))])
    log.close()
    for job_id, is_verified in (("signed", True), ("other", False), ("forged", False)):
        cell.until(lambda job_id=job_id: cell.state(job_id) == "SUCCEEDED")
        actors = [each["actor"] for each in cell.get(f"/v1/jobs/{job_id}/history").json()["events"] if each["actor"]]
        assert [each["verified"] for each in actors] == [is_verified], job_id
    cell.stop()
    verify(cell)


def test_the_broker_is_restarted_in_the_middle(tmp_path: Path, kafka: Broker) -> None:
    cell = CellProcess(tmp_path / "cell", kafka.address)
    cell.start()
    cell.pool("/p")
    cell.submit("before", 50, "2s")
    kafka.stop()
    cell.until(lambda: kafka.address in cell.output.read_text())
    assert cell.process is not None
    assert cell.process.poll() is None, "the cell waits for its broker"
    kafka.start()
    cell.until(lambda: cell.state("before") == "SUCCEEDED", 90)
    cell.submit("after", 5)
    cell.until(lambda: cell.state("after") == "SUCCEEDED", 60)
    cell.stop()
    verify(cell)


def test_a_broker_that_is_not_there_yet_is_waited_for(tmp_path: Path, kafka: Broker) -> None:
    kafka.stop()
    cell = CellProcess(tmp_path / "cell", kafka.address)
    cell.launch()
    cell.until(lambda: kafka.address in cell.output.read_text())
    kafka.start()
    cell.until(cell.answers)
    cell.pool("/p")
    cell.submit("one", 5)
    cell.until(lambda: cell.state("one") == "SUCCEEDED")
    cell.stop()
    assert cell.output.read_text().count(kafka.address) == 1, "it says so once"


def test_two_processes_race_for_one_cell(tmp_path: Path, kafka: Broker) -> None:
    first, second = (CellProcess(tmp_path / name, kafka.address) for name in ("first", "second"))
    first.start()
    first.pool("/p")
    first.submit("one", 20, "1s")
    second.start()
    second.until(lambda: "waiting for the cell" in second.output.read_text())
    first.kill()
    second.until(lambda: second.state("one") == "SUCCEEDED", 60)
    second.submit("two", 5)
    second.until(lambda: second.state("two") == "SUCCEEDED", 60)
    second.stop()
    verify(second)


def said_of_hosts(kafka: Broker) -> list[Event]:
    log = KafkaLog(kafka.address)
    try:
        return [decode(record.value) for record in log.scan(HOSTS.name, 0)]
    finally:
        log.close()


def has_cell(data: Path) -> str:
    """What one that waits says of the owner."""
    return f"{data} has it".replace("/", "_")


def test_who_waits_for_a_cell_leaves_its_hosts_and_runs_alone(tmp_path: Path, kafka: Broker) -> None:
    # a group gives to members in the order of their names: the second would be given the cell
    first, second = (CellProcess(tmp_path / name, kafka.address) for name in ("b", "a"))

    def beats() -> int:
        return sum(isinstance(event, GatewayBeat) for event in said_of_hosts(kafka))

    first.start()
    first.pool("/p")
    first.submit("one", 20, "15s")
    first.until(lambda: first.state("one") == "RUNNING")
    second.start()
    second.until(lambda: has_cell(first.data) in second.output.read_text())
    second.until(lambda: second.state("one") == "RUNNING")  # its views follow
    known = beats()
    first.until(lambda: beats() >= known + 2)  # a gateway beats and looks for silence within this time
    first.until(lambda: first.state("one") == "SUCCEEDED")
    said = said_of_hosts(kafka)
    assert len({event.gateway for event in said if isinstance(event, GatewayBeat)}) == 1
    assert sum(isinstance(event, HostConnected) for event in said) == first.sim_hosts, "each host once, none flapped"
    first.stop()
    second.submit("two", 5)
    second.until(lambda: second.state("two") == "SUCCEEDED")
    second.stop()
    assert verify(second)["ordered"] == 20 + 5, "each task has run once"


def test_who_has_lost_its_cell_leaves_the_hosts_to_the_next(tmp_path: Path, kafka: Broker) -> None:
    first, second = (CellProcess(tmp_path / name, kafka.address) for name in ("b", "a"))
    first.start()
    first.pool("/p")
    second.start()
    second.until(lambda: has_cell(first.data) in second.output.read_text())
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    second.submit("one", 5)
    second.until(lambda: second.state("one") == "SUCCEEDED", 90)
    first.process.send_signal(signal.SIGCONT)
    first.until(lambda: "this process waits until the cell is its own again" in first.output.read_text())
    known = len(said_of_hosts(kafka))
    second.until(lambda: len(said_of_hosts(kafka)) >= known + 2)
    late = said_of_hosts(kafka)[known:]
    assert all(isinstance(event, GatewayBeat) and str(second.data).replace("/", "_") in event.gateway for event in late)
    first.stop()
    second.stop()
    verify(second)


def test_a_second_cell_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    cell = CellProcess(tmp_path / "cell")
    cell.start()
    for kafka in ((), ("--kafka", "127.0.0.1:9")):
        done = run(*PACELINE, "up", "--data", str(cell.data), "--listen", "127.0.0.1:0", *kafka)
        assert done.returncode == 1
        assert f"{cell.data} is in use" in done.stderr
        assert "Traceback" not in done.stderr
    assert cell.get("/livez").status_code == 200, "the first one goes on"
    cell.stop()


def test_kafka_without_topics_names_them_and_the_fix(tmp_path: Path, broker: Broker) -> None:
    broker.remove_topics([topic.name for topic in EVERY])
    done = run(*PACELINE, "up", "--data", str(tmp_path / "cell"), "--kafka", broker.address)
    assert done.returncode == 1
    assert "paceline.jobs" in done.stderr
    assert "--create" in done.stderr
    assert run(*PACELINE, "log", "topics", "--create", "--kafka", broker.address).returncode == 0


def test_a_cell_that_waits_for_kafka_at_its_start_says_so_on_its_pages(tmp_path: Path, kafka: Broker) -> None:
    listen = kept_address()
    cell = CellProcess(tmp_path / "cell", kafka.address, listen=listen)
    cell.data.mkdir()
    kafka.stop()
    cell.launch()

    def trouble() -> str:
        with suppress(httpx2.TransportError):
            return str(ask(f"http://{listen}/readyz").json().get("trouble", ""))
        return ""

    cell.until(lambda: kafka.address in trouble())
    kafka.start()
    cell.until(cell.answers)
    cell.pool("/p")
    cell.stop()


IN_A_FOLD = """
import sys
from events.log.kafka.kafka_log import KafkaLog
from paceline.cli.main import run

bounds = KafkaLog.bounds

def waits(self, topic):
    found = bounds(self, topic)
    if found[1]:
        KafkaLog.bounds = bounds
        print("folds", flush=True)
        input()
    return found

KafkaLog.bounds = waits
sys.exit(run(sys.argv[1:]))
"""


def test_a_cell_that_folds_a_log_that_is_away_ends_when_it_is_told(tmp_path: Path, kafka: Broker) -> None:
    cell = CellProcess(tmp_path / "cell", kafka.address)
    cell.start()
    cell.pool("/p")
    cell.stop()
    shutil.rmtree(cell.data / "store")
    command = ["up", "--data", str(cell.data), "--listen", "127.0.0.1:0", "--kafka", kafka.address, "--sim-hosts", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_FOLD, *command],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "folds\n"
    kafka.pause()
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
        assert said.endswith("stopped\n")
    finally:
        process.kill()
        kafka.resume()


def test_tasks_outlive_the_cell_and_their_outcomes_are_learnt(tmp_path: Path) -> None:
    cell = CellProcess(tmp_path / "cell", sim_hosts=0)
    cell.start()
    cell.pool("/p")
    go, gone = tmp_path / "go", tmp_path / "gone"
    script = f"until [ -e {go} ]; do sleep 0.05; done; touch {gone}; exit 3"
    spec = {"job_id": "real", "pool": "/p", "command": ["sh", "-c", script], "resources": {"cpu": "100m"}}
    assert cell.request("POST", "/v1/jobs", spec).status_code < 300
    cell.until(lambda: cell.state("real") == "RUNNING")
    assert cell.kill(signal.SIGINT) == 0
    assert "1 runs go on" in cell.output.read_text()
    go.touch()
    cell.until(gone.exists)
    cell.start()
    cell.until(lambda: cell.state("real") == "FAILED")
    task = cell.get("/v1/jobs/real/tasks").json()["tasks"][0]
    assert (task["run"], task["exit_code"]) == (1, 3)
    cell.stop()
    verify(cell)
