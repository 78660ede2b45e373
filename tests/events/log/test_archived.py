"""The log contract on a log with its archive in front: nothing archived, and everything that can be."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from events.log.archive import archive, remove
from events.log.archived import ArchivedLog, ArchivedReader
from events.log.embedded import EmbeddedLog
from events.log.memory import MemoryLog
from events.log.port import LogRecord
from tests.events.log.contract import A, B, LogContract, Subject, new, numbers, read, values


class Moving(ArchivedLog):
    """Whenever it is looked at, everything but the newest record of each topic is moved into the archive first."""

    def __init__(self, log: MemoryLog | EmbeddedLog, url: str) -> None:
        super().__init__(log, url)
        self._inner = log
        self._url = url

    def _move(self, topic: str) -> None:
        start, end = self._inner.bounds(topic)
        if end - start > 1:
            archive(self._inner, self._url, topic, end - 1)
            remove(self._inner, self._url, topic, end - 1)

    def reader(self, positions: Mapping[str, int]) -> ArchivedReader:
        for topic in positions:
            self._move(topic)
        return super().reader(positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        self._move(topic)
        return super().scan(topic, start)

    def bounds(self, topic: str) -> tuple[int, int]:
        self._move(topic)
        return super().bounds(topic)


class TestNothingArchived(LogContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Iterator[Subject]:
        log = EmbeddedLog(tmp_path / "log")
        yield Subject(ArchivedLog(log, f"memory://{tmp_path}"), log.truncate)
        log.close()


class TestMostArchived(LogContract):
    @pytest.fixture(params=["embedded", "memory"])
    def subject(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
        clock = count(1)
        log = EmbeddedLog(tmp_path / "log") if request.param == "embedded" else MemoryLog(lambda: next(clock))
        hole = (lambda topic: log.leave_hole(topic, 2)) if isinstance(log, MemoryLog) else None
        yield Subject(Moving(log, str(tmp_path / "archive")), log.truncate, hole)
        log.close()

    def test_a_start_that_passes_a_reader_is_a_gap_and_never_a_skip(self, subject: Subject) -> None:
        """What a reader hasn't read yet when the log is cut, it reads in the archive."""
        log = subject.log
        log.append(new(A, *numbers(0, 3)))
        early, late = log.reader({A: 0}), log.reader({A: 2})
        assert values(read(early, 3)) == numbers(0, 3)
        assert values(read(late, 1)) == numbers(2, 3)
        log.append(new(A, *numbers(3, 9)))
        log.bounds(A)
        assert values(read(early, 6, limit=2)) == numbers(3, 9)
        assert values(read(late, 6)) == numbers(3, 9)
        again = log.reader({A: 1})
        assert values(read(again, 8)) == numbers(1, 9)


class Between(MemoryLog):
    """Something happens while it is asked for the ends of topics."""

    happens: Callable[[], object] | None = None

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        if self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return super().ends(topics)


def test_ends_are_told_while_another_thread_reads(tmp_path: Path) -> None:
    """Who waits for records asks for the ends beside who reads, whose topics go over from the archive to the log."""
    clock = count(1)
    log = Between(lambda: next(clock))
    reader = ArchivedLog(log, str(tmp_path / "archive")).reader({A: 0, B: 0})
    log.append(new(A, *numbers(0, 3)))
    log.happens = lambda: reader.poll(10, 0)
    assert reader.ends() == {A: 3, B: 0}
    assert reader.ends() == {A: 3, B: 0}
    reader.close()
