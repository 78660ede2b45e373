"""The files of a run's record, read whatever became of them."""

import errno
import fcntl
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from events.bounds import NAME
from events.codes import RunReport
from events.records.parts import HealthCheck, Isolation
from events.structs import known
from hostagent import kernel, private_files
from hostagent.folders import entries, shown
from hostagent.keeper import system

FILES = ("order.json", "process.json", "started", "exit.json", "reported", "forgotten")
"""The files of each run that has ended and is forgotten."""
NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
NO_FILE_LEFT = (errno.EMFILE, errno.ENFILE)
"""Errors of an open that say nothing about what is opened."""
PID_MAX = 2**22
"""No system numbers a process higher."""

T = TypeVar("T")


class Launch(NamedTuple):
    """The parameters of a run's start. `open_files`: how many it may have, 0: as many as this process was given;
    `stop_after_ms`: it is stopped after so long without contact to the cell, 0: never; `health_port`: the number of the
    port that the health check asks; `members`: the file that tells where the members of its gang are, empty: none;
    `volumes`: their names; `alone`: whether it waits until no earlier run of its task goes on; `cpu`, in thousandths of
    a core, `memory` and `disk`, in bytes: what its task asked for; `secrets`: the folder of their values, empty: it has
    none; `devices`: the files of its devices; `threads`: those of its own cores; `standing`: what it is worth.
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
    isolation: Isolation | None = None
    cpu: int = 0
    memory: int = 0
    disk: int = 0
    secrets: str = ""
    devices: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    standing: "Standing | None" = None

    @property
    def contained(self) -> bool:
        """Whether the run is a container."""
        return self.isolation is not None and self.isolation.level == "container"


class Standing(msgspec.Struct, frozen=True):
    """The worth of a run to its cell, as `order.json` has it for the next agent; None there: an earlier agent."""

    cpu: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Thousandths of a core that its task asked for, and"""
    memory: Annotated[int, msgspec.Meta(ge=0)] = 0
    """bytes."""
    revocable: bool = False
    preemptible: bool = False
    priority: int = 0
    batch: bool = False
    ordered_ms: int = 0
    """When it was ordered, since the boot."""


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
    throttled_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    read_kib: Annotated[int, msgspec.Meta(ge=0)] = 0
    written_kib: Annotated[int, msgspec.Meta(ge=0)] = 0
    run: str = ""
    """The name of the run; empty: it was of an agent before 0.4, or the agent itself has written it."""
    oom_kills: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Processes of it that the kernel killed for want of memory; None: nobody counted."""
    forks_refused: Annotated[int, msgspec.Meta(ge=0)] = 0
    """So often its limit of processes kept it from starting one."""
    output_lost: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bytes of its output that the disk didn't take."""
    has_remains: bool = False
    """Its control group could not be removed in time, and is the agent's to remove."""


class Process(msgspec.Struct):
    """`process.json`."""

    pid: Annotated[int, msgspec.Meta(ge=0, le=PID_MAX)]
    """0: it is about to run."""
    start_time: int | None
    boot_id: str


Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Check(msgspec.Struct):
    """The parameters of a run's health check. `port`: the number of the port that is asked, 0 where none is; `user`: as
    whom the run runs, None: as this process; `container`: the folder of the record of a run that is one, else empty.
    """

    health: HealthCheck
    port: int
    work: str
    env: dict[str, str]
    user: dict[str, Any] | None = None
    umask: int = 0o022
    container: str = ""

    def identity(self) -> dict[str, Any]:
        """The arguments of `Popen` that start a process as the run was."""
        user = self.user
        if user is None:
            return {"umask": self.umask}
        own = {"user": user["uid"], "group": user["gid"], "extra_groups": user["groups"]}
        return {"umask": self.umask, "preexec_fn": system.gain_nothing, **own}


class Owner(msgspec.Struct):
    """The user of a run."""

    uid: int


class Order(msgspec.Struct):
    """The part of an `order.json` that an agent reads."""

    v: int = 0
    """0: of an agent before 0.4, whose runs have a shim each."""
    boot: str = ""
    """The boot in which it was written."""
    ports: list[Port] = []
    check: Check | None = None
    groups: dict[str, str] = {}
    """The folders of its control group."""
    user: Owner | None = None
    """None: that of the agent."""
    disk: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bytes that its task asked for."""
    standing: Standing | None = None
    threads: list[int] = []
    """Those of its own cores."""
    container: dict[str, Any] | None = None


class FoundHealth(msgspec.Struct):
    """`health`: what the check of a run has found, RunReport.HEALTHY or UNHEALTHY."""

    state: Annotated[int, msgspec.Meta(ge=6, le=7)]
    reason: str


def read_json(path: Path, kind: type[T]) -> T | None:
    """Reads a file; None where there is none, or nothing that can be read. Raises `OSError` where this process, or its
    host, can open no more files: that says nothing about this one.
    """
    try:
        return msgspec.json.decode(private_files.read_file(path), type=known(kind))
    except OSError as error:
        if error.errno in NO_FILE_LEFT:
            raise
        return None
    except (ValueError, RecursionError):
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


def take_lock(folder: Path) -> int:
    """Locks the run of a folder for this process and whom it hands the file to, until all have closed it. Raises
    `OSError`.
    """
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def is_held(folder: Path) -> bool:
    """Whether somebody keeps the run of a folder, or is about to."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:  # not there, mostly
        return error.errno in NO_FILE_LEFT  # nobody knows then: it isn't taken for lost
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
    if process is None or not process.pid or process.boot_id != kernel.boot_id() or not _goes_on(process):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return True


def _goes_on(process: Process) -> bool:
    fields = kernel.status_of(process.pid)
    return fields is not None and fields[0] != "Z" and int(fields[19]) == process.start_time
