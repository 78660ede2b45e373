"""`make cell` and the operator's page: started once, used as the pages say, ended as Ctrl-C ends it."""

import contextlib
import doctest
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from deploy.processes import listens, procfile, taken
from events.log.kafka.topics import add_cells
from paceline.client.client import Client
from tests.deploy.files import DEPLOY, OPERATIONS, containers, of_kubernetes, of_procfile
from tests.helpers import ROOT
from tests.helpers.asking import ask
from tests.helpers.shell import told

pytestmark = pytest.mark.xdist_group("processes")  # its ports are those of the Procfile
READY_S = 120.0
END_S = 45.0
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class RunningCell(NamedTuple):
    """A `make cell`, what it has said so far in a file, and its folder."""

    process: subprocess.Popen[bytes]
    output: Path
    folder: Path

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def client(self) -> Client:
        """A client of its API."""
        return Client("http://127.0.0.1:7117", (self.folder / "data" / "token").read_text())

    def until(self, holds: Callable[[], object], what: str, seconds: float = READY_S) -> None:
        """Waits for a condition."""
        deadline = time.monotonic() + seconds
        while not holds():
            logs = {path.name: path.read_text()[-800:] for path in (self.folder / "logs").glob("*.log")}
            assert time.monotonic() < deadline, f"waited for {what}: {self.said}\n{logs}"
            assert self.process.poll() is None or "stopped" in self.said, f"it has ended: {self.said}"
            time.sleep(0.1)


def answers(address: str) -> bool:
    """Whether a page answers 200."""
    with contextlib.suppress(httpx2.TransportError):
        return ask(address, timeout=15.0).status_code == 200
    return False


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCell]:
    base = tmp_path_factory.mktemp("cell")
    with (base / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cell", str(base / "kept")],
            stdout=said,
            stderr=said,
            cwd=ROOT,
            start_new_session=True,
        )
    running = RunningCell(process, base / "said", base / "kept")
    try:
        running.until(lambda: "all are ready" in running.said, "all to be ready")
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(END_S)


def shown(text: str) -> Iterator[tuple[str, str]]:
    """The commands of the ```console blocks of a page, and the output that it shows for each."""
    for indent, block in re.findall(r"^( *)```console\n(.*?)^ *```", text, re.S | re.M):
        lines = [line.removeprefix(indent) for line in block.splitlines(keepends=True)]
        for part in re.split(r"^\$ ", "".join(lines), flags=re.M)[1:]:
            here = re.match(r".*<<'(\w+)'\n.*?^\1\n", part, re.S | re.M)
            size = here.end() if here else part.index("\n") + 1
            yield part[:size], part[size:]


def test_it_says_what_the_tour_shows(cell: RunningCell) -> None:
    [block] = re.findall(r"\$ make cell\n(.*?)```", (ROOT / "docs" / "tour.md").read_text(), re.S)
    assert doctest.OutputChecker().check_output(block, cell.said, FLAGS), cell.said


def test_a_job_runs_in_each_cell(cell: RunningCell) -> None:
    with cell.client as client:
        for number in (0, 1):
            client.define_pool(f"/made-{number}", {"reservation": {}, "cell": number}, wait=20)
            wish = {"job_id": f"in-{number}", "pool": f"/made-{number}", "resources": {"cpu": "50m"}}
            client.submit_job({**wish, "command": ["sh", "-c", "echo on $PACELINE_HOST"]}, wait=20)
        for number in (0, 1):
            job_id = f"in-{number}"
            cell.until(lambda job_id=job_id: client.job(job_id)["state"] == "SUCCEEDED", f"{job_id} to succeed")
            assert [task["host_id"] for task in client.tasks(job_id)] == [f"host-{number}"]


def test_pages_that_supervisors_look_at_answer(cell: RunningCell) -> None:
    kind_at = {each.where: each.kind for each in of_procfile()}
    where = {kind_at[at]: listen for at, listen in listens({each.where: each.words for each in of_procfile()}).items()}
    kinds = {each.where: each.kind for each in of_kubernetes()}
    asked = set()
    for workload, container in containers():
        kind = kinds[f"kubernetes {workload['metadata']['name']} {container['name']}"]
        probes = [one["httpGet"]["path"] for name, one in container.items() if name.endswith("Probe")]
        asked |= {(kind, path) for path in (*probes, "/metrics")} if kind in where else set()
    assert len(asked) > 3 * len(where)
    for kind, path in sorted(asked):
        address = f"http://{where[kind]}{path}"
        cell.until(lambda address=address: answers(address), f"{kind} to answer {path}")


def test_a_second_one_says_what_is_in_its_way(cell: RunningCell, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.cell", str(tmp_path / "second")]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "127.0.0.1:7117 (api)" in second.stdout
    assert "in use: end who has it" in second.stdout
    assert not second.stderr
    assert not (tmp_path / "second").exists()


def test_a_process_that_dies_is_started_again(cell: RunningCell) -> None:
    [fanout] = [each for each in _children(cell) if b"fanout" in each[1]]
    os.kill(fanout[0], signal.SIGKILL)
    cell.until(lambda: "fanout has ended with -9" in cell.said, "it to be noticed")
    cell.until(lambda: _ready("127.0.0.1:7120"), "the fan-out to be ready")


def test_the_operators_page_is_true(cell: RunningCell) -> None:
    commands = list(shown(OPERATIONS.read_text()))
    assert len(commands) >= 5
    shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert shell.stdin is not None
    shell.stdin.write(f". {cell.folder}/env; export COLUMNS=250 NO_COLOR=1\n")
    for command, page in commands:
        said = told(shell, command)
        assert doctest.OutputChecker().check_output(page, said, FLAGS), f"$ {command}{said}\nthe page shows:\n{page}"
    shell.stdin.close()
    assert shell.wait(10) == 0


def test_a_cell_that_was_added_is_served(cell: RunningCell) -> None:
    add_cells(re.findall(r"Kafka at (\S+);", cell.said)[0], 3)  # the page above has, unless this runs alone
    kind_at = {each.where: each.kind for each in of_procfile()}
    where = {kind_at[at]: listen for at, listen in listens({each.where: each.words for each in of_procfile()}).items()}

    def taken_up(kind: str) -> bool:
        answer = _asked(where[kind])
        return answer is not None and bool(answer.json()["cells"].get("2", {}).get("ready"))

    for kind in ("lifecycle", "entitlement", "placement", "sla", "projector"):
        cell.until(lambda kind=kind: taken_up(kind), f"{kind} to serve cell 2")
    for kind in (b"api", b"fanout"):
        [found] = [pid for pid, words in _children(cell) if kind in words]
        os.kill(found, signal.SIGTERM)
    cell.until(lambda: _ready(where["fanout"]) and taken_up("fanout"), "the fan-out to serve cell 2")
    with cell.client as client:
        cell.until(lambda: "api has ended with 0" in cell.said and _ready(where["api"]), "the API to come back")
        assert client.cell()["cells"] == [0, 1, 2]
        answer = client.define_pool("/new", {"reservation": {}, "cell": 2}, wait=20)
        assert answer["code"] == "DONE"


def test_ctrl_c_ends_all_of_it(cell: RunningCell) -> None:
    started = time.monotonic()
    children = [pid for pid, _ in _children(cell)]
    assert len(children) == 13, "Kafka and twelve parts"
    cell.process.send_signal(signal.SIGINT)
    assert cell.process.wait(END_S) == 0, cell.said
    assert time.monotonic() - started < END_S
    assert cell.said.splitlines()[-1].startswith("stopped; tasks that run go on"), cell.said
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert taken(procfile(DEPLOY / "Procfile")) == []
    for name in listens(procfile(DEPLOY / "Procfile")):
        assert "Traceback" not in (cell.folder / "logs" / f"{name}.log").read_text()


def _asked(listen: str) -> httpx2.Response | None:
    """What /readyz of a part answers; None where nobody does, as while it starts again."""
    with contextlib.suppress(httpx2.TransportError):
        return ask(f"http://{listen}/readyz", timeout=2.0)
    return None


def _ready(listen: str) -> bool:
    answer = _asked(listen)
    return answer is not None and answer.is_success


def _children(cell: RunningCell) -> list[tuple[int, bytes]]:
    """Processes that it has started: pid and command line, words apart by zero bytes."""
    found = []
    for task in Path(f"/proc/{cell.process.pid}/task").iterdir():
        for pid in (task / "children").read_text().split():
            found.append((int(pid), Path(f"/proc/{pid}/cmdline").read_bytes()))
    return found
