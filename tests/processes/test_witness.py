"""A witness beside a real cell: it is killed and started again, the log is tampered with, another build decides."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from events.log.embedded import EmbeddedLog
from events.log.port import Log
from events.topics import ALL
from paceline.cli.main import run
from paceline.witness.chain import CheckedChain, check_chain
from paceline.witness.head import check
from paceline.witness.notes import make_key, read_key
from paceline.witness.published import Heads
from tests.helpers import ROOT
from tests.helpers.broker import Broker
from tests.helpers.past import changed, kept, written
from tests.helpers.real_cell import CellProcess
from tests.helpers.site import empty
from tests.helpers.waiting import until

pytestmark = pytest.mark.outside
OTHER_BUILD = """
import sys
from processors.placement.machine import Placement
decide = Placement.decide
def other(self, now, caught_up, budget):
    return [each for each in decide(self, now, caught_up, budget) if type(each).__name__ != "TasksPlaced"]
Placement.decide = other
from paceline.cli.main import main
main(sys.argv[1:])
"""
"""A build in which placement places nothing, under the same logic number."""


class Site:
    """A cell that has run, and a witness of it."""

    def __init__(self, folder: Path, kafka: str = "") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.cell = CellProcess(self.data, kafka, sim_hosts=5)
        self.log = ["--data", str(self.data), *(["--kafka", kafka] if kafka else [])]
        make_key("w", folder / "w.key")
        self.heads = Heads(str(folder / "heads"), 0)
        self.running: list[subprocess.Popen[str]] = []
        self.jobs = 0

    def witness(self, *more: str, program: tuple[str, ...] = ("-m", "paceline")) -> "subprocess.Popen[str]":
        """Starts one."""
        command = [sys.executable, *program, "witness", *self.log, "--key", str(self.folder / "w.key")]
        command += ["--publish", str(self.folder / "heads"), "--every", "1s", *more]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def ends(self, process: "subprocess.Popen[str]") -> tuple[int, str]:
        """Its exit code and what it said."""
        said = process.communicate(timeout=60)[1]
        return process.returncode, said

    def work(self) -> None:
        """Another job that runs to its end."""
        self.jobs += 1
        name = f"job-{self.jobs}"
        self.cell.submit(name, 10, "100ms")
        self.cell.until(lambda: self.cell.state(name) == "SUCCEEDED")

    def open_log(self) -> Log:
        """The log of the running cell."""
        return self.cell.open_log() if self.cell.kafka else EmbeddedLog.open_secondary(self.data / "log")

    def chain(self) -> CheckedChain:
        """The heads so far, as a third party sees them."""
        return check_chain(self.heads, 0, read_key(self.folder / "w.key").public)

    def has_head_of_all(self) -> bool:
        """Whether the newest head has all that the log has."""
        numbers = self.heads.numbers()
        if not numbers:
            return False
        head = self.heads.read(numbers[-1]).head
        with closing(self.open_log()) as log:
            return log.ends(topic.name for topic in ALL) == {name: end.end for name, end in head.topics.items()}


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    kafka = ""
    if getattr(request, "param", "embedded") == "kafka":
        kafka = empty(request.getfixturevalue("broker"), 1)
    site = Site(tmp_path, kafka)
    site.cell.start()
    site.cell.pool("/p")
    site.work()
    try:
        yield site
    finally:
        for process in site.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        if site.cell.process is not None and site.cell.process.poll() is None:
            site.cell.kill()


@pytest.mark.parametrize("site", ["embedded", "kafka"], indirect=True)
def test_a_witness_that_is_killed_again_and_again_goes_on_with_its_chain(site: Site) -> None:
    for kill in range(4):
        witness, before = site.witness(), len(site.heads.numbers())
        site.work()
        until(lambda before=before: len(site.heads.numbers()) > before, "a head")
        if kill:
            witness.kill()
        else:
            witness.send_signal(signal.SIGTERM)
            assert site.ends(witness)[0] == 0
        site.work()
    site.witness()
    until(site.has_head_of_all, "a head of all that is there")
    chain = site.chain()
    assert (chain.finding, chain.count) == (None, len(site.heads.numbers()))
    with closing(site.open_log()) as log:
        for number in site.heads.numbers():
            assert check(log, site.heads.read(number).head) is None, number
    words = ["log", "verify", *site.log, "--heads", str(site.folder / "heads")]
    assert run([*words, "--trust", str(read_key(site.folder / "w.key").public)]) == 0


def test_health_and_metrics_of_a_witness_tell_its_lag_and_its_alarm(site: Site) -> None:
    witness = site.witness("--listen", "127.0.0.1:0")
    assert witness.stderr is not None
    url = witness.stderr.readline().split()[-1]
    until(site.has_head_of_all, "a head of all that is there")
    until(lambda: _get(f"{url}/readyz")[0] == 200, "ready")
    body = json.loads(_get(f"{url}/readyz")[1])
    assert set(body["lag"]) == {"lifecycle", "entitlement", "placement", "sla"}
    assert body["head"]["number"] in site.heads.numbers()
    metrics = _get(f"{url}/metrics")[1]
    for name in ("rounds_total", "lag_records", "head_number", "head_seconds"):
        assert f"paceline_witness_{name}{{" in metrics, name
    site.cell.kill()
    _tamper(site, "paceline.tasks")
    witness.kill()
    again = site.witness("--listen", "127.0.0.1:0")
    assert again.stderr is not None
    url = again.stderr.readline().split()[-1]
    until(lambda: 'paceline_witness_alarm{alarm="CUT"' in _get(f"{url}/metrics")[1], "the alarm")
    code, said = site.ends(again)
    assert (code, "ends with an alarm: CUT" in said) == (1, True), said


def _get(url: str) -> tuple[int, str]:
    try:
        answer = httpx2.get(url, trust_env=False)
    except httpx2.HTTPError:
        return 0, ""
    return answer.status_code, answer.text


def _tamper(site: Site, topic: str) -> None:
    """Takes the last records of a topic away."""
    log = kept(site.data)
    held = log.topic(topic)
    shutil.rmtree(site.data / "log")
    written(changed(log, topic, held.records[:-3], held.end - 3), site.data)


def test_a_record_that_is_altered_before_the_witness_reads_it_is_named_with_its_round(site: Site) -> None:
    witness = site.witness("--once")
    assert site.ends(witness)[0] == 0
    head = site.heads.read(1).head
    site.work()
    site.cell.kill()
    log = kept(site.data)
    held = log.topic("paceline.tasks")
    at = next(index for index, each in enumerate(held.records) if each.offset >= head.topics["paceline.tasks"].end)
    held.records[at] = held.records[at]._replace(at_ms=held.records[at].at_ms + 1)
    shutil.rmtree(site.data / "log")
    written(log, site.data)
    code, said = site.ends(site.witness())
    number = head.machines["lifecycle"].round
    assert code == 1
    found = said[said.index("TAMPERED at lifecycle round ") :].split()[4]
    assert int(found.rstrip(":")) > number, said


def test_a_log_that_is_restored_from_an_older_copy_and_goes_on_is_a_fork(site: Site) -> None:
    site.cell.kill()
    shutil.copytree(site.data, site.folder / "backup")
    site.cell.start()
    site.work()
    assert site.ends(site.witness("--once"))[0] == 0
    site.cell.kill()
    shutil.rmtree(site.data)
    shutil.copytree(site.folder / "backup", site.data)
    site.cell.start()
    for _ in range(3):
        site.jobs += 1
        site.work()
    code, said = site.ends(site.witness())
    assert (code, "FORKED at lifecycle round " in said) == (1, True), said


@pytest.mark.parametrize("site", ["kafka"], indirect=True)
def test_topics_that_were_made_anew_with_another_history_are_not_the_log_of_the_heads(
    site: Site, broker: Broker
) -> None:
    assert site.ends(site.witness("--once"))[0] == 0
    site.cell.kill()
    empty(broker, 1)
    shutil.rmtree(site.data)
    site.cell.start()
    site.cell.pool("/p")
    for _ in range(3):
        site.work()
    code, said = site.ends(site.witness())
    assert (code, "ends with an alarm: FORKED" in said or "ends with an alarm: CUT" in said) == (1, True), said


def test_a_witness_of_another_build_finds_the_first_round_that_it_decides_otherwise(site: Site) -> None:
    code, said = site.ends(site.witness("--once", program=("-c", OTHER_BUILD)))
    assert (code, "OTHER_CODE at placement round " in said) == (1, True), said
    assert site.ends(site.witness("--once"))[0] == 0, "this build finds nothing"


def test_two_witnesses_do_not_share_a_folder(site: Site) -> None:
    site.witness()
    until(lambda: site.heads.numbers(), "a head")
    code, said = site.ends(site.witness())
    assert (code, "is in use by another witness" in said) == (1, True), said
