"""The log in a folder: RocksDB, one process, any number of threads (decision 012).

Each append is one write batch, synced before it returns, so what was acknowledged survives `kill -9` and a loss of
power, and a batch is there whole or not at all. Batches that come while the disk works are synced together, and nobody
reads a record before it is synced, unless he reads ahead (`events.log.ahead`). Offsets have no holes. The newest
records of each topic stay in memory, shared by all readers: one that keeps up never asks RocksDB.

Keys: topic, 0, offset (8 bytes, big-endian). Values: time, length of the key, key, value. What begins with 0 is about
the log: its format, and per topic the start, the end and the time of the last append.
"""

import shutil
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from rocksdict import AccessType, Options, Rdict, WriteBatch

from events.log.embedded_folder import fault_of_opening, is_missing, no_log, options, sync_journals
from events.log.embedded_reader import EmbeddedReader
from events.log.embedded_rows import TopicState, items, record_key
from events.log.port import AppendUnknown, LogFault, LogGap, LogRecord, LogUnavailable, NewRecord, gap
from events.log.tail_cache import TailCache

FORMAT = 1
POLL_BYTES = 16 * 1024 * 1024
"""A poll or a step of a scan reads no more than this, one record apart."""
SCAN_FIRST, SCAN_RECORDS = 16, 10_000
"""Records that a scan reads in its first step and in the later ones: many look at the first record alone."""
FREE_BYTES_MIN = 64 * 1024 * 1024
"""With less space than this on the disk nothing is appended: RocksDB needs room to tidy up."""
SECONDARY_POLL_SECONDS = 0.05

_FORMAT_KEY = b"\0format"
_TOPIC_KEY = b"\0topic\0"
_TOPIC_ROW = struct.Struct("<qqq")
_HEAD = struct.Struct("<qi")


class EmbeddedLog:
    """A log in a folder of its own, made if it isn't there. `now_ms` gives the append time (epoch milliseconds);
    `on_trouble` is told when its disk is full, and when there is room again.

    Raises `LogFault` where the folder is in use, not writable, damaged or of a newer version, or its disk is full.
    Thread-safe.
    """

    def __init__(
        self,
        folder: Path,
        cell: int = 0,
        now_ms: Callable[[], int] | None = None,
        on_trouble: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.cell = cell
        self._folder = folder
        self._now_ms = now_ms or wall_clock_ms
        self._on_trouble = on_trouble
        self._full = False
        self._secondary: TemporaryDirectory[str] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogFault(f"The log folder {folder} can't be made: {error.strerror}. Name another.") from error
        self._open(options())

    @classmethod
    def open_secondary(cls, folder: Path, cell: int = 0) -> "EmbeddedLog":
        """The log of a folder for reading only, whether a cell runs on it or not. It follows what is appended.

        Raises `LogFault` where no log is there.
        """
        if is_missing(folder):  # RocksDB's bindings make the folder before they look
            raise no_log(folder)
        log = cls.__new__(cls)
        log.cell = cell
        log._folder = folder
        log._secondary = TemporaryDirectory(prefix="paceline-secondary-")
        try:
            log._open(options(secondary=True))
        except LogFault:
            log._secondary.cleanup()
            raise
        return log

    def _open(self, opened_with: Options) -> None:
        access = AccessType.secondary(self._secondary.name) if self._secondary else AccessType.read_write()
        try:
            self._db = Rdict(str(self._folder), opened_with, access_type=access)
        except Exception as error:  # rocksdict raises plain exceptions
            raise fault_of_opening(self._folder, error) from error
        self._syncing = threading.Lock()
        """Taken before `_appending` by who needs both."""
        self._appending = threading.Lock()
        self._unsynced: dict[str, int] = {}
        """The ends of the topics that have records which were not synced yet."""
        self.written = self.synced = 0
        """So many batches were written, and are on the disk."""
        self._news = threading.Condition()
        self.version = 0
        self.follows = bool(self._secondary)
        """Whether another process writes it."""
        self._seen = threading.local()
        self._fault = "opened for reading only" if self._secondary else ""
        self._failed: AppendUnknown | None = None
        self._topics: dict[str, TopicState] = {}
        self._loaded: dict[str, tuple[int, int, int]] = {}
        """The rows of topics that another process wrote."""
        try:
            self._check_format()
            self._load_topics()
            if not self._secondary:
                self._check_free()
        except BaseException:
            self._db.close()
            raise
        self._last_ms = max((topic.last_ms for topic in self._topics.values()), default=0)

    def _check_format(self) -> None:
        form = cast(bytes | None, self._db.get(_FORMAT_KEY))
        if form is None and not self._secondary:
            self._db[_FORMAT_KEY] = str(FORMAT).encode()
        elif form is not None and form != str(FORMAT).encode():
            raise LogFault(
                f"The log in {self._folder} has format {form.decode()}, this version of Paceline knows {FORMAT}: "
                "it was written by a newer version. Use that one."
            )

    def _load_topics(self) -> None:
        prefix = len(_TOPIC_KEY)
        rows = takewhile(lambda each: each[0].startswith(_TOPIC_KEY), items(self._db, _TOPIC_KEY))
        topics = {key[prefix:].decode(): _TOPIC_ROW.unpack(row) for key, row in rows}
        if self._secondary and topics != self._loaded:
            sync_journals(self._folder)  # its writer may be ahead of the disk
            self._loaded = topics
        for name, (start, end, last_ms) in topics.items():
            state = self._topics.get(name)
            if state is None:
                self._topics[name] = TopicState(start, end, last_ms)
            elif (start, end) != (state.start, state.end):
                state.start, state.end, state.newest = start, end, TailCache(end)
                self.version += 1

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`. `LogUnavailable`: the disk is full; `LogFault`: an earlier append failed, or the log
        is closed or open for reading only.
        """
        offsets = self.write(records)
        if offsets:
            self.sync()
        return offsets

    def write(self, records: Sequence[NewRecord]) -> list[int]:
        """Appends without waiting for the disk: until they are synced the records are lost with the machine, and only
        those who read ahead read them. Raises what `append` does.
        """
        if not records:
            return []
        with self._appending:
            self._check_room(records)
            now = self._last_ms = max(self._last_ms, self._now_ms())
            batch = WriteBatch(raw_mode=True)
            ends = {name: self.known(name).newest.end for name in {record.topic: None for record in records}}
            placed = []
            for name, key, value in records:
                offset = ends[name]
                ends[name] = offset + 1
                batch.put(record_key(name, offset), b"".join((_HEAD.pack(now, len(key)), key, value)))
                placed.append(LogRecord(name, offset, now, key, value))
            for name, end in ends.items():
                batch.put(_TOPIC_KEY + name.encode(), _TOPIC_ROW.pack(self._topics[name].start, end, now))
            try:
                self._db.write(batch)
            except Exception as error:  # rocksdict raises plain exceptions
                raise self._failure(error) from error
            with self._news:
                for record in placed:
                    self._topics[record.topic].newest.add(record)
            self._unsynced |= ends
            self.written += 1
        return [record.offset for record in placed]

    def sync(self) -> None:
        """Returns when all that was written is on the disk. Raises `AppendUnknown`."""
        number = self.written
        with self._syncing:
            if self.synced >= number:
                return
            with self._appending:
                ends, self._unsynced = self._unsynced, {}
                written = self.written
            if self._failed:
                raise self._failed
            try:
                self._db.flush_wal(True)  # a synced write would hold Python's lock while the disk works; this doesn't
            except Exception as error:  # rocksdict raises plain exceptions
                raise self._failure(error) from error
            with self._news:
                for name, end in ends.items():
                    self._topics[name].end = end
                self.synced = written  # before anybody wakes: he looks once, and then sleeps again
                self.version += 1
                self._news.notify_all()

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records of a topic before an offset, once they are archived. Readers there meet a `LogGap`."""
        with self._appending:
            state = self.known(topic)
            if not state.start <= start <= state.end:
                raise ValueError(f"{topic} goes from {state.start} to {state.end}: it can't start at {start}")
            self._check_room(())
            batch = WriteBatch(raw_mode=True)
            batch.delete_range(record_key(topic, state.start), record_key(topic, start))
            batch.put(_TOPIC_KEY + topic.encode(), _TOPIC_ROW.pack(start, state.newest.end, self._last_ms))
            try:
                self._db.write(batch)
                self._db.flush_wal(True)
            except Exception as error:  # rocksdict raises plain exceptions
                raise self._failure(error) from error
            with self._news:
                state.start = start
                state.newest.drop_before(start)

    def reader(self, positions: Mapping[str, int], ahead: bool = False) -> EmbeddedReader:
        """Implements `Log.reader`; `ahead`: it reads what isn't synced too."""
        return EmbeddedReader(self, positions, ahead)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        self.refresh()
        end = self.known(topic).end
        position, limit = start, SCAN_FIRST
        self.take(topic, position, 0)
        while position < end:
            part = self.take(topic, position, min(limit, end - position))
            position, limit = part[-1].offset + 1, SCAN_RECORDS
            yield from part

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        self.refresh()
        state = self.known(topic)
        return state.start, state.end

    def ends(self, topics: Iterable[str], ahead: bool = False) -> dict[str, int]:
        """Implements `Log.ends`; `ahead`: with what isn't synced."""
        self.refresh()
        states = {topic: self.known(topic) for topic in topics}
        return {topic: state.newest.end if ahead else state.end for topic, state in states.items()}

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`; what was appended is remembered for each thread that waits."""
        self.wait_until(lambda: self.version != getattr(self._seen, "version", 0), timeout)
        self._seen.version = self.version

    def wake(self) -> None:
        """Ends the waits of all threads, as an append does: there is something else to do."""
        with self._news:
            self.version += 1
            self._news.notify_all()

    def close(self) -> None:
        """Closes the database; the folder may then be opened by another."""
        with self._appending:
            self._fault = "closed"
        with suppress(AppendUnknown):  # whoever appends meets it too
            self.sync()
        with self._syncing:
            with suppress(Exception):  # a full disk has no room for a last file; its journal holds the same
                self._db.close()
            if self._secondary:
                self._secondary.cleanup()

    def take(self, topic: str, position: int, limit: int, ahead: bool = False) -> list[LogRecord]:
        """Up to `limit` records of one topic from a position, at least one where there is one; `ahead`: those too that
        aren't synced. Raises `LogGap`.
        """
        with self._news:
            state = self.known(topic)
            end = state.newest.end if ahead else state.end
            if not state.start <= position <= end:
                raise gap(topic, position, state.start, end)
            stop = min(position + limit, end)
            if position >= state.newest.first:
                return state.newest.take(position, stop - position)
        return self._stored(topic, position, stop)

    def refresh(self) -> None:
        """Brings a log that is open for reading only up to what its writer has written."""
        if not self._secondary:
            return
        with self._news:
            try:
                self._db.try_catch_up_with_primary()
                self._load_topics()
            except Exception as error:  # rocksdict raises plain exceptions
                raise LogUnavailable(f"The log in {self._folder} can't be read now: {error}. Try again.") from error

    def wait_until(self, come: Callable[[], bool], timeout: float) -> bool:
        """Waits until `come` holds, at most `timeout` seconds; it is asked after each append."""
        if not self._secondary:
            with self._news:
                return self._news.wait_for(come, timeout)
        last = time.monotonic() + timeout
        while not come():
            rest_s = last - time.monotonic()
            if rest_s <= 0:
                return False
            time.sleep(min(rest_s, SECONDARY_POLL_SECONDS))
            self.refresh()
        return True

    def known(self, name: str) -> TopicState:
        """The state of a topic, kept up to date: no lock, no RocksDB."""
        return self._topics.get(name) or self._topics.setdefault(name, TopicState())

    def _stored(self, topic: str, position: int, stop: int) -> list[LogRecord]:
        out: list[LogRecord] = []
        size, offset = 0, position
        for key, stored in items(self._db, record_key(topic, position)):
            if offset == stop or size >= POLL_BYTES or key != record_key(topic, offset):
                break
            at_ms, key_bytes = _HEAD.unpack_from(stored)
            body = _HEAD.size + key_bytes
            out.append(LogRecord(topic, offset, at_ms, stored[_HEAD.size : body], stored[body:]))
            size += len(stored)
            offset += 1
        if not out and position < stop:
            start, end = self.bounds(topic)
            if position < start:
                raise gap(topic, position, start, end)
            raise LogGap(f"{topic} lacks offset {position}: {self._folder} is damaged. Restore it from its archive.")
        return out

    def _check_room(self, records: Sequence[NewRecord]) -> None:
        if self._fault:
            raise LogFault(f"The log in {self._folder} takes no records: {self._fault}.")
        needed = FREE_BYTES_MIN + sum(len(record.key) + len(record.value) for record in records)
        full = shutil.disk_usage(self._folder).free < needed
        if full != self._full:
            self._full = full
            self._on_trouble(self._no_room(needed) if full else f"The disk of {self._folder} has room again.")
        if full:
            raise LogUnavailable(self._no_room(needed))

    def _check_free(self) -> None:
        """Raises `LogFault` where a log that is only opened could take nothing."""
        if shutil.disk_usage(self._folder).free < FREE_BYTES_MIN:
            raise LogFault(self._no_room(FREE_BYTES_MIN))

    def _no_room(self, needed: int) -> str:
        return f"The disk of {self._folder} has less than {needed >> 20} MiB free: make room there."

    def _failure(self, error: Exception) -> AppendUnknown:
        """Takes nothing more; the outcome of all batches that aren't synced is unknown."""
        self._fault = f"an append failed ({error}). Look after its disk and start again"
        self._failed = AppendUnknown(f"The log in {self._folder} could not be written: {error}.")
        return self._failed


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
