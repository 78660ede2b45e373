"""A disk of its own for a part of a cell, small enough to be filled. Needs the right to mount: `can_mount`."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PIECE = b"x" * 4096


class SmallDisk:
    """A disk mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leaves no room for a byte."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while file.write(PIECE):
                    pass
            except OSError:
                return

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
