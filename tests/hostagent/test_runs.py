"""The record of runs and the shim, without an agent."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostagent import runs as module
from hostagent.runs import RunKey, Runs
from hostagent.shim import HEAD_BYTES, PIECE_BYTES, Output, boot_id

KEY = RunKey("j", 0, 1)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def start(runs: Runs, key: RunKey = KEY, *command: str) -> None:
    runs.start(key, command or ("true",), dict(os.environ), 1000, 0)


def finish(runs: Runs) -> None:
    until(lambda: runs.poll() or not runs.alive())
    until(lambda: not runs.alive() or (runs.poll() and not runs.alive()))


def test_output_is_bounded_and_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    size = HEAD_BYTES + 4 * PIECE_BYTES + 10
    script = f"import sys; [sys.stdout.write('%015d\\n' % n) for n in range({size // 16 + 1})]"
    start(runs, KEY, sys.executable, "-c", script)
    finish(runs)
    kept = sorted((tmp_path / "runs/j/0/1").glob("stdout.*"))
    assert sum(path.stat().st_size for path in kept) <= HEAD_BYTES + 2 * PIECE_BYTES
    first = runs.read(KEY, "stdout", 0, 16)
    assert first is not None
    assert (first.offset, first.data) == (0, b"000000000000000\n")
    last = runs.read(KEY, "stdout", -16, 16)
    assert last is not None
    assert last.data == b"%015d\n" % (size // 16)
    assert last.ended
    dropped = runs.read(KEY, "stdout", HEAD_BYTES + 1, 16)
    assert dropped is not None
    assert dropped.offset > HEAD_BYTES + 1
    assert int(dropped.data) * 16 == dropped.offset


def test_all_that_is_kept_can_be_read_in_pieces(tmp_path: Path) -> None:
    output = Output(str(tmp_path), "stdout", -1)
    written = bytes(range(256)) * 1000
    output.write(written)
    run = module.Run(KEY, tmp_path, state=2)
    runs = Runs(tmp_path / "other")
    runs._runs[KEY] = run
    got, at = b"", 0
    while page := runs.read(KEY, "stdout", at, 10_000):
        got += page.data
        at = page.next_offset
        if page.ended:
            break
    assert got == written


def test_a_run_is_known_before_its_process_runs_any_code(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    start(runs, KEY, "cat", str(tmp_path / "runs/j/0/1/process.json"))
    finish(runs)
    page = runs.read(KEY, "stdout", 0, 1000)
    assert page is not None
    assert set(json.loads(page.data)) == {"pid", "start_time", "boot_id"}


def test_a_run_that_was_ordered_but_never_begun_is_as_if_it_had_not_been(tmp_path: Path) -> None:
    folder = tmp_path / "runs/j/0/1"
    folder.mkdir(parents=True)
    (folder / "order.json").write_text("{}")
    assert KEY not in Runs(tmp_path)
    assert not folder.exists()


def test_a_run_from_before_a_restart_of_the_host_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "runs/j/0/1"
    folder.mkdir(parents=True)
    (folder / "order.json").write_text("{}")
    process = {"pid": os.getpid(), "start_time": 1, "boot_id": "another"}
    (folder / "process.json").write_text(json.dumps(process))
    (report,) = Runs(tmp_path).unreported()
    assert (report.state, report.exit_code) == (2, 255)
    assert report.reason == "shim vanished: the host was restarted"


def test_a_pid_that_now_names_another_process_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "runs/j/0/1"
    folder.mkdir(parents=True)
    (folder / "order.json").write_text("{}")
    process = {"pid": os.getpid(), "start_time": 1, "boot_id": boot_id()}
    (folder / "process.json").write_text(json.dumps(process))
    assert [run.exit_code for run in Runs(tmp_path).unreported()] == [255]


def test_what_was_acknowledged_is_not_reported_again_after_a_restart(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    start(runs)
    finish(runs)
    said = runs.unreported()
    assert [run.state for run in said] == [2]
    assert Runs(tmp_path).unreported() == said
    runs.acknowledged(said)
    assert runs.unreported() == Runs(tmp_path).unreported() == []
    assert len(Runs(tmp_path).inventory()) == 1


def test_a_stop_before_the_start_of_the_process_is_obeyed(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    start(runs, KEY, "sleep", "600")
    runs.stop(KEY)
    finish(runs)
    (report,) = runs.unreported()
    assert (report.state, report.exit_code) == (3, 143)


def test_old_runs_are_removed_but_never_those_that_the_cell_may_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_RUNS", 2)
    runs = Runs(tmp_path)
    keys = [RunKey("j", instance, 1) for instance in range(5)]
    for key in keys:
        start(runs, key)
    finish(runs)
    for key in keys[:4]:
        runs.forget(key)
    assert [key in runs for key in keys] == [False, False, True, True, True]
    assert sorted(path.name for path in (tmp_path / "runs/j").iterdir()) == ["2", "3", "4"]
    assert [run.instance for run in runs.inventory()] == [4]
    assert [key in Runs(tmp_path) for key in keys] == [False, False, True, True, True]


def test_a_forgotten_run_is_never_started_again_while_its_record_lasts(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    start(runs)
    finish(runs)
    runs.forget(KEY)
    assert KEY in runs
    assert runs.inventory() == runs.unreported() == []


@pytest.mark.parametrize("job_id", ["..", ".", "a/b", ""])
def test_a_job_id_is_never_a_path(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(ValueError):
        start(Runs(tmp_path), RunKey(job_id, 0, 1))
