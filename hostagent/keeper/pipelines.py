"""The order in which the processes of a run are asked to end: who writes into a pipe before who reads from it.

`program | cat` to which a stop goes as a whole loses what the program says at its end, and mostly the program: `cat` is
gone at once, and the program dies of its first line. So what reads from a pipe is left to its end, which comes with
that of the program.
"""

import os
import stat
import time
from contextlib import suppress

from hostagent import kernel

POLL_S = 0.5
"""So often it is looked whether the writers are over; their readers have as long for the rest."""


class Ending:
    """A process group that is to end by a signal. `patience_s`: so long its readers are left alone at most."""

    def __init__(self, group: int, number: int, patience_s: float) -> None:
        self._group, self._number = group, number
        self._until_s = time.monotonic() + patience_s
        self._begun = self._last = False
        """`_last`: the writers are over, or the patience is."""
        self._writers: dict[int, int | None] = {}
        """The processes that have the signal, by the time of their start."""
        self._readers: dict[int, int | None] = {}
        """Those that don't have it yet."""

    def ask(self) -> float:
        """Signals those whose turn it is. Returns the seconds after which it is to be called again, 0: never."""
        if not self._begun:
            self._begin()
        elif self._last:
            _signal(self._readers, self._number)
            return 0.0
        else:
            self._last = not any(_goes_on(pid, start) for pid, start in self._writers.items())
        rest_s = self._until_s - time.monotonic()
        self._last |= rest_s <= POLL_S
        return max(0.001, min(POLL_S, rest_s)) if self._readers else 0.0

    def _begin(self) -> None:
        self._begun = True
        if any(map(_reads, kernel.descendants(self._group))):
            for pid in kernel.group_of(self._group):
                kind = self._readers if _reads(pid) else self._writers
                kind[pid] = kernel.start_time(pid)
        if not self._readers:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, self._number)
        else:
            _signal(self._writers, self._number)


def _signal(processes: dict[int, int | None], number: int) -> None:
    for pid, start in processes.items():
        if _goes_on(pid, start):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _goes_on(pid: int, start: int | None) -> bool:
    fields = kernel.status_of(pid)
    return fields is not None and fields[0] != "Z" and int(fields[19]) == start


def _reads(pid: int) -> bool:
    """Whether the input of a process is a pipe; that of a run's first one never is."""
    try:
        return stat.S_ISFIFO(os.stat(f"/proc/{pid}/fd/0").st_mode)
    except OSError:
        return False
