"""Files that are put in place whole, or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Puts a file in place of what was there, once it is on the disk. Raises `OSError`."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
