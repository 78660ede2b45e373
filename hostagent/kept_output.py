"""Keeps the output of a run for its keeper: it imports nothing but the standard library."""

import os
from contextlib import suppress

from hostagent.private_files import open_private

HEAD_BYTES = 5 * 1024 * 1024
TAIL_BYTES = 5 * 1024 * 1024
"""So much is kept of each stream where its job says nothing: its beginning, and the newest of the rest."""


class Output:
    """One stream of the run, kept in pieces named by where they begin. The first piece stays, later ones go when two
    newer ones are begun. What the disk doesn't take is lost, not the run.
    """

    def __init__(self, folder: str, name: str, source: int, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.source = source
        self.lost = 0
        """Bytes that the disk didn't take."""
        self._base = os.path.join(folder, name)
        self._head, self._piece = head, tail // 2
        self._at = 0
        self._pieces: list[int] = []
        self._begun = 0
        """Where the present piece begins."""
        self._room = 0
        self._file = -1

    def write(self, data: bytes) -> None:
        """Appends to the stream."""
        while data:
            if self._file < 0:
                self._begin()
            part = data[: self._room]
            try:
                written = os.write(self._file, part)
            except OSError:
                written = 0
            if written and self._at == self._begun:
                self._keep()
            self._at += len(part)
            self._room -= len(part)
            if written < len(part):  # what follows begins a piece of its own: none has a gap
                self.lost += len(part) - written
                self._room = 0
            if not self._room:
                self.close()
            data = data[len(part) :]

    def close(self) -> None:
        """Nothing more is written, to this piece at least."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            if self._begun not in self._pieces:
                with suppress(OSError):
                    os.unlink(f"{self._base}.{self._begun}")

    def _begin(self) -> None:
        self._room = self._piece if self._pieces else self._head
        self._begun = self._at
        with suppress(OSError):
            self._file = open_private(f"{self._base}.{self._at}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def _keep(self) -> None:
        """The present piece has something in it: one of those before may go."""
        self._pieces.append(self._begun)
        if len(self._pieces) > 3:
            with suppress(OSError):
                os.unlink(f"{self._base}.{self._pieces.pop(1)}")
