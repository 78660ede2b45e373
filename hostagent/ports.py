"""The port range of an agent: no two agents of one machine have any in common, whatever their cells.

Placement numbers ports per host, and agents of one machine are hosts of their own to it. So each holds its range with
a lock that ends with the agent, on a file that all agents of the machine share: byte N stands for port N. Runs outlive
their agent and hold their ports on the same file (see `hostagent.port_locks`), so a range goes to another agent only
when no run has a port of it any more.
"""

import fcntl
import os
import struct
import tempfile
from collections.abc import Iterator, Set
from pathlib import Path

from hostagent import port_locks

LOCKS = Path(tempfile.gettempdir()) / "paceline-ports"
"""The file of this machine."""
LOWEST = 10_000
"""Ranges move down to here: above them are the ports that the system gives to connections."""


class PortsTaken(Exception):
    """Another agent of this machine has some of the ports."""


class PortRange:
    """Ports from `first` to `last`, held until it is closed."""

    def __init__(self, first: int, last: int, file: int) -> None:
        self.first, self.last = first, last
        self._file = file

    def __enter__(self) -> "PortRange":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def take_ports(
    first: int, last: int, moved: bool, before: int = 0, own: Set[int] = frozenset(), locks: Path = LOCKS
) -> PortRange:
    """Takes a range. `moved`: where it isn't free, the next lower free one of its size; `before`: the first port that
    such a one had the last time, tried first; `own`: the ports of this agent's runs.

    Raises `PortsTaken`.
    """
    size = last - first + 1
    firsts = [first]
    if moved:
        lower = list(range(first, LOWEST - 1, -size))
        firsts = [before, *lower] if before in lower else lower or firsts
    for each in firsts:
        # a range that was asked for is taken though a run of another agent still has a port of it: that one is refused
        file = port_locks.open_ports(str(locks))
        if port_locks.lock_bytes(file, each, size) and not (moved and set(_of_runs(file, each, size)) - own):
            return PortRange(each, each + size - 1, file)
        os.close(file)
    raise PortsTaken(
        f"another agent of this machine hands out ports of {first}-{last}: "
        "give each agent a range of its own ([agent] port_first, port_last)"
    )


def _of_runs(file: int, first: int, size: int) -> Iterator[int]:
    """The ports of a range that runs have."""
    if size <= 0:
        return
    start = port_locks.RUN_PORTS + first
    query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, size, 0)
    kind, _, lock_start, length, _ = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, query))
    if kind == fcntl.F_UNLCK:
        return
    port = lock_start - port_locks.RUN_PORTS
    yield from range(port, port + length)
    yield from _of_runs(file, first, port - first)
    yield from _of_runs(file, port + length, first + size - port - length)
