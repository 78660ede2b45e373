"""`paceline shadow` beside a running cell, in processes as operators start them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from events.topics import EVERY, SETTINGS
from paceline.cli.main import run
from tests.helpers import ROOT
from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.builds import NO_LENDING, copied
from tests.helpers.real_cell import CellProcess, verify
from tests.helpers.waiting import until

pytestmark = [pytest.mark.outside, pytest.mark.xdist_group("builds")]


class Beside:
    """A shadow of a cell."""

    def __init__(self, folder: Path, *words: object) -> None:
        self.address = folder / "address"
        self.address.unlink(missing_ok=True)
        command = [sys.executable, "-m", "paceline", "shadow", *map(str, words), "--listen", "127.0.0.1:0"]
        command += ["--address-file", str(self.address)]
        self.output = folder / "shadow.out"
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)

    def get(self, path: str) -> httpx2.Response:
        return ask(f"http://{self.address.read_text().strip()}{path}")

    def body(self) -> Any:
        return self.get("/v1/shadow").json()

    def until_ready(self) -> None:
        until(lambda: self.process.poll() is not None or self._is_ready(), "a shadow that is ready")
        assert self.process.poll() is None, self.output.read_text()

    def _is_ready(self) -> bool:
        try:
            return self.address.exists() and self.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def workers(self) -> list[int]:
        """The processes that decide."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for each in children for pid in each.read_text().split()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    started = CellProcess(tmp_path_factory.mktemp("cell") / "cell", sim_hosts=1)
    started.start()
    for path in ("/a", "/b"):
        answer = started.request("PUT", f"/v1/pools{path}?wait=20s", {"share": 1})
        assert answer.status_code == 201, answer.text
    yield started
    started.stop()
    verify(started)


def work(cell: CellProcess, name: str) -> None:
    """Work of two pools that has ended; more of it than hosts hold."""
    for pool in ("a", "b"):
        spec = {
            "job_id": f"{name}-{pool}", "pool": f"/{pool}", "instances": 12, "resources": {"cpu": 3},
            "preemptible": True, "sim": {"duration": "200ms"},
        }  # fmt: skip
        assert cell.request("POST", "/v1/jobs", spec).status_code < 300
    for pool in ("a", "b"):
        cell.until(lambda pool=pool: cell.state(f"{name}-{pool}") == "SUCCEEDED")


def is_up_to_date(shadow: Beside, cell: CellProcess) -> bool:
    """Whether it has compared all rounds that the cell has now, but for the last ones of idle machines."""
    rounds = {name: each["round"] for name, each in cell.get("/v1/cell").json()["machines"].items()}
    return all(each["round"] >= rounds[each["machine"]] for each in shadow.body()["machines"])


def test_the_same_build_decides_alike_and_is_killed_and_goes_on(cell: CellProcess, tmp_path: Path) -> None:
    shadow = Beside(tmp_path, "--data", cell.data, "--build", sys.executable)
    shadow.until_ready()
    work(cell, "before")
    until(lambda: is_up_to_date(shadow, cell))
    [worker] = shadow.workers()
    os.kill(worker, signal.SIGKILL)
    work(cell, "after")
    until(lambda: shadow.body()["restarts"] == 1)
    until(lambda: is_up_to_date(shadow, cell))
    body = shadow.body()
    assert body["differing"] == 0
    assert body["rounds"] > 20
    [worker] = shadow.workers()
    assert shadow.stop() == 0, shadow.output.read_text()
    until(lambda: not Path(f"/proc/{worker}").exists(), "the end of the process that decides")


def test_a_build_that_lends_nothing_is_seen_and_killing_it_leaves_no_process(cell: CellProcess, tmp_path: Path) -> None:
    shadow = Beside(tmp_path, "--data", cell.data, "--build", copied(tmp_path, NO_LENDING))
    shadow.until_ready()
    work(cell, "lent")
    until(lambda: any(each["kind"] == "GangsAdmitted" for each in shadow.body()["findings"]))
    found = [each for each in shadow.body()["findings"] if each["kind"] == "GangsAdmitted"]
    assert {each["pool"] for each in found} <= {"/a", "/b"}
    assert {each["job_id"] for each in found} <= {"lent-a", "lent-b"}
    metrics = shadow.get("/metrics").text
    assert 'paceline_shadow_rounds_total{alike="no",by="build",cell="0",machine="entitlement"}' in metrics
    [worker] = shadow.workers()
    shadow.process.kill()
    shadow.process.wait(60)
    until(lambda: not Path(f"/proc/{worker}").exists(), "the end of the process that decides")


def test_other_pools_are_decided_with_and_the_cell_never_hears_of_it(cell: CellProcess, tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text("path: /a\nlimit: {cpu: 0}\n")
    shadow = Beside(tmp_path, "--data", cell.data, "--file", file)
    shadow.until_ready()
    work(cell, "changed")
    until(lambda: any(each["kind"] == "GangsAdmitted" for each in shadow.body()["findings"]))
    body = shadow.body()
    assert body["change"] == ["/a limit: none -> cpu 0"]
    lacking = {each["pool"] for each in body["findings"] if each["kind"] == "GangsAdmitted" and each["only_recorded"]}
    assert "/a" in lacking
    assert shadow.stop() == 0, shadow.output.read_text()
    assert cell.get("/v1/pools/a").json()["limit"] == {}


def test_a_cell_on_kafka_is_followed_too(broker: Broker, tmp_path: Path) -> None:
    broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
    cell = CellProcess(tmp_path / "cell", broker.address, sim_hosts=1)
    cell.start()
    for path in ("/a", "/b"):
        assert cell.request("PUT", f"/v1/pools{path}?wait=20s", {"share": 1}).status_code == 201
    file = tmp_path / "change.yaml"
    file.write_text("settings:\n  lend_after: 1h\npools:\n  - path: /a\n    limit: {cpu: 0}\n")
    log = ("--kafka", broker.address, "--data", tmp_path / "own")
    (tmp_path / "build").mkdir()
    (tmp_path / "change").mkdir()
    same = Beside(tmp_path / "build", *log, "--build", sys.executable)
    changed = Beside(tmp_path / "change", *log, "--file", file)
    try:
        for each in (same, changed):
            each.until_ready()
        work(cell, "on-kafka")
        for each in (same, changed):
            until(lambda each=each: is_up_to_date(each, cell))
        assert same.body()["differing"] == 0
        assert same.body()["rounds"] > 10
        lacking = [each for each in changed.body()["findings"] if each["kind"] == "GangsAdmitted"]
        assert any(each["only_recorded"] and each["pool"] == "/a" for each in lacking)
        assert same.stop() == changed.stop() == 0
        cell.stop()
    finally:
        for each in (same, changed):
            each.process.kill()
    words = ["log", "verify", *map(str, log), "--build", sys.executable]
    assert run(words) == 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "say who decides"),
        (("--build", "/none", "--file", "/none"), 2, "say who decides"),
        (("--build", "/none/python"), 2, "can't be started"),
        (("--file", "/none/pools.yaml"), 2, "/none/pools.yaml"),
    ],
)
def test_wrong_usage(cell: CellProcess, words, code, text, capsys, free_signals) -> None:
    assert run(["shadow", "--data", str(cell.data), "--listen", "127.0.0.1:0", *words]) == code
    assert text in capsys.readouterr().err


@pytest.fixture
def free_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_a_shadow_cannot_change_or_reach(cell: CellProcess, tmp_path: Path, capsys, free_signals) -> None:
    jobs = tmp_path / "change.yaml"
    jobs.write_text("without:\n  jobs: [nightly-*]\n")
    listen = ("--listen", "127.0.0.1:0")
    assert run(["shadow", "--data", str(cell.data), *listen, "--file", str(jobs)]) == 2
    assert "without: a shadow changes pools and settings" in capsys.readouterr().err
    same = tmp_path / "same.yaml"
    same.write_text("path: /a\nshare: 1\n")
    assert run(["shadow", "--data", str(cell.data), *listen, "--file", str(same)]) == 2
    assert "Nothing would be changed" in capsys.readouterr().err
    nowhere = tmp_path / "nowhere.yaml"
    nowhere.write_text("path: /a\nhost_pools: [shard]\n")
    assert run(["shadow", "--data", str(cell.data), *listen, "--file", str(nowhere)]) == 2
    assert "/a:host_pools: there is no host pool shard; did you mean shared?" in capsys.readouterr().err
    assert run(["shadow", "--data", str(tmp_path / "none"), *listen, "--build", sys.executable]) == 6
