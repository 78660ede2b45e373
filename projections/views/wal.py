"""Keeps the write-ahead log of the views short though somebody is always reading.

SQLite starts this file over when a write finds all of it copied into the views and nobody reading from it. By itself it
copies at commits and up to where the oldest reader stands: while reads overlap, that is never the end.
"""

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Engine

SIZE_MAX = 64 * 1024 * 1024
PATIENCE_S = 0.1
"""Seconds for which readers of a file of `SIZE_MAX` are waited for; of a longer one in proportion, up to
`PATIENCE_MAX_S`.
"""
PATIENCE_MAX_S = 1.0
REST = 10
"""After an attempt there is none for so many times its patience."""


class WriteAheadLog:
    """The write-ahead log of a file of views, as its only writer sees it."""

    def __init__(self, engine: Engine) -> None:
        self._views = engine.url.database or ""
        self._file = Path(f"{self._views}-wal")
        self._next_at = 0.0

    def keep_short(self) -> None:
        """Empties the file where it is too long; call it outside transactions. While it waits for those that read from
        it, new readers read the views alone, so a short read never hinders it; a long one, as of a copy, delays it.
        """
        now = time.monotonic()
        if now < self._next_at:
            return
        size = self._file.stat().st_size if self._file.exists() else 0
        if size <= SIZE_MAX:
            return
        patience = min(PATIENCE_S * size / SIZE_MAX, PATIENCE_MAX_S)
        self._next_at = now + REST * patience
        # a file that can't be written is for the next batch to say
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self._views, timeout=patience)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
