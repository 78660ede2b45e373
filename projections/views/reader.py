"""The views as readers see them: one snapshot per answer, and the positions that it stands on.

A position is `topic:offset` of a record. One of a machine's topic is reached when that round is in the views; one of a
topic of facts, when a round of the topic's owner that covers it is: then the fact is answered.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, select

from events.topics import BY_NAME
from projections.access.limits import limits
from projections.lateness import OWNERS
from projections.views import tables
from projections.views.limited_reads import LimitedReads

# Each answer asks these, as text: making statements of them would take as long as the rest of a page. That of all is in
# one row: each step of SQLite waits for Python's lock.
_POSITIONS = str(select(tables.positions))
_REACHED = """SELECT
    (SELECT json_group_array(json_array(topic, position)) FROM positions),
    (SELECT json_group_array(json_array(machine, inputs)) FROM chains)
"""


class BadPosition(ValueError):
    """A position that can't be read; the message says how one looks."""


class ViewsAway(Exception):
    """There are no views to read now; the message says where they should be and what to do."""


class Views:
    """Reads from any thread. `version` grows with each batch, where the projector is in this process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._limited = LimitedReads(engine)
        self.version = 0
        self.access_version = 0
        """Grows with each batch that changes who may what, where the projector is in this process."""
        self.reached: Mapping[str, int] | None = None
        """Per topic the last offset that is reached; None: this process doesn't know."""
        self.awaited = 0
        """The number of readers that wait for the views to go on, as far as this process knows: the projector then
        writes at once.
        """

    def read(self) -> AbstractContextManager[Connection]:
        """A connection whose selects all see the same state, and of it what who asks may see."""
        of = limits()
        return self.read_all() if of is None else self._limited.read(of)

    @contextmanager
    def read_all(self) -> Iterator[Connection]:
        """The same of all there is, whoever asks: for what isn't told them."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Closes the connections that are kept."""
        self._limited.close()
        self.engine.dispose()

    def changed(self, reached: Mapping[str, int]) -> None:
        """The projector calls this after each transaction; `reached`: see there."""
        self.reached = reached
        self.version += 1

    def has(self, positions: Mapping[str, int]) -> bool:
        """Whether these offsets are reached."""
        have = self.reached
        if have is None:
            with self.read() as connection:
                have = reached(connection)
        return all(have.get(topic, -1) >= offset for topic, offset in positions.items())

    def lacks(self, positions: Mapping[str, int]) -> bool:
        """Whether this process knows, without a look into the views, that they haven't reached these offsets."""
        return self.reached is not None and not self.has(positions)


class AttachedViews(Views):
    """Those in a file that a projector in another process keeps. They may be rebuilt meanwhile: a file that has taken
    the place of another is read from then on. Raises `ViewsAway` where there is none, or it isn't made to the end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file, engine = self._attach()
        super().__init__(engine)

    def read(self) -> AbstractContextManager[Connection]:
        """Implements `Views.read`. What is being read of a file that is replaced goes on to its end."""
        if limits() is not None:
            self._follow()
        return super().read()

    @contextmanager
    def read_all(self) -> Iterator[Connection]:
        """Implements `Views.read_all`."""
        self._follow()
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def _follow(self) -> None:
        if _identity(self._path) == self._file:
            return
        with self._lock:
            if _identity(self._path) != self._file:  # no other thread has been here meanwhile
                old, limited = self.engine, self._limited
                self._file, self.engine = self._attach()
                self._limited = LimitedReads(self.engine)
                limited.close()
                old.dispose()

    def _attach(self) -> tuple[tuple[int, int], Engine]:
        # in this order: a file that is replaced in between is looked at again by the next read
        file, engine = _identity(self._path), tables.attach(self._path)
        if file is None or engine is None:
            raise ViewsAway(f"There are no views in {self._path}: does `paceline projector` run here?")
        return file, engine


def _identity(path: Path) -> tuple[int, int] | None:
    """The identity of a file among others of its name; its number stays taken as long as a connection holds it open."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def reached(connection: Connection) -> dict[str, int]:
    """Per topic the last offset that is reached; topics without one are left out."""
    ((positions, chains),) = rows_as_text(connection, _REACHED)
    return dict(_reached(positions, chains))


@lru_cache(16)
def _reached(positions: str, chains: str) -> dict[str, int]:
    covered = {machine: msgspec.json.decode(inputs) for machine, inputs in msgspec.json.decode(chains)}
    return answered(dict(msgspec.json.decode(positions)), covered)


def answered(folded: Mapping[str, int], covered: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The same of how far topics are folded and machines have read."""
    standing = dict(folded)
    for topic, owner in OWNERS.items():
        standing[topic] = min(standing.get(topic, 0), covered.get(owner, {}).get(topic, 0))
    return {topic: position - 1 for topic, position in standing.items() if position}


def folded(connection: Connection) -> dict[str, int]:
    """Per topic the offset after the last record that the views know, answered or not."""
    return dict(rows_as_text(connection, _POSITIONS))


def chains_of(connection: Connection) -> list[tuple[str, int, int]]:
    """Machine, epoch and last round of each machine."""
    chains = tables.chains.c
    return [tuple(row) for row in connection.execute(select(chains.machine, chains.epoch, chains.round))]


def rows_as_text(connection: Connection, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
    """The rows of a query in text, without what SQLAlchemy adds to each: for what every answer or a long list asks."""
    cursor: sqlite3.Cursor = connection.connection.cursor().execute(query, values)
    return cursor


def write_positions(positions: Mapping[str, int]) -> str:
    """The text of positions: `topic:offset,topic:offset`."""
    return ",".join(f"{topic}:{positions[topic]}" for topic in BY_NAME if topic in positions)


def read_positions(text: str) -> dict[str, int]:
    """Positions from text. Raises `BadPosition`."""
    out: dict[str, int] = {}
    for part in text.split(","):
        topic, _, offset = part.strip().rpartition(":")
        if topic not in BY_NAME or not offset.isascii() or not offset.isdigit() or len(offset) > 18:
            raise BadPosition(f"{part.strip()[:80]!r} is no position; one looks like paceline.jobs:17")
        out[topic] = max(out.get(topic, 0), int(offset))
    return out
