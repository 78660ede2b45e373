"""Files of this user alone, put in place whole. For agent and shim: it imports nothing but the standard library."""

import os
import stat


def open_private(path: str, flags: int) -> int:
    """Opens a file of this user alone; never through a link, never waiting for the reader of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def read_file(path: "str | os.PathLike[str]") -> bytes:
    """The content of a regular file. Raises `OSError` for anything else, also for one that is too long."""
    with open(path, "rb", opener=open_private) as file:
        if not stat.S_ISREG((status := os.fstat(file.fileno())).st_mode) or status.st_size > 16 * 1024 * 1024:
            raise OSError(0, "not a regular file, or longer than 16 MiB")
        return file.read(status.st_size)


def write(path: str, text: str, durably: bool = False) -> None:
    """Puts a file in place whole, for other processes of this user to read."""
    with open(path + ".tmp", "w", encoding="utf-8", opener=open_private) as file:
        file.write(text)
        if durably:
            file.flush()
            os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def write_durably(path: str, text: str) -> None:
    """The same, on disk before this returns."""
    write(path, text, durably=True)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
