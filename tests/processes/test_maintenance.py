"""Drains and campaigns on a cell of real processes: an embedded cell, three agents, and runs that are processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hostagent.runs import stop_all
from paceline.client.client import Client
from paceline.client.errors import Unreachable
from tests.helpers.forked import PACELINE, launched
from tests.helpers.ports import kept_address, kept_port
from tests.helpers.real_cell import CellProcess, verify
from tests.helpers.waiting import until

HOSTS = ("h1", "h2", "h3")
SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PACELINE_PORT_WEB"])), Handler).serve_forever()
"""
CHECK = {"interval": "100ms", "timeout": "2s", "failures": 50}
SLA = {"max_unavailable": 1, "min_healthy_time": "1s"}
SPEC = {"pool": "/p", "resources": {"cpu": "50m", "memory": "16MiB"}, "stop_grace": "2s"}
WAIT_S = 60.0
HEALTHY_S = 6
"""So long the first replacement has run before the other instance may go."""


class Cell:
    """An embedded cell with three agents, each of which has one port for runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = CellProcess(folder / "cell", sim_hosts=0, listen=kept_address(), options=("--no-agent",))
        self.server = f"http://{self.process.listen}"
        self.agents: dict[str, Any] = {}
        self.ports = {host: kept_port() for host in HOSTS}

    def start(self) -> None:
        """Starts what doesn't run."""
        self.process.start()
        for host in HOSTS:
            if host not in self.agents:
                self.start_agent(host)

    def start_agent(self, host: str) -> None:
        port = str(self.ports[host])
        words = ["agent", "--server", self.server, "--token-file", str(self.process.data / "token")]
        words += ["--host-id", host, "--folder", str(self.folder / host), "--attribute", f"place={host}"]
        range_ = {"PACELINE_AGENT__PORT_FIRST": port, "PACELINE_AGENT__PORT_LAST": port}
        with (self.folder / f"{host}.out").open("ab") as out:
            self.agents[host] = launched(words, out, {**os.environ, **range_})

    def kill(self, *hosts: str) -> None:
        """SIGKILL to the cell, and to these agents."""
        self.process.kill()
        for host in hosts:
            agent = self.agents.pop(host)
            agent.kill()
            agent.wait(WAIT_S)

    def client(self) -> Client:
        return Client(self.server, token=(self.process.data / "token").read_text().strip())

    def run(self, *words: str) -> "subprocess.Popen[str]":
        """A command of a user."""
        environment = {**os.environ, "PACELINE_DATA": str(self.process.data)}
        return subprocess.Popen(
            [*PACELINE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )

    def told(self, *words: str) -> str:
        """What a command says that must end with 0."""
        return ended(self.run(*words))

    def end(self) -> None:
        for agent in self.agents.values():
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(WAIT_S) == 0
        self.process.stop()


def ended(command: "subprocess.Popen[str]", code: int = 0) -> str:
    said = command.communicate(timeout=WAIT_S)[0]
    assert command.returncode == code, said
    return said


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    cell = Cell(tmp_path_factory.mktemp("maintenance"))
    try:
        cell.start()
        cell.process.pool("/p")
        with closing(cell.client()) as client:
            until(lambda: len(list(client.hosts())) == len(HOSTS))
        yield cell
        cell.end()
        verify(cell.process)
    finally:
        for host in HOSTS:
            stop_all(cell.folder / host, 20.0)


def maintenance(client: Client, host: str) -> Any:
    """What the cell says of the maintenance of a host; None: of none."""
    with suppress(Unreachable):
        return client.host(host)["maintenance"]


def seconds(time: str | None) -> float:
    assert time
    return datetime.fromisoformat(time).timestamp()


@contextmanager
def service(cell: Cell, job_id: str, instances: int, **more: Any) -> Iterator[Client]:
    """A service that runs, and is gone afterwards."""
    with closing(cell.client()) as client:
        client.submit_job(
            {**SPEC, "job_id": job_id, "kind": "stateless", "instances": instances, "sla": SLA, **more}, wait=20
        )
        until(lambda: running(client, job_id) == instances)
        yield client
        client.stop_job(job_id, wait=20)
        until(lambda: client.job(job_id)["state"] == "KILLED")


def running(client: Client, job_id: str) -> int:
    return sum(task["state"] == "RUNNING" for task in client.tasks(job_id))


class Callers(threading.Thread):
    """A client of a service without an end: it takes the addresses of the instances that run from the API, and tries
    another one once.
    """

    def __init__(self, cell: Cell, job_id: str) -> None:
        super().__init__(daemon=True)
        self.calls = self.second_tries = 0
        self.failed: list[str] = []
        self.hosts: set[str] = set()
        self.over = threading.Event()
        self._cell, self._job_id = cell, job_id

    def run(self) -> None:
        with closing(self._cell.client()) as client, httpx2.Client(timeout=2.0) as http:
            while not self.over.wait(0.02):
                self._call(client, http)

    def _call(self, client: Client, http: httpx2.Client) -> None:
        there = [task for task in client.tasks(self._job_id) if task["state"] == "RUNNING"]
        start = self.calls % max(1, len(there))
        self.calls += 1
        why = []
        for task in [*there[start:], *there[:start]][:2]:
            try:
                http.get(f"http://127.0.0.1:{task['ports'][0]}/").raise_for_status()
            except httpx2.HTTPError as error:
                self.second_tries += 1
                why.append(f"{task['host_id']}: {error!r}")
            else:
                self.hosts.add(str(task["host_id"]))
                return
        self.failed.append("; ".join(why) or "no instance runs")


def test_no_call_fails_while_each_host_in_turn_is_drained_and_restored(cell: Cell) -> None:
    command = [sys.executable, "-c", SERVER]
    health = {"http": {"port": "web", "path": "/"}, **CHECK}
    with service(cell, "web", 3, command=command, ports=["web"], health=health) as client:
        assert {task["host_id"] for task in client.tasks("web")} == set(HOSTS)
        told = cell.told("host", "drain", "h1", "--dry-run")
        assert "web: 1 task would find no place elsewhere: " in told  # no other host has a port that is free
        callers = Callers(cell, "web")
        callers.start()
        for host in HOSTS:
            said = cell.told("host", "drain", host, "--wait")
            assert said.splitlines()[-1] == f"host {host} DRAINED"
            assert host not in {task["host_id"] for task in client.tasks("web") if task["state"] == "RUNNING"}
            cell.told("host", "resume", host)
        until(lambda: running(client, "web") == len(HOSTS))
        callers.over.set()
        callers.join(WAIT_S)
    assert not callers.failed
    assert callers.calls > 100
    assert callers.hosts == set(HOSTS)


def answered(drain: subprocess.Popen[str]) -> None:
    """Waits until a drain is asked for and answered; from then on a kill of the cell is waited out."""
    assert drain.stdout is not None
    assert drain.stdout.readline()


def test_two_drains_share_one_budget_through_a_kill_of_the_cell(cell: Cell) -> None:
    """Both instances are to leave, of which one may be missing. The cell is killed between the two drains."""
    spec = {
        "command": ["sleep", "600"],
        "strategy": "spread",
        "sla": {"max_unavailable": 1, "min_healthy_time": f"{HEALTHY_S}s"},
    }
    with service(cell, "pair", 2, **spec) as client:
        first, second = sorted(str(task["host_id"]) for task in client.tasks("pair"))
        one = cell.run("host", "drain", first, "--wait")
        answered(one)
        cell.kill()
        cell.start()
        other = cell.run("host", "drain", second, "--wait")
        said = [ended(one).splitlines(), ended(other).splitlines()]
        until(lambda: running(client, "pair") == 2)
        runs = [{run["run"]: run for run in client.runs("pair", instance)} for instance in range(2)]
        cell.told("host", "resume", first, second)
    assert [each[-1] for each in said] == [f"host {first} DRAINED", f"host {second} DRAINED"]
    assert any("pair: 1 waits SLA_BUDGET_SPENT" in line for each in said for line in each), said
    # Both may have been asked for before either might go, and then either goes first.
    moves = sorted((seconds(each[1]["ended_at"]), seconds(each[2]["started_at"])) for each in runs)
    assert moves[1][0] - moves[0][1] >= HEALTHY_S, (said, runs)


def test_who_waits_for_a_drain_is_told_how_it_ended(cell: Cell) -> None:
    """To wait ends by an interrupt, by its own bound, and through a kill of the cell; the drain goes on."""
    with closing(cell.client()) as client:
        client.submit_job({**SPEC, "job_id": "slow", "command": ["sleep", "600"]}, wait=20)
        until(lambda: running(client, "slow") == 1)
        [task] = client.tasks("slow")
        host = str(task["host_id"])
        waits = cell.run("host", "drain", host, "--wait")
        until(lambda: maintenance(client, host))
        assert waits.stdout is not None
        assert "DRAINING" not in waits.stdout.readline()  # the answer; the first line of the wait comes after it
        assert "DRAINING" in waits.stdout.readline()
        waits.send_signal(signal.SIGINT)
        ended(waits, 130)
        ended(cell.run("host", "drain", host, "--wait", "--timeout", "1s"), 124)
        assert maintenance(client, host)["stage"] == "DRAINING"
        waits = cell.run("host", "drain", host, "--wait")
        answered(waits)
        cell.kill()
        cell.start()
        client.stop_job("slow", wait=20)
        assert ended(waits).splitlines()[-1] == f"host {host} DRAINED"
        cell.told("host", "resume", host)


def test_a_drain_by_a_deadline_and_a_campaign_go_on_after_all_was_killed(cell: Cell) -> None:
    """All is killed while batch tasks keep a host until its deadline, and a campaign works on another one."""
    plan = {"maintenance_id": "kernel", "hosts": {"ids": ["h2", "h3"]}, "order": "name"}
    plan |= {"work": {"kind": "time", "duration": "4s"}, "check": {"within": "1m"}}
    file = cell.folder / "kernel.yaml"
    file.write_text(json.dumps(plan))
    where = [{"attribute": "place", "values": ["h1"]}]
    with service(cell, "shop", 2, command=["sleep", "600"]) as client:
        client.submit_job({**SPEC, "job_id": "soft", "command": ["sleep", "600"], "instances": 2, "constraints": where})
        until(lambda: running(client, "soft") == 2)
        cell.told("host", "drain", "h1", "--deadline", "5s", "--escalate", "preempt")
        cell.told("maintenance", "start", str(file))
        until(lambda: client.maintenance("kernel")["steps"].get("WORK"))
        cell.kill(*HOSTS)
        cell.start()
        until(lambda: maintenance(client, "h1")["stage"] == "DRAINED")
        assert [run["cause"] for run in client.runs("soft", 0)] == ["DRAIN"]
        until(lambda: client.maintenance("kernel")["state"] == "DONE")
        assert client.maintenance("kernel")["steps"] == {"DONE": 2}
        client.stop_job("soft", wait=20)
        cell.told("host", "resume", "h1")
        until(lambda: running(client, "shop") == 2)


def test_a_host_whose_agent_stands_still_while_it_drains_goes_on_when_it_is_back(cell: Cell) -> None:
    with service(cell, "site", 2, command=["sleep", "600"]) as client:
        host = str(next(iter(client.tasks("site")))["host_id"])
        cell.agents[host].send_signal(signal.SIGSTOP)
        try:
            until(lambda: client.host(host)["state"] == "SILENT")
            waits = cell.run("host", "drain", host, "--wait")
            until(lambda: maintenance(client, host))
            assert maintenance(client, host)["stage"] == "DRAINING"
        finally:
            cell.agents[host].send_signal(signal.SIGCONT)
        assert ended(waits).splitlines()[-1] == f"host {host} DRAINED"
        cell.told("host", "resume", host)
        until(lambda: running(client, "site") == 2)
