"""Jobs and secrets: in which pool each is, and whose. Kept in a file without a name, however many there are."""

import sqlite3
from typing import NamedTuple

_TABLES = """
CREATE TABLE accepted (offset INTEGER PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE named (
    kind TEXT, name TEXT, at_ms INTEGER, offset INTEGER, sure INTEGER, pool TEXT, subject TEXT,
    PRIMARY KEY (kind, name, at_ms, offset)
) WITHOUT ROWID;
"""
_FIND = """
SELECT pool, subject FROM named WHERE kind = ? AND name = ? AND at_ms <= ? ORDER BY sure DESC, at_ms DESC, offset DESC
"""


class Owned(NamedTuple):
    """The pool of something, and the subject that made it; empty: not known for sure."""

    pool: str
    subject: str


class Owners:
    """All jobs and secrets of a log."""

    def __init__(self) -> None:
        self._tables = sqlite3.connect("", isolation_level=None)
        self._tables.executescript(_TABLES)
        self._tables.execute("BEGIN")

    def accept(self, offset: int) -> None:
        """Notes that lifecycle has accepted the job that was submitted there."""
        self._tables.execute("INSERT OR IGNORE INTO accepted VALUES (?)", (offset,))

    def was_accepted(self, offset: int) -> bool:
        """Whether it has."""
        return self._tables.execute("SELECT 1 FROM accepted WHERE offset = ?", (offset,)).fetchone() is not None

    def put(self, kind: str, name: str, at_ms: int, offset: int, owned: Owned, sure: bool = True) -> None:
        """Notes a job or a secret; `sure`: it was taken."""
        values = (kind, name, at_ms, offset, sure, *owned)
        self._tables.execute("INSERT OR REPLACE INTO named VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def find(self, kind: str, name: str, at_ms: int) -> Owned | None:
        """The owner of something at a time; None: there is no such thing."""
        row = self._tables.execute(_FIND, (kind, name, at_ms)).fetchone()
        return None if row is None else Owned(*row)

    def close(self) -> None:
        """Gives the file back."""
        self._tables.close()
