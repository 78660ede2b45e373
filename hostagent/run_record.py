"""The files of a run's record: read whatever became of them, and the start of the shim that writes them."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from events.bounds import NAME
from events.codes import RunReport
from events.records.parts import HealthCheck
from events.structs import known
from hostagent import open_files, private_files, shim
from hostagent.folders import entries, shown

NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
SHIM_VARIABLES = ("LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""All that a shim gets of the agent's environment: tasks of the same user can read it."""
SHIM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("shim_main.py")))

PID_MAX = 2**22
"""No system numbers a process higher."""

T = TypeVar("T")


class Launch(NamedTuple):
    """The parameters of a run's start. `open_files`: how many it may have, 0: as many as this process was given;
    `stop_after_ms`: it is stopped after so long without contact to the cell, 0: never; `health_port`: the number of the
    port that the health check asks; `members`: the file that tells where the members of its gang are, empty: none;
    `volumes`: their names; `alone`: whether it waits until no earlier run of its task goes on.
    """

    command: tuple[str, ...]
    env: dict[str, str]
    stop_grace_ms: int
    stop_signal: int = signal.SIGTERM
    open_files: int = 0
    stop_after_ms: int = 0
    ports: tuple[int, ...] = ()
    health: HealthCheck | None = None
    health_port: int = 0
    members: str = ""
    volumes: tuple[str, ...] = ()
    alone: bool = False


class RunKey(NamedTuple):
    """Names a run."""

    job_id: str
    instance: int
    run: int


class Ending(msgspec.Struct):
    """`exit.json`."""

    state: Annotated[int, msgspec.Meta(ge=2, le=int(max(RunReport)))]
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
    reason: str
    signal: Annotated[int, msgspec.Meta(ge=0, le=127)] = 0
    cpu_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    memory_kib: Annotated[int, msgspec.Meta(ge=0)] = 0


class Process(msgspec.Struct):
    """`process.json`."""

    pid: Annotated[int, msgspec.Meta(ge=2, le=PID_MAX)]
    start_time: int | None
    boot_id: str


Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Check(msgspec.Struct):
    """The parameters of a run's health check. `port`: the number of the port that is asked, 0 where none is; `user`: as
    whom the run runs, None: as this process.
    """

    health: HealthCheck
    port: int
    work: str
    env: dict[str, str]
    user: dict[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """The arguments of `Popen` that start a process as the user of the run."""
        if self.user is None:
            return {}
        return {"user": self.user["uid"], "group": self.user["gid"], "extra_groups": self.user["groups"]}


class Order(msgspec.Struct):
    """The part of an `order.json` that an agent reads."""

    ports: list[Port] = []
    check: Check | None = None


class FoundHealth(msgspec.Struct):
    """`health`: what the check of a run has found, RunReport.HEALTHY or UNHEALTHY."""

    state: Annotated[int, msgspec.Meta(ge=6, le=7)]
    reason: str


def read_json(path: Path, kind: type[T]) -> T | None:
    """Reads a file; None where there is none, or nothing that can be read."""
    try:
        return msgspec.json.decode(private_files.read_file(path), type=known(kind))
    except (OSError, ValueError, RecursionError):
        return None


def find(root: Path, faults: list[str], others: list[Path]) -> Iterator[tuple[Path, RunKey]]:
    """The folders JOB/INSTANCE/RUN. Adds to `faults` what can't be listed, and to `others` what has no such name."""
    waiting: list[tuple[Path, tuple[str, ...]]] = [(root, ())]
    names = (NAME, NUMBER, NUMBER)
    while waiting:
        folder, parts = waiting.pop()
        if len(parts) == len(names):
            yield folder, RunKey(parts[0], int(parts[1]), int(parts[2]))
            continue
        try:
            listing = list(entries(folder))
        except OSError as error:
            faults.append(shown(folder, error))
            continue
        for entry in listing:
            if names[len(parts)].fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), (*parts, entry.name)))
            else:
                others.append(Path(entry.path))


def has_shim(folder: Path) -> bool:
    """Whether a shim lives there."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # not there, mostly
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def kill_processes(folder: Path) -> bool:
    """Kills the processes of the run that was started there; False: there is none that goes on."""
    process = read_json(folder / "process.json", Process)
    if process is None or process.boot_id != shim.boot_id() or not _goes_on(process):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return True


def _goes_on(process: Process) -> bool:
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = text.rpartition(")")[2].split()
    return fields[0] != "Z" and int(fields[19]) == process.start_time


def wake_shim(folder: Path) -> None:
    """Lets the shim that lives there look for its stop file at once. It looks by itself too, some time later."""
    _signal_shim(folder, signal.SIGTERM)


def kill_shim(folder: Path) -> None:
    """Kills the shim that lives there."""
    _signal_shim(folder, signal.SIGKILL)


def _signal_shim(folder: Path, number: int) -> None:
    """Signals a shim, if it can be told which process that is: what a file names is signalled only where it has this
    lock open.
    """
    with suppress(OSError, ValueError, OverflowError):
        pid = int(private_files.read_file(folder / "shim.pid"))
        process = os.pidfd_open(pid)  # the number may go to another process while this looks
        try:
            lock = os.lstat(folder / "lock")
            if has_shim(folder) and any(_is(f"/proc/{pid}/fd/{name}", lock) for name in os.listdir(f"/proc/{pid}/fd")):
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def _is(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:  # closed meanwhile
        return False


def spawn(folder: Path) -> subprocess.Popen[bytes]:
    """Starts the shim, which takes over a lock that is held from now on."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(folder / "shim.log", "wb", opener=private_files.open_private) as log:
            return subprocess.Popen(
                [*SHIM, str(folder), str(lock), str(open_files.given())],
                env={name: os.environ[name] for name in SHIM_VARIABLES if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
            )
    finally:
        os.close(lock)
