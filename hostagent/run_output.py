"""The output of a run: the pieces that its keeper wrote, read as one stream."""

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from hostagent.folders import entries
from hostagent.messages import LOG_BYTES_MAX, LogPage

STREAMS = ("stdout", "stderr")
PIECE = re.compile(r"(stdout|stderr)\.([0-9]{1,18})")
LINE_BYTES_MAX = 65_536
"""A reader who has missed a part goes on at the beginning of a line, where none is longer than this."""


def read_output(folder: Path, stream: str, offset: int, limit: int, ended: bool) -> LogPage:
    """A piece of a stream of `STREAMS`; a negative offset counts from the end. `ended`: no more will be written."""
    while True:
        try:
            return _read(folder, stream, offset, limit, ended)
        except FileNotFoundError:  # its keeper has removed a piece meanwhile
            continue


def _read(folder: Path, stream: str, offset: int, limit: int, ended: bool) -> LogPage:
    by_stream = _pieces(folder)
    pieces = by_stream.pop(stream)
    end, (other_end,) = _end(pieces), map(_end, by_stream.values())
    at = max(0, end + offset) if offset < 0 else min(offset, end)
    for start, size, path in pieces:
        if at < start + size:
            with open(path, "rb", opener=_regular) as file:
                if at < start:
                    at = start + _first_line(file, size)
                file.seek(at - start)
                data = file.read(min(limit, LOG_BYTES_MAX))
            return LogPage(at, data, at + len(data), ended and at + len(data) >= end, end, other_end)
    return LogPage(at, b"", at, ended, end, other_end)


def _end(pieces: list[tuple[int, int, Path]]) -> int:
    return max((start + size for start, size, _ in pieces), default=0)


def _first_line(file: BinaryIO, size: int) -> int:
    """Where the first line of a piece begins that is whole, as far as there is one."""
    after = file.read(LINE_BYTES_MAX).find(b"\n") + 1
    return after if after < size else 0


def _pieces(folder: Path) -> dict[str, list[tuple[int, int, Path]]]:
    """The pieces of each stream: where each begins, its size, its file."""
    pieces: dict[str, list[tuple[int, int, Path]]] = {stream: [] for stream in STREAMS}
    try:
        names = [(PIECE.fullmatch(each.name), each) for each in entries(folder)]
    except OSError:
        return pieces
    for name, each in names:
        if name and stat.S_ISREG((status := each.stat(follow_symlinks=False)).st_mode):
            pieces[name[1]].append((int(name[2]), status.st_size, Path(each.path)))
    return {stream: sorted(parts) for stream, parts in pieces.items()}


def _regular(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
