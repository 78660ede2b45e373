"""Holder and keepers: whatever dies and is replaced, runs go on, end once, and are told."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from events.codes import RunReport
from hostagent import keepers
from hostagent.run_record import Launch, RunKey, take_lock
from hostagent.runs import Runs, stop_all
from tests.helpers.waiting import until
from tests.hostagent.test_agent import dead, keeper_of

KEY = RunKey("j", 0, 1)
SHIM = """
import fcntl, json, os, signal, subprocess, sys, time
folder, lock = sys.argv[1], int(sys.argv[2])
said = []
signal.signal(signal.SIGTERM, lambda *_: said.append(1))
def put(name, value):
    with open(f"{folder}/{name}.tmp", "w") as file:
        file.write(value)
    os.replace(f"{folder}/{name}.tmp", f"{folder}/{name}")
put("shim.pid", str(os.getpid()))
process = subprocess.Popen(["sleep", "600"], start_new_session=True)
with open(f"/proc/{process.pid}/stat") as file:
    start = int(file.read().rpartition(")")[2].split()[19])
with open("/proc/sys/kernel/random/boot_id") as file:
    put("process.json", json.dumps({"pid": process.pid, "start_time": start, "boot_id": file.read().strip()}))
put("started", "")
while process.poll() is None:
    if said and os.path.exists(f"{folder}/stop"):
        process.terminate()
    time.sleep(0.01)
put("exit.json", json.dumps({"state": 3, "exit_code": 143, "reason": "", "signal": 15, "cpu_ms": 1, "memory_kib": 1}))
"""
"""What a shim of 0.3 does, as far as an agent sees it."""


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(keepers, "KEEPERS", 2)
    yield
    stop_all(tmp_path)


def begin(runs: Runs, *command: str, key: RunKey = KEY, grace_ms: int = 1000) -> Path:
    """Starts a run, and waits until it runs."""
    env = {**os.environ, "PACELINE_JOB": key.job_id, "PACELINE_TASK": str(key.instance), "PACELINE_RUN": str(key.run)}
    run = runs.start(key, Launch(command, env, grace_ms))
    when(runs, lambda: len(runs.keepers._turn) >= keepers.KEEPERS)
    when(runs, lambda: run.state)
    return run.folder


def text(folder: Path) -> str:
    """What a run has written so far."""
    file = folder / "stdout.0"
    return file.read_text() if file.exists() else ""


def when(runs: Runs, holds: Callable[[], object]) -> None:
    """Waits until it holds, while it looks what becomes of runs."""
    until(lambda: (runs.poll(), holds())[1])


def ends(runs: Runs) -> list[tuple[int, int, int]]:
    when(runs, lambda: not runs.alive())
    return [(each.instance, each.state, each.exit_code) for each in runs.inventory()]


def holder(folder: Path) -> int:
    return int([*(folder / "holder.lock").read_text().split(), 0][0])


def sockets(folder: Path) -> set[str]:
    return {path.name for path in (folder / "keepers").glob("*.sock")}


def test_runs_outlive_the_holder_and_the_agent_starts_another(tmp_path: Path) -> None:
    runs, go = Runs(tmp_path), tmp_path / "go"
    begin(runs, "sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; exit 3")
    first = holder(tmp_path)
    os.kill(first, signal.SIGKILL)
    begin(runs, "true", key=RunKey("j", 1, 1))
    when(runs, lambda: len(runs.alive()) == 1)
    assert holder(tmp_path) == first, "keepers without a holder take starts"
    runs.keepers._look_at_s = 0.0
    when(runs, lambda: holder(tmp_path) not in (0, first))
    begin(runs, "true", key=RunKey("j", 2, 1))
    go.touch()
    assert ends(runs) == [(0, 2, 3), (1, 2, 0), (2, 2, 0)]


def test_a_lost_keeper_takes_its_runs_along_and_is_replaced(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.keepers.open(10)
    when(runs, lambda: len(runs.keepers._turn) == 2)
    first = begin(runs, "sh", "-c", "setsid sleep 600 & echo $!; exec sleep 600")
    begin(runs, "sleep", "600", key=RunKey("j", 1, 1))
    until((first / "stdout.0").exists)
    pid = json.loads((first / "process.json").read_text())["pid"]
    until(lambda: (first / "stdout.0").read_text())
    before = sockets(tmp_path)
    os.kill(keeper_of(first / "process.json"), signal.SIGKILL)
    when(runs, lambda: len(runs.alive()) == 1)
    [lost] = [each for each in runs.inventory() if each.state == RunReport.VANISHED]
    assert (lost.instance, lost.exit_code, lost.reason) == (0, 255, "its keeper was lost")
    until(dead(pid))
    until(dead(int((first / "stdout.0").read_text())), "what left its session")
    when(runs, lambda: len(sockets(tmp_path) - before) == 1)
    runs.stop(RunKey("j", 1, 1))
    assert ends(runs) == [(0, 8, 255), (1, 3, 143)]


def test_a_start_that_its_keeper_never_read_goes_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepers, "KEEPERS", 1)
    runs = Runs(tmp_path)
    keeper = keeper_of(begin(runs, "sleep", "600") / "process.json")
    os.kill(keeper, signal.SIGSTOP)
    run = runs.start(RunKey("j", 1, 1), Launch(("sh", "-c", "exit 4"), dict(os.environ), 100))
    assert not runs._waiting, "it is on its way"
    os.kill(keeper, signal.SIGKILL)
    when(runs, lambda: not run.alive)
    assert (run.state, run.exit_code) == (RunReport.EXITED, 4)


def test_keepers_of_another_release_end_with_their_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Runs(tmp_path)
    folder = begin(old, "sleep", "600")
    keeper, first = keeper_of(folder / "process.json"), holder(tmp_path)
    old.close()
    code = (tmp_path / "holder.lock").read_text().split()[1]
    runs = Runs(tmp_path)
    monkeypatch.setattr(runs.keepers, "_code", "of another release")
    runs.keepers._wanted = True
    runs.keepers._look_at_s = 0.0
    runs.poll()
    until(dead(first), "the holder to end")
    monkeypatch.setattr(runs.keepers, "_code", code)
    when(runs, lambda: holder(tmp_path) not in (0, first) and runs.keepers._turn)
    begin(runs, "true", key=RunKey("j", 1, 1))
    when(runs, lambda: len(runs.alive()) == 1)
    assert dead(keeper)() is False
    runs.stop(KEY)
    assert ends(runs) == [(0, 3, 143), (1, 2, 0)]
    when(runs, dead(keeper))


def test_a_stop_that_a_dying_agent_wrote_is_obeyed_when_the_next_one_comes(tmp_path: Path) -> None:
    first = Runs(tmp_path)
    folder = begin(first, "sleep", "600")
    first.close()
    (folder / "stop").write_text(str(int(RunReport.STOPPED)))
    assert ends(Runs(tmp_path)) == [(0, 3, 143)]


def test_keepers_end_when_no_agent_and_no_run_is_left(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    begin(runs, "true")
    ends(runs)
    pid = holder(tmp_path)
    runs.close()
    until(dead(pid), "the holder to end")


def test_a_run_of_an_agent_of_0_3_is_adopted_with_its_shim(tmp_path: Path) -> None:
    folder = tmp_path / "runs/j/0/1"
    folder.mkdir(parents=True)
    (folder / "order.json").write_text(json.dumps({"command": ["sleep"], "ports": [31001], "check": None}))
    lock = take_lock(folder)
    command = [sys.executable, "-c", SHIM, str(folder), str(lock)]
    with subprocess.Popen(command, pass_fds=(lock,), start_new_session=True) as shim:
        os.close(lock)
        until((folder / "started").exists)
        runs = Runs(tmp_path)
        [run] = runs.alive()
        assert (run.state, run.ports, run.has_shim, runs.restless()) == (RunReport.STARTED, (31001,), True, True)
        runs.stop(KEY)
        assert ends(runs) == [(0, 3, 143)]
    assert shim.returncode == 0


def test_a_run_of_an_agent_of_0_3_whose_shim_was_killed_vanishes(tmp_path: Path) -> None:
    folder = tmp_path / "runs/j/0/1"
    folder.mkdir(parents=True)
    (folder / "order.json").write_text("{}")
    lock = take_lock(folder)
    with subprocess.Popen([sys.executable, "-c", SHIM, str(folder), str(lock)], pass_fds=(lock,)) as shim:
        os.close(lock)
        until((folder / "started").exists)
        runs = Runs(tmp_path)
        shim.kill()
        assert ends(runs) == [(0, 8, 255)]
    until(dead(json.loads((folder / "process.json").read_text())["pid"]))


def test_the_program_behind_a_shell_has_its_grace(tmp_path: Path) -> None:
    program = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(1), print('bye'), sys.exit(0)));"
    program += "print('ready', flush=True); time.sleep(600)"
    runs = Runs(tmp_path)
    folder = begin(runs, "sh", "-c", f'{sys.executable} -u -c "{program}"; true', grace_ms=60_000)
    until(lambda: "\n" in text(folder))
    runs.stop(KEY)
    assert ends(runs) == [(0, 3, 143)]
    page = runs.read(KEY, "stdout", 0, 100)
    assert page is not None
    assert page.data == b"ready\nbye\n"


def test_the_program_before_a_pipe_has_its_grace_and_its_last_words_are_kept(tmp_path: Path) -> None:
    program = "import signal, sys, time; signal.signal(15, lambda *_: (print('bye'), time.sleep(1), sys.exit()));"
    program += "print('ready', flush=True); time.sleep(600); print('never')"
    runs = Runs(tmp_path)
    folder = begin(runs, "sh", "-c", f'{sys.executable} -u -c "{program}" | cat | cat', grace_ms=60_000)
    until(lambda: "\n" in text(folder))
    runs.stop(KEY)
    assert ends(runs) == [(0, 3, 143)]
    assert text(folder) == "ready\nbye\n"


def test_who_reads_from_a_pipe_that_nobody_closes_is_asked_to_end_too(tmp_path: Path) -> None:
    reader = "trap 'echo asked; exit' TERM; echo ready; while :; do sleep 0.05; done"
    runs = Runs(tmp_path)
    folder = begin(runs, "sh", "-c", f'sleep 600 | sh -c "{reader}"; true', grace_ms=60_000)
    until(lambda: "\n" in text(folder))
    runs.stop(KEY)
    assert ends(runs) == [(0, 3, 143)]
    assert text(folder) == "ready\nasked\n"


def test_the_rest_of_a_group_has_no_more_than_its_grace(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    folder = begin(runs, "sh", "-c", "(trap '' TERM; echo ready; sleep 600) & wait", grace_ms=300)
    until(lambda: "\n" in text(folder))
    runs.stop(KEY)
    assert ends(runs) == [(0, 3, 143)]


def test_a_child_with_a_session_of_its_own_ends_with_its_run(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    begin(runs, "sleep", "600", key=RunKey("j", 1, 1))
    begin(runs, "sleep", "600", key=RunKey("j", 2, 1))  # so that no keeper is without runs
    folder = begin(runs, "sh", "-c", "setsid sleep 600 & echo $!; exec sleep 600")
    until((folder / "stdout.0").exists)
    until(lambda: (folder / "stdout.0").read_text())
    child = int((folder / "stdout.0").read_text())
    runs.stop(KEY)
    until(dead(child), "the child to end")
    when(runs, lambda: [each.key.instance for each in runs.alive()] == [1, 2])


def test_signals_that_the_agent_ignores_mean_to_a_run_what_they_mean_to_any(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        runs = Runs(tmp_path)
        run = runs.start(KEY, Launch(("sleep", "600"), dict(os.environ), 60_000, stop_signal=signal.SIGQUIT))
        when(runs, lambda: run.state)
        runs.stop(KEY)
        assert ends(runs) == [(0, 3, 128 + signal.SIGQUIT)]
    finally:
        signal.signal(signal.SIGQUIT, before)
