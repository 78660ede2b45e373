"""Files that one process holds."""

import fcntl
import os
from pathlib import Path
from typing import IO


def hold(path: Path) -> IO[str]:
    """Makes a file that only its user can open, and holds it until it is closed. Raises `BlockingIOError` where another
    process has it.
    """
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
