"""The disk that runs use, measured: what uses more than its task asked for ends, before others find none.

A host without project quotas can't refuse a write, so the files of runs are counted every half a minute, and at once
when the disk fills quickly or is nearly full. Counted are the working folder and the writable root of a run; not its
volumes, not what it writes elsewhere, and not files that it holds open and has removed. A run that asked for disk and
hides from the count ends as one that took too much.

Decision 072.
"""

import asyncio
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from hostagent.folders import FOLDER, shown
from hostagent.run import Measured
from hostagent.run_record import NO_FILE_LEFT, RunKey
from hostagent.runs import Runs

MEASURE_S = 30.0
LOOK_S, IDLE_S = 1.0, 10.0
"""So often the room on the disk is read where there are runs, and where there are none."""
FALL_BYTES = 256 << 20
"""When so much of the disk has been taken since the last time it is measured at once."""
FULL_BYTES, FULL_PART = 256 << 20, 50
"""The disk is nearly full when less is free than the smaller of so many bytes and so small a part of it."""
ENTRY_BYTES = 4096
"""Each name of a file counts as so much at least: a million empty ones fill a disk too."""
ENTRIES_MAX, DEPTH_MAX = 4_000_000, 100
"""No more files of a run are counted, and none in folders nested deeper: others wait meanwhile."""
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
            used, fault = self._used(folders, limit)
            if limit and used > limit:
                text = f"it used {-(-used // MIB)} MiB of disk, more than the {limit // MIB} MiB that it asked for"
                over.append((key, text))
            elif limit and fault:
                over.append((key, f"the disk that it uses can't be measured: {fault}"))
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

    def _used(self, folders: Iterable[str], limit: int) -> tuple[int, str]:
        """Bytes under folders, and why not all could be counted; it stops soon where these are more than a limit, 0:
        none. Raises `OSError` where no file is left to open.
        """
        count = _Count(limit, self._stopped.wait)
        try:
            for folder in folders:
                count.add(folder)
        except _Uncounted as fault:
            return count.total, str(fault)
        return count.total, ""


class _Uncounted(Exception):
    """Not all is counted; the message says why, empty: more than the limit is, or nobody wants to know any more."""


class _Count:
    """The bytes of one run. `limit`: how many are enough, 0: none; `rest`: waits so many seconds, and says whether
    nobody wants to know any more.
    """

    def __init__(self, limit: int, rest: Callable[[float], bool]) -> None:
        self.total = 0
        self._limit, self._rest = limit, rest
        self._entries = 0
        self._linked: set[int] = set()
        """Files with several names that are counted."""
        self._began_s = time.monotonic()

    def add(self, folder: str) -> None:
        """Counts what is in a folder. It goes by open folders, as a task may nest them deeper than a path can name, and
        follows no link. Raises `_Uncounted`, and `OSError` where no file is left to open.
        """
        inside: list[tuple[int, list[str]]] = []
        """The folder in which it is and those above, each with the names of folders that are still to be counted."""
        try:
            self._enter(folder, inside)
            while inside:
                if inside[-1][1]:
                    self._enter(inside[-1][1].pop(), inside)
                else:
                    os.close(inside.pop()[0])
        finally:
            for file, _ in inside:
                os.close(file)

    def _enter(self, name: str, inside: list[tuple[int, list[str]]]) -> None:
        if len(inside) >= DEPTH_MAX:
            raise _Uncounted(f"its folders are nested more than {DEPTH_MAX} deep")
        try:
            file = os.open(name, FOLDER, dir_fd=inside[-1][0] if inside else None)
            inside.append((file, []))
            with os.scandir(file) as listing:
                for entry in listing:
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            inside[-1][1].append(entry.name)
                        self._take(status)
        except (FileNotFoundError, NotADirectoryError):  # it was just removed, or something else is there now
            return
        except OSError as error:
            if error.errno in NO_FILE_LEFT:
                raise
            raise _Uncounted(f"its folder {shown(name, error)}") from None

    def _take(self, status: os.stat_result) -> None:
        self.total += ENTRY_BYTES
        if status.st_ino not in self._linked:
            self.total += max(0, status.st_blocks * 512 - ENTRY_BYTES)
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            self._linked.add(status.st_ino)
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            raise _Uncounted(f"it has more than {ENTRIES_MAX} files")
        if self._entries % CHUNK == 0:
            if (self._limit and self.total > self._limit) or self._rest(REST * (time.monotonic() - self._began_s)):
                raise _Uncounted
            self._began_s = time.monotonic()
