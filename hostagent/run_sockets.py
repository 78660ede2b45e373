"""The ports that a run listens on, so that a connection to it reaches nobody else."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from hostagent import private_files
from hostagent.keeper.container import BUNDLE

LISTENING = "0A"
LOOPBACK = (
    *("0100007F", "00000000"),
    *("0" * 32, f"{'0' * 16}FFFF00000100007F"),
)
"""Addresses, as /proc/net tells them, on which a connection to 127.0.0.1 may arrive."""
PROC_NET = "/proc/net/tcp", "/proc/net/tcp6"


def has_own_network(folder: Path) -> bool:
    """Whether the container of a run has a network that its host doesn't reach. `folder`: that of its record. Raises
    `OSError`.
    """
    bundle = json.loads(private_files.read_file(folder / BUNDLE / "config.json"))
    return any(each["type"] == "network" for each in bundle["linux"]["namespaces"])


def listeners(port: int) -> set[int]:
    """Inodes of the sockets of this host that may take a connection to a port of 127.0.0.1."""
    inodes = set()
    for path in PROC_NET:
        with suppress(OSError), open(path, encoding="ascii") as file:  # without IPv6 there is no second
            next(file, None)
            for line in file:
                fields = line.split()
                address, _, number = fields[1].rpartition(":")
                if fields[3] == LISTENING and int(number, 16) == port and address in LOOPBACK:
                    inodes.add(int(fields[9]))
    return inodes


def sockets_of(pid: int, groups: Sequence[Path]) -> Iterator[int]:
    """Inodes of the sockets that a run has: its first process (0: there is none), all that come from it, all of its
    session, and all in its control groups.
    """
    for each in _processes(pid, groups):
        with suppress(OSError):  # it has ended, or belongs to another user
            for name in os.listdir(f"/proc/{each}/fd"):
                with suppress(OSError):
                    kind, _, inode = os.readlink(f"/proc/{each}/fd/{name}").partition(":[")
                    if kind == "socket":
                        yield int(inode[:-1])


def _processes(pid: int, groups: Sequence[Path]) -> set[int]:
    children: dict[int, list[int]] = {}
    pids, waiting = {0}, [pid]
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            _, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
            children.setdefault(int(parent), []).append(int(name))
            if int(session) == pid != 0:
                waiting.append(int(name))
    for group in groups:
        for path in group.rglob("cgroup.procs"):
            with suppress(OSError):
                waiting += map(int, path.read_text(encoding="ascii").split())
    while waiting:
        if (each := waiting.pop()) not in pids:
            pids.add(each)
            waiting += children.get(each, ())
    return pids
