"""How real processes end, and what is said of it: signals, limits, what they used, and why the kernel killed them."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from events.codes import RunReport
from events.records.tasks import RunsReported
from hostagent import oom
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs, stop_all
from tests.hostagent.cell import stopping
from tests.hostagent.test_agent import HOST, Site, keeper_of, said, shell
from tests.hostagent.test_runs import until

READY = "touch ready; while :; do sleep 0.05; done"


class Details(NamedTuple):
    """What is reported of the end of a process."""

    signal: int
    out_of_memory: int
    cpu_ms: int
    memory_kib: int
    throttled_ms: int
    read_kib: int
    written_kib: int


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "agent")
    site.start_agent()
    yield site
    site.stop_agent()
    assert stop_all(site.folder)[1] == 0
    site.cell.turn()
    site.cell.gateway.close()
    site.server.stop()


def details(site: Site) -> list[Details]:
    """Of all runs of which any is reported."""
    facts = [fact for fact in site.cell.facts("paceline.tasks", RunsReported) if isinstance(fact, RunsReported)]
    columns = [[getattr(fact, f"{name}_array") for name in Details._fields] for fact in facts if fact.signal]
    return [Details(*map(int, row)) for each in columns for row in zip(*each, strict=True)]


def stop_when_ready(site: Site, job_id: str) -> None:
    site.cell.until((site.folder / f"tasks/{job_id}.0.1/ready").exists)
    site.cell.decide(stopping([(job_id, 0, 1)], [HOST]))


@pytest.mark.parametrize("name", ["INT", "QUIT", "USR1", "WINCH"])
def test_a_run_is_asked_to_end_by_the_signal_that_its_job_names(site: Site, name: str) -> None:
    site.run(shell("j", f'trap "echo {name}; exit 7" {name}; {READY}', stop_signal=name))
    stop_when_ready(site, "j")
    site.says("j", 0, 1, "STOPPED", 7)
    assert site.output("j") == f"{name}\n"


def test_a_run_that_did_not_obey_its_stop_is_killed_before_its_grace_is_over(site: Site) -> None:
    site.run(shell("j", f'trap "" TERM; {READY}', stop_grace_ms=600_000))
    stop_when_ready(site, "j")
    site.cell.until(site.file("j", "stop").exists)
    site.cell.decide(stopping([("j", 0, 1)], [HOST], [1]))
    site.says("j", 0, 1, "STOPPED", 137)


def test_a_run_that_is_to_be_killed_and_was_never_heard_of_does_not_start(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.kill(RunKey("j", 0, 1))
    assert [(each.state, each.reason) for each in runs.inventory()] == [
        (RunReport.STOPPED, "stopped before it started")
    ]


def test_a_keeper_that_hangs_keeps_no_run_that_is_to_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(tmp_path)
    runs.keepers.open(10)
    until(lambda: (runs.poll(), len(runs.keepers._turn) > 1)[1])
    key, other = RunKey("j", 0, 1), RunKey("j", 1, 1)
    run, lives = (runs.start(each, Launch(("sleep", "600"), dict(os.environ), 1000)) for each in (key, other))
    until(lambda: (runs.poll(), run.state and lives.state)[1])
    os.kill(keeper_of(run.folder / "process.json"), signal.SIGSTOP)
    pid = json.loads((run.folder / "process.json").read_text())["pid"]
    runs.stop(key)
    runs.kill(key)
    until(lambda: "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2])
    runs.poll()
    assert run.alive
    monkeypatch.setattr("hostagent.keepers.HANGS_S", 1.0)
    runs.kill(key)
    until(lambda: (runs.poll(), not run.alive)[1])
    assert (run.state, run.reason) == (RunReport.VANISHED, "its keeper was lost")
    assert lives.alive, "its keeper answers"
    runs.stop(other)
    until(lambda: (runs.poll(), not lives.alive)[1])


def test_a_run_that_survives_its_kill_is_reported_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process in state D does: here nobody sends a signal, neither the agent nor the keeper."""
    runs = Runs(tmp_path)
    key = RunKey("j", 0, 1)
    stays = f'trap "touch heard" TERM; cd {tmp_path}; {READY}'
    run = runs.start(key, Launch(("sh", "-c", stays), dict(os.environ), 600_000))
    until(lambda: runs.poll() and run.state)
    until((tmp_path / "ready").exists)
    runs.acknowledged(runs.unreported())
    runs.stop(key)
    until((tmp_path / "heard").exists)
    with monkeypatch.context() as patch:
        patch.setattr("hostagent.runs.kill_processes", lambda folder: True)
        patch.setattr(runs.keepers, "stop", lambda name: None)
        for _ in range(2):
            runs.kill(key)
            runs.poll()
            assert runs.unreported() == [], "it has a moment to go"
            patch.setattr("hostagent.runs.SURVIVES_S", 0.0)
            assert runs.poll()
            assert [each.state for each in runs.unreported()] == [RunReport.SURVIVED]
            runs.acknowledged(runs.unreported())
            patch.setattr("hostagent.runs.SURVIVES_S", 10.0)
    runs.kill(key)
    until(lambda: runs.poll() and not run.alive)
    assert run.state == RunReport.STOPPED


def test_a_run_that_is_to_be_killed_has_no_grace(site: Site) -> None:
    site.run(shell("j", f'trap "" TERM; {READY}', stop_signal="KILL", stop_grace_ms=600_000))
    stop_when_ready(site, "j")
    site.says("j", 0, 1, "STOPPED", 137)
    assert [each.signal for each in details(site)] == [signal.SIGKILL]


def test_what_a_run_makes_is_for_whom_the_umask_of_its_agent_lets(tmp_path: Path) -> None:
    runs = Runs(tmp_path, umask=0o027)
    run = runs.start(RunKey("j", 0, 1), Launch(("sh", "-c", "umask; touch made"), dict(os.environ), 1000))
    until(lambda: (runs.poll(), not run.alive)[1])
    assert (run.folder / "stdout.0").read_text() == "0027\n"
    assert (tmp_path / "tasks/j.0.1/made").stat().st_mode & 0o777 == 0o640
    assert (run.folder / "exit.json").stat().st_mode & 0o077 == 0
    assert stop_all(tmp_path) == (0, 0)


def test_a_run_has_as_many_open_files_as_its_job_says(site: Site) -> None:
    site.run(shell("j", "ulimit -n", open_files=123))
    site.says("j", 0, 1, "EXITED", 0)
    assert site.output("j") == "123\n"


def test_more_open_files_than_the_host_allows_are_a_reason_not_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, key = Runs(tmp_path), RunKey("j", 0, 1)
    runs.start(key, Launch(("true",), dict(os.environ), 1000, open_files=2**40))
    until(lambda: runs.poll() or not runs.alive())
    [state] = runs.unreported()
    assert state.exit_code == 127
    assert "open_files is 1099511627776, this host allows" in state.reason


def test_what_a_run_used_and_the_signal_that_ended_it_are_reported(site: Site) -> None:
    code = (
        "import os, signal, time; x = b'x' * 50_000_000\nwhile time.process_time() < 0.2: pass\n"
        "file = os.open('file', os.O_WRONLY | os.O_CREAT); os.write(file, x[:1 << 20]); os.fsync(file)\n"
        "os.kill(os.getpid(), 6)"
    )
    site.run(shell("j", f'exec {sys.executable} -c "$CODE"', env={"CODE": code}))
    site.says("j", 0, 1, "EXITED", 134)
    [end] = details(site)
    assert (end.signal, end.out_of_memory) == (signal.SIGABRT, 0)
    assert end.cpu_ms >= 200
    assert 50_000_000 // 1024 < end.memory_kib < 1_000_000
    assert end.written_kib >= 1024


def test_a_kill_that_the_kernel_counts_as_want_of_memory_is_told_from_others(tmp_path: Path) -> None:
    """The count stands in for the kernel's: the run raises it as the kernel would."""
    vmstat, first, second = tmp_path / "vmstat", RunKey("j", 0, 1), RunKey("j", 1, 1)
    vmstat.write_text("nr_free_pages 5\noom_kill 3\n")
    runs = Runs(tmp_path / "agent", vmstat=vmstat)
    script = f"printf 'oom_kill 4\\n' > {vmstat}; kill -9 $$"
    runs.start(first, Launch(("sh", "-c", script), dict(os.environ), 1000))
    until(lambda: runs.poll() or not runs.alive())
    until(lambda: not runs.alive() or runs.poll())
    [state] = runs.unreported()
    assert (state.exit_code, state.signal, state.out_of_memory) == (137, signal.SIGKILL, True)
    assert state.reason == "killed by the kernel: out of memory"
    runs.acknowledged([state])
    later = Runs(tmp_path / "other", vmstat=vmstat)
    later.start(second, Launch(("sh", "-c", "kill -9 $$"), dict(os.environ), 1000))
    until(lambda: not later.alive() or (later.poll() and not later.alive()))
    [state] = later.unreported()
    assert (state.exit_code, state.out_of_memory, state.reason) == (137, False, "")


def test_a_machine_without_that_count_knows_of_no_want_of_memory(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 5\n")
    assert not oom.counted(tmp_path / "vmstat")
    assert not oom.counted(tmp_path / "missing")
    assert not oom.OutOfMemory(tmp_path / "missing").killed(0)


def test_a_stop_says_the_signal_that_ended_the_run(site: Site) -> None:
    site.run(shell("j", "sleep 600"))
    site.cell.until(lambda: said(site.file("j", "started")) == "" and site.file("j", "started").exists())
    site.cell.decide(stopping([("j", 0, 1)], [HOST]))
    site.says("j", 0, 1, "STOPPED", 143)
    assert [each.signal for each in details(site)] == [signal.SIGTERM]
