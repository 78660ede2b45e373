"""A disk of its own for a part of a cell, small enough to be filled. Needs the right to mount: `can_mount`."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MIB = 1024 * 1024
PIECE = b"x" * 4096


class SmallDisk:
    """A disk mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filler = folder / "filler"

    def fill(self, left_mib: int = 0) -> None:
        """Leaves so much room, at 0 not for a byte."""
        with self._filler.open("ab", buffering=0) as file:
            taken = shutil.disk_usage(self._folder).free - max(1, left_mib) * MIB
            if taken > 0:
                os.posix_fallocate(file.fileno(), 0, taken)
            with suppress(OSError):
                while not left_mib and file.write(PIECE):
                    pass

    def make_room(self) -> None:
        """Gives back what `fill` took."""
        self._filler.unlink()


def can_mount() -> bool:
    """Whether this process may mount disks: root may, outside of containers without that right."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


@contextmanager
def small_disk(folder: Path, mib: int = 1) -> Iterator[SmallDisk]:
    """Mounts a disk of so many MiB at a folder."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
