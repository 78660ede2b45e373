"""Processes that the kernel killed for want of memory, by its count of them."""

import time
from pathlib import Path

VMSTAT = Path("/proc/vmstat")
LOOK_S = 1.0
"""So often the count is read while runs go on."""
WINDOW_S = 2.0
"""A process that was killed so near to a change of the count was killed for want of memory, as far as can be told: the
kernel counts all of the machine together.
"""


class OutOfMemory:
    """Follows the count. `vmstat`: where the kernel writes it."""

    def __init__(self, vmstat: Path = VMSTAT) -> None:
        self._vmstat = vmstat
        self._count = _read(vmstat)
        self._looked_s = time.monotonic()
        self._grown_s = float("-inf")

    def look(self) -> None:
        """Reads the count, if it was not read just now."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self._read()

    def killed(self, age_s: float) -> bool:
        """Whether a process that was killed so long ago was killed for want of memory."""
        self._read()
        return abs(time.monotonic() - age_s - self._grown_s) <= WINDOW_S

    def _read(self) -> None:
        count, self._looked_s = _read(self._vmstat), time.monotonic()
        if count is not None and self._count is not None and count > self._count:
            self._grown_s = self._looked_s
        self._count = count


def counted(vmstat: Path = VMSTAT) -> bool:
    """Whether the kernel says how many it killed."""
    return _read(vmstat) is not None


def _read(vmstat: Path) -> int | None:
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
