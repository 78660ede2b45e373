"""A log in a temporary folder whose records keep the offsets and times that they are given."""

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from events.log.port import LogFault, LogRecord, NewRecord, gap
from events.topics import VIEWED


class _Topic:
    """The records of a topic in one file: their offsets, and where each of them ends in the file."""

    def __init__(self, path: Path, start: int) -> None:
        self.start = self.end = start
        self.offsets = array("q")
        self._ends = array("q", [0])
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)

    def add(self, record: LogRecord) -> None:
        data = msgspec.msgpack.encode(record)
        os.pwrite(self._file, data, self._ends[-1])
        self.offsets.append(record.offset)
        self._ends.append(self._ends[-1] + len(data))
        self.end = record.offset + 1

    def read(self, index: int) -> LogRecord:
        start, end = self._ends[index : index + 2]
        return msgspec.msgpack.decode(os.pread(self._file, end - start, start), type=LogRecord)

    def close(self) -> None:
        os.close(self._file)


class WrittenLog:
    """The log of a cell that is written once, and read; implements `Log`."""

    def __init__(self, folder: Path, cell: int, starts: Mapping[str, int]) -> None:
        self.cell = cell
        self._topics = {topic.name: _Topic(folder / topic.name, starts[topic.name]) for topic in VIEWED}

    def add(self, record: LogRecord) -> None:
        """Writes the next record of a topic."""
        self._topics[record.topic].add(record)

    def pass_over(self, topic: str, end: int) -> None:
        """Moves the end of a topic on, over offsets without records."""
        self._topics[topic].end = end

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Raises `LogFault`."""
        raise LogFault("This is history: it takes no records.")

    def reader(self, positions: Mapping[str, int]) -> "WrittenReader":
        """Implements `Log.reader`."""
        return WrittenReader(self, positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        state = self._topics[topic]
        if not state.start <= start <= state.end:
            raise gap(topic, start, state.start, state.end)
        for index in range(bisect_left(state.offsets, start), len(state.offsets)):
            yield state.read(index)

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        return self._topics[topic].start, self._topics[topic].end

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return {topic: self._topics[topic].end for topic in topics}

    def wait(self, timeout: float) -> None:
        """Nothing comes."""

    def close(self) -> None:
        """Closes the files."""
        for topic in self._topics.values():
            topic.close()


class WrittenReader:
    """Implements `Reader`."""

    def __init__(self, log: WrittenLog, positions: Mapping[str, int]) -> None:
        self._log = log
        self._positions = dict(positions)

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`; never waits."""
        out: list[LogRecord] = []
        for topic, position in self._positions.items():
            for record in self._log.scan(topic, position):
                if len(out) == limit:
                    return out
                out.append(record)
                self._positions[topic] = record.offset + 1
            self._positions[topic] = self._log.bounds(topic)[1]
        return out

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return self._positions != self.ends()

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        return self._log.ends(self._positions)

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        return self._positions[topic]

    def close(self) -> None:
        """Nothing to give back."""
