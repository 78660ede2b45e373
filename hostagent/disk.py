"""The disk that runs use, measured: what uses more than its task asked for ends, before others find none.

A host without project quotas can't refuse a write, so the files of runs are counted every half a minute, and at once
when the disk fills quickly or is nearly full. Counted are the working folder and the writable root of a run; not its
volumes, not what it writes elsewhere, and not files that it holds open and has removed.

Decision 072.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from hostagent.run import Measured
from hostagent.run_record import RunKey
from hostagent.runs import Runs

MEASURE_S = 30.0
LOOK_S, IDLE_S = 1.0, 10.0
"""So often the room on the disk is read where there are runs, and where there are none."""
FALL_BYTES = 256 << 20
"""When so much of the disk has been taken since the last time it is measured at once."""
FULL_BYTES, FULL_PART = 256 << 20, 50
"""The disk is nearly full when less is free than the smaller of so many bytes and so small a part of it."""
ENTRY_BYTES = 4096
"""Each file counts as so much at least: a million empty ones fill a disk too."""
CHUNK, REST = 1000, 19
"""After so many files it rests so many times as long as it has worked: one core has 19 of 20 parts left."""
MIB = 1 << 20


class Disk:
    """The disk under the folder of an agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopped = threading.Event()
        self._measured_s = float("-inf")
        self._free = 0
        """The free bytes when it was last measured."""

    async def follow(
        self, runs: Runs, ended: Callable[[], None], tried: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        """Measures and ends runs until cancelled. `ended`: called when one was ended; `tried`: tells what failed."""
        try:
            while True:
                alive = runs.alive()
                await asyncio.sleep(LOOK_S if alive else IDLE_S)
                with tried("the disk"):
                    if alive and self.due():
                        for key, reason in await asyncio.to_thread(self.measure, runs.on_disk()):
                            runs.exceeded(key, reason)
                            ended()
        finally:
            self._stopped.set()

    def due(self) -> bool:
        """Whether it is to be measured now."""
        free, short = self._room()
        return short or time.monotonic() - self._measured_s >= MEASURE_S or free < self._free - FALL_BYTES

    def measure(self, runs: Iterable[Measured]) -> list[tuple[RunKey, str]]:
        """The runs that have to end, each with the reason: all that use more than they asked for; where there is none
        and the disk is nearly full, the one that uses the most of those that asked for no disk.
        """
        self._measured_s = time.monotonic()
        self._free, short = self._room()
        over: list[tuple[RunKey, str]] = []
        largest, largest_key = 0, None
        for key, folders, limit in runs:
            if not limit and not short:
                continue
            used = self._used(folders, limit)
            if limit and used > limit:
                text = f"it used {-(-used // MIB)} MiB of disk, more than the {limit // MIB} MiB that it asked for"
                over.append((key, text))
            elif not limit and used > largest:
                largest, largest_key = used, key
        if not over and largest_key is not None:
            text = f"the disk of its host is full, and it used {-(-largest // MIB)} MiB of it and had asked for none"
            over.append((largest_key, text))
        return over

    def _room(self) -> tuple[int, bool]:
        """The free bytes of the disk, and whether it is nearly full."""
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        return free, free < min(FULL_BYTES, disk.f_blocks * disk.f_frsize // FULL_PART)

    def _used(self, folders: Iterable[str], limit: int) -> int:
        """Bytes under folders; it stops soon where these are more than a limit, 0: none. Follows no link."""
        total, count, waiting = 0, 0, list(folders)
        linked: set[int] = set()
        began_s = time.monotonic()
        while waiting and not self._stopped.is_set():
            with suppress(OSError), os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink == 1 or status.st_ino not in linked:
                            total += max(ENTRY_BYTES, status.st_blocks * 512)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        elif status.st_nlink > 1:
                            linked.add(status.st_ino)
                    count += 1
                    if count % CHUNK == 0:
                        if (limit and total > limit) or self._stopped.wait(REST * (time.monotonic() - began_s)):
                            return total
                        began_s = time.monotonic()
        return total
