"""A cell of this release goes on while its agents of 0.3, which run their own code, are replaced."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from hostagent.runs import stop_all
from paceline.client.client import Client
from tests.helpers.real_cell import CellProcess, verify
from tests.helpers.waiting import until

RECORDED = Path(__file__).with_name("agent-0.3.0.tar.xz")
HOSTS = ("first", "second")
SPEC = {"pool": "/p", "resources": {"cpu": "50m", "memory": "16MiB"}}
NEW = {"attribute": "paceline/usage", "operator": "exists"}
"""What no agent of 0.3 offers."""


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[CellProcess]:
    cell = CellProcess(tmp_path / "cell", sim_hosts=0, options=("--no-agent",))
    cell.start()
    try:
        cell.pool("/p")
        yield cell
        cell.stop()
        verify(cell)
    finally:
        for host in HOSTS:
            stop_all(tmp_path / host, 20.0)


@contextmanager
def agent(cell: CellProcess, host: str, release: Path | None = None) -> Iterator[None]:
    """The agent of a host. `release`: the folder with the modules of the one that it is of, if not of this one."""
    data = cell.data
    command = [sys.executable, "-m", "paceline", "agent", "--server", server(cell), "--token-file", str(data / "token")]
    command += ["--host-id", host, "--folder", str(data.with_name(host))]
    environment = {**os.environ, "PYTHONPATH": str(release)} if release else None
    with subprocess.Popen(command, env=environment, cwd=release) as process:
        try:
            yield
        finally:
            process.terminate()


def server(cell: CellProcess) -> str:
    return "http://" + str(json.loads((cell.data / "cell.json").read_text())["listen"])


def states(client: Client, job_id: str) -> list[str]:
    return [task["state"] for task in client.tasks(job_id)]


def test_a_cell_goes_on_while_its_agents_of_0_3_are_replaced(cell: CellProcess, tmp_path: Path) -> None:
    """One host after the other. Services keep their runs, a batch job goes on, each of its tasks in one run."""
    with tarfile.open(RECORDED) as packed:
        packed.extractall(tmp_path, filter="data")
    client = Client(server(cell), token=(cell.data / "token").read_text().strip())
    with closing(client), ExitStack() as first, ExitStack() as second:
        agents = {"first": first, "second": second}
        for host, running in agents.items():
            running.enter_context(agent(cell, host, tmp_path / "agent-0.3.0"))
        until(lambda: len(list(client.hosts())) == len(HOSTS))
        web = {"kind": "stateless", "instances": 4, "host_limit": 2, "command": ["sleep", "600"]}
        client.submit_job({**SPEC, **web, "job_id": "web"}, wait=10)
        client.submit_job({**SPEC, "job_id": "new", "constraints": [NEW], "command": ["true"]}, wait=10)
        batch = {"instances": 60, "max_running": 4, "command": ["sleep", "0.5"]}
        client.submit_job({**SPEC, **batch, "job_id": "batch"}, wait=10)
        until(lambda: states(client, "web") == ["RUNNING"] * 4)
        until(lambda: "SUCCEEDED" in states(client, "batch"))
        reason = client.job("new")["reason"]
        assert reason
        assert reason["code"] == "CONSTRAINT_MISMATCH"
        for host, running in agents.items():
            running.close()
            running.enter_context(agent(cell, host))
            until(lambda host=host: "paceline/usage" in client.host(host)["attributes"])  # type: ignore[misc]
        until(lambda: client.job("new")["state"] == client.job("batch")["state"] == "SUCCEEDED")
        assert {task["run"] for task in client.tasks("batch")} == {1}
        assert [(task["state"], task["run"]) for task in client.tasks("web")] == [("RUNNING", 1)] * 4
        client.stop_job("web", wait=10)
        until(lambda: client.job("web")["state"] == "KILLED")
