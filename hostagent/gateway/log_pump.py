"""A log whose reader waits for records in a thread of its own, so that who steps can wait for posts as well."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from events.log.port import Log, LogRecord, LogUnavailable, NewRecord, Reader

RECORDS_MAX = 2000
"""Most records that are read ahead."""
WAIT_S = 0.5
RETRY_S = 0.5


class PumpedLog:
    """A log as it is, but for its readers; `on_records` is called, in another thread, when one has something."""

    def __init__(self, log: Log, on_records: Callable[[], None]) -> None:
        self.cell = log.cell
        self._log = log
        self._on_records = on_records

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`."""
        return self._log.append(records)

    def reader(self, positions: Mapping[str, int]) -> "PumpedReader":
        """Implements `Log.reader`."""
        return PumpedReader(self._log.reader(positions), positions, self._on_records)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        return self._log.scan(topic, start)

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        return self._log.bounds(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return self._log.ends(topics)

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`."""
        self._log.wait(timeout)

    def close(self) -> None:
        """Implements `Log.close`: the log is its maker's."""


class PumpedReader:
    """Implements `Reader`."""

    def __init__(self, reader: Reader, positions: Mapping[str, int], on_records: Callable[[], None]) -> None:
        self._reader = reader
        self._passed = dict(positions)
        self._on_records = on_records
        self._read: deque[LogRecord] = deque()
        self._room = threading.Condition()
        self._closing = False
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._pump, name="reader", daemon=True)
        self._thread.start()

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`; never waits."""
        with self._room:
            if not self._read and self._fault is not None:
                raise self._fault
            out = list(islice(self._read, limit))
            for _ in out:
                self._read.popleft()
            self._room.notify()
        return out

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return bool(self._read) or self._fault is not None

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        return self._reader.ends()

    def position(self, topic: str) -> int:
        """Implements `Reader.position`: as it was when there was last nothing more to read, so all before it was
        read.
        """
        return self._passed[topic]

    def close(self) -> None:
        """Implements `Reader.close`."""
        with self._room:
            self._closing = True
            self._room.notify()
        self._thread.join()
        self._reader.close()

    def _pump(self) -> None:
        while self._has_room():
            try:
                records = self._reader.poll(RECORDS_MAX // 2, WAIT_S)
                if not records:
                    self._passed = {topic: self._reader.position(topic) for topic in self._passed}
            except LogUnavailable:  # the log says so itself
                with self._room:
                    self._room.wait(RETRY_S)
                continue
            except Exception as fault:  # whatever it is: who polls must hear it, not wait for ever
                self._fault = fault
                self._on_records()
                return
            if records:
                with self._room:
                    self._read.extend(records)
                self._on_records()

    def _has_room(self) -> bool:
        """Waits until there is room; False: the reader is closing."""
        with self._room:
            self._room.wait_for(lambda: self._closing or len(self._read) < RECORDS_MAX)
            return not self._closing
