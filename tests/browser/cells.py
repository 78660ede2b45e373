"""The cells that the pages are looked at on: one with processes, one with nothing, one with many jobs, a history."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench._large_cell import LargeCell, Size
from deploy.processes import Processes
from paceline.client import cell_file
from paceline.client.client import Client
from projections.views.projector import Projector
from tests.helpers.asking import ask
from tests.helpers.cards_scenario import CARDS

START_S, POLL_S = 60.0, 0.05
EVER = ("1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z")
PACELINE = (sys.executable, "-m", "paceline")
MANY = Size(jobs=2_000, tasks=20_000, hosts=2_000, pools=40)
TOKEN = "secret"
HOSTILE = "\"'><script>hostile=1</script><img src=x onerror=hostile=1>\u202e\u2066\x07\x1b[31m{{7*7}}${7*7}</textarea>"
ODD = "a-1.b_c"
"""The oddest name that jobs may have."""
TASK = {"resources": {"cpu": "10m", "memory": "8MiB"}}


@dataclass
class Shown:
    """A cell that pages are served of, and what there is on it: by the names that pages have for parts of their
    paths.
    """

    address: str
    there: dict[str, str] = field(default_factory=dict)
    data: Path = Path()
    at: str = ""
    """The moment at which it is looked at; empty: the present."""

    def url(self, path: str) -> str:
        """The address of a page of this cell; `path` as routes have it."""
        for name, value in self.there.items():
            path = path.replace("{" + name + "}", value).replace("{" + name + ":path}", value)
        return f"http://{self.address}/ui{path}" + (f"?at={quote(self.at)}" if self.at else "")

    def client(self) -> Client:
        """A client that may write."""
        return Client(server=self.address, token=cell_file.token(self.data) or TOKEN)


def until(holds: Callable[[], Any], what: str) -> Any:
    """Waits for a condition; returns what it came to."""
    deadline = time.monotonic() + START_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(POLL_S)
    return found


@contextmanager
def process(folder: Path, *command: str) -> Iterator[Processes]:
    """A process that ends with the block, and must not have failed at anything meanwhile."""
    started = Processes(folder / "logs", {})
    try:
        started.start("cell", command)
        yield started
    finally:
        started.stop_all()
    said = started.output("cell").read_text()
    assert "Traceback" not in said, said


@contextmanager
def up(folder: Path, *options: str) -> Iterator[Shown]:
    """`paceline up`, once it is ready."""
    data = folder / "data"
    with process(folder, "paceline", "up", "--data", str(data), "--listen", "127.0.0.1:0", *options) as started:

        def ready() -> bool:
            assert not started.ended(), started.output("cell").read_text()
            with suppress(Exception), Client(data=data) as client:
                return client.ready()
            return False

        until(ready, "the cell to be ready")
        running = cell_file.read(data)
        assert running is not None
        yield Shown(running.listen, data=data)


@contextmanager
def empty(folder: Path) -> Iterator[Shown]:
    """A cell without hosts, pools and jobs."""
    with up(folder, "--no-agent") as cell:
        cell.there = {"subject": "paceline.hosts:0"}
        yield cell


@contextmanager
def real(folder: Path) -> Iterator[Shown]:
    """A cell of one host with jobs that run, have ended and wait; in one all that a user names is hostile."""
    with up(folder, "--agent") as cell, cell.client() as client:
        until(lambda: any(host["state"] == "UP" for host in client.hosts()), "a host")
        host = next(client.hosts())["host_id"]
        client.cordon_hosts([host], reason=HOSTILE, wait=START_S)  # so that a campaign leaves it alone until it ends
        plan = {"maintenance_id": "kernel", "hosts": {"ids": [host]}, "reason": HOSTILE}
        client.start_maintenance(plan, wait=START_S)
        client.act_on_maintenance("kernel", "aborts", reason=HOSTILE, wait=START_S)
        client.resume_hosts([host], reason=HOSTILE, wait=START_S)
        for path in ("/maps", "/maps/tiles", "/search"):
            client.define_pool(path, {"reservation": {"cpu": 1}}, wait=START_S)
        for job in jobs():
            client.submit_job(job, wait=START_S)
        until(lambda: client.job("done")["state"] == "SUCCEEDED", "a job to succeed")
        until(lambda: client.job("failed")["state"] == "FAILED", "a job to fail")
        until(lambda: client.job("web")["tasks"]["running"] == 3, "a service to run")
        client.stop_job("stopped", reason=HOSTILE, wait=START_S)
        until(lambda: client.job("stopped")["state"] == "KILLED", "a job to stop")
        cell.there = {
            "maintenance_id": "kernel",
            "job_id": ODD,
            "instance": "0",
            "path": "maps/tiles",
            "host_id": host,
            "machine": "placement",
            "number": "1",
            "subject": ODD,
        }
        try:
            yield cell
        finally:
            for job_id in ("web", ODD):
                with suppress(Exception):
                    client.stop_job(job_id)
            until(lambda: all(client.job(each)["tasks"]["running"] == 0 for each in ("web", ODD)), "all to stop")


def jobs() -> list[dict[str, Any]]:
    """What runs in the real cell."""
    talks = ["sh", "-c", "while :; do echo a line; echo an error >&2; sleep 0.2; done"]
    named = {"owner": HOSTILE, "labels": {HOSTILE: HOSTILE}, "description": HOSTILE, "env": {"<b>\u202ex": HOSTILE}}
    return [
        {"job_id": "web", "pool": "/search", "kind": "stateless", "instances": 3, "command": talks, "owner": "ann"},
        {"job_id": "done", "pool": "/maps/tiles", "instances": 4, "command": ["echo", HOSTILE], **TASK},
        {"job_id": "failed", "pool": "/maps/tiles", "command": ["sh", "-c", "echo oh >&2; exit 3"], **TASK},
        {"job_id": "waits", "pool": "/search", "instances": 2, "command": ["true"], "resources": {"cpu": 4000}},
        {"job_id": "stopped", "pool": "/maps/tiles", "command": ["sleep", "600"], **TASK},
        {"job_id": ODD, "pool": "/maps/tiles", "command": ["sh", "-c", f"{' '.join(talks[2:])} # {HOSTILE}"], **named},
    ]


def past(cell: Shown) -> Shown:
    """A cell as it is now, however long ago that will be."""
    with cell.client() as client:
        rounds = client.cell()["machines"]["lifecycle"]["round"]
    then = replace(cell, at=f"0/lifecycle/round/{rounds}")
    until(lambda: ask(then.url("/jobs")).status_code == 200, "the views of that moment")
    return then


@contextmanager
def many(folder: Path) -> Iterator[Shown]:
    """2,000 jobs that were never run, served from a folder that nobody changes."""
    cell = LargeCell(folder, MANY)
    cell.write()
    projector = Projector(cell.log, folder)
    while projector.step():
        pass
    cell.log.close()
    with process(folder, sys.executable, "-m", "bench._ui_server", str(folder), TOKEN) as started:
        address = until(lambda: started.output("cell").read_text().partition("\n")[0], "the API")
        there = {"job_id": "job-000000", "instance": "0", "path": "team-0/pool-0", "host_id": "host-00007"}
        yield Shown(address, {**there, "machine": "entitlement", "number": "3", "subject": "job-000000"})


@contextmanager
def simulated(folder: Path, scenario: str) -> Iterator[Shown]:
    """The cell of a scenario at its end, which nothing changes any more."""
    data, file, script = folder / "simulated", folder / "history.avro", folder / "scenario.yaml"
    script.write_text(scenario)
    for words in (
        ["simulate", str(script), "--data", str(data)],
        ["log", "export", "--data", str(data), "--from", EVER[0], "--to", EVER[1], str(file)],
        ["log", "import", "--data", str(folder / "data"), str(file)],
    ):
        subprocess.run([*PACELINE, *words], check=True, timeout=600, stdout=subprocess.DEVNULL)
    with up(folder, "--read-only") as cell:
        yield cell


@contextmanager
def cards(folder: Path) -> Iterator[Shown]:
    """A cell with devices, pools of hosts, gangs and maintenance."""
    with simulated(folder, CARDS) as cell:
        cell.there = {
            "maintenance_id": "kernel",
            "job_id": "share",
            "instance": "0",
            "path": "ml/train",
            "host_id": "card-1",
            "machine": "placement",
            "number": "3",
            "subject": "wide",
        }
        yield cell


@contextmanager
def history(cell: Shown, folder: Path) -> Iterator[Shown]:
    """What a cell has been until now, exported and looked at."""
    file, now = folder / "history.avro", datetime.now(UTC)
    begin, end = (f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in (now - timedelta(days=1), now + timedelta(seconds=1)))
    for words in (
        ["export", "--data", str(cell.data), "--from", begin, "--to", end, str(file)],
        ["import", "--data", str(folder / "data"), str(file)],
    ):
        subprocess.run([*PACELINE, "log", *words], check=True, timeout=120)
    with up(folder, "--read-only") as shown:
        shown.there = cell.there
        yield shown
