"""Folders that tasks of stateful jobs keep on their host."""

import os
import time
from pathlib import Path

import pytest

from hostagent import runs as module
from hostagent.folders import Trash
from hostagent.messages import VolumeState
from hostagent.run_as import TaskUser, Users, task_user
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs
from hostagent.volumes import Volumes
from tests.helpers.waiting import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as another user")


class Host:
    """The volumes of a host, read anew by `again`."""

    def __init__(self, folder: Path, user: TaskUser | None = None) -> None:
        self.folder = folder
        self.user = user
        self.said: list[str] = []
        self.again()

    def again(self) -> Volumes:
        trash = Trash(self.folder / "trash", self.said.append)
        self.volumes = Volumes(self.folder / "volumes", trash, Users(self.user), self.said.append)
        return self.volumes

    def open(self, instance: int, *names: str) -> list[Path]:
        return list(self.volumes.open("j.k", instance, names).values())


def test_a_task_finds_its_volumes_again_and_no_other_task_gets_them(tmp_path: Path) -> None:
    host = Host(tmp_path)
    data, wal = host.open(0, "data", "wal-2")
    (data / "file").write_text("x")
    assert host.open(0, "wal-2", "data") == [wal, data]
    assert len({data, wal, *host.open(1, "data")}) == 3
    there = host.volumes.all()
    assert sorted((each.job_id, each.instance, each.name) for each in there) == [
        ("j.k", 0, "data"),
        ("j.k", 0, "wal-2"),
        ("j.k", 1, "data"),
    ]
    host.again()
    assert sorted(map(str, host.volumes.all())) == sorted(map(str, there))
    assert (host.open(0, "data")[0] / "file").read_text() == "x"


def test_a_volume_is_its_users_alone(tmp_path: Path) -> None:
    [data] = Host(tmp_path).open(0, "data")
    assert [each.stat().st_mode & 0o777 for each in (data, *data.parents[:3])] == [0o700] * 4


def test_only_that_volume_is_removed_that_is_named_with_its_time(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.volumes.changes == 0
    data, _ = host.open(0, "data", "wal")
    (data / "deep").mkdir()
    [volume] = [each for each in host.volumes.all() if each.name == "data"]
    before = host.volumes.changes
    host.volumes.remove(VolumeState("j.k", 0, "data", volume.created_ms - 1))
    host.volumes.remove(VolumeState("j.k", 1, "data", volume.created_ms))
    assert data.is_dir()
    assert host.volumes.changes == before
    host.volumes.remove(volume)
    assert not data.exists()
    assert [each.name for each in host.volumes.all()] == ["wal"]
    assert host.volumes.changes == before + 1
    until(lambda: not list((tmp_path / "trash").iterdir()))
    time.sleep(0.002)  # the clock of volumes counts milliseconds
    [fresh] = host.open(0, "data")
    host.volumes.remove(volume)
    assert fresh.is_dir()


def test_what_is_no_volume_is_left_alone(tmp_path: Path) -> None:
    host = Host(tmp_path)
    [data] = host.open(0, "data")
    strange = [data.parent / "data.x", data.parent / "DATA.1", data.parent.parent / "00", tmp_path / "volumes" / "a b"]
    for each in strange:
        each.mkdir()
    older = data.parent / "data.1"
    older.mkdir()
    host.again()
    assert host.open(0, "data") == [data]
    assert len(host.volumes.all()) == 1
    assert all(each.is_dir() for each in (*strange, older))


@pytest.mark.parametrize("name", ["..", "a/b", "", "A", "a" * 65, "a.b"])
def test_no_order_reaches_beyond_the_folder_of_volumes(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a volume"):
        Host(tmp_path).open(0, name)


def ran(folder: Path, key: RunKey, command: tuple[str, ...]) -> Runs:
    """An agent's runs, once one more of them has ended."""
    runs = Runs(folder)
    env = {**os.environ, "PACELINE_RUN": str(key.run)}
    run = runs.start(key, Launch(command, env, 1000, volumes=("wal-2",)))
    until(lambda: runs.poll() and not run.alive)
    runs.forget(key)
    return runs


def test_a_run_is_told_where_its_volumes_are(tmp_path: Path) -> None:
    write = ("sh", "-c", 'cat "$PACELINE_VOLUME_WAL_2"/f; echo $PACELINE_RUN >> "$PACELINE_VOLUME_WAL_2"/f')
    for run in (1, 2, 3):
        runs = ran(tmp_path, RunKey("j", 0, run), write)
    page = runs.read(RunKey("j", 0, 3), "stdout", 0, 100)
    assert page is not None
    assert page.data == b"1\n2\n"


def test_a_run_that_must_be_alone_waits_for_the_one_before_it_and_not_for_other_tasks(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    alone = Launch(("sleep", "600"), dict(os.environ), 1000, alone=True)
    first, second, other = (runs.start(RunKey("j", *key), alone) for key in ((0, 1), (0, 2), (1, 1)))
    until(lambda: (runs.poll(), other.state and (first.state or second.state))[1])
    went = first if first.state else second
    waits = second if went is first else first
    assert not waits.state
    runs.stop(went.key)
    until(lambda: (runs.poll(), waits.state == module.RunReport.STARTED)[1])
    assert not went.alive
    for run in (waits, other):
        runs.stop(run.key)
    until(lambda: (runs.poll(), not runs.alive())[1])


def test_a_volume_that_cannot_be_made_is_why_the_run_did_not_start(tmp_path: Path) -> None:
    (tmp_path / "volumes").write_text("")
    runs = Runs(tmp_path)
    run = runs.start(RunKey("j", 0, 1), Launch(("true",), {}, 1000, volumes=("data",)))
    assert run.state == module.RunReport.NOT_STARTED
    assert "the agent could not start it" in run.reason


@needs_root
def test_a_volume_belongs_to_the_user_of_the_tasks_who_lists_nothing_above_it(tmp_path: Path) -> None:
    user = task_user("nobody")
    assert user is not None
    [data] = Host(tmp_path, user).open(0, "data")
    assert (data.stat().st_uid, data.stat().st_gid) == (user.uid, user.gid)
    assert data.stat().st_mode & 0o777 == 0o700
    assert [(each.stat().st_uid, each.stat().st_mode & 0o777) for each in data.parents[:3]] == [(0, 0o711)] * 3
