"""The record of runs and their keepers, without an agent."""

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from events.codes import RunReport
from hostagent import folders, private_files, run_files, run_output
from hostagent import runs as module
from hostagent.kept_output import HEAD_BYTES, TAIL_BYTES, Output
from hostagent.kernel import boot_id
from hostagent.messages import RunState
from hostagent.retention import Retention
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs
from tests.helpers.waiting import until

KEY = RunKey("j", 0, 1)


def start(runs: Runs, key: RunKey = KEY, *command: str) -> None:
    runs.start(key, Launch(command or ("true",), dict(os.environ), 1000))


def finish(runs: Runs) -> None:
    until(lambda: runs.poll() or not runs.alive())
    until(lambda: not runs.alive() or (runs.poll() and not runs.alive()))


def test_output_is_bounded_and_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    size = HEAD_BYTES + 2 * TAIL_BYTES + 10
    script = f"import sys; [sys.stdout.write('%015d\\n' % n) for n in range({size // 16 + 1})]"
    start(runs, KEY, sys.executable, "-c", script)
    finish(runs)
    kept = sorted((tmp_path / "runs/j/0/1").glob("stdout.*"))
    assert sum(path.stat().st_size for path in kept) <= HEAD_BYTES + TAIL_BYTES
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
    kept = Output(str(tmp_path), "stdout", -1)
    written = bytes(range(256)) * 1000
    kept.write(written)
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


def test_a_piece_that_is_removed_while_it_is_read_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(tmp_path)
    start(runs, KEY, "echo", "out")
    finish(runs)
    opened = run_output._regular
    gone = [True]

    def lose_once(path: str, flags: int) -> int:
        if gone and gone.pop():
            raise FileNotFoundError(path)
        return opened(path, flags)

    monkeypatch.setattr(run_output, "_regular", lose_once)
    page = runs.read(KEY, "stdout", 0, 100)
    assert page is not None
    assert (page.data, gone) == (b"out\n", [])


def test_a_reason_of_any_length_is_reported(tmp_path: Path) -> None:
    """The name of a program may be a whole script, written by mistake."""
    runs = Runs(tmp_path)
    start(runs, KEY, "echo " * 1000)
    finish(runs)
    (run,) = runs.unreported()
    assert run.reason.startswith("echo echo")
    msgspec.json.decode(msgspec.json.encode(run), type=RunState)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo fine; exit 3", ""),
        ("echo no such table: hosts >&2; exit 3", "no such table: hosts"),
        (r"printf 'a\n\n \033[31mred\033[0m\tb\a\377\n' >&2; exit 3", "a / red b \ufffd"),
        ("echo first >&2; seq 100000 100999 >&2; echo last >&2; exit 3", r"first \.\.\. (100\d\d\d / ){20,33}last"),
        ("head -c 5000 /dev/zero | tr '\\0' x >&2; echo y >&2; kill -SEGV $$", r"x{100} \.\.\. x{194}y"),
        ("echo all is well >&2", ""),
    ],
)
def test_a_run_that_fails_tells_the_cell_what_it_wrote_to_stderr(tmp_path: Path, script: str, words: str) -> None:
    runs = Runs(tmp_path)
    start(runs, KEY, "sh", "-c", script)
    finish(runs)
    (run,) = runs.unreported()
    assert re.fullmatch(words, run.reason), run.reason
    assert len(run.reason) <= 300
    runs.close()
    (again,) = Runs(tmp_path).unreported()
    assert again.reason == run.reason


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
    assert (report.state, report.exit_code) == (8, 255)
    assert report.reason == "its keeper was lost: the host was restarted"


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


def test_old_runs_are_removed_but_never_those_that_the_cell_may_ask_for(tmp_path: Path) -> None:
    runs = Runs(tmp_path, retention=Retention(runs=2))
    keys = [RunKey("j", instance, 1) for instance in range(5)]
    for key in keys:
        start(runs, key)
    finish(runs)
    for key in keys[:4]:
        runs.forget(key)
    assert [key in runs for key in keys] == [False, False, True, True, True]
    assert sorted(path.name for path in (tmp_path / "runs/j").iterdir()) == ["2", "3", "4"]
    assert [run.instance for run in runs.inventory()] == [4]
    again = Runs(tmp_path, retention=Retention(runs=2))
    assert [key in again for key in keys] == [False, False, True, True, True]


def test_what_the_cell_has_and_needs_no_more_is_noted_while_others_start(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    runs = Runs(tmp_path, retention=Retention(runs=0), later=later.append)
    start(runs)
    finish(runs)
    folder = tmp_path / "runs/j/0/1"
    runs.acknowledged(runs.unreported())
    runs.forget(KEY)
    assert not {"reported", "forgotten"} & {path.name for path in folder.iterdir()}, "its loop waits for no disk"
    assert (runs.unreported(), runs.inventory(), KEY in runs) == ([], [], True)
    for work in later:
        work()
    assert {"reported", "forgotten"} <= {path.name for path in folder.iterdir()}
    done = len(later)
    runs.poll()
    assert KEY not in runs
    for work in later[done:]:
        work()
    assert not folder.exists()


def test_runs_that_failed_keep_their_output_longest(tmp_path: Path) -> None:
    runs = Runs(tmp_path, retention=Retention(runs=8))
    keys = [RunKey("j", instance, 1) for instance in range(12)]
    for key in keys:
        start(runs, key, "sh", "-c", f"exit {int(key.instance in (0, 3))}")
    finish(runs)
    for key in keys:
        runs.forget(key)
    assert [key.instance for key in keys if key in runs] == [0, 3, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("state", "exit_code", "failed"), [(2, 0, 0), (2, 1, 1), (3, 143, 0), (8, 255, 1), (11, 137, 0)]
)
def test_a_run_that_was_asked_to_end_has_not_failed(state: int, exit_code: int, failed: int) -> None:
    assert module.Run(KEY, Path(), state=state, exit_code=exit_code).failed == failed


def test_failures_leave_room_for_the_output_of_those_that_end_now(tmp_path: Path) -> None:
    runs = Runs(tmp_path, retention=Retention(runs=4))
    keys = [RunKey("j", instance, 1) for instance in range(6)]
    for key in keys:
        start(runs, key, "sh", "-c", f"exit {int(key.instance < 5)}")
    finish(runs)
    for key in keys:
        runs.forget(key)
    assert [key.instance for key in keys if key in runs] == [2, 3, 4, 5]


def test_output_is_kept_for_a_time_that_of_failed_runs_longer(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    for instance in (0, 1):
        start(runs, RunKey("j", instance, 1), "sh", "-c", f"exit {instance}")
    finish(runs)
    for instance in (0, 1):
        runs.forget(RunKey("j", instance, 1))
    lasting: list[list[int]] = []
    for days in (6, 8, 31):
        for run in runs._runs.values():
            run.forgotten_ns = time.time_ns() - days * 86_400_000_000_000
        runs._cleaned_s -= module.CLEAN_S
        runs.poll()
        lasting.append([key.instance for key in runs._runs])
    assert lasting == [[0, 1], [1], []]


def _many(folder: Path) -> None:
    for number in range(60):
        (folder / str(number)).touch()


def _heavy(folder: Path) -> None:
    with (folder / "file").open("wb") as file:
        file.truncate(Retention().size)


@pytest.mark.parametrize("put", [_many, _heavy])
@pytest.mark.parametrize(("where", "left"), [("tasks/j.1.1", [0, 1, 2]), ("runs/j/1/1", [0, 2])])
def test_a_run_that_left_too_much_costs_no_other_run_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, left: list[int], put: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(folders, "ENTRIES_MAX", 50)
    runs = Runs(tmp_path)
    keys = [RunKey("j", instance, 1) for instance in range(3)]
    for key in keys:
        start(runs, key, "sh", "-c", "echo said; echo made > file")
    finish(runs)
    put(tmp_path / where)
    for key in keys:
        runs.forget(key)
    pages = {key.instance: runs.read(key, "stdout", 0, 10) for key in keys}
    assert {at: page.data for at, page in pages.items() if page} == dict.fromkeys(left, b"said\n")
    assert sorted(path.name for path in runs.tasks.iterdir()) == ["j.0.1", "j.2.1"]
    assert [key.instance for key in keys if key in Runs(tmp_path)] == left


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


@pytest.mark.parametrize("name", ["process.json", "started", "exit.json"])
def test_a_run_whose_files_find_no_room_waits_for_it_and_is_not_lost(tmp_path: Path, name: str) -> None:
    runs, folder = Runs(tmp_path), tmp_path / "runs/j/0/1"
    (folder / f"{name}.tmp").mkdir(parents=True)
    if name == "exit.json":
        (tmp_path / "go").touch()
    script = f"echo once; echo x >> {tmp_path}/ran; until [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 3"
    start(runs, KEY, "sh", "-c", script)
    until(lambda: f"can't write {name} of j/0/1" in (tmp_path / "holder.log").read_text())
    runs.poll()
    assert len(runs.alive()) == 1
    assert runs.unreported() == [] or name == "exit.json"
    (folder / f"{name}.tmp").rmdir()
    until(lambda: runs.poll() or runs.unreported())
    (tmp_path / "go").touch()
    finish(runs)
    assert [(each.state, each.exit_code) for each in runs.unreported()] == [(2, 3)]
    assert (tmp_path / "ran").read_text() == "x\n"
    page = runs.read(KEY, "stdout", 0, 10)
    assert page is not None
    assert page.data == b"once\n"


def test_a_run_whose_folder_is_removed_while_it_waits_for_room_never_begins(tmp_path: Path) -> None:
    runs, folder = Runs(tmp_path), tmp_path / "runs/j/0/1"
    (folder / "process.json.tmp").mkdir(parents=True)
    begun = runs.start(KEY, Launch(("touch", str(tmp_path / "ran")), dict(os.environ), 1000))
    until(lambda: runs.poll() or "can't write process.json" in (tmp_path / "holder.log").read_text())
    shutil.rmtree(folder)
    until(lambda: runs.poll() or not begun.alive)
    assert not (tmp_path / "ran").exists()


def test_a_run_whose_output_finds_no_room_goes_on_without_it(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    (tmp_path / "runs/j/0/1/stdout.0").mkdir(parents=True)
    start(runs, KEY, "sh", "-c", "echo lost; echo kept >&2; exit 3")
    finish(runs)
    assert [(each.state, each.exit_code) for each in runs.unreported()] == [(2, 3)]
    page = runs.read(KEY, "stderr", 0, 10)
    assert page is not None
    assert page.data == b"kept\n"


def test_what_finds_no_room_is_not_begun_and_may_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    runs, other = Runs(tmp_path), RunKey("j", 1, 1)
    start(runs, other, "sleep", "600")
    with monkeypatch.context() as patch:
        patch.setattr(private_files, "write_durably", full)
        patch.setattr(private_files, "write", full)
        with pytest.raises(OSError, match="No space left"):
            start(runs)
        with pytest.raises(OSError, match="No space left"):
            runs.stop(other)
        assert KEY not in runs
        assert KEY not in Runs(tmp_path)
    start(runs)
    runs.stop(other)
    until(lambda: runs.poll() is False and not runs.alive())
    told = runs.unreported()
    assert {(each.instance, each.state) for each in told} == {(0, 2), (1, 3)}, [each.reason for each in told]


def test_the_folder_of_an_old_run_is_used_again_and_says_nothing_of_it(tmp_path: Path) -> None:
    runs, folder = Runs(tmp_path, retention=Retention(runs=0)), tmp_path / "runs/j/0/1"
    start(runs, KEY, "sh", "-c", "echo old; exit 3")
    finish(runs)
    runs.acknowledged(runs.unreported())
    inode = folder.stat().st_ino
    runs.forget(KEY)
    until(lambda: any((tmp_path / "spare").iterdir()))
    new, mark = RunKey("k", 7, 2), tmp_path / "go"
    start(runs, new, "sh", "-c", f"until [ -e {mark} ]; do sleep 0.01; done; exit 4")
    folder = tmp_path / "runs/k/7/2"
    assert folder.stat().st_ino == inode
    until(lambda: runs.poll() or [(each.job_id, each.state) for each in runs.unreported()] == [("k", 1)])
    there = {path.name for path in folder.iterdir() if path.suffix != ".tmp"}
    assert there == {"lock", "order.json", "process.json", "started"}
    assert [(each.job_id, each.state) for each in Runs(tmp_path).inventory()] == [("k", 1)]
    mark.touch()
    finish(runs)
    assert [(each.job_id, each.state, each.exit_code) for each in runs.unreported()] == [("k", 2, 4)]
    page = runs.read(new, "stdout", 0, 10)
    assert page is not None
    assert page.data == b""


def test_an_end_that_is_another_runs_is_not_taken(tmp_path: Path) -> None:
    """A crash of the machine may leave in a file what was there before."""
    runs, folder = Runs(tmp_path), tmp_path / "runs/j/0/1"
    start(runs)
    finish(runs)
    said = json.loads((folder / "exit.json").read_text())
    assert said["run"] == "j/0/1"
    (folder / "exit.json").write_text(json.dumps(said | {"run": "i/0/1"}))
    assert [each.state for each in Runs(tmp_path).inventory()] == [RunReport.VANISHED]


def test_an_order_that_can_not_be_laid_out_is_the_outcome_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chown(*_: object) -> None:
        raise OverflowError("uid is greater than maximum")

    runs = Runs(tmp_path)
    monkeypatch.setattr(run_files.RunFiles, "_make_work", chown)
    start(runs)
    state = runs.inventory()[0]
    assert state.state == RunReport.NOT_STARTED
    assert state.reason == "the agent could not start it: uid is greater than maximum"
    runs.close()
