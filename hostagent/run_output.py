"""The output of a run: the pieces that its keeper wrote, read as one stream."""

import os
import re
import stat
from pathlib import Path

from hostagent.folders import entries
from hostagent.messages import LOG_BYTES_MAX, LogPage

STREAMS = ("stdout", "stderr")


def read_output(folder: Path, stream: str, offset: int, limit: int, ended: bool) -> LogPage:
    """A piece of a stream of `STREAMS`; a negative offset counts from the end. `ended`: no more will be written."""
    while True:
        try:
            return _read(folder, stream, offset, limit, ended)
        except FileNotFoundError:  # its keeper has removed a piece meanwhile
            continue


def _read(folder: Path, stream: str, offset: int, limit: int, ended: bool) -> LogPage:
    pieces = _pieces(folder, stream)
    end = max((start + size for start, size, _ in pieces), default=0)
    at = max(0, end + offset) if offset < 0 else min(offset, end)
    for start, size, path in pieces:
        if at < start + size:
            at = max(at, start)
            with open(path, "rb", opener=_regular) as file:
                file.seek(at - start)
                data = file.read(min(limit, LOG_BYTES_MAX))
            return LogPage(at, data, at + len(data), ended and at + len(data) >= end)
    return LogPage(at, b"", at, ended)


def _pieces(folder: Path, stream: str) -> list[tuple[int, int, Path]]:
    """Where each piece begins, its size, its file."""
    try:
        matches = [(re.fullmatch(rf"{stream}\.([0-9]{{1,18}})", each.name), each) for each in entries(folder)]
    except OSError:
        return []
    statuses = [(int(name[1]), each.stat(follow_symlinks=False), Path(each.path)) for name, each in matches if name]
    return sorted((start, status.st_size, path) for start, status, path in statuses if stat.S_ISREG(status.st_mode))


def _regular(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
