"""Whatever tasks leave behind, their agent starts, cleans up, and says what it could not read or remove."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hostagent import folders
from hostagent.folders import remove
from hostagent.machine_identity import identity
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs
from tests.hostagent.test_agent import HOST, Site, shell, site
from tests.hostagent.test_runs import KEY, finish, start, until

__all__ = ("site",)
DEEP = "i=0; while [ $i -lt 1200 ]; do mkdir a-folder && cd a-folder || exit 1; i=$((i + 1)); done"


def nest(folder: Path, levels: int = 1200) -> None:
    """Folders in folders, deeper than a path can name."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("a-folder", dir_fd=here)
        inner = os.open("a-folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def clutter(folder: Path) -> None:
    """What no program expects."""
    nest(folder)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "out").symlink_to("/")
    os.mkdir(os.fsencode(folder) + b"/\xff\xfe\n\x1b[2J")
    for closed in ("shut", "shut-too"):
        (folder / closed).mkdir()
        (folder / closed / "file").write_text("x")
    (folder / "shut").chmod(0)
    (folder / "shut-too").chmod(0o500)


def test_an_agent_outlives_and_removes_whatever_its_tasks_left(site: Site, tmp_path: Path) -> None:
    """From a real task: 1,200 nested folders, garbage in what was a record, and folders beside its own."""
    agent = site.start_agent()
    script = f"echo garbage > ../exit.json; mkdir ../beside ../a.0.1; ({DEEP}); mkfifo pipe; ln -s / root; pwd; exit 3"
    site.run(shell("j", script))
    site.says("j", 0, 1, "EXITED", 3)
    work = Path(site.output("j").strip())
    assert work.parent == site.folder / "tasks"
    site.stop_agent()
    agent = site.start_agent()
    assert ("j", 0, 1, "EXITED", 3) in site.cell.inventories()[-1]
    assert [path.name for path in agent.runs.tasks.iterdir()] == ["j.0.1"]
    agent.runs.forget(RunKey("j", 0, 1))
    agent.runs._discard(RunKey("j", 0, 1))
    until(lambda: not any((site.folder / "trash").iterdir()))
    site.run(shell("k", "exit 0"))
    site.says("k", 0, 1, "EXITED", 0)
    assert agent.settings.host_id == HOST


def test_a_task_finds_none_of_its_agents_files_above_it(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "find .. -type f; find ../.. -maxdepth 2 -name token"))
    site.says("j", 0, 1, "EXITED", 0)
    assert site.output("j") == ""


@pytest.mark.parametrize("where", ["tasks/j.0.1", "tasks", "runs/j/0/1", "runs/j/0", "runs/j", "runs"])
def test_clutter_anywhere_keeps_no_agent_from_its_start(tmp_path: Path, where: str) -> None:
    runs = Runs(tmp_path)
    start(runs)
    finish(runs)
    clutter(tmp_path / where)
    said: list[str] = []
    again = Runs(tmp_path, say=said.append)
    assert [(run.state, run.exit_code) for run in again.unreported()] == [(2, 0)]
    again.forget(KEY)
    again._discard(KEY)
    until(lambda: not any((tmp_path / "trash").iterdir()))
    assert not any((tmp_path / "tasks").iterdir())
    assert not (tmp_path / "runs" / "j").exists()
    assert all(text.isprintable() and len(text) < 2000 for text in said)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _garbage(path: Path) -> None:
    path.write_bytes(b"\xff\x00 garbage")


def _deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def _wrong(path: Path) -> None:
    path.write_text('{"state": "x", "exit_code": 1e99, "reason": [], "pid": -1, "ports": [0]}')


@pytest.mark.parametrize("put", [_pipe, _loop, _folder, _garbage, _deep, _wrong])
@pytest.mark.parametrize(
    "name", ["exit.json", "process.json", "order.json", "lock", "reported", "forgotten", "stop", "started", "stdout.0"]
)
def test_a_damaged_file_of_a_record_is_passed_over(tmp_path: Path, name: str, put: Callable[[Path], None]) -> None:
    runs = Runs(tmp_path)
    start(runs)
    finish(runs)
    path = tmp_path / "runs/j/0/1" / name
    path.unlink(missing_ok=True)
    put(path)
    again = Runs(tmp_path)
    assert KEY in again
    until(lambda: again.poll() or not again.alive())  # its keeper may be about to let it go
    expected = {"exit.json": [(8, 255)], "forgotten": []}.get(name, [(2, 0)])
    assert [(run.state, run.exit_code) for run in again.unreported()] == expected
    assert name != "exit.json" or "can't be read" in again.unreported()[0].reason
    assert again.read(KEY, "stdout", 0, 10) is not None
    again.stop(KEY)
    again.forget(KEY)
    assert again.inventory() == []


def test_a_record_that_was_damaged_while_its_task_runs_is_mended_by_its_end(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    go = tmp_path / "go"
    start(runs, KEY, "sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; exit 3")
    until((tmp_path / "runs/j/0/1/process.json").exists)
    (tmp_path / "runs/j/0/1/exit.json").write_text("garbage")
    again = Runs(tmp_path)
    assert len(again.alive()) == 1
    go.touch()
    finish(again)
    assert [(run.state, run.exit_code) for run in again.unreported()] == [(2, 3)]


def test_a_stop_that_is_not_readable_is_a_stop(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    start(runs, KEY, "sleep", "600")
    until((tmp_path / "runs/j/0/1/process.json").exists)
    (tmp_path / "runs/j/0/1/stop").write_text("garbage")
    runs.keepers.stop("j/0/1")
    finish(runs)
    assert [(run.state, run.exit_code) for run in runs.unreported()] == [(3, 143)]


@pytest.mark.parametrize("put", [_pipe, _loop, _folder, _garbage])
def test_a_note_of_contact_that_can_not_be_read_is_none(tmp_path: Path, put: Callable[[Path], None]) -> None:
    runs = Runs(tmp_path)
    put(tmp_path / "contact")
    runs.start(KEY, Launch(("sleep", "600"), dict(os.environ), 1000, stop_after_ms=1))
    finish(runs)
    assert [(run.state, run.exit_code) for run in runs.unreported()] == [(5, 143)]


def test_a_pipe_where_a_stop_or_output_belongs_keeps_no_run_waiting(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    (tmp_path / "runs/j/0/1").mkdir(parents=True)
    for name in ("stop", "stdout.0"):
        _pipe(tmp_path / "runs/j/0/1" / name)
    start(runs, KEY, "sh", "-c", "echo lost; exit 3")
    finish(runs)
    assert [(run.state, run.exit_code) for run in runs.unreported()] == [(2, 3)]


@pytest.mark.parametrize("put", [_pipe, _loop, _garbage, _deep, _wrong])
def test_an_identity_that_can_not_be_read_is_drawn_anew(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "machine.json")
    drawn = identity(tmp_path)
    assert identity(tmp_path) == drawn


def test_what_is_removed_is_never_looked_for_behind_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o500)
    (precious / "file").write_text("kept")
    left = tmp_path / "left"
    left.mkdir()
    (left / "link").symlink_to(precious)
    (left / "inner").mkdir()
    (left / "inner" / "link").symlink_to(precious)
    assert remove(left) == []
    assert not left.exists()
    assert ((precious / "file").read_text(), precious.stat().st_mode & 0o777) == ("kept", 0o500)


def test_what_can_not_be_removed_is_said_in_one_bounded_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, where: int) -> bool:
        if name == "left":
            return unlink(name, where)
        raise PermissionError(1, "Operation not permitted")

    left = tmp_path / "left"
    left.mkdir()
    for number in range(1000):
        (left / f"{number}\x1b[2J").touch()
    unlink = folders._unlink
    monkeypatch.setattr(folders, "_unlink", refuse)
    faults = remove(left)
    assert len(faults) == 1001
    line = folders.summary(faults)
    assert line.isprintable()
    assert line.endswith("Operation not permitted; and 998 more")


def test_very_many_files_are_measured_in_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "ENTRIES_MAX", 10)
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "file").write_bytes(b"12345")
    assert folders.measure(tmp_path / "few") == 5
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert folders.measure(tmp_path) is None
