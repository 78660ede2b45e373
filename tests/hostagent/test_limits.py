"""Tasks of a real host get what they asked for and no more, where its agent keeps them in control groups."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from glob import iglob
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until
from tests.hostagent.test_groups import REFUSED

pytestmark = [pytest.mark.outside, pytest.mark.xdist_group("limits"), pytest.mark.skipif(bool(REFUSED), reason=REFUSED)]
PYTHON = "/usr/bin/env python3 -c"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    made = CellProcess(
        tmp_path_factory.mktemp("limits") / "data", sim_hosts=0, agent=True, options=("--isolation", "cgroup")
    )
    made.start()
    try:
        made.pool("/p")
        yield made
    finally:
        made.end()


def run(cell: CellProcess, job_id: str, command: list[str], wait: bool = True, **more: Any) -> dict[str, Any]:
    """A task of 32 MiB at most, to its end unless it isn't waited for."""
    spec = {"job_id": job_id, "pool": "/p", "command": command, "resources": {"cpu": 0.1, "memory": "32MiB"}}
    answer = cell.request("POST", "/v1/jobs", {**spec, **more})
    assert answer.status_code < 300, answer.text
    states = ("SUCCEEDED", "FAILED", "KILLED") if wait else ("RUNNING",)
    until(lambda: cell.state(job_id) in states, f"{job_id} to be in {states}")
    tasks: list[dict[str, Any]] = cell.get(f"/v1/jobs/{job_id}/tasks").json()["tasks"]
    return tasks[0]


def test_a_task_is_held_to_its_cpu_limit_and_its_runs_say_how_long(cell: CellProcess) -> None:
    busy = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    began = time.monotonic()
    task = run(cell, "held", ["python3", "-c", busy], cpu_limit=0.1)
    wall_ms = 1000 * (time.monotonic() - began)
    assert 0 < task["cpu_ms"] <= 0.1 * (wall_ms + 100)  # the kernel gives the quota of a period at once
    assert task["throttled_ms"] or task["cpu_ms"] < 150  # a busy host may give it less than its quota


def groups(cell: CellProcess) -> list[Path]:
    """The memory groups of its runs that are there; others come and go while they are looked for."""
    folder = cell.data.with_name("data-agent").resolve()
    place = f"paceline-{blake2b(bytes(folder), digest_size=8).hexdigest()}"
    return sorted(Path(path).parent for path in iglob(f"/sys/fs/cgroup/**/{place}/*.*.*/memory.stat", recursive=True))


def test_a_task_that_takes_more_memory_than_it_asked_for_is_killed_and_told_why(cell: CellProcess) -> None:
    hungry = run(cell, "hungry", ["python3", "-c", "bytearray(500 << 20)"])
    assert hungry["state"] == "FAILED"
    failure = cell.get("/v1/jobs/hungry/explanation").json()
    assert "out of memory, it used all of its 32 MiB" in str(failure), failure


def test_a_child_that_takes_it_is_killed_alone_or_with_its_run_but_never_the_host(cell: CellProcess) -> None:
    script = "python3 -c 'bytearray(500 << 20)'; exit 3"
    assert run(cell, "parent", ["sh", "-c", script])["state"] == "FAILED"
    explained = str(cell.get("/v1/jobs/parent/explanation").json())
    assert "out of memory, it used all of its 32 MiB" in explained, explained


def test_a_task_that_failed_at_its_limit_of_processes_says_so(cell: CellProcess) -> None:
    run(cell, "crowd", ["bash", "-c", "for i in 1 2 3 4 5 6; do sleep 3 & done; exit 4"], processes=4)
    explained = str(cell.get("/v1/jobs/crowd/explanation").json())
    assert "it had as many processes as it may" in explained, explained


def test_a_live_service_at_its_limit_of_processes_says_so(cell: CellProcess) -> None:
    script = "import os, time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.5)"
    run(cell, "full", ["python3", "-c", script], wait=False, kind="stateless", processes=4)

    def top() -> str:
        words = [sys.executable, "-m", "paceline", "job", "top", "full"]
        environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=True, timeout=60).stdout

    until(lambda: "FORKS REFUSED" in top(), "the refused forks to be told")
    assert cell.state("full") == "RUNNING"
    cell.request("POST", "/v1/jobs/full/stops", {"command_id": "end-full"})
    until(lambda: cell.state("full") == "KILLED")


def test_a_fork_bomb_ends_with_its_task(cell: CellProcess) -> None:
    bomb = (
        "import os, time\nwhile True:\n    try:\n        if not os.fork(): time.sleep(1000)\n    except OSError: break"
    )
    task = run(cell, "bomb", ["python3", "-c", bomb], processes=20)
    assert task["state"] == "SUCCEEDED"
    until(lambda: not groups(cell), "all of the bomb to end")


def test_a_task_is_held_below_its_limit_of_cpu(cell: CellProcess) -> None:
    used = "while time.process_time() < 0.5: pass"
    busy = f"import time\nbegan = time.monotonic()\n{used}\nassert time.monotonic() - began > 1.5"
    assert run(cell, "busy", ["python3", "-c", busy], cpu_limit=0.25)["state"] == "SUCCEEDED"


def test_what_leaves_its_session_ends_with_the_run(cell: CellProcess) -> None:
    run(cell, "daemon", ["sh", "-c", "setsid sleep 1000 & sleep 0.1"])
    until(lambda: not groups(cell), "its child to end")


def test_a_run_that_leaves_a_group_of_its_own_making_ends(cell: CellProcess) -> None:
    script = (
        "own=$(grep -m1 -E ':memory:|^0::' /proc/self/cgroup | cut -d: -f3); "
        "mkdir /sys/fs/cgroup/memory$own/inner || mkdir /sys/fs/cgroup$own/inner; exit 0"
    )
    assert run(cell, "nested", ["sh", "-c", script])["state"] == "SUCCEEDED"
    until(lambda: not groups(cell), "its groups to be removed")


def test_runs_that_die_of_memory_again_and_again_leave_nothing_behind(cell: CellProcess) -> None:
    task = run(cell, "again", ["python3", "-c", "bytearray(500 << 20)"], retries={"max": 10})
    assert (task["state"], task["run"]) == ("FAILED", 11)
    until(lambda: not groups(cell))


def test_a_run_keeps_its_limits_when_its_cell_is_killed_and_a_lost_keeper_leaves_no_group(cell: CellProcess) -> None:
    run(cell, "kept", ["sleep", "1000"], wait=False, kind="stateless")
    (group,) = groups(cell)
    pid = int((group / "cgroup.procs").read_text())
    cell.kill()
    assert groups(cell) == [group]
    cell.start()
    assert cell.state("kept") == "RUNNING"
    assert groups(cell) == [group]
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    until(lambda: [path.name for path in groups(cell)] == ["kept.0.2"], "the run to be replaced")
    cell.request("POST", "/v1/jobs/kept/stops", {"command_id": "end", "reason": ""})
    until(lambda: not groups(cell))
