"""Files of this user alone, put in place whole. For agent and keepers: nothing but the standard library."""

import errno
import os
import stat

CREATE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_private(path: str, flags: int) -> int:
    """Opens a file of this user alone; never through a link, never waiting for the reader of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def read_file(path: "str | os.PathLike[str]") -> bytes:
    """The content of a regular file. Raises `OSError` for anything else, also for one that is too long."""
    file = open_private(os.fspath(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG((status := os.fstat(file)).st_mode) or status.st_size > 16 * 1024 * 1024:
            raise OSError(0, "not a regular file, or longer than 16 MiB")
        return os.read(file, status.st_size + 1)
    finally:
        os.close(file)


def write(path: str, text: str, durably: bool = False) -> None:
    """Puts a file in place whole, for other processes of this user to read; `durably`: it is on disk before this
    returns. Who finds a file that can't be parsed after a crash of the machine takes it as absent. A file NAME.tmp that
    is there is used: to make a new one costs ext4 more the more were removed of late.
    """
    file = os.open(path + ".tmp", CREATE, 0o600)
    try:
        _fill(file, text)
        os.rename(path + ".tmp", path)
        if durably:  # after the rename: one commit of the file system instead of two
            os.fsync(file)
            sync(os.path.dirname(path) or ".")
    finally:
        os.close(file)


def overwrite(path: str, text: str) -> None:
    """Gives a file other content of the same length, which no reader sees in part."""
    file = os.open(path, CREATE, 0o600)
    try:
        _fill(file, text)
    finally:
        os.close(file)


def write_durably(path: str, text: str) -> None:
    """The same, on disk before this returns."""
    write(path, text, durably=True)


def sync(path: str) -> None:
    """Returns when a file or folder is on disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _fill(file: int, text: str) -> None:
    """Writes what a file contains, and nothing more."""
    data = text.encode()
    if os.write(file, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if os.fstat(file).st_size > len(data):
        os.ftruncate(file, len(data))
    if not data:
        os.utime(file)
