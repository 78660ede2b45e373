"""Users enter runs of a real host: by the command line, with and without a terminal."""

import json
import os
import pty
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.ports import kept_port
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until
from tests.hostagent.test_exec_session import alive

pytestmark = pytest.mark.outside
LOOP = "echo hello > f; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    made = CellProcess(tmp_path_factory.mktemp("exec") / "data", sim_hosts=0, agent=True)
    made.start()
    try:
        made.pool("/p")
        run(made, "web")
        yield made
    finally:
        for job_id in ("web", "over", "short"):
            made.request("POST", f"/v1/jobs/{job_id}/stops", {"command_id": f"end-{job_id}", "reason": ""})
        until(lambda: made.state("web") == "KILLED")
        made.end()


def run(cell: CellProcess, job_id: str, **more: object) -> None:
    """A service whose task runs."""
    what = {"kind": "stateless", "command": ["sh", "-c", LOOP], "resources": {"cpu": 0.01}}
    answer = cell.request("POST", "/v1/jobs", {"job_id": job_id, "pool": "/p", **what, **more})
    assert answer.status_code < 300, answer.text
    until(lambda: cell.state(job_id) == "RUNNING")


def command(cell: CellProcess, *words: str) -> list[str]:
    return [sys.executable, "-m", "paceline", "job", words[0], *words[1:]]


def enter(cell: CellProcess, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    """`paceline job exec` to its end."""
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
    return subprocess.run(
        command(cell, *words), input=text, capture_output=True, text=True, env=environment, check=False, timeout=60
    )


def entered(cell: CellProcess, job_id: str = "web") -> list[tuple[str, list[int]]]:
    """What the log says of who entered: each command, and the codes with which it ended."""
    events = cell.get(f"/v1/jobs/{job_id}/history?page_size=1000").json()["events"]
    ends = [each["detail"] for each in events if each["event"] == "ExecClosed"]
    return [
        (
            " ".join(each["detail"]["command"]),
            [end["exit_code"] for end in ends if end["exec_id"] == each["detail"]["exec_id"]],
        )
        for each in events
        if each["event"] == "ExecOpened"
    ]


def test_a_command_runs_where_its_run_does_and_its_code_is_this_ones(cell: CellProcess) -> None:
    for _ in range(5):
        done = enter(
            cell, "exec", "web", "--", "sh", "-c", "cat f; echo $PACELINE_JOB/$PACELINE_TASK; echo err >&2; exit 7"
        )
        assert (done.returncode, done.stdout, done.stderr) == (7, "hello\nweb/0\n", "err\n")


def test_what_is_piped_in_comes_back_whole(cell: CellProcess) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    done = enter(cell, "exec", "web", "-i", "--", "cat", text=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == text


def test_a_file_is_copied_out_whole_or_not_at_all(cell: CellProcess, tmp_path: Path) -> None:
    assert enter(cell, "cp", "web:f", str(tmp_path)).returncode == 0
    assert (tmp_path / "f").read_text() == "hello\n"
    done = enter(cell, "cp", "web:nothing", str(tmp_path / "x"))
    assert (done.returncode, "No such file" in done.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_what_can_not_be_entered_is_told(cell: CellProcess) -> None:
    assert enter(cell, "exec", "web", "--", "pyhton3").returncode == 127
    done = enter(cell, "exec", "web", "--task", "9", "--", "true")
    assert (done.returncode, "there is no run of task 9 of job web" in done.stderr) == (4, True), done.stderr
    run(cell, "over")
    cell.request("POST", "/v1/jobs/over/stops", {"command_id": "x", "reason": ""})
    until(lambda: cell.state("over") == "KILLED")
    done = enter(cell, "exec", "over", "--", "true")
    assert "only a run that has started and goes on can be entered" in done.stderr
    done = enter(cell, "exec", "web", "-t", "--", "true")
    assert (done.returncode, "needs a terminal" in done.stderr) == (2, True)


def test_a_terminal_behaves_as_one(cell: CellProcess) -> None:
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
    pid, terminal = pty.fork()
    if not pid:
        os.execve(sys.executable, command(cell, "exec", "web", "-t", "--", "sh"), environment)
    text = b""

    def shown(mark: bytes) -> bool:
        nonlocal text
        text += os.read(terminal, 4096)
        return mark in text

    os.write(terminal, b"stty rows 40; test -t 1 && echo a-$((1+1))-terminal\n")
    until(lambda: shown(b"a-2-terminal"))
    mark = f"{40_000 + os.getpid()}.5"
    os.write(terminal, f"sleep {mark}\n".encode())
    until(lambda: alive(f"sleep\0{mark}"))
    os.write(terminal, b"\x03echo inter$((1))rupted\n")
    until(lambda: shown(b"inter1rupted"))
    os.write(terminal, b"exit 5\n")
    with open(terminal, "rb", buffering=0) as rest:
        try:
            while rest.read(4096):
                pass
        except OSError:
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5


def test_a_command_ends_with_its_run(cell: CellProcess) -> None:
    run(cell, "short")
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
    inside = subprocess.Popen(
        command(cell, "exec", "short", "--", "sh", "-c", "echo in; sleep 1000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert inside.stdout is not None
    assert inside.stdout.readline() == "in\n"
    cell.request("POST", "/v1/jobs/short/stops", {"command_id": "s", "reason": ""})
    _, errors = inside.communicate(timeout=30)
    assert (inside.returncode, errors) == (255, "paceline: RUN_ENDED: run 1 has ended\n")


def test_each_who_entered_stands_in_the_log_with_how_it_ended(cell: CellProcess) -> None:
    enter(cell, "exec", "web", "--", "sh", "-c", "exit 9")
    until(lambda: all(len(codes) == 1 for _, codes in entered(cell)))
    assert ("sh -c exit 9", [9]) in entered(cell)


def test_a_stranger_sees_and_types_nothing(cell: CellProcess) -> None:
    server = json.loads((cell.data / "cell.json").read_text())["listen"]
    for words in (("-X", "POST", "-d", '{"command": ["sh"]}'), ("-X", "POST", "--data-binary", "x")):
        paths = ("execs", f"execs/{'0' * 32}/in")
        url = f"http://{server}/v1/jobs/web/tasks/0/{paths[len(words) > 4 and 'x' in words[3]]}"
        done = subprocess.run(["curl", "-s", *words, url], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["code"] == "TOKEN_NEEDED"
    url = f"http://{server}/v1/jobs/web/tasks/0/execs/{'0' * 32}/out"
    done = subprocess.run(["curl", "-s", url], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["code"] == "TOKEN_NEEDED"


def fetched(port: int) -> bytes:
    """The whole answer of a web server behind a local port; empty: the connection was closed without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"GET /large HTTP/1.0\r\n\r\n")
            answer = b""
            while data := connection.recv(65_536):
                answer += data
            return answer
    except OSError:
        return b""


def test_a_port_of_a_run_is_reached_for_as_long_as_its_job_lasts(cell: CellProcess, tmp_path: Path) -> None:
    go, port, local = tmp_path / "go", kept_port(), kept_port()
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    serve = f"{wait}; head -c 300000 /dev/zero > large; exec python3 -m http.server {port}"
    run(cell, "server", command=["sh", "-c", serve])
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
    with subprocess.Popen(
        command(cell, "port-forward", "server", f"{local}:{port}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as forwarding:
        assert forwarding.stdout is not None
        assert forwarding.stderr is not None
        assert "goes to port" in forwarding.stdout.readline()
        assert fetched(local) == b""
        assert forwarding.stderr.readline() == f"paceline: PORT_CLOSED: port {port} of the run: Connection refused\n"
        go.touch()
        until(lambda: fetched(local))
        with socket.create_connection(("127.0.0.1", local)) as one:  # a client that gives up at once
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with ThreadPoolExecutor(20) as side_by_side:
            answers = list(side_by_side.map(fetched, [local] * 20))
        assert [len(answer.partition(b"\r\n\r\n")[2]) for answer in answers] == [300_000] * 20
        cell.request("POST", "/v1/jobs/server/stops", {"command_id": "end-server", "reason": ""})
        assert forwarding.wait(30) == 1
        assert "job server is KILLED: nothing is forwarded any more" in forwarding.stderr.read()
    with socket.create_server(("127.0.0.1", local)):
        pass


def test_no_run_is_entered_in_a_cell_that_says_so(cell: CellProcess) -> None:
    cell.request("PATCH", "/v1/cell/settings?wait=20s", {"exec": False})
    try:
        done = enter(cell, "exec", "web", "--", "true")
        assert (done.returncode, "`paceline cell set exec=on` permits it" in done.stderr) == (9, True), done.stderr
    finally:
        cell.request("PATCH", "/v1/cell/settings?wait=20s", {"exec": True})
    assert enter(cell, "exec", "web", "--", "true").returncode == 0
