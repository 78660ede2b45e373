"""Files that one process holds."""

import fcntl
from pathlib import Path
from typing import IO


def hold(path: Path) -> IO[str]:
    """Makes a file and holds it until it is closed. Raises `BlockingIOError` where another process has it."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
