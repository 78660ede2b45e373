"""The checkpoint of a machine: its rows and where it stands, written together at the end of an accepted round.

It may be behind the log, never ahead of it, so losing its tail costs time and nothing else: writes are not synced.

Decision 016.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Protocol, Self, cast

import msgspec
from rocksdict import AccessType, Checkpoint, Options, Rdict, WriteBatch

from events.acceptance import Chain
from events.process.error_text import ErrorCause
from events.structs import known
from processors.state.table import RowChange

FORMAT = 1


class StoreFault(Exception):
    """The store can't be used; the message says what an operator does. The log is unharmed: a store may be deleted."""

    cause = ErrorCause.LOCAL


class StoreWaits(StoreFault):
    """The store can't be used now: its disk is full, or another process has it."""

    cause = ErrorCause.SHORTAGE


class Progress(msgspec.Struct):
    """Where a machine stands after a round of its own. `own` is its chain in its own topic, `positions` those
    up to which it knew all topics, `now` its logical time, `state` the format of the rows.
    """

    own: Chain
    positions: dict[str, int] = msgspec.field(name="known")  # its name in stores that were written
    now: int
    state: int
    hash: bytes


class Store(Protocol):
    """Keeps the rows and the standing of one machine."""

    def progress(self) -> Progress | None:
        """The progress that was written last, or None."""
        ...

    def rows(self) -> Iterator[RowChange]:
        """All rows, by table and packed key."""
        ...

    def commit(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Writes both or nothing."""
        ...

    def replace(self, rows: Sequence[RowChange], progress: Progress) -> None:
        """Writes both in place of all that is there, or nothing."""
        ...

    def close(self) -> None:
        """Gives back what the store holds."""
        ...


class MemoryStore:
    """A store that lives as long as this object: what it holds survives the driver, as a disk survives a process."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bytes], bytes] = {}
        self._progress: bytes | None = None

    def progress(self) -> Progress | None:
        """Implements `Store.standing`."""
        return None if self._progress is None else msgspec.msgpack.decode(self._progress, type=known(Progress))

    def rows(self) -> Iterator[RowChange]:
        """Implements `Store.rows`."""
        for (table, key), row in sorted(self._rows.items()):
            yield RowChange(table, key, row)

    def commit(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.commit`."""
        for table, key, row in changes:
            if row is None:
                self._rows.pop((table, key), None)
            else:
                self._rows[table, key] = row
        self._progress = msgspec.msgpack.encode(progress)

    def replace(self, rows: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.replace`."""
        self._rows = {}
        self.commit(rows, progress)

    def copy(self) -> "MemoryStore":
        """The store as it is now, as a snapshot on another disk."""
        other = MemoryStore()
        other._rows, other._progress = dict(self._rows), self._progress
        return other

    def close(self) -> None:
        """Nothing to give back."""


_FORMAT = b"\0format"
_PROGRESS = b"\0standing"
_FIRST, _AFTER = b"\1", b"\xff"
"""The rows are between these keys."""


class RocksStore:
    """A store in a RocksDB folder of its own. Keys are table, 0, packed key; the standing has a key of its own.
    `before`: called before each write, so that the log is durable up to what is written.

    Raises `StoreFault` where the folder is in use, not writable, damaged or of a newer version.
    """

    def __init__(self, folder: Path, before: Callable[[], None] = lambda: None) -> None:
        self._before = before
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(32 * 1024 * 1024)
        options.set_max_open_files(128)
        options.set_keep_log_file_num(2)
        self.folder = folder
        self._open = Lock()
        """Held by a checkpoint: who closes waits for it."""
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._db = Rdict(str(folder), options)
        except Exception as error:  # rocksdict raises plain exceptions
            raise _fault_of_opening(folder, error) from error
        form = cast(bytes | None, self._db.get(_FORMAT))
        if form is None:
            self._db[_FORMAT] = str(FORMAT).encode()
        elif form != str(FORMAT).encode():
            self._db.close()
            raise StoreFault(
                f"The store in {folder} is of a newer version of Paceline (format {form.decode()}). Use that, or "
                "delete the store: it is made anew from the log."
            )

    def progress(self) -> Progress | None:
        """Implements `Store.standing`."""
        return _progress(self._db)

    def rows(self) -> Iterator[RowChange]:
        """Implements `Store.rows`."""
        return _rows(self._db)

    def commit(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.commit`. Raises `StoreFault` where the disk says no."""
        self._write(WriteBatch(raw_mode=True), changes, progress)

    def replace(self, rows: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.replace`. Raises `StoreFault` where the disk says no."""
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(_FIRST, _AFTER)
        self._write(batch, rows, progress)

    def _write(self, batch: WriteBatch, changes: Sequence[RowChange], progress: Progress) -> None:
        for table, key, row in changes:
            name = table.encode() + b"\0" + key
            if row is None:
                batch.delete(name)
            else:
                batch.put(name, row)
        batch.put(_PROGRESS, msgspec.msgpack.encode(progress))
        self._before()
        try:
            self._db.write(batch)
        except Exception as error:  # rocksdict raises plain exceptions
            raise _fault(f"The store in {self.folder} can't be written", error, "Look after its disk.") from error

    def checkpoint(self, folder: Path) -> None:
        """Writes the store as it is after a round to a folder that isn't there yet: on the same disk, as links to its
        files. Any thread may ask for it. Raises `StoreFault`.
        """
        with self._open:
            try:
                self._db.flush()  # else the checkpoint does it, and no other thread runs meanwhile
                Checkpoint(self._db).create_checkpoint(str(folder))
            except Exception as error:  # rocksdict raises plain exceptions
                raise StoreFault(f"The store in {self.folder} can't be written to {folder}: {error}.") from error

    def close(self) -> None:
        """Closes the database; the folder may then be opened by another."""
        with self._open, suppress(Exception):  # a full disk has no room for a last file; its journal holds the same
            self._db.close()


class SecondaryStore:
    """A store that another process may be writing, as it is at this moment; for reading. Raises `StoreFault` where it
    can't be read.
    """

    def __init__(self, folder: Path) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(False)
        options.set_max_open_files(-1)  # it must hold the files that the writer deletes meanwhile
        self._own = TemporaryDirectory(prefix="paceline-secondary-")
        try:
            self.db = Rdict(str(folder), options, access_type=AccessType.secondary(self._own.name))
        except Exception as error:  # rocksdict raises plain exceptions
            self._own.cleanup()
            raise StoreFault(f"The store in {folder} can't be read: {error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def progress(self) -> Progress | None:
        """Implements `Store.progress`."""
        return _progress(self.db)

    def rows(self) -> Iterator[RowChange]:
        """Implements `Store.rows`."""
        return _rows(self.db)

    def commit(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Raises `StoreFault`: it is another's."""
        raise StoreFault("This store is open for reading only.")

    replace = commit

    def close(self) -> None:
        """Implements `Store.close`."""
        self.db.close()
        self._own.cleanup()


def _progress(db: Rdict) -> Progress | None:
    progress_bytes = cast(bytes | None, db.get(_PROGRESS))
    return None if progress_bytes is None else msgspec.msgpack.decode(progress_bytes, type=known(Progress))


def _rows(db: Rdict) -> Iterator[RowChange]:
    for key, row in cast(Iterator[tuple[bytes, bytes]], db.items(from_key=_FIRST)):
        table, packed = key.split(b"\0", 1)
        yield RowChange(table.decode(), packed, row)


def _fault_of_opening(folder: Path, error: Exception) -> StoreFault:
    if "/LOCK: " in str(error):  # "block" stands in many another
        return StoreWaits(f"The store in {folder} is in use by another process. Stop that one.")
    return _fault(f"The store in {folder} can't be opened", error, "Delete it: it is made anew from the log.")


def _fault(what: str, error: Exception, remedy: str) -> StoreFault:
    """RocksDB says only in words that its disk is full."""
    if any(words in str(error).lower() for words in ("no space", "file too large", "quota")):
        return StoreWaits(f"{what}: {error}. Make room on that disk.")
    return StoreFault(f"{what}: {error}. {remedy}")
