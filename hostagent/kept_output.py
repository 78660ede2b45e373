"""Keeps the output of a run for its keeper: it imports nothing but the standard library."""

import os
from contextlib import suppress

from hostagent.private_files import open_private

HEAD_BYTES = 5 * 1024 * 1024
PIECE_BYTES = 5 * 1024 * 1024 // 2
"""The size of a piece: the first 5 MiB of each stream are kept, and of the rest the newest two pieces, at most 10 MiB.
"""


class Output:
    """One stream of the run, kept in pieces named by where they begin. The first piece stays, later ones go when two
    newer ones are begun.
    """

    def __init__(self, folder: str, name: str, source: int) -> None:
        self.source = source
        self._base = os.path.join(folder, name)
        self._at = 0
        self._pieces: list[int] = []
        self._room = 0
        self._file = -1

    def write(self, data: bytes) -> None:
        """Appends to the stream."""
        while data:
            if not self._room:
                self._begin()
            part = data[: self._room]
            with suppress(OSError):  # a full disk loses output, not the run
                os.write(self._file, part)
            self._at += len(part)
            self._room -= len(part)
            data = data[len(part) :]

    def close(self) -> None:
        """Nothing more is written."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _begin(self) -> None:
        self.close()
        self._room = PIECE_BYTES if self._pieces else HEAD_BYTES
        self._pieces.append(self._at)
        if len(self._pieces) > 3:
            with suppress(OSError):
                os.unlink(f"{self._base}.{self._pieces.pop(1)}")
        with suppress(OSError):  # as in `write`
            self._file = open_private(f"{self._base}.{self._at}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
