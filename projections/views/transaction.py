"""The transaction that the projector writes the views in, on the driver's own connection: what SQLAlchemy adds to a
statement costs more than the statement.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from events.process.clock import SystemClock
from events.process.error_text import ErrorCause


class ViewsFault(Exception):
    """The views can't be written; the message says what an operator does."""

    cause = ErrorCause.SHORTAGE


class Transaction:
    """Begins with the first work in it, and ends with `commit`. It holds a connection of the engine until `close`."""

    def __init__(self, engine: Engine) -> None:
        self._file = engine.url.database
        self._clock = SystemClock()
        self._pooled = engine.raw_connection()
        driver = self._pooled.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self.connection = driver
        self.open = False
        """Whether it has begun."""
        self._begun_ms = 0

    @contextmanager
    def work(self) -> Iterator[None]:
        """The context of the transaction; if it fails, all is undone. Raises `ViewsFault` where the file can't be
        written.
        """
        try:
            if not self.open:
                self.connection.execute("BEGIN")
                self.open, self._begun_ms = True, self._clock.monotonic_ms()
            try:
                yield
            except BaseException:
                self.open = False
                self.connection.rollback()
                raise
        except sqlite3.OperationalError as error:
            raise ViewsFault(
                f"The views in {self._file} can't be written: {error}. Make room on that disk, or "
                "give this user the right to write there; they are made anew from the log if the file is removed."
            ) from error

    def commit(self) -> None:
        """Ends it: what was done is there for others."""
        with self.work():
            self.connection.execute("COMMIT")
        self.open = False

    def age_ms(self) -> int:
        """Milliseconds since it began."""
        return self._clock.monotonic_ms() - self._begun_ms

    def close(self) -> None:
        """Gives back the connection."""
        self._pooled.close()
