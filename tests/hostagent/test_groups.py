"""Control groups of runs: on those of this machine, and on folders that look as cgroup v2 does."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hostagent.groups import UNIFIED, Group, GroupFault, Limits, Tree, Usage

MIB = 1 << 20


def allowed() -> str:
    """Why this machine gives no control groups to the tests; empty: it does."""
    try:
        tree = Tree.take(f"probe-{os.getpid()}")
        tree.trial()
    except GroupFault as fault:
        return str(fault)
    for folder in set(tree.folders.values()):
        os.rmdir(folder)
    return ""


REFUSED = allowed()
real = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


@pytest.fixture
def tree() -> Iterator[Tree]:
    made = Tree.take(f"test-{os.getpid()}")
    yield made
    for name in made.names():
        while not made.group(name).kill():
            time.sleep(0.01)
        assert made.group(name).remove()
    for folder in set(made.folders.values()):
        os.rmdir(folder)


def run_in(group: Group, code: str) -> int:
    """Runs a program in a group; its exit code."""
    pid = os.fork()
    if not pid:
        with suppress(BaseException):
            group.join()
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", code])
        os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@real
def test_who_takes_more_memory_than_it_asked_for_is_killed_and_that_is_counted(tree: Tree) -> None:
    group = tree.group("hungry")
    group.make(Limits(100, 0, 32 * MIB, 0))
    assert run_in(group, f"bytearray({100 * MIB})") == -9
    assert group.oom_kills() == 1
    used = group.usage()
    assert 24 * 1024 < used.peak_memory_kib <= 32 * 1024
    assert used.oom_kills == 1


@real
def test_who_needs_no_more_than_it_asked_for_ends_as_it_likes(tree: Tree) -> None:
    group = tree.group("modest")
    group.make(Limits(100, 0, 64 * MIB, 4))
    assert run_in(group, f"bytearray({16 * MIB}); raise SystemExit(7)") == 7
    assert group.oom_kills() == 0
    assert group.remove()
    assert tree.names() == []


@real
def test_a_quota_of_cpu_holds(tree: Tree) -> None:
    group = tree.group("throttled")
    group.make(Limits(100, 200, 0, 0))
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    began = time.monotonic()
    assert run_in(group, busy) == 0
    wall_ms, used = 1000 * (time.monotonic() - began), group.usage()
    assert 295 <= used.cpu_ms <= 0.2 * (wall_ms + 100)  # the kernel gives the quota of a period at once
    assert used.throttled_ms > 0 or used.cpu_ms < 0.2 * wall_ms  # a busy host may give it less than its quota


@real
def test_a_fork_bomb_ends_with_its_run_and_spares_the_host(tree: Tree) -> None:
    group = tree.group("bomb")
    group.make(Limits(100, 0, 0, 10))
    bomb = "import os, time\nfor _ in range(50):\n    if not os.fork(): time.sleep(60)"
    assert run_in(group, bomb) == 1
    assert 1 <= len(group.processes()) <= 10
    while not group.kill():
        time.sleep(0.01)
    assert group.remove()


@real
def test_who_leaves_its_session_stays_in_its_group(tree: Tree) -> None:
    group = tree.group("daemon")
    group.make(Limits(100, 0, 0, 0))
    assert run_in(group, "import os, time\nif not os.fork():\n    os.setsid()\n    time.sleep(60)") == 0
    assert len(group.processes()) == 1
    assert not group.remove()
    while not group.kill():
        time.sleep(0.01)
    assert group.remove()


@real
def test_groups_that_a_run_has_made_below_its_own_end_with_it(tree: Tree) -> None:
    group = tree.group("nested")
    group.make(Limits(100, 0, 0, 0))
    inner = f"{group.folders.get('memory', group.folders.get(UNIFIED))}/inner"
    code = f"import os, time\nos.makedirs({inner + '/deeper'!r})\nif not os.fork():\n"
    code += f"    open({inner + '/deeper/cgroup.procs'!r}, 'w').write('0')\n    time.sleep(60)"
    assert run_in(group, code) == 0
    assert len(group.processes()) == 1
    while not group.kill():
        time.sleep(0.01)
    deadline = time.monotonic() + 10
    while not group.remove() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tree.names() == []


@real
def test_a_group_that_a_lost_keeper_has_made_is_found_and_taken_over(tree: Tree) -> None:
    tree.group("job.0.1").make(Limits(100, 0, 64 * MIB, 4))
    again = Tree.take(f"test-{os.getpid()}")
    assert again.names() == ["job.0.1"]
    again.group("job.0.1").make(Limits(100, 0, 32 * MIB, 4))
    assert run_in(again.group("job.0.1"), f"bytearray({48 * MIB})") == -9


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """Files as a host with cgroup v2 alone has them, of an agent that a systemd service runs."""
    own = tmp_path / "cgroup" / "system.slice" / "paceline.service"
    own.mkdir(parents=True)
    (own / "cgroup.type").write_text("domain\n")
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (own / "cgroup.procs").write_text("")
    (own / "cgroup.subtree_control").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/system.slice/paceline.service\n")
    (proc / "mountinfo").write_text(f"30 23 0:26 / {tmp_path}/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n")
    return tmp_path


@pytest.mark.parametrize(("pins", "controllers"), [(False, "+cpu +memory +pids"), (True, "+cpu +memory +pids +cpuset")])
def test_on_v2_the_agent_moves_to_a_leaf_and_hands_the_controllers_down(
    v2: Path, monkeypatch: pytest.MonkeyPatch, pins: bool, controllers: str
) -> None:
    own, made = v2 / "cgroup/system.slice/paceline.service", os.mkdir

    def mkdir(path: str) -> None:
        made(path)
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (Path(path) / name).write_text("")

    monkeypatch.setattr(os, "mkdir", mkdir)
    tree = Tree.take("h1", str(v2 / "proc"), pins)
    assert tree.folders == {UNIFIED: str(own / "paceline-h1")}
    assert (own / "agent/cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == f"{controllers} +io"
    assert (own / "paceline-h1/cgroup.subtree_control").read_text() == f"{controllers} +io"
    (v2 / "proc/cgroup").write_text("0::/system.slice/paceline.service/agent\n")
    assert Tree.take("h1", str(v2 / "proc")).folders == tree.folders


def test_without_a_controller_the_fault_names_it(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = v2 / "cgroup/system.slice/paceline.service"
    (own / "cgroup.controllers").write_text("cpu pids\n")
    (own / "agent").mkdir()
    (own / "agent/cgroup.procs").write_text("")
    with pytest.raises(GroupFault, match=r"isn't allowed to limit memory: see its cgroup\.controllers"):
        Tree.take("h1", str(v2 / "proc"))
    with pytest.raises(GroupFault, match="isn't allowed to limit memory, cpuset"):
        Tree.take("h1", str(v2 / "proc"), pins=True)
    (v2 / "proc/mountinfo").write_text("")
    with pytest.raises(GroupFault, match="no cgroup file system is mounted"):
        Tree.take("h1", str(v2 / "proc"))


def test_a_group_of_v2_is_pinned_when_it_is_made_and_later(tmp_path: Path) -> None:
    group = Group({UNIFIED: str(tmp_path)})
    for name in ("cpu.weight", "cpuset.cpus"):
        (tmp_path / name).write_text("")
    group.make(Limits(1000, 0, 0, 0, cpus="2-3,8"))
    assert (tmp_path / "cpuset.cpus").read_text() == "2-3,8"
    group.pin("4-15")
    assert (tmp_path / "cpuset.cpus").read_text() == "4-15"


def test_v2_is_told_all_limits_and_read_in_its_own_words(tmp_path: Path) -> None:
    group = Group({UNIFIED: str(tmp_path)})
    for name in ("cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max"):
        (tmp_path / name).write_text("")
    group.make(Limits(1000, 1500, 64 * MIB, 100))
    said = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert said == {
        "cpu.weight": "39",
        "cpu.max": "150000 100000",
        "memory.max": str(64 * MIB),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "100",
    }
    (tmp_path / "cpu.stat").write_text("usage_usec 1234567\nnr_throttled 3\nthrottled_usec 5000\n")
    (tmp_path / "memory.current").write_text("3145728\n")
    (tmp_path / "memory.peak").write_text("4194304\n")
    (tmp_path / "memory.stat").write_text("anon 1048576\ninactive_file 1048576\n")
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    (tmp_path / "io.stat").write_text("254:0 rbytes=2048 wbytes=4096 rios=1 wios=1\n254:16 rbytes=1024 wbytes=0\n")
    assert group.usage() == Usage(1234, 5, 2048, 4096, 3, 4, 2)
    assert group.oom_kills() == 2
