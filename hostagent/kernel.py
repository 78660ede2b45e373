"""Processes and this boot, as the kernel tells of them. For agent and keepers: nothing but the standard library."""

import os
import time
from collections.abc import Iterator


def boot_id() -> str:
    """Names the time since this machine was started; pids say nothing beyond it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def status_of(pid: int) -> list[str] | None:
    """The fields of a process from its state on (proc(5), `stat`); None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None: there is no such process."""
    fields = status_of(pid)
    return int(fields[19]) if fields else None


def since_boot_ms() -> int:
    """Time that all processes of this machine share and that no one sets; runs on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def lists_children() -> bool:
    """Whether the kernel lists the children of a process; else `children` has to ask all processes."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def children(pid: int = 0) -> Iterator[int]:
    """The pids of the processes whose parent is the first thread of a process, 0: of this one; those that have ended
    too.
    """
    own = pid or os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children", encoding="ascii") as file:
            yield from map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        if not lists_children():  # all processes are asked
            yield from _with(1, own)


def descendants(pid: int) -> Iterator[int]:
    """The pids of all processes below one."""
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop()):
            waiting.append(child)
            yield child


def group_of(number: int) -> Iterator[int]:
    """The pids of the processes of a process group."""
    return _with(2, number)


def _with(field: int, value: int) -> Iterator[int]:
    """The pids of the processes whose status says this."""
    for name in os.listdir("/proc"):
        fields = status_of(int(name)) if name.isdigit() else None
        if fields is not None and int(fields[field]) == value:
            yield int(name)
