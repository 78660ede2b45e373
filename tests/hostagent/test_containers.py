"""Containers of runs by crun, from the image of the examples."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hostagent.containers import (
    INITS,
    SECCOMP_PROFILES,
    Container,
    ContainerFault,
    User,
    bundle,
    find_user,
    seccomp,
)
from hostagent.mounts import mount_overlay, own_mounts, unmount

pytestmark = pytest.mark.outside
ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that any user of the machine passes through, as through that of an agent; pytest's are closed."""
    with TemporaryDirectory(prefix="paceline-test-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def root(open_folder: Path) -> Path:
    """The root of the image of the examples, with a program of this test's."""
    folder = open_folder
    build = Path(__file__).parents[2] / "examples/image/build.sh"
    subprocess.run([build, folder / "layout"], check=True, capture_output=True)
    words = ["umoci", "raw", "unpack", "--image", f"{folder / 'layout'}:1.0", folder / "root"]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "root"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def described(root: Path, work: Path, *command: str, **more: object) -> Container:
    plain = Container(
        root=root,
        image={"Env": ["PATH=/bin", "COLOUR=red"], "Cmd": ["sh", "-c", "id -u"], "User": "web", "WorkingDir": "/www"},
        command=command,
        env={},
        user="",
        work=work,
        volumes={},
        hostname="web-3",
        writable=False,
        own_network=True,
        devices=(),
        open_files=0,
        uid_map=None,
        seccomp=seccomp(SECCOMP_PROFILES[0], os.uname().machine),
        init=next(path for path in INITS if Path(path).exists()),
    )
    return plain._replace(**more)


def run(container: Container, folder: Path) -> tuple[int, str]:
    """Runs a container to its end: exit code, output with errors."""
    (folder / "config.json").write_text(json.dumps(bundle(container)))
    done = subprocess.run(
        ["crun", "--cgroup-manager=disabled", "run", "--bundle", folder, f"test-{os.getpid()}"],
        preexec_fn=own_mounts,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def sh(root: Path, work: Path, tmp_path: Path, script: str, **more: object) -> tuple[int, str]:
    return run(described(root, work, "sh", "-c", script, **more), tmp_path)


def test_what_the_image_says_runs_unless_the_job_says_otherwise(root: Path, work: Path, tmp_path: Path) -> None:
    assert run(described(root, work), tmp_path) == (0, "1000\n")
    said = sh(root, work, tmp_path, "echo $COLOUR $SIZE; pwd; id -g; exit 7", env={"COLOUR": "blue", "SIZE": "2"})
    assert said == (7, "blue 2\n/www\n1000\n")
    assert sh(root, work, tmp_path, "id -u; id -g", user="5:6") == (0, "5\n6\n")


def test_a_run_writes_to_its_working_folder_and_its_volumes_alone(root: Path, work: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    script = "for f in /x /bin/x /paceline/x $HOME/x /paceline/volumes/v/x /tmp/x; do echo > $f; done 2>&1"
    code, said = sh(root, work, tmp_path, script, volumes={"v": volume}, user="0")
    assert code == 0
    assert said.count("Read-only file system") == 2, said
    assert sorted(each.name for each in (*work.iterdir(), *volume.iterdir())) == ["x", "x"]
    assert not (root / "x").exists()


def test_processes_of_the_host_and_of_others_are_not_seen(root: Path, work: Path, tmp_path: Path) -> None:
    code, said = sh(root, work, tmp_path, "ls -d /proc/[0-9]* | wc -l || true; ls /proc | cat; hostname || true")
    assert code == 0
    assert str(os.getpid()) not in said.split()


def test_without_a_network_of_the_host_there_is_none(root: Path, work: Path, tmp_path: Path) -> None:
    script = "cat /proc/net/dev | while read a b; do echo $a; done"
    assert "lo:" in sh(root, work, tmp_path, script)[1]
    alone = [word for word in sh(root, work, tmp_path, script)[1].split() if word.endswith(":")]
    assert "eth0:" not in alone
    shared = sh(root, work, tmp_path, script, own_network=False)[1]
    assert len(shared.splitlines()) >= len(alone)


ESCAPES = {
    "a mount": "mount(None, b'/tmp', None, 0, None)",
    "namespaces": "unshare(0x20000)",
    "a user namespace": "unshare(0x10000000)",
    "ptrace": "ptrace(0, 0, 0, 0)",
    "keys": "syscall(250, 0, 0, 0)",
    "io_uring": "syscall(425, 1, 0)",
    "bpf": "syscall(321, 0, 0, 0)",
}


def test_ways_out_of_a_container_are_refused_by_the_kernel(root: Path, work: Path, tmp_path: Path) -> None:
    """By Python of the host, with all of its files to read: the filter is that of every run."""
    lines = [f"ask({name!r}, lambda: libc.{call})" for name, call in ESCAPES.items()]
    program = "\n".join(
        [
            "import ctypes, errno",
            "libc = ctypes.CDLL(None, use_errno=True)",
            "def ask(name, call):",
            "    print(name, call() == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS))",
            *lines,
        ]
    )
    host = Path("/")
    container = described(host, work, "/usr/bin/python3", "-I", "-c", program, env={"PATH": "/usr/bin"})
    view = tmp_path / "view"
    view.mkdir()
    mount_overlay("/usr", str(tmp_path / "over"), str(view))  # the host's programs, mount points made beside them
    try:
        for name in ("proc", "dev", "tmp", "paceline", "www", "etc"):
            (view / name).mkdir(exist_ok=True)
        (view / "usr").symlink_to(".")
        (view / "etc/passwd").write_text("web:x:1000:1000::/:/bin/sh\n")
        code, said = run(container._replace(root=view), tmp_path)
    finally:
        unmount(str(view))
    assert code == 0, said
    assert said.splitlines() == [f"{name} True" for name in ESCAPES]


def test_what_a_writable_root_takes_is_the_runs_own(root: Path, work: Path, tmp_path: Path) -> None:
    view = tmp_path / "view"
    view.mkdir()
    mount_overlay(str(root), str(tmp_path / "over"), str(view))
    try:
        script = "echo mine > /www/index.html && cat /www/index.html"
        said = sh(view, work, tmp_path, script, writable=True, user="0")
    finally:
        unmount(str(view))
    assert said == (0, "mine\n")
    assert "image" in (root / "www/index.html").read_text()
    assert (tmp_path / "over/upper/www/index.html").read_text() == "mine\n"


@pytest.mark.skipif(not ROOT, reason="only root maps uids that aren't its own")
def test_root_of_a_user_namespace_is_nobody_on_the_host(root: Path, open_folder: Path) -> None:
    work = open_folder / "work"
    work.mkdir()
    work.chmod(0o777)
    script = "id -u; echo > $HOME/f"
    assert sh(root, work, open_folder, script, user="0", uid_map=(100_000, 65_536)) == (0, "0\n")
    assert (work / "f").stat().st_uid == 100_000


def test_orphans_are_reaped_and_the_program_is_told_to_stop(root: Path, work: Path, tmp_path: Path) -> None:
    script = "sh -c 'sleep 0.1 &'; sleep 0.5; grep -l zombie /proc/[0-9]*/status; echo none"
    assert sh(root, work, tmp_path, script) == (0, "none\n")


def test_users_are_found_by_name_and_by_number(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nweb:x:7:8::/:/bin/sh\nbroken:x:y:z\n")
    (tmp_path / "etc/group").write_text("web:x:8:\nlogs:x:9:web,other\n")
    assert find_user(tmp_path, "web") == User(7, 8, (9,))
    assert find_user(tmp_path, "7") == User(7, 8, (9,))
    assert find_user(tmp_path, "web:logs") == User(7, 9)
    assert find_user(tmp_path, "99") == User(99, 0)
    assert find_user(tmp_path, "99:98") == User(99, 98)
    with pytest.raises(ContainerFault, match="knows no user 'broken'"):
        find_user(tmp_path, "broken")
    with pytest.raises(ContainerFault, match="knows no group 'x'"):
        find_user(tmp_path, "web:x")


def test_no_user_has_a_number_that_linux_has_not(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"web:x:{2**32}:8::/:/bin/sh\n")
    for user in ("99999999999", "1:4294967295", "9" * 5000):
        with pytest.raises(ContainerFault, match="beyond 4294967294, which no host has"):
            find_user(tmp_path, user)
    with pytest.raises(ContainerFault, match="knows no user 'web'"):
        find_user(tmp_path, "web")
    assert find_user(tmp_path, "4294967294") == User(2**32 - 2, 0)


def test_users_of_the_host_are_not_those_of_an_image(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").symlink_to("/etc/passwd")
    with pytest.raises(ContainerFault, match="knows no user 'root'"):
        find_user(tmp_path, "root")


def test_what_can_not_be_made_is_told(root: Path, work: Path) -> None:
    with pytest.raises(ContainerFault, match="says no command to run"):
        bundle(described(root, work, image={}))
    with pytest.raises(ContainerFault, match="/dev/none: No such file"):
        bundle(described(root, work, devices=("/dev/none",)))
    with pytest.raises(ContainerFault, match="/etc/passwd is no device"):
        bundle(described(root, work, devices=("/etc/passwd",)))
    with pytest.raises(ContainerFault, match="argument or a variable of 3145728 bytes; Linux takes 131071 at most"):
        bundle(described(root, work, "true", "x" * (3 << 20)))
    with pytest.raises(ContainerFault, match="there is no filter of system calls"):
        seccomp("/nowhere", "x86_64")


def container_names() -> Iterator[str]:
    yield from os.listdir("/run/crun") if Path("/run/crun").is_dir() else ()


def test_a_container_that_ended_leaves_nothing(root: Path, work: Path, tmp_path: Path) -> None:
    before = sorted(container_names())
    run(described(root, work), tmp_path)
    assert sorted(container_names()) == before
