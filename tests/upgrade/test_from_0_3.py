"""0.4 goes on from what 0.3.0 has left: its log, stores, snapshots and agents, as they were recorded."""

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from events.log.embedded import EmbeddedLog
from events.records.entitlement import CreditsSet
from events.records.parts import Cause
from events.records.rounds import TimerPassed
from hostagent.messages import Hello, ReportBatch
from hostagent.runs import Runs
from paceline.cli.main import run
from paceline.client.client import Client
from paceline.history.verify import verify
from processors.cell_machines import machines
from processors.runtime import snapshots
from processors.runtime.replay import Replay
from processors.runtime.store import MemoryStore, RocksStore
from processors.state.conversion import conversion
from projections.queries.causes import Causes
from projections.views.mentions import runs_of
from tests.helpers.waiting import until
from tests.helpers.whole_log import WholeLog

RECORDED = Path(__file__).with_name("cell-0.3.0.tar.xz")
JOBS = {
    "array": "SUCCEEDED",
    "exporter": "KILLED",
    "failing": "FAILED",
    "held": "PENDING",
    "huge": "KILLED",
    "limited": "KILLED",
    "mix": "FAILED",
    "stopped": "KILLED",
    "store": "RUNNING",
    "web": "RUNNING",
}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What 0.3.0 has left."""
    with tarfile.open(RECORDED) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@contextmanager
def running(data: Path) -> Iterator[Client]:
    """A cell of this release on a data folder, with the hosts that the older one had."""
    command = [sys.executable, "-m", "paceline", "up", "--sim-hosts", "6", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--data", str(data)]) as up:
        try:
            until((data / "cell.json").exists)
            server = json.loads((data / "cell.json").read_text())["listen"]
            with closing(Client(server, token=(data / "token").read_text().strip())) as client:
                until(client.ready)
                yield client
        finally:
            up.terminate()


def goes_on(data: Path) -> None:
    """Jobs are what they were, those that ran go on, and what is asked now is done."""
    with running(data) as client:
        until(lambda: {job["job_id"]: job["state"] for job in client.jobs()}.items() >= JOBS.items())
        assert client.update("web", 1)["paused"]
        until(lambda: client.host("real")["state"] == "SILENT", "the recorded agent is missed")
        client.confirm_loss("real", wait=10)
        client.act_on_job("web", "resumes", wait=10)
        client.act_on_job("held", "releases", wait=10)
        client.submit_job({"job_id": "new", "pool": "/batch", "sim": {"duration": "1s"}}, wait=10)
        until(lambda: client.job("new")["state"] == "SUCCEEDED")
        until(lambda: client.update("web", 1)["state"] == "SUCCEEDED")
        until(lambda: client.job("held")["state"] == "RUNNING")
        until(lambda: client.job("gang")["state"] == "SUCCEEDED")
    with closing(EmbeddedLog(data / "log")) as log:
        verified = verify(log, machines(log.cell))
    assert [each.body() for each in verified if each.result.difference] == []


FOLDED = ("placement", "sla")
"""Machines whose rows of 0.3 said too little: they fold the log."""


def test_a_cell_of_0_3_goes_on_from_its_stores(left: Path) -> None:
    goes_on(left / "data")


def test_a_cell_of_0_3_goes_on_from_its_snapshots(left: Path) -> None:
    data = left / "data"
    with closing(EmbeddedLog(data / "log")) as log:
        for name, make in machines(log.cell).items():
            folder = data / "store" / name
            shutil.rmtree(folder)
            restored = snapshots.restore(str(left / "snapshots"), log, make(), folder)
            assert (restored.refused == []) == (name not in FOLDED), name
            assert (restored.manifest is not None) == (name not in FOLDED), name
    goes_on(data)


@pytest.mark.parametrize("name", ["entitlement", "lifecycle"])
def test_rows_of_0_3_become_those_that_a_fold_of_its_log_comes_to(left: Path, name: str) -> None:
    with (
        closing(EmbeddedLog(left / "data" / "log")) as log,
        closing(RocksStore(left / "data" / "store" / name)) as store,
    ):
        make, progress = machines(log.cell)[name], store.progress()
        assert progress is not None
        folded = MemoryStore()
        for _ in Replay(make(), log, folded).rounds(decide=False, last=progress.own.round):
            pass
        convert = conversion(make().conversions, progress.state, make().state)
        assert convert is not None
        assert sorted(convert(store.rows())) == sorted(folded.rows())


def test_the_one_token_of_a_cell_of_0_3_may_do_everything_whatever_the_cell_asks_of_others(left: Path) -> None:
    data, token = left / "data", "x" * 43
    (data / "token").write_text(f"{token}\n")
    with running(data) as client:
        until(lambda: {job["job_id"]: job["state"] for job in client.jobs()}.items() >= JOBS.items())
        until(lambda: client.host("real")["state"] == "SILENT", "the recorded agent is missed")
        for access in ("open", "roles"):
            if access == "roles":
                client.change_cell({"access": access}, wait=10)
            name = f"by-token-{access}"
            client.define_pool(f"/{name}", {"share": {"cpu": 1}}, wait=10)
            client.submit_job({"job_id": name, "pool": f"/{name}", "sim": {"duration": "1h"}}, wait=10)
            until(lambda name=name: client.job(name)["state"] == "RUNNING")
            client.stop_job(name, wait=10)
            host = next(client.hosts(state="UP"))["host_id"]
            client.drain_hosts([host], wait=10)
            client.resume_hosts([host], wait=10)
            client.change_cell({"late_after": "20s" if access == "open" else "10s"}, wait=10)
            client.remove_host("real", wait=10) if access == "roles" else client.confirm_loss("real", wait=10)
            assert {job["job_id"] for job in client.jobs()} >= {name, *JOBS}
    assert (data / "token").read_text().strip() == token


def test_an_audit_of_a_log_of_0_3_counts_facts_that_name_nobody_and_fails_none(
    left: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", "--verify", "--data", str(left / "data"), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["well"], told["verified"], told["findings"]) == (True, 0, [])
    assert told["unverified"] == {"not said": told["facts"]}
    assert told["facts"] > len(JOBS)


def test_every_decision_of_0_3_is_followed_back_for_each_run_that_it_names(left: Path) -> None:
    with closing(EmbeddedLog(left / "data" / "log")) as log:
        index = WholeLog(log)
        causes, unexplained = Causes(index), set()
        for (machine, number), events in index.rounds.items():
            for at, event in enumerate(events):
                place = Cause(machine=machine, round=number, index=at)
                for run in (None, *runs_of(event)):
                    links = causes.links(place, run)
                    assert all(link.cause.due_ms or causes.event(link.cause) for link in links), (event, run)
                    unexplained |= set() if links else {type(event)}
    assert unexplained == {CreditsSet, TimerPassed}, "they follow from time"


def test_agents_of_0_3_are_understood(left: Path) -> None:
    requests = [line.split(b" ", 1) for line in (left / "agent-requests.jsonl").read_bytes().splitlines()]
    kinds = {b"sessions": Hello, b"reports": ReportBatch}
    heard = [msgspec.json.decode(body, type=kinds[noun]) for noun, body in requests]
    runs = {
        (run.job_id, run.instance, run.run): run.exit_code
        for each in heard
        if isinstance(each, ReportBatch)
        for run in each.runs
    }
    assert runs["nocmd", 0, 1] == 127
    assert runs["mix", 2, 1] == 2


def test_an_agent_of_this_release_adopts_the_runs_of_0_3(left: Path) -> None:
    runs = Runs(left / "agent", locks=left / "locks")
    assert [(run.job_id, run.instance, run.run) for run in runs.inventory()] == [("sleeper", 0, 1)]
    assert runs.alive() == []
