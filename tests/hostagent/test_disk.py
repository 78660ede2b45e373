"""The disk that real runs take: more than they asked for ends them, and a full disk takes none but its own task."""

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostagent import disk
from hostagent.disk import MIB, Disk
from hostagent.run import Measured
from hostagent.run_record import RunKey
from hostagent.runs import stop_all
from tests.hostagent.test_agent import Site, shell

WRITER = "dd if=/dev/zero of=big bs=1M count={} 2>/dev/null; sleep 600"
ONE = RunKey("j", 0, 1)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(disk, "MEASURE_S", 0.2)
    monkeypatch.setattr(disk, "LOOK_S", 0.1)
    monkeypatch.setattr(disk, "IDLE_S", 0.1)
    site = Site(tmp_path / "agent")
    yield site
    if site.agent is not None:
        site.stop_agent()
    assert stop_all(site.folder)[1] == 0
    site.cell.turn()
    site.cell.gateway.close()
    site.server.stop()


def test_a_run_that_takes_more_disk_than_it_asked_for_ends_and_is_told_why(site: Site) -> None:
    site.start_agent()
    site.run(shell("modest", WRITER.format(3), resources={"disk": 8}))
    site.run(shell("greedy", WRITER.format(20), resources={"disk": 8}))
    site.says("greedy", 0, 1, "EXITED", 137)
    [why] = site.cell.why()
    assert re.fullmatch(r"it used (9|1\d|2[01]) MiB of disk, more than the 8 MiB that it asked for", why)
    assert not [each for each in site.cell.said() if each[0] == "modest" and each[3] == "EXITED"]


def test_an_agent_that_was_killed_before_it_said_so_says_why_all_the_same(site: Site) -> None:
    agent = site.start_agent()
    site.run(shell("j", "sleep 600", resources={"disk": 8}))
    site.says("j", 0, 1, "STARTED", 0)
    site.stop_agent()
    agent.runs.exceeded(ONE, "too much")
    site.cell.until(site.file("j", "exit.json").exists)
    site.start_agent()
    site.says("j", 0, 1, "EXITED", 137)
    assert site.cell.why() == ["too much"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "none", folder], check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(("asked", "why"), [(8, "more than the 8 MiB"), (0, "and had asked for none")])
def test_a_full_disk_takes_its_own_task_and_neither_host_nor_neighbour(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int, why: str
) -> None:
    monkeypatch.setattr(disk, "LOOK_S", 0.1)
    monkeypatch.setattr(disk, "IDLE_S", 0.1)
    site = Site(small / "agent")
    site.start_agent()
    site.run(shell("neighbour", "sleep 600", resources={"disk": 8}))
    site.says("neighbour", 0, 1, "STARTED", 0)
    filler = "cat /dev/zero > big; while :; do cat /dev/zero > more; sleep 0.01; done"
    site.run(shell("filler", filler, resources={"disk": asked} if asked else {}))
    site.says("filler", 0, 1, "EXITED", 137)
    assert why in site.cell.why()[0]
    site.run(shell("next", "echo fine; exit 3"))
    site.says("next", 0, 1, "EXITED", 3)
    assert site.output("next") == "fine\n"
    assert not [each for each in site.cell.said() if each[0] == "neighbour" and each[3] != "STARTED"]
    site.stop_agent()
    assert stop_all(site.folder)[1] == 0
    site.cell.gateway.close()
    site.server.stop()


def test_files_count_as_often_as_they_are_there_and_links_are_not_followed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "below").mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(bytes(4 * MIB))
    (work / "file").write_bytes(bytes(MIB))
    os.link(work / "file", work / "below/again")
    os.symlink(tmp_path / "elsewhere", work / "link")
    os.truncate(os.open(work / "sparse", os.O_CREAT | os.O_RDWR), 1 << 40)
    watch = Disk(tmp_path)
    assert watch.measure([Measured(ONE, (str(work), str(tmp_path / "none")), 2 * MIB)]) == []
    [(key, reason)] = watch.measure([Measured(ONE, (str(work),), MIB)])
    assert key == ONE
    assert reason == "it used 2 MiB of disk, more than the 1 MiB that it asked for"


def test_very_many_small_files_are_much(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number}").touch()
    assert len(Disk(tmp_path).measure([Measured(ONE, (str(tmp_path),), 4 * MIB)])) == 1


def reason(folder: Path, limit: int) -> str:
    """Why a run with this working folder has to end."""
    [(_, text)] = Disk(folder).measure([Measured(ONE, (str(folder),), limit)])
    return text


def test_files_deeper_than_a_path_can_name_count(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    with open(os.open("big", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
        file.write(bytes(4 * MIB))
    os.close(here)
    assert reason(tmp_path, 2 * MIB) == "it used 5 MiB of disk, more than the 2 MiB that it asked for"


def test_who_hides_from_the_count_ends_if_it_asked_for_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1" / "2" / "3").mkdir(parents=True)
    monkeypatch.setattr(disk, "DEPTH_MAX", 3)
    assert reason(tmp_path, MIB) == "the disk that it uses can't be measured: its folders are nested more than 3 deep"
    assert Disk(tmp_path).measure([Measured(ONE, (str(tmp_path),), 0)]) == []
    monkeypatch.setattr(disk, "DEPTH_MAX", 4)
    first = tmp_path / "file"
    first.touch()
    for number in range(4):
        os.link(first, tmp_path / f"again-{number}")
    assert Disk(tmp_path).measure([Measured(ONE, (str(tmp_path),), MIB)]) == []
    monkeypatch.setattr(disk, "ENTRIES_MAX", 7)
    assert reason(tmp_path, MIB) == "the disk that it uses can't be measured: it has more than 7 files"


def test_a_folder_that_is_shut_does_not_hide_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuses(path: str, flags: int, **more: int | None) -> int:
        if path == "shut":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, flags, **more)  # type: ignore[arg-type]

    (tmp_path / "shut").mkdir()
    monkeypatch.setattr(os, "open", refuses)
    assert reason(tmp_path, MIB) == "the disk that it uses can't be measured: its folder shut: Permission denied"
