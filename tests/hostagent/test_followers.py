"""Users follow the output of a run of a real host by the command line, through its cell's API."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.client.client import Client
from tests.helpers.ports import kept_port
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until

pytestmark = pytest.mark.outside
LINES = 5000
WRITER = """
import pathlib, sys, time
print(f"{0:099d}", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.005)
began = time.monotonic()
for number in range(1, int(sys.argv[2])):
    time.sleep(max(0.0, began + number / 1000 - time.monotonic()))
    print(f"{number:099d}", flush=True)
sys.exit(3)
"""
"""Writes a numbered line of 100 bytes each millisecond, from when a file is there."""
MISSED = re.compile(r"the first (\d+) bytes of stdout from (\d+) on are not kept any more\n")


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    made = CellProcess(
        tmp_path_factory.mktemp("followers") / "data", sim_hosts=0, agent=True, listen=f"127.0.0.1:{kept_port()}"
    )
    made.start()
    try:
        made.pool("/p")
        yield made
    finally:
        if made.process is None or made.process.poll() is not None:
            made.start()
        jobs = made.get("/v1/jobs").json()["jobs"]
        for job in jobs:
            made.request(
                "POST", f"/v1/jobs/{job['job_id']}/stops", {"command_id": f"end-{job['job_id']}", "reason": ""}
            )
        until(lambda: all(made.state(job["job_id"]) not in ("RUNNING", "PENDING") for job in jobs))
        made.end()


def run(cell: CellProcess, job_id: str, *command: str, **more: Any) -> None:
    """A job whose task runs."""
    spec = {"job_id": job_id, "pool": "/p", "command": command, "resources": {"cpu": 0.01}, **more}
    answer = cell.request("POST", "/v1/jobs", spec)
    assert answer.status_code < 300, answer.text
    until(lambda: cell.state(job_id) in ("RUNNING", "SUCCEEDED"))


def stop(cell: CellProcess, job_id: str) -> None:
    cell.request("POST", f"/v1/jobs/{job_id}/stops", {"command_id": f"end-{job_id}", "reason": ""})


class Command:
    """`paceline job` with some words, which writes to files."""

    def __init__(self, cell: CellProcess, folder: Path, *words: str) -> None:
        place = Path(tempfile.mkdtemp(dir=folder))
        self._files = place / "out", place / "err"
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "paceline", "job", *words],
                env={**os.environ, "PACELINE_DATA": str(cell.data)},
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._files[0].read_bytes().decode("latin-1")

    @property
    def err(self) -> str:
        return self._files[1].read_bytes().decode("latin-1")

    def ended(self) -> int:
        """Its exit code, once it has one."""
        return self.process.wait(60)


def client(cell: CellProcess) -> Client:
    return Client(json.loads((cell.data / "cell.json").read_text())["listen"])


def written(cell: CellProcess, job_id: str) -> bytes:
    """What is kept of its stdout by now."""
    with client(cell) as asking:
        return b"".join(piece.data for piece in asking.read_output(job_id, 0, streams=("stdout",)))


def test_no_line_is_missed_while_output_is_rotated_and_who_lags_is_told_how_much(
    cell: CellProcess, tmp_path: Path
) -> None:
    go, kept = tmp_path / "go", {"head": "64KiB", "tail": "256KiB"}
    run(cell, "lines", sys.executable, "-c", WRITER, str(go), str(LINES), output=kept)
    until(lambda: written(cell, "lines") != b"")
    first, second = (Command(cell, tmp_path, "logs", "lines", "--follow") for _ in range(2))
    until(lambda: first.out == second.out == f"{0:099d}\n")
    go.touch()
    until(lambda: second.out.count("\n") > 200)
    second.process.send_signal(signal.SIGSTOP)
    while cell.state("lines") == "RUNNING":
        assert written(cell, "lines") != b""
        time.sleep(0.1)
    second.process.send_signal(signal.SIGCONT)

    assert (first.ended(), first.err) == (0, "")
    assert first.out.splitlines() == [f"{number:099d}" for number in range(LINES)]

    assert second.ended() == 0
    note = MISSED.fullmatch(second.err)
    assert note is not None, second.err
    assert {len(line) for line in second.out.splitlines()} == {99}
    numbers = [int(line) for line in second.out.splitlines()]
    assert numbers == sorted(set(numbers))
    assert len(second.out) + int(note[1]) == 100 * LINES


def test_output_of_a_task_that_never_stops_writing_ends_where_it_ends_now(cell: CellProcess, tmp_path: Path) -> None:
    kept = {"head": "1MiB", "tail": "1MiB"}
    run(cell, "chatty", "sh", "-c", "while :; do seq 1 20000; sleep 0.02; done", output=kept)
    until(lambda: len(written(cell, "chatty")) > 1 << 20)
    shown = Command(cell, tmp_path, "logs", "chatty")
    assert shown.ended() == 0
    assert 1 << 20 < len(shown.out) < 1 << 24
    stop(cell, "chatty")


def test_both_streams_come_to_their_own_and_bytes_come_as_they_are(cell: CellProcess, tmp_path: Path) -> None:
    run(cell, "bytes", sys.executable, "-c", "import os; os.write(1, bytes(range(256)) * 300); os.write(2, b'\\xffz')")
    until(lambda: cell.state("bytes") == "SUCCEEDED")
    every = bytes(range(256)).decode("latin-1") * 300
    for words, out, err in (((), every, "\xffz"), (("--follow",), every, "\xffz"), (("--stderr",), "\xffz", "")):
        shown = Command(cell, tmp_path, "logs", "bytes", *words)
        assert (shown.ended(), shown.out == out, shown.err) == (0, True, err)


def test_the_last_lines_are_shown_alone(cell: CellProcess, tmp_path: Path) -> None:
    run(cell, "tail", "sh", "-c", "seq 1 30000; printf half")
    until(lambda: cell.state("tail") == "SUCCEEDED")
    lines = [*map(str, range(1, 30_001)), "half"]
    for count in (0, 3, 20_000):
        shown = Command(cell, tmp_path, "logs", "tail", "--tail", str(count))
        assert shown.ended() == 0
        assert shown.out.splitlines() == lines[len(lines) - count :]


def test_who_follows_goes_on_when_the_cell_was_away(cell: CellProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    run(cell, "away", sys.executable, "-c", WRITER, str(go), "3000")
    shown = Command(cell, tmp_path, "logs", "away", "-f")
    until(lambda: shown.out == f"{0:099d}\n")
    go.touch()
    until(lambda: shown.out.count("\n") > 10)
    assert cell.process is not None
    cell.process.kill()
    cell.process.wait()
    cell.start()
    assert (shown.ended(), shown.err) == (0, "")
    assert shown.out.splitlines() == [f"{number:099d}" for number in range(3000)]


def test_attaching_shows_what_comes_and_ends_as_the_run_does(cell: CellProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo before; while [ ! -e {go} ]; do echo tick; sleep 0.05; done; echo after; echo err >&2; exit 3"
    run(cell, "attach", "sh", "-c", script)
    until(lambda: written(cell, "attach") != b"")
    attached, detached = (Command(cell, tmp_path, "attach", "attach") for _ in range(2))
    until(lambda: "tick" in attached.out and "tick" in detached.out)
    detached.process.send_signal(signal.SIGINT)
    assert (detached.ended(), detached.err) == (130, "detached; run 1 of task 0 goes on\n")
    assert cell.state("attach") == "RUNNING"
    go.touch()
    assert (attached.ended(), attached.out.replace("tick\n", ""), attached.err) == (3, "after\n", "err\n")
